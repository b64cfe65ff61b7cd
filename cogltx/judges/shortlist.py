"""A wrapper that saves time: the judge scores only the blocks that a cheap retriever proposes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.encoding.layout import Layout
from cogltx.judges.base import Judge, Memory, WrappedJudge
from cogltx.judges.retriever import Retriever


class Shortlist(WrappedJudge):
    """Restricts retrieval to the best blocks by a retriever, for the question together with the blocks in z.

    Args:
        judge: scores the blocks of the shortlist; scores of all others are NaN.
        retriever: proposes the blocks.
        count: number of blocks per step of MemRecall.
    """

    def __init__(self, judge: Judge, retriever: Retriever, count: int) -> None:
        super().__init__(judge)
        self.retriever, self.count = retriever, count

    def shortlisted(self, memory: Memory) -> Memory:
        """See ``Judge.shortlisted``.

        Raises:
            ConfigError: there is no question.
        """
        if len(memory.candidates) <= self.count and memory.query is not None:
            return replace(memory, shortlist=tuple(memory.candidates))
        best = np.argsort(-self.retriever.ranking(memory), kind="stable")[: self.count]
        return replace(memory, shortlist=tuple(np.sort(best).tolist()))

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        return self.judge.retrieve(list(map(self.shortlisted, memories)))

    @property
    def index_key(self) -> str:
        """See ``Judge.index_key``."""
        return self.retriever.index_key

    def vectors(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """See ``Judge.vectors``."""
        return self.retriever.vectors(layout)

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """See ``Judge.use_vectors``."""
        self.retriever.use_vectors(blocks, vectors)
