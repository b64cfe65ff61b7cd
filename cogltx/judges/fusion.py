"""A wrapper for documents of other kinds than a judge has learned from: what is cheap and general joins its scores.

The retriever's score of a block, BM25 and the cosine of two vectors, does not depend on the judge. A logistic
regression on the validation examples weighs the two (score fusion, Fox & Shaw 1994).
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict, Field

from cogltx.judges.base import Judge, Memory, WrappedJudge
from cogltx.judges.retriever import TrainedRetriever

_CLIP = 1e-4  # smallest distance of a relevance from 0 and 1


class FusionWeights(BaseModel):
    """Weights in logit(p) = judge · logit(relevance) + retriever · log p(block among all by the retriever) + bias.

    Attributes:
        judge: weight of the judge.
        retriever: weight of the retriever.
        bias: what is added.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    judge: float = Field(1.0, ge=0)
    retriever: float = Field(0.0, ge=0)
    bias: float = 0.0

    def fused(
        self, relevance: Float[np.ndarray, " blocks"], retrieved: Float[np.ndarray, " blocks"]
    ) -> Float[np.ndarray, " blocks"]:
        """Compute the probability that each block is relevant; NaN where the judge has no score."""
        logits = self.judge * _logits(relevance) + self.retriever * retrieved + self.bias
        return np.asarray(1 / (1 + np.exp(-logits)))

    @classmethod
    def fitted(
        cls,
        documents: Sequence[
            tuple[Float[np.ndarray, " blocks"], Float[np.ndarray, " blocks"], Bool[np.ndarray, " blocks"]]
        ],
    ) -> Self | None:
        """Fit the weights on documents, which count alike: per block the two scores, and whether it is relevant.

        Returns:
            None if there are no relevant or no other blocks.
        """
        from sklearn.linear_model import LogisticRegression

        features = np.concatenate([np.stack([_logits(judge), retrieved], 1) for judge, retrieved, _ in documents])
        labels = np.concatenate([relevant for _, _, relevant in documents])
        shares = np.concatenate([np.full(len(relevant), 1 / len(relevant)) for _, _, relevant in documents])
        if labels.all() or not labels.any():
            return None
        model = LogisticRegression(C=10.0).fit(features, labels, sample_weight=shares)
        judge, retriever = np.maximum(model.coef_[0], 0).round(4).tolist()
        return cls(judge=judge, retriever=retriever, bias=round(float(model.intercept_[0]), 4))


def _logits(relevance: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
    return np.asarray(torch.tensor(relevance, dtype=torch.float64).logit(eps=_CLIP).numpy())


class Fusion(WrappedJudge):
    """Lets the retriever's scores count where blocks compete for z and where they stay; relevance stays the judge's.

    In a document that fits one window nothing competes, and the weights are fitted on longer ones: the judge decides.

    Args:
        judge: gives probabilities.
        retriever: the trained retriever of the model.
        weights: of judge and retriever.
    """

    def __init__(self, judge: Judge, retriever: TrainedRetriever, weights: FusionWeights) -> None:
        super().__init__(judge)
        self.retriever, self.weights = retriever, weights

    def competition_scores(self, memory: Memory, coarse: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """See ``Judge.competition_scores``."""
        return self.weights.fused(self.judge.competition_scores(memory, coarse), self._retrieved(memory))

    def decay_scores(self, memory: Memory) -> Float[np.ndarray, " kept"]:
        """See ``Judge.decay_scores``."""
        if memory.layout.fits:
            return self.judge.decay_scores(memory)
        kept = list(memory.kept)
        return self.weights.fused(self.judge.decay_scores(memory), self._retrieved(memory)[kept])

    def _retrieved(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        return self.retriever.log_probabilities(Memory(memory.layout))
