"""Tokenize a document with exact character offsets, for any tokenizer and script, in bounded memory."""

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import regex
from jaxtyping import Int
from more_itertools import constrained_batches

from cogltx._progress import progress
from cogltx.blocks._characters import SPACES, among, code_points, scans
from cogltx.document import Document, Segment, has_surrogate
from cogltx.errors import CogltxError, DataError, ModelError

MAX_HEADING_TOKENS = 16

_LETTER = re.compile(r"[^\W_]")
_WORD = regex.compile(r"[\p{L}\p{M}]+")
_FEWEST_LETTERS, _UNKNOWN_SHARE = 40, 0.1
_PIECE_CHARACTERS = 1 << 14
_BATCH_CHARACTERS = 1 << 17  # enough for the tokenizer's threads


def tokenize(
    document: Document, segments: Sequence[Segment], tokenizer: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Tokenize each segment separately; long segments piece by piece, to bound memory.

    Returns:
        vocabulary index, first and end character per token, without white space; end token per segment.
    """
    index = "i" if len(document.text) < 2**31 else "l"
    ids, starts, ends = array("i"), array(index), array(index)
    segment_ends: list[int] = []
    pieces = progress(list(_pieces(document.text, segments)), "tokens", unit="pieces", delay=2.0)
    for batch in constrained_batches(pieces, _BATCH_CHARACTERS, get_len=lambda piece: piece[1] - piece[0]):
        try:
            encoded = encode([document.text[start:end] for start, end, _ in batch], tokenizer)
        except (UnicodeEncodeError, TypeError) as error:
            raise _translated(f"document {document.id!r}", document.text, error) from error
        for (start, _, closes), (piece_ids, spans) in zip(batch, encoded, strict=True):
            ids.frombytes(piece_ids.astype(np.int32).tobytes())
            _place_late_tokens(document.text, start, spans)
            starts.frombytes((spans[:, 0] + start).astype(index).tobytes())
            ends.frombytes((spans[:, 1] + start).astype(index).tobytes())
            if closes:
                segment_ends.append(len(ids))
    if not ids:
        raise DataError(f"document {document.id!r}: the tokenizer finds no token in the text")
    return np.asarray(ids), *_trim(document.text, np.asarray(starts), np.asarray(ends)), segment_ends


def encode(
    texts: Sequence[str], tokenizer: Any
) -> list[tuple[Int[np.ndarray, " tokens"], Int[np.ndarray, "tokens 2"]]]:
    """Tokenize texts; returns vocabulary indices and character spans. A special token such as "[SEP]" is plain text."""
    encoded = tokenizer(
        list(texts), add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True,
        return_attention_mask=False, return_token_type_ids=False, verbose=False,
    )  # fmt: skip
    added = tokenizer.added_tokens_decoder.items()
    special = [id for id, token in added if token.special and id != tokenizer.unk_token_id]
    tokens = []
    for text, ids, spans in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        ids, spans = np.array(ids, dtype=np.int64), np.array(spans, dtype=np.int64).reshape(-1, 2)
        is_special = np.isin(ids, special) & (spans[:, 1] - spans[:, 0] > 1)
        cuts = np.unique(spans[is_special].sum(axis=1) // 2).tolist()  # a Unigram model has them in its vocabulary
        if cuts:
            edges = [0, *cuts, len(text)]
            parts = encode([text[start:end] for start, end in pairwise(edges)], tokenizer)
            ids = np.concatenate([part for part, _ in parts])
            spans = np.concatenate([part + start for (_, part), start in zip(parts, edges, strict=False)])
        tokens.append((ids, spans))
    return tokens


def token_spans(texts: Sequence[str], tokenizer: Any) -> Iterator[list[tuple[int, Int[np.ndarray, "tokens 2"]]]]:
    """Yield the number of a text and the character spans of its next tokens, in batches of about 100,000 characters."""
    pieces = (
        (number, start, end)
        for number, text in enumerate(texts)
        for start, end, _ in _pieces(text, [Segment(0, len(text))])
    )
    for batch in constrained_batches(pieces, _BATCH_CHARACTERS, get_len=lambda piece: piece[2] - piece[1]):
        encoded = encode([texts[number][start:end] for number, start, end in batch], tokenizer)
        yield [(number, spans + start) for (number, start, _), (_, spans) in zip(batch, encoded, strict=True)]


def has_letter(text: str) -> bool:
    """Check for a letter or digit, of which every tokenizer makes a token."""
    return bool(_LETTER.search(text))


def has_token(text: str, tokenizer: Any) -> bool:
    """Check whether a tokenizer finds a token in a text."""
    if not text.strip() or has_letter(text) or has_surrogate(text):
        return bool(text.strip())
    parts = (text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS))
    return any(len(ids) for part in parts for ids, _ in encode([part], tokenizer))


def has_words(text: str, tokenizer: Any, n_words: int = 2000) -> bool:
    """Check whether a tokenizer has tokens for the first words of a text, not only for their letters.

    A model has learned nothing of a language that its tokenizer spells. Too short texts pass.
    """
    words = list(islice((match[0] for match in _WORD.finditer(text)), n_words))
    n_letters = sum(map(len, words))
    if n_letters < _FEWEST_LETTERS:
        return True
    [(ids, _)] = encode([" ".join(words)], tokenizer)
    return len(ids) <= n_letters and bool(np.mean(ids == tokenizer.unk_token_id) < _UNKNOWN_SHARE)


def _place_late_tokens(text: str, start: int, spans: Int[np.ndarray, "tokens 2"]) -> None:
    """Correct tokens that begin one character late: white space of RoBERTa, and words before which a space was added.

    A tokenizer that adds the space, but does not know it when it trims the offsets, drops a letter instead.
    """
    ends = np.concatenate([[0], np.maximum.accumulate(spans[:-1, 1])]) if len(spans) else spans[:, 0]
    empty = spans[:, 0] == spans[:, 1]
    for token in np.flatnonzero((spans[:, 0] == ends + 1) | empty & (spans[:, 0] > 0)):
        before = text[start + spans[token, 0] - 1]
        is_free = spans[token, 0] > ends[token]
        if (empty[token] and before.isspace()) or (is_free and before.isalnum()):
            spans[token, 0] -= 1


def _pieces(text: str, segments: Sequence[Segment]) -> Iterator[tuple[int, int, bool]]:
    """Cut long segments before white space; yield (start, end, whether the segment ends here)."""
    for segment in segments:
        start = segment.start
        while segment.end - start > _PIECE_CHARACTERS:
            end = start + _PIECE_CHARACTERS
            while end > start + _PIECE_CHARACTERS // 2 and not text[end].isspace():
                end -= 1
            yield start, end, False
            start = end
        yield start, segment.end, True


def _trim(text: str, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Trim white space from both sides of every token; some tokenizers include the space before a word."""
    for first, last, start, end in scans(text, starts, ends):
        solid = np.flatnonzero(~among(code_points(text, start, end), SPACES)) + start
        if not len(solid):
            ends[first:last] = starts[first:last]
            continue
        head = solid[np.minimum(np.searchsorted(solid, starts[first:last]), len(solid) - 1)]
        tail = solid[np.maximum(np.searchsorted(solid, ends[first:last]) - 1, 0)] + 1
        solid_token = (head >= starts[first:last]) & (head < ends[first:last])
        starts[first:last] = np.where(solid_token, head, starts[first:last])
        ends[first:last] = np.where(solid_token, tail, starts[first:last])
    return starts, ends


def heading_ids(heading: str, tokenizer: Any) -> Int[np.ndarray, " heading"]:
    """Tokenize "heading ;", the prefix of a block with a heading (CogLTX appendix: titles of HotpotQA sentences)."""
    if not heading.strip():
        return np.zeros(0, dtype=np.int32)
    try:
        [(ids, _)] = encode([heading], tokenizer)
    except (UnicodeEncodeError, TypeError) as error:
        raise _translated(f"heading {heading!r}", heading, error) from error
    [(end, _)] = encode([" ;"], tokenizer)
    return np.array([*ids[: MAX_HEADING_TOKENS - 1], *end[-1:]], dtype=np.int32)


def _translated(name: str, text: str, error: Exception) -> CogltxError:
    """Translate the exception of a tokenizer."""
    if has_surrogate(text):
        return DataError(f"{name}: the text contains a lone surrogate, which is not valid Unicode")
    return ModelError(f"{name}: the tokenizer failed: {' '.join(str(error).split())}")
