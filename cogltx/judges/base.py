"""The interface between MemRecall and judges, and the protocol for judges of users. Does not depend on a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from cogltx.blocks import AnyQuery, Blocks
from cogltx.encoding.layout import Layout
from cogltx.errors import ModelError


@dataclass(frozen=True)
class Memory:
    """The state of MemRecall for one document.

    Attributes:
        layout: the query and the document.
        kept: the blocks of z, in document order.
        relevance: the judge's latest score of each block of z, NaN if it has none; empty where it is not needed.
        shortlist: the blocks that may enter z, in document order; None: all.
    """

    layout: Layout
    kept: tuple[int, ...] = ()
    relevance: tuple[float, ...] = ()
    shortlist: tuple[int, ...] | None = None

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
        """The blocks that may enter z, in document order: neither in z nor the query."""
        kept = set(self.kept)
        allowed = self.layout.candidates if self.shortlist is None else self.shortlist
        return [index for index in allowed if index not in kept]


class Judge:
    """Scores the relevance of blocks, many documents at once; subclasses override ``scores``, or the two after it.

    Attributes:
        probabilities: whether scores are probabilities of relevance.
    """

    probabilities: bool = False

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """Score some blocks of one document next to z; in rehearsal ``indices`` are the blocks in z."""
        raise NotImplementedError

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """Compute coarse scores (retrieval competition, CogLTX §3.2).

        Returns:
            per memory one score per block, higher is more relevant; NaN for blocks that are not candidates.
        """
        retrieved = [np.full(len(memory.blocks), np.nan) for memory in memories]
        for memory, block_scores in zip(memories, retrieved, strict=True):
            block_scores[memory.candidates] = self.scores(memory, memory.candidates)
        return retrieved

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Compute fine scores of the blocks in z together (rehearsal, CogLTX §3.2), in the order of ``kept``."""
        return [self.scores(memory, list(memory.kept)) for memory in memories]

    def competition_scores(self, memory: Memory, coarse: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """Return the scores by which candidates compete for z: the coarse scores, unless a wrapper adds to them."""
        return coarse

    def decay_scores(self, memory: Memory) -> Float[np.ndarray, " kept"]:
        """Return the scores by which blocks stay in z: their relevance, unless a wrapper adds to it."""
        return np.array(memory.relevance)

    def shortlisted(self, memory: Memory) -> Memory:
        """Restrict the candidates of a memory to those that ``retrieve`` scores."""
        return memory

    @property
    def index_key(self) -> str:
        """Fingerprint of what an index holds besides the blocks; empty if nothing."""
        return ""

    def vectors(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """Compute what does not depend on a question, for an index: a vector per block; width 0 if there are none."""
        return np.empty((len(layout.blocks), 0), dtype=np.float32)

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """Use vectors that ``vectors`` computed before."""


class WrappedJudge(Judge):
    """A judge around another one; subclasses change some of its scores."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    @property
    def probabilities(self) -> bool:  # type: ignore[override]
        """Whether scores are probabilities of relevance."""
        return self.judge.probabilities

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        return self.judge.retrieve(memories)

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``."""
        return self.judge.rehearse(memories)

    def competition_scores(self, memory: Memory, coarse: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """See ``Judge.competition_scores``."""
        return self.judge.competition_scores(memory, coarse)

    def decay_scores(self, memory: Memory) -> Float[np.ndarray, " kept"]:
        """See ``Judge.decay_scores``."""
        return self.judge.decay_scores(memory)

    def shortlisted(self, memory: Memory) -> Memory:
        """See ``Judge.shortlisted``."""
        return self.judge.shortlisted(memory)

    @property
    def index_key(self) -> str:
        """See ``Judge.index_key``."""
        return self.judge.index_key

    def vectors(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """See ``Judge.vectors``."""
        return self.judge.vectors(layout)

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """See ``Judge.use_vectors``."""
        self.judge.use_vectors(blocks, vectors)


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


def judge_error(judge: object, problem: str, error: BaseException | None = None) -> ModelError:
    """Describe a problem of a user's judge, given as an object or by name, in one line."""
    name = judge if isinstance(judge, str) else f"{type(judge).__module__}:{type(judge).__qualname__}"
    reason = f": {type(error).__name__}: {error}" if error is not None else ""
    return ModelError(" ".join(f"judge {name}: {problem}{reason}".split()))
