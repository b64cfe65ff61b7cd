"""A judge for texts with labels: a linear model of the words that predict the labels. Scores ignore z."""

from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.judges.base import Judge, Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.linear import LinearModel


class LinearJudge(Judge):
    """Scores a block by the contribution of its words to a label.

    Without a query, the label is the one of those that the model predicts for the whole text to which the block
    contributes most. A label name as query is the label, and its own words count, too: the score is the sum of
    contribution and BM25, each with mean 0 and standard deviation 1 over the blocks.

    Args:
        model: the linear model; training fits it to the labels of the training texts.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model, self._bm25 = model, BM25Judge()
        self._contributions: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks labels"]] = WeakKeyDictionary()

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """See ``Judge.scores``."""
        blocks, queried = memory.blocks, self.model.column(memory.query)
        if blocks not in self._contributions:
            texts = [blocks.text_with_heading(index) for index in range(len(blocks))]
            self._contributions[blocks] = self.model.contributions(texts)
        contributions = self._contributions[blocks]
        if queried is not None:
            by_name = self._bm25.text_scores(self.model.queries[queried], blocks)
            scores = _standardized(contributions[:, queried]) + _standardized(by_name)
        else:
            margins = self.model.document_margins(blocks)
            scores = contributions[:, margins >= min(0.0, float(margins.max()))].max(axis=1)
        return np.asarray(scores[indices])


def _standardized(scores: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
    """Scale scores to mean 0 and standard deviation 1; equal scores become 0."""
    deviation = float(scores.std())
    return np.asarray((scores - scores.mean()) / deviation) if deviation else np.zeros_like(scores)
