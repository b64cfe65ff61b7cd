"""Cut a document into blocks of at most B tokens at the least total cost (CogLTX §3.1)."""

from array import array
from itertools import pairwise
from typing import Any

import numpy as np

from cogltx.blocks._cuts import cheapest_cuts, cut_costs
from cogltx.blocks._tokenizer import BUNDLED, load_tokenizer
from cogltx.blocks._tokens import heading_ids, tokenize
from cogltx.blocks.blocks import Blocks
from cogltx.document import Document, Segment
from cogltx.errors import ConfigError

MIN_BLOCK_TOKENS = 8


def split(document: Document | str, tokenizer: Any = BUNDLED, *, max_tokens: int = 63) -> Blocks:
    """Cut a document into blocks at the least total cost, in linear time; no block crosses a segment.

    Args:
        document: any text, in any script.
        tokenizer: a fast tokenizer of ``transformers``, or the name of an encoder.
        max_tokens: B, the maximum number of tokens per block.

    Raises:
        ConfigError: ``max_tokens`` is below 8, or below the tokens of one character.
        DataError: the text has no token, or contains a lone surrogate.
    """
    if max_tokens < MIN_BLOCK_TOKENS:
        raise ConfigError(f"max_tokens is {max_tokens}; it must be at least {MIN_BLOCK_TOKENS}")
    document = Document(document) if isinstance(document, str) else document
    tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    segments = _tile(document)
    ids, starts, ends, segment_ends = tokenize(document, segments, tokenizer)
    longest = max(last - first for first, last in pairwise([0, *segment_ends]))
    costs = (
        cut_costs(document.text, starts, ends, segment_ends, max_tokens)
        if longest > max_tokens
        else np.zeros(len(ids), dtype=np.uint8)  # every segment is one block
    )
    cuts, block_starts, heading_of = array("l"), array("l"), array("l")
    headings: dict[str, int] = {}
    first = 0
    for segment, last in zip(segments, segment_ends, strict=True):
        if last == first:
            continue
        heading = headings.setdefault(segment.heading, len(headings))
        for cut, end in cheapest_cuts(costs[first : last - 1], max_tokens):
            visible = (token for token in range(first + cut, first + end) if starts[token] < ends[token])
            start = int(starts[next(visible, first + cut)]) if cut else segment.start if cuts else 0
            cuts.append(first + cut)
            block_starts.append(start)
            heading_of.append(heading)
        first = last
    cuts.append(first)
    return Blocks(
        document, starts=np.asarray(block_starts), cuts=np.asarray(cuts), token_ids=ids, token_starts=starts,
        token_ends=ends, headings={text: heading_ids(text, tokenizer) for text in headings},
        heading_of=np.asarray(heading_of),
    )  # fmt: skip


def _tile(document: Document) -> list[Segment]:
    """Cover the whole text with the segments of the document, and the text between them."""
    tiles: list[Segment] = []
    end = 0
    for segment in (*document.segments, Segment(len(document.text), len(document.text))):
        if document.text[end : segment.start].strip():
            tiles.append(Segment(end, segment.start))
        if segment.start < segment.end:
            tiles.append(segment)
        end = segment.end
    return tiles
