"""What gives blocks relevance: the interface that MemRecall calls, and the small protocol for judges of one's own.

Knows documents, queries and blocks; no model.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Asked, BlockQuery, Blocks
from cogltx.errors import ModelError


@dataclass(frozen=True)
class Memory:
    """What MemRecall holds of one document at one moment.

    Attributes:
        query: what is asked; None for tasks without a query. A block that is the query is never in z.
        blocks: the document.
        kept: indices of the blocks in z, in document order.
    """

    query: Asked
    blocks: Blocks
    kept: tuple[int, ...]

    @property
    def candidates(self) -> list[int]:
        """The blocks that are not in z, nor the query, in document order."""
        kept = set(self.kept)
        if isinstance(self.query, BlockQuery):
            kept.add(self.query.block)
        return [index for index in range(len(self.blocks)) if index not in kept]


class Judge(abc.ABC):
    """Scores blocks for many documents at once.

    Attributes:
        probabilities: whether fine scores are probabilities of being relevant.
    """

    probabilities: ClassVar[bool] = False

    @abc.abstractmethod
    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """Coarse scores (retrieval competition, paper §3.2).

        Returns:
            for each memory a score for each of its blocks, higher is more relevant; NaN for those in z, and for one
            that is the query.
        """

    @abc.abstractmethod
    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Fine scores of the blocks in z, all seeing each other (rehearsal, paper §3.2), in the order of ``kept``."""


class QueryJudge(Judge):
    """A judge that looks at the query alone: z changes no score, so retrieval and rehearsal give the same ones."""

    @abc.abstractmethod
    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """The score of every block of the document."""

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        results = []
        for memory in memories:
            scores = np.full(len(memory.blocks), np.nan)
            scores[memory.candidates] = self.scores(memory)[memory.candidates]
            results.append(scores)
        return results

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``: the same scores."""
        return [self.scores(memory)[list(memory.kept)] for memory in memories]


@runtime_checkable
class ScoringJudge(Protocol):
    """A judge of a user's own: BM25, a cross-encoder, a remote model, anything."""

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        """Relevance of each candidate text, finite, higher is more relevant.

        Args:
            query: the question; empty for tasks without one.
            kept: texts of the blocks in z, each behind its heading if it has one. In rehearsal, ``kept`` and
                ``candidates`` are the same texts.
            candidates: texts to score.
        """
        ...


class ScoredBlocks(Judge):
    """Lets a ``ScoringJudge`` take part in MemRecall.

    Args:
        scorer: the user's judge.

    Raises:
        ModelError: the judge fails, or returns another number of scores than it got texts, or one that is not finite.
    """

    def __init__(self, scorer: ScoringJudge) -> None:
        self.scorer = scorer

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        results = []
        for memory in memories:
            scores = np.full(len(memory.blocks), np.nan)
            candidates = memory.candidates
            if candidates:
                scores[candidates] = self._scores(memory, candidates)
            results.append(scores)
        return results

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``."""
        return [self._scores(memory, list(memory.kept)) for memory in memories]

    def _scores(self, memory: Memory, candidates: list[int]) -> Float[np.ndarray, " candidates"]:
        blocks = memory.blocks
        query = memory.query.text if memory.query else ""
        kept, asked = [blocks.shown(i) for i in memory.kept], [blocks.shown(i) for i in candidates]
        name = named(self.scorer)
        try:
            got = self.scorer.score(query, kept, asked)
        except Exception as error:
            raise ModelError(f"{name}: expected scores, got {told(error)}") from error
        try:
            found = np.asarray(got)
            if found.dtype.kind not in "biufO":
                raise TypeError(f"{found.dtype.name} values")
            scores = found.astype(np.float64)
        except Exception as error:
            raise ModelError(
                f"{name}: expected a list of {len(candidates)} numbers, got {type(got).__name__}: {told(error)}"
            ) from error
        if scores.shape != (len(candidates),):
            raise ModelError(f"{name}: expected {len(candidates)} scores, got shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ModelError(f"{name}: expected finite scores, got {scores[~np.isfinite(scores)][0]}")
        return scores


def named(judge: object) -> str:
    """A user's own judge, as messages name it."""
    return f"judge {type(judge).__module__}:{type(judge).__qualname__}"


def told(error: BaseException) -> str:
    """What a user's own code raised, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
