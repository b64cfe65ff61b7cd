"""The interface between MemRecall and judges, and the small protocol for judges of users.

Does not depend on a model.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from cogltx.blocks import AnyQuery, Blocks
from cogltx.encoding.layout import Layout
from cogltx.errors import ModelError


@dataclass(frozen=True)
class Memory:
    """The state of MemRecall for one document: the query and z.

    Attributes:
        layout: the query and the document.
        kept: indices of the blocks in z, in document order.
    """

    layout: Layout
    kept: tuple[int, ...] = ()

    @property
    def query(self) -> AnyQuery:
        """The question, a block of the document, or None."""
        return self.layout.query

    @property
    def blocks(self) -> Blocks:
        """The blocks of the document."""
        return self.layout.blocks

    @property
    def candidates(self) -> list[int]:
        """The blocks that are neither in z nor the query, in document order."""
        kept = set(self.kept)
        return [index for index in self.layout.candidates if index not in kept]


class Judge(abc.ABC):
    """Scores the blocks of many documents at once.

    Attributes:
        probabilities: whether fine scores are probabilities of relevance.
    """

    probabilities: ClassVar[bool] = False

    @abc.abstractmethod
    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """Compute coarse scores (retrieval competition, CogLTX §3.2).

        Returns:
            per memory one score per block, higher is more relevant; NaN for blocks in z and for a block that is the
            query.
        """

    @abc.abstractmethod
    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Compute fine scores of the blocks in z together (rehearsal, CogLTX §3.2), in the order of ``kept``."""


class QueryJudge(Judge):
    """A judge whose scores depend on the query alone, so retrieval and rehearsal give the same scores."""

    @abc.abstractmethod
    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Score every block of the document."""

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        return [_on_candidates(memory, self.scores(memory)[memory.candidates]) for memory in memories]

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``."""
        return [self.scores(memory)[list(memory.kept)] for memory in memories]


@runtime_checkable
class ScoringJudge(Protocol):
    """A judge that scores texts: a cross-encoder, a remote model, any function."""

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        """Score the relevance of each candidate text; finite numbers, higher is more relevant.

        Args:
            query: the question; empty for tasks without one.
            kept: texts of the blocks in z, each after its heading. In rehearsal ``candidates`` are the same texts.
            candidates: the texts to score.
        """
        ...


class ScoringJudgeAdapter(Judge):
    """Lets a ``ScoringJudge`` score blocks.

    Args:
        scorer: the user's judge.

    Raises:
        ModelError: the judge fails, or does not return one finite number per text.
    """

    def __init__(self, scorer: ScoringJudge) -> None:
        self.scorer = scorer

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        return [_on_candidates(memory, self._scores(memory, memory.candidates)) for memory in memories]

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``."""
        return [self._scores(memory, list(memory.kept)) for memory in memories]

    def _scores(self, memory: Memory, candidates: list[int]) -> Float[np.ndarray, " candidates"]:
        if not candidates:
            return np.empty(0)
        query = memory.query.text if memory.query else ""
        kept, texts = (list(map(memory.blocks.text_with_heading, indices)) for indices in (memory.kept, candidates))
        name = judge_name(self.scorer)
        try:
            scores = np.asarray(self.scorer.score(query, kept, texts))
            if scores.dtype.kind not in "biufO":
                raise TypeError(f"{scores.dtype.name} values are not numbers")
            scores = scores.astype(np.float64)
        except Exception as error:
            raise ModelError(f"{name}: scoring {len(candidates)} texts failed: {one_line(error)}") from error
        if scores.shape != (len(candidates),):
            raise ModelError(f"{name}: the scores of {len(candidates)} texts have shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ModelError(f"{name}: a score is {scores[~np.isfinite(scores)][0]}; scores must be finite")
        return scores


def _on_candidates(memory: Memory, scores: Float[np.ndarray, " candidates"]) -> Float[np.ndarray, " blocks"]:
    """Scores of all blocks from those of the candidates; NaN for the others."""
    block_scores = np.full(len(memory.blocks), np.nan)
    block_scores[memory.candidates] = scores
    return block_scores


def judge_name(judge: object) -> str:
    """Return the name of a user's judge for messages."""
    return f"judge {type(judge).__module__}:{type(judge).__qualname__}"


def one_line(error: BaseException) -> str:
    """Return an exception of a user's code on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
