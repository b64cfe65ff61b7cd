"""The blocks of a document, stored as arrays: characters, tokens, headings and sizes. ``splitter`` makes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias, overload

import numpy as np
from jaxtyping import Bool, Int

from cogltx.blocks._mentions import Mentions
from cogltx.blocks._words import Words
from cogltx.document import Document, Example, Query

_LINE = re.compile(r"\n")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True)
class Block:
    """Consecutive tokens of a document; blocks tile the text, and white space belongs to the block before it."""

    index: int
    start: int
    end: int
    first_token: int
    end_token: int
    heading: str = ""

    @property
    def n_tokens(self) -> int:
        """Number of tokens, without the heading."""
        return self.end_token - self.first_token


@dataclass(frozen=True)
class BlockQuery:
    """A block of the document as the query (CogLTX figure 2c); its heading has the first ``n_heading`` tokens."""

    block: int
    text: str
    token_ids: tuple[int, ...]
    n_heading: int


AnyQuery: TypeAlias = Query | BlockQuery | None
"""A question, a block of the document, or None for tasks without a query."""


@dataclass(eq=False, repr=False)
class Blocks(Sequence[Block]):
    """A document's blocks and tokens, in arrays; a ``Block`` is created on access."""

    document: Document
    starts: Int[np.ndarray, " blocks"]  # first character
    cuts: Int[np.ndarray, " blocks+1"]  # first token of each block, and one past the last token
    token_ids: Int[np.ndarray, " tokens"]
    token_starts: Int[np.ndarray, " tokens"]  # first character, never white space
    token_ends: Int[np.ndarray, " tokens"]  # equal to the start for a token that is only white space
    headings: dict[str, Int[np.ndarray, " heading"]]  # token ids per heading
    heading_of: Int[np.ndarray, " blocks"]  # index into the headings

    @classmethod
    def joined(cls, document: Document, parts: Sequence["Blocks"]) -> Self:
        """Join the blocks of documents into those of a document that was joined from them."""
        headings = {text: ids for part in parts for text, ids in part.headings.items()}
        index = {text: number for number, text in enumerate(headings)}
        firsts = [first for _, first in document.parts]
        n_tokens = np.cumsum([0, *(part.n_tokens for part in parts)])
        placed = list(zip(parts, firsts, n_tokens.tolist(), strict=False))
        return cls(
            document,
            starts=np.concatenate([part.starts + first for part, first, _ in placed]),
            cuts=np.concatenate([*(part.cuts[:-1] + before for part, _, before in placed), n_tokens[-1:]]),
            token_ids=np.concatenate([part.token_ids for part in parts]),
            token_starts=np.concatenate([part.token_starts + first for part, first, _ in placed]),
            token_ends=np.concatenate([part.token_ends + first for part, first, _ in placed]),
            headings=headings,
            heading_of=np.concatenate(
                [np.array([index[text] for text in part.headings])[part.heading_of] for part in parts]
            ),
        )

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...
    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        if isinstance(index, slice):
            return tuple(self[one] for one in range(len(self))[index])
        index = range(len(self))[index]
        is_last = index + 1 == len(self)
        return Block(
            index=index,
            start=int(self.starts[index]),
            end=len(self.document.text) if is_last else int(self.starts[index + 1]),
            first_token=int(self.cuts[index]),
            end_token=int(self.cuts[index + 1]),
            heading=self._heading_texts[self.heading_of[index]],
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def n_tokens(self) -> int:
        """Number of tokens in the document."""
        return len(self.token_ids)

    @cached_property
    def _heading_texts(self) -> tuple[str, ...]:
        return tuple(self.headings)

    @cached_property
    def sizes(self) -> Int[np.ndarray, " blocks"]:
        """Tokens per block in a window: heading, text and one separator."""
        heading_sizes = np.array([len(ids) for ids in self.headings.values()])
        return np.asarray(heading_sizes[self.heading_of] + np.diff(self.cuts) + 1)

    @cached_property
    def max_size(self) -> int:
        """Tokens of the largest block in a window."""
        return int(self.sizes.max())

    def total_size(self, indices: Sequence[int]) -> int:
        """Tokens of some blocks in a window."""
        return int(self.sizes[list(indices)].sum()) if indices else 0

    @cached_property
    def paragraphs(self) -> Int[np.ndarray, " blocks"]:
        """Number of the paragraph per block; paragraphs end at blank lines or, without any, at line breaks."""
        document, ends = self.document, list[int]()
        parts = [document.part(first) for _, first in document.parts] or [document.part(0)]
        for _, first, last in parts:
            blank, any_line = (kind.finditer(document.text, first, last) for kind in (_BLANK_LINE, _LINE))
            ends += [match.end() for match in blank] or [match.end() for match in any_line]
            ends.append(last)
        return np.searchsorted(np.array(ends, dtype=np.int64), self.starts, side="right")

    @cached_property
    def words(self) -> Words:
        """The words of the document."""
        return Words.of(self.document.text, self.token_starts, self.token_ends)

    @cached_property
    def mentions(self) -> Mentions:
        """Pairs of a block and a heading that it mentions."""
        return Mentions.of(self.document.text, self.starts, self._heading_texts, self.heading_of)

    def as_query(self, index: int) -> BlockQuery:
        """Return a block as a query."""
        block = self[index]
        heading = self.headings[block.heading]
        ids = (*heading.tolist(), *self.token_ids[block.first_token : block.end_token].tolist())
        return BlockQuery(index, self.text_with_heading(index), ids, len(heading))

    def text(self, index: int) -> str:
        """Return the exact slice of the document that a block covers."""
        block = self[index]
        return self.document.text[block.start : block.end]

    def text_with_heading(self, index: int) -> str:
        """Return the text of a block in a window: "heading ; text", or the text alone."""
        heading, text = self[index].heading, self.text(index)
        return f"{heading} ; {text}" if heading.strip() else text

    def trimmed(self, index: int) -> tuple[int, int]:
        """Return the character span of a block without the white space around it."""
        block, text = self[index], self.text(index)
        start = block.start + len(text) - len(text.lstrip())
        return (start, start + len(text.strip())) if text.strip() else (block.start, block.end)

    def overlapping(self, start: int, end: int) -> range:
        """Return the indices of the blocks that share a character with ``start:end``."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        return range(first, int(np.searchsorted(self.starts, end, side="left")))

    def relevance_labels(self, example: Example) -> Bool[np.ndarray, " blocks"] | None:
        """Label the blocks that overlap evidence, or else an answer span; None where the data has neither."""
        if not example.has_relevance:
            return None
        labels = np.zeros(len(self), dtype=bool)
        for span in example.answer_spans if example.relevant is None else example.relevant:
            labels[list(self.overlapping(span.start, span.end))] = True
        return labels
