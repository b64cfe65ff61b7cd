"""Blocks: a document cut into runs of at most B tokens by dynamic programming (paper §3.1).

Blocks tile the text; none crosses a segment that the data marks. Knows a tokenizer, but no model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np
from jaxtyping import Bool, Int

from cogltx.cuts import cheapest_cuts, cut_costs
from cogltx.document import Document, Example, Query, Segment
from cogltx.errors import ConfigError
from cogltx.tokens import heading_ids, tokenize
from cogltx.words import Words, words_of

MIN_BLOCK_TOKENS = 8


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


@dataclass(frozen=True)
class BlockQuery:
    """A block of the document itself as the query: what does the rest say of it (paper, figure 2c)?

    Attributes:
        block: its index; it is no candidate for z.
        text: its heading, if it has one, and its exact slice of the document.
        token_ids: what windows show of it, heading included.
        n_heading: tokens of the heading.
    """

    block: int
    text: str
    token_ids: tuple[int, ...]
    n_heading: int


Asked: TypeAlias = Query | BlockQuery | None
"""What is asked of a document; None for tasks without a query."""


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

    @cached_property
    def words(self) -> Words:
        """The words of the document."""
        return words_of(self.document.text, self.token_starts, self.token_ends)

    def query(self, index: int) -> BlockQuery:
        """A block as the query."""
        block = self._blocks[index]
        heading = self.headings[block.heading]
        ids = (*heading.tolist(), *self.token_ids[block.first_token : block.end_token].tolist())
        return BlockQuery(index, self.shown(index), ids, len(heading))

    def text(self, index: int) -> str:
        """The exact slice of the document that a block covers."""
        block = self._blocks[index]
        return self.document.text[block.start : block.end]

    def shown(self, index: int) -> str:
        """What a window shows of a block: "heading ; text", or the text alone."""
        heading, text = self._blocks[index].heading, self.text(index)
        return f"{heading} ; {text}" if heading.strip() else text

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
    ids, starts, ends, segment_ends = tokenize(document, segments, tokenizer)
    costs = cut_costs(document.text, starts, ends, segment_ends, max_tokens)
    blocks: list[Block] = []
    first = 0
    for segment, last in zip(segments, segment_ends, strict=True):
        if last == first:
            continue
        for cut, end in cheapest_cuts(costs[first : last - 1], max_tokens):
            start = _solid_start(starts, ends, first + cut, first + end) if cut else segment.start if blocks else 0
            blocks.append(Block(len(blocks), start, 0, first + cut, first + end, segment.heading))
        first = last
    following = [*(block.start for block in blocks[1:]), len(document.text)]
    blocks = [replace(block, end=end) for block, end in zip(blocks, following, strict=True)]
    headings = {h: heading_ids(h, tokenizer) for h in {b.heading for b in blocks}}
    return Blocks(document, blocks, ids, starts, ends, headings)


def relevance_labels(example: Example, blocks: Blocks) -> Bool[np.ndarray, " blocks"] | None:
    """True for the blocks that overlap a relevant span; None where the data has no relevance labels.

    Where the data marks answers alone, the places of the answer are the relevant spans.
    """
    if not example.has_relevance:
        return None
    labels = np.zeros(len(blocks), dtype=bool)
    for span in example.answer_spans if example.relevant is None else example.relevant:
        labels[list(blocks.overlapping(span.start, span.end))] = True
    return labels


def _solid_start(starts: np.ndarray, ends: np.ndarray, first: int, last: int) -> int:
    """First character of a run of tokens that is no white space, if there is one."""
    return int(starts[next((token for token in range(first, last) if starts[token] < ends[token]), first)])


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
