"""A judge for texts without a question: a linear model of the words that predict the labels. Scores ignore z."""

from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.judges.base import Judge, Memory
from cogltx.linear import LinearModel


class LinearJudge(Judge):
    """Scores a block by the largest contribution of its words to a label that the model predicts for the whole text.

    Args:
        model: the linear model; training fits it to the labels of the training texts.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self._scores: WeakKeyDictionary[Blocks, Float[np.ndarray, " blocks"]] = WeakKeyDictionary()

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """See ``Judge.scores``."""
        blocks = memory.blocks
        if blocks not in self._scores:
            margins = self.model.margins([blocks.document.text])[0]
            given = margins >= min(0.0, float(margins.max()))
            said = self.model.contributions([blocks.text_with_heading(index) for index in range(len(blocks))])
            self._scores[blocks] = said[:, given].max(axis=1)
        return self._scores[blocks][indices]
