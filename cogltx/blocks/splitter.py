"""Blocks: a document cut into runs of at most B tokens by dynamic programming (paper §3.1).

Blocks tile the text; none crosses a segment that the data marks. Knows a tokenizer, but no model.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np
from jaxtyping import Bool, Int

from cogltx.blocks.cuts import cheapest_cuts, cut_costs
from cogltx.blocks.tokens import heading_ids, tokenize
from cogltx.blocks.words import Words, words_of
from cogltx.document import Document, Example, Query, Segment
from cogltx.errors import ConfigError

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
    """A document's blocks and tokens, in arrays: a ``Block`` is made when asked for.

    Attributes:
        document: what was split.
        starts: first character of every block, shape [n_blocks].
        cuts: first token of every block, and one past the last token, shape [n_blocks + 1].
        token_ids: vocabulary index of every token, shape [n_tokens].
        token_starts: first character of every token, shape [n_tokens]; a token never starts or ends in white space.
        token_ends: one past each token's last character, shape [n_tokens]; the start again where a token shows white
            space alone.
        headings: token ids of every heading.
        heading_of: which of ``headings``, in order, each block has, shape [n_blocks].
    """

    def __init__(
        self,
        document: Document,
        *,
        starts: Int[np.ndarray, " blocks"],
        cuts: Int[np.ndarray, " blocks+1"],
        token_ids: Int[np.ndarray, " tokens"],
        token_starts: Int[np.ndarray, " tokens"],
        token_ends: Int[np.ndarray, " tokens"],
        headings: dict[str, Int[np.ndarray, " heading"]],
        heading_of: Int[np.ndarray, " blocks"],
    ) -> None:
        self.document = document
        self.starts, self.cuts = starts, cuts
        self.token_ids, self.token_starts, self.token_ends = token_ids, token_starts, token_ends
        self.headings, self.heading_of = headings, heading_of
        self._headings = tuple(headings)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...
    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        places = range(len(self))[index]
        return self._block(places) if isinstance(places, int) else tuple(map(self._block, places))

    def _block(self, index: int) -> Block:
        following = index + 1
        return Block(
            index=index,
            start=int(self.starts[index]),
            end=int(self.starts[following]) if following < len(self) else len(self.document.text),
            first_token=int(self.cuts[index]),
            end_token=int(self.cuts[following]),
            heading=self._headings[self.heading_of[index]],
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def n_tokens(self) -> int:
        """Tokens in the document."""
        return len(self.token_ids)

    @cached_property
    def sizes(self) -> Int[np.ndarray, " blocks"]:
        """Tokens that each block takes in a window: heading, text and one separator."""
        shown = np.array([len(ids) for ids in self.headings.values()])
        return np.asarray(shown[self.heading_of] + np.diff(self.cuts) + 1)

    @cached_property
    def words(self) -> Words:
        """The words of the document."""
        return words_of(self.document.text, self.token_starts, self.token_ends)

    def query(self, index: int) -> BlockQuery:
        """A block as the query."""
        block = self[index]
        heading = self.headings[block.heading]
        ids = (*heading.tolist(), *self.token_ids[block.first_token : block.end_token].tolist())
        return BlockQuery(index, self.shown(index), ids, len(heading))

    def text(self, index: int) -> str:
        """The exact slice of the document that a block covers."""
        block = self[index]
        return self.document.text[block.start : block.end]

    def shown(self, index: int) -> str:
        """What a window shows of a block: "heading ; text", or the text alone."""
        heading, text = self[index].heading, self.text(index)
        return f"{heading} ; {text}" if heading.strip() else text

    def trimmed(self, index: int) -> tuple[int, int]:
        """Character span of a block without the white space around it."""
        block, text = self[index], self.text(index)
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
    cuts, block_starts, heading_of = array("l"), array("l"), array("l")
    headings: dict[str, int] = {}
    first = 0
    for segment, last in zip(segments, segment_ends, strict=True):
        if last == first:
            continue
        heading = headings.setdefault(segment.heading, len(headings))
        for cut, end in cheapest_cuts(costs[first : last - 1], max_tokens):
            start = _solid_start(starts, ends, first + cut, first + end) if cut else segment.start if cuts else 0
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
