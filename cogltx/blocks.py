"""Blocks: a document cut into runs of at most B tokens by dynamic programming (paper §3.1).

The cut points minimise the sum over blocks of (4 + cost of the cut that ends the block), where a cut costs

    0  after a line break
    1  after a sentence end: . ? ! before white space, a closing quote or bracket, or the end of the text;
       。？！ anywhere
    2  after a clause end: , ; : likewise; ，；：、 anywhere
    8  at any other token boundary between two words

No cut falls inside a word unless the word alone is longer than B, or crosses a segment that the data marks.
Knows a tokenizer, but no model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
from jaxtyping import Bool, Int, UInt8

from cogltx.document import Document, Segment
from cogltx.errors import ConfigError, DataError

BLOCK_COST, LINE_COST, SENTENCE_COST, CLAUSE_COST, WORD_COST = 4, 0, 1, 2, 8
MIN_BLOCK_TOKENS = 8
MAX_HEADING_TOKENS = 16

_INSIDE_WORD, _INSIDE_CHARACTER = 254, 255
_PIECE_CHARACTERS = 1 << 14
_BATCH_CHARACTERS = 1 << 17
_SCAN_TOKENS = 1 << 16
_CUT_TOKENS, _ORIGIN_STEPS = 1 << 14, 1 << 12


def _code_points(characters: str) -> np.ndarray:
    return np.array(sorted(map(ord, characters)), dtype=np.uint32)


_LINE_BREAKS = _code_points("\n\r\v\f\x85\u2028\u2029")
_SPACES = _code_points("".join(chr(c) for c in range(0x3001) if chr(c).isspace()))
_CLOSERS = _code_points("\"')]}»”’›」』】》〉）］｝＂＇")
_SENTENCE_ENDS, _WIDE_SENTENCE_ENDS = _code_points(".?!"), _code_points("。？！｡．؟۔।॥։።‼⁇⁈⁉")
_CLAUSE_ENDS, _WIDE_CLAUSE_ENDS = _code_points(",;:"), _code_points("，；：、､،؛﹐﹑﹔﹕")
_END_OF_TEXT = 0xFFFFFFFF
# Scripts written without spaces between words: every character counts as a word.
_UNSPACED = (
    (0x2E80, 0x33FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF),
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Consecutive tokens of a document.

    Attributes:
        index: position among the document's blocks, from 0.
        start: first character; blocks tile the text, white space belongs to the block before it.
        end: one past the last character.
        first_token: first token in the document.
        end_token: one past the last token; at most ``max_tokens`` later.
        heading: what windows show before the block; may be empty.
    """

    index: int
    start: int
    end: int
    first_token: int
    end_token: int
    heading: str = ""

    @property
    def n_tokens(self) -> int:
        """Number of tokens, heading left out."""
        return self.end_token - self.first_token


