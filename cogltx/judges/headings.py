"""A wrapper for documents with headings: blocks whose headings name each other gain."""

import numpy as np
from jaxtyping import Float

from cogltx.document import Query
from cogltx.judges.base import Judge, Memory, WrappedJudge


class Headings(WrappedJudge):
    """Bonus for blocks whose headings name each other: the weight times the score of the best such block.

    It counts where blocks compete for z and where they stay in it. There, blocks whose heading the question names gain
    the weight, too. The relevance stays that of the judge.

    Args:
        judge: scores the blocks.
        weight: weight of the bonus.
    """

    def __init__(self, judge: Judge, weight: float) -> None:
        super().__init__(judge)
        self.weight = weight

    def competition_scores(self, memory: Memory, coarse: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """See ``Judge.competition_scores``; blocks of z count with their relevance."""
        known = coarse.copy()
        known[list(memory.kept)] = memory.relevance
        return np.asarray(
            self.judge.competition_scores(memory, coarse) + self.weight * memory.blocks.mentions.best(known)
        )

    def decay_scores(self, memory: Memory) -> Float[np.ndarray, " kept"]:
        """See ``Judge.decay_scores``."""
        kept, mentions = list(memory.kept), memory.blocks.mentions
        scores = np.full(len(memory.blocks), np.nan)
        scores[kept] = memory.relevance
        gain = mentions.best(scores)
        if isinstance(memory.query, Query):
            gain = gain + mentions.named(memory.query.text)
        return np.asarray(self.judge.decay_scores(memory) + self.weight * gain[kept])