class Blocks(Sequence[Block]):
    """A document's blocks and tokens.

    Attributes:
        document: what was split.
        token_ids: vocabulary index of every token, shape [n_tokens].
        token_starts: first character of every token, shape [n_tokens]; a token never starts or ends in white space.
        token_ends: one past each token's last character, shape [n_tokens]; the start again where a token shows white
            space alone.
        headings: token ids of every heading.
    """

    def __init__(
        self,
        document: Document,
        blocks: Sequence[Block],
        token_ids: Int[np.ndarray, " tokens"],
        token_starts: Int[np.ndarray, " tokens"],
        token_ends: Int[np.ndarray, " tokens"],
        headings: dict[str, Int[np.ndarray, " heading"]],
    ) -> None:
        self.document = document
        self.token_ids, self.token_starts, self.token_ends = token_ids, token_starts, token_ends
        self.headings = headings
        self._blocks = tuple(blocks)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...
    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        return self._blocks[index]

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    @property
    def n_tokens(self) -> int:
        """Tokens in the document."""
        return len(self.token_ids)

    @cached_property
    def sizes(self) -> Int[np.ndarray, " blocks"]:
        """Tokens that each block takes in a window: heading, text and one separator."""
        return np.array([len(self.headings[b.heading]) + b.n_tokens + 1 for b in self._blocks])

    @cached_property
    def starts(self) -> Int[np.ndarray, " blocks"]:
        """First character of each block."""
        return np.array([b.start for b in self._blocks])

    def text(self, index: int) -> str:
        """The exact slice of the document that a block covers."""
        block = self._blocks[index]
        return self.document.text[block.start : block.end]

    def trimmed(self, index: int) -> tuple[int, int]:
        """Character span of a block without the white space around it."""
        block, text = self._blocks[index], self.text(index)
        start = block.start + len(text) - len(text.lstrip())
        return (start, start + len(text.strip())) if text.strip() else (block.start, block.end)

    def overlapping(self, start: int, end: int) -> range:
        """Indices of the blocks that share a character with ``start:end``."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        return range(first, int(np.searchsorted(self.starts, end, side="left")))


def split(document: Document, tokenizer: Any, *, max_tokens: int = 63) -> Blocks:
    """Cuts a document into blocks at the least total cost; linear in the text.

    Args:
        document: any text, in any script.
        tokenizer: a fast tokenizer of ``transformers``.
        max_tokens: B, the most tokens a block holds.

    Returns:
        blocks that tile the document, at most ``max_tokens`` tokens each.

    Raises:
        ConfigError: ``max_tokens`` is below 8, or below the tokens of one character.
        DataError: the text holds no token, or a lone surrogate.
    """
    if max_tokens < MIN_BLOCK_TOKENS:
        raise ConfigError(f"max_tokens: expected at least {MIN_BLOCK_TOKENS}, got {max_tokens}")
    segments = _tile(document)
    ids, starts, ends, segment_ends = _tokenize(document, segments, tokenizer)
    costs = _cut_costs(document.text, starts, ends, segment_ends, max_tokens)
    blocks: list[Block] = []
    first = 0
    for segment, last in zip(segments, segment_ends, strict=True):
        if last == first:
            continue
        for cut, end in _cheapest_cuts(costs[first : last - 1], max_tokens):
            start = _solid_start(starts, ends, first + cut, first + end) if cut else segment.start if blocks else 0
            blocks.append(Block(len(blocks), start, 0, first + cut, first + end, segment.heading))
        first = last
    following = [*(block.start for block in blocks[1:]), len(document.text)]
    blocks = [replace(block, end=end) for block, end in zip(blocks, following, strict=True)]
    headings = {h: _heading_ids(h, tokenizer) for h in {b.heading for b in blocks}}
    return Blocks(document, blocks, ids, starts, ends, headings)


def _solid_start(starts: np.ndarray, ends: np.ndarray, first: int, last: int) -> int:
    """First character of a run of tokens that is no white space, if there is one."""
    return int(starts[next((token for token in range(first, last) if starts[token] < ends[token]), first)])


def _heading_ids(heading: str, tokenizer: Any) -> Int[np.ndarray, " heading"]:
    """Tokens of "heading ;" (the paper prefixes a HotpotQA sentence with its title so)."""
    if not heading.strip():
        return np.zeros(0, dtype=np.int32)
    try:
        ids = tokenizer(heading, add_special_tokens=False, verbose=False)["input_ids"][: MAX_HEADING_TOKENS - 1]
    except (UnicodeEncodeError, TypeError) as error:
        raise DataError(f"heading {heading!r}: expected Unicode text, got a lone surrogate") from error
    return np.array(ids + tokenizer(" ;", add_special_tokens=False)["input_ids"][-1:], dtype=np.int32)


def _tile(document: Document) -> list[Segment]:
    """Segments that cover the whole text: the document's own, and the text between them."""
    tiles: list[Segment] = []
    end = 0
    for segment in (*document.segments, Segment(len(document.text), len(document.text))):
        if document.text[end : segment.start].strip():
            tiles.append(Segment(end, segment.start))
        if segment.start < segment.end:
            tiles.append(segment)
        end = segment.end
    return tiles


def _tokenize(
    document: Document, segments: Sequence[Segment], tokenizer: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Tokens of each segment on its own, long segments piece by piece so that memory stays flat."""
    index = np.int32 if len(document.text) < 2**31 else np.int64
    ids: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    segment_ends: list[int] = []
    total = 0
    for batch in _batched(_pieces(document.text, segments)):
        try:
            encoded = tokenizer(
                [document.text[start:end] for start, end, _ in batch],
                add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False,
                return_token_type_ids=False, verbose=False,
            )  # fmt: skip
        except (UnicodeEncodeError, TypeError) as error:
            raise DataError(f"document {document.id!r}: expected Unicode text, got a lone surrogate") from error
        pieces = zip(batch, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        for (start, _, closes), piece_ids, piece_spans in pieces:
            ids.append(np.array(piece_ids, dtype=np.int32))
            spans = np.array(piece_spans, dtype=np.int64).reshape(-1, 2)
            _place_white_space(document.text, start, spans)
            starts.append((spans[:, 0] + start).astype(index))
            ends.append((spans[:, 1] + start).astype(index))
            total += len(piece_ids)
            if closes:
                segment_ends.append(total)
    if not total:
        raise DataError(f"document {document.id!r}: expected text, got only characters that the tokenizer drops")
    token_ids, token_starts, token_ends = _joined(ids), _joined(starts), _joined(ends)
    return token_ids, *_trim(document.text, token_starts, token_ends), segment_ends


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The parts in one array; they are let go of, so that no more than one array is held twice."""
    joined = np.concatenate(parts)
    parts.clear()
    return joined


def _place_white_space(text: str, start: int, spans: Int[np.ndarray, "tokens 2"]) -> None:
    """Some tokenizers (RoBERTa's) place a token of white space behind it, where the next one begins."""
    for token in np.flatnonzero((spans[:, 0] == spans[:, 1]) & (spans[:, 0] > 0)):
        if text[start + spans[token, 0] - 1].isspace():
            spans[token, 0] -= 1


def _pieces(text: str, segments: Sequence[Segment]) -> Iterator[tuple[int, int, bool]]:
    """Cuts long segments before white space; yields (start, end, whether the segment ends here)."""
    for segment in segments:
        start = segment.start
        while segment.end - start > _PIECE_CHARACTERS:
            end = start + _PIECE_CHARACTERS
            while end > start + _PIECE_CHARACTERS // 2 and not text[end].isspace():
                end -= 1
            yield start, end, False
            start = end
        yield start, segment.end, True


def _batched(pieces: Iterator[tuple[int, int, bool]]) -> Iterator[list[tuple[int, int, bool]]]:
    """Groups pieces together, up to about as many characters as the tokenizer's threads keep busy with."""
    batch: list[tuple[int, int, bool]] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += piece[1] - piece[0]
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _characters(text: str, start: int, end: int) -> np.ndarray:
    return np.frombuffer(text[start:end].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _among(characters: np.ndarray, wanted: np.ndarray) -> Bool[np.ndarray, " n"]:
    nearest = wanted[np.minimum(np.searchsorted(wanted, characters), len(wanted) - 1)]
    return np.asarray(np.equal(nearest, characters))


def _scans(text: str, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """Runs of tokens with the characters up to one past their right neighbours: (first, last, start, end)."""
    for first in range(0, len(starts), _SCAN_TOKENS):
        last = min(first + _SCAN_TOKENS, len(starts))
        following = min(last, len(starts) - 1)
        yield first, last, int(starts[first]), min(int(max(ends[last - 1], ends[following])) + 1, len(text))


def _trim(text: str, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes white space off both sides of every token (some tokenizers count the space before a word)."""
    for first, last, start, end in _scans(text, starts, ends):
        solid = np.flatnonzero(~_among(_characters(text, start, end), _SPACES)) + start
        if not len(solid):
            ends[first:last] = starts[first:last]
            continue
        head = solid[np.minimum(np.searchsorted(solid, starts[first:last]), len(solid) - 1)]
        tail = solid[np.maximum(np.searchsorted(solid, ends[first:last]) - 1, 0)] + 1
        solid_token = (head >= starts[first:last]) & (head < ends[first:last])
        starts[first:last] = np.where(solid_token, head, starts[first:last])
        ends[first:last] = np.where(solid_token, tail, starts[first:last])
    return starts, ends


def _cut_costs(
    text: str, starts: np.ndarray, ends: np.ndarray, segment_ends: Sequence[int], max_tokens: int
) -> UInt8[np.ndarray, " tokens"]:
    """The cost of a cut after every token, or a mark that no cut is allowed there."""
    costs = np.empty(len(starts), dtype=np.uint8)
    for first, last, start, end in _scans(text, starts, ends):
        characters = np.append(_characters(text, start, end), np.uint32(_END_OF_TEXT))
        own, after = starts[first:last] - start, ends[first:last] - start
        following = np.append(starts[first + 1 : last + 1], ends[-1:])[: last - first] - start
        costs[first:last] = _boundary_costs(characters, own, after, following)
    costs[np.array([last for last in segment_ends if last]) - 1] = LINE_COST  # no word crosses a segment
    return _allow_cuts_in_long_words(costs, max_tokens)


def _boundary_costs(characters: np.ndarray, own: np.ndarray, after: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Costs of the boundaries between tokens ``own:after`` and the starts ``following`` of the tokens after them."""
    mark = characters[np.maximum(after - 1, 0)]
    mark = np.where(after > own, mark, np.uint32(0))
    beyond = characters[np.minimum(after, len(characters) - 1)]
    breaks = _among(characters, _LINE_BREAKS)
    breaks[:-1] &= ~((characters[:-1] == ord("\r")) & (characters[1:] == ord("\n")))
    lines = np.concatenate([[0], np.cumsum(breaks)])
    spaces = np.concatenate([[0], np.cumsum(_among(characters, _SPACES))])
    free = _among(beyond, _SPACES) | (beyond == _END_OF_TEXT)
    closing = free | _among(beyond, _CLOSERS)
    next_character = characters[np.minimum(following, len(characters) - 1)]
    gap = np.maximum(following, after)
    apart = (spaces[gap] > spaces[after]) | _unspaced(mark) | _unspaced(next_character)
    costs = np.where(apart | free, WORD_COST, _INSIDE_WORD)
    costs = np.where(_among(mark, _WIDE_CLAUSE_ENDS) | _among(mark, _CLAUSE_ENDS) & closing, CLAUSE_COST, costs)
    costs = np.where(_among(mark, _WIDE_SENTENCE_ENDS) | _among(mark, _SENTENCE_ENDS) & closing, SENTENCE_COST, costs)
    costs = np.where(lines[gap] > lines[after], LINE_COST, costs)
    return np.where((following < after) | (following == own), _INSIDE_CHARACTER, costs)


def _unspaced(characters: np.ndarray) -> np.ndarray:
    return np.asarray(np.logical_or.reduce([(characters >= low) & (characters <= high) for low, high in _UNSPACED]))


def _allow_cuts_in_long_words(costs: np.ndarray, max_tokens: int) -> np.ndarray:
    """A word of more than B tokens may be cut between any two of its characters."""
    joined = costs >= _INSIDE_WORD
    edges = np.flatnonzero(np.diff(joined, prepend=False, append=False))
    for first, last in edges.reshape(-1, 2)[(edges[1::2] - edges[::2]) >= max_tokens]:
        word = costs[first:last]
        word[word == _INSIDE_WORD] = WORD_COST
    return costs


def _cheapest_cuts(costs: UInt8[np.ndarray, " boundaries"], max_tokens: int) -> Iterator[tuple[int, int]]:
    """Token spans of the blocks of one segment, where ``costs[i]`` is the cost of a cut after token i.

    A long segment is solved a part at a time, to keep memory flat: cuts are settled once all ways to go on from the
    end of the part share them, so the sum over the whole segment is the least. Where none are, the part grows.
    """
    total = len(costs) + 1
    first, reach = 0, max(_CUT_TOKENS, max_tokens)
    while first < total:
        last = min(first + reach, total)
        cuts = _settled_cuts(costs[first : last - 1], max_tokens, whole=last == total)
        yield from pairwise(first + cut for cut in cuts)
        first += cuts[-1]
        reach = reach if cuts[-1] else 8 * reach


def _settled_cuts(costs: UInt8[np.ndarray, " boundaries"], max_tokens: int, *, whole: bool) -> list[int]:
    """Where the cheapest blocks of a segment's part begin and end, as far as the rest of the segment cannot matter.

    The least cost of every allowed cut comes from the least cost among the cuts at most B tokens before it, which a
    monotone queue keeps at its head. Cuts to come can only follow one of those left in the queue.

    Args:
        costs: of the cuts inside the part.
        max_tokens: B.
        whole: whether the segment ends with the part.
    """
    total = len(costs) + 1
    if whole and total <= max_tokens:
        return [0, total]
    allowed = np.flatnonzero(costs < _INSIDE_WORD)
    positions = [0, *(allowed + 1).tolist()] + [total] * whole
    prices = [0, *(costs[allowed].astype(np.int64) + BLOCK_COST).tolist()] + [BLOCK_COST] * whole
    least = [0] * len(positions)
    came_from = [0] * len(positions)
    queue = [0]
    head = 0
    for cut in range(1, len(positions)):
        reach = positions[cut] - max_tokens
        while head < len(queue) and positions[queue[head]] < reach:
            head += 1
        if head == len(queue):
            raise ConfigError(f"max_tokens: expected no less than one character of the text takes, got {max_tokens}")
        came_from[cut] = queue[head]
        value = least[cut] = least[queue[head]] + prices[cut]
        while len(queue) > head and least[queue[-1]] > value:
            queue.pop()
        queue.append(cut)
    cuts = [len(positions) - 1 if whole else _common_origin(queue[head:], came_from)]
    while cuts[-1]:
        cuts.append(came_from[cuts[-1]])
    return [positions[cut] for cut in reversed(cuts)]


def _common_origin(cuts: Iterable[int], came_from: Sequence[int]) -> int:
    """The last cut through which the ways to all given cuts go; the start where it is not found soon (uniform text)."""
    ways = set(cuts)
    for _ in range(_ORIGIN_STEPS):
        if len(ways) == 1:
            return ways.pop()
        latest = max(ways)
        ways.remove(latest)
        ways.add(came_from[latest])
    return 0
