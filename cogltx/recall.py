"""The state and the result of MemRecall for one document."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from cogltx.blocks import AnyQuery, Blocks
from cogltx.display import report
from cogltx.encoding.layout import Layout, Window
from cogltx.judges.base import Judge, Memory
from cogltx.prediction import Evidence

BlockScores = Float[np.ndarray, " blocks"]


@dataclass(frozen=True)
class Step:
    """One step of MemRecall. All scores are the judge's relevance.

    Attributes:
        coarse: coarse score of every block, shape [blocks]; NaN for blocks already in z or not scored.
        retrieved: the blocks that entered z, best first.
        fine: score of every block in z after rehearsal; without rehearsal, its coarse score.
        kept: the blocks that stay, best first.
        decayed: the other blocks of z, best first; they leave it, but in the last step they fill the window.
    """

    coarse: BlockScores
    retrieved: tuple[int, ...]
    fine: dict[int, float]
    kept: tuple[int, ...]
    decayed: tuple[int, ...]


@dataclass(frozen=True)
class Recall:
    """The key blocks of a document.

    Attributes:
        layout: the query and the document.
        key_blocks: the blocks that the reasoner reads, in document order.
        scores: a score per key block, by which they were chosen; in [0, 1] for judges with probabilities.
        kept: the key blocks that survived the last decay.
        steps: the step that retrieved each key block, from 1; 0 if the document was read whole.
        trace: the steps.
        relevance: the judge's highest score of a key block: the relevance of the document.
    """

    layout: Layout
    key_blocks: tuple[int, ...]
    scores: tuple[float, ...]
    kept: frozenset[int]
    steps: tuple[int, ...]
    trace: tuple[Step, ...] = ()
    relevance: float = 1.0

    @property
    def query(self) -> AnyQuery:
        """The question, a block of the document, or None."""
        return self.layout.query

    @property
    def blocks(self) -> Blocks:
        """The blocks of the document."""
        return self.layout.blocks

    @property
    def window(self) -> Window:
        """The reasoner's window: the query and all key blocks, in document order."""
        return self.layout.window(self.key_blocks)

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """The key blocks with offsets and scores, highest score first."""
        evidence = []
        for block, score, step in zip(self.key_blocks, self.scores, self.steps, strict=True):
            start, end = self.blocks.trimmed(block)
            document = self.blocks.document
            text, page = document.text[start:end], document.page(start)
            evidence.append(Evidence(start, end, text, score, step, block in self.kept, page=page))
        return tuple(sorted(evidence, key=lambda block: -block.score))

    def to_html(self, *, whole_page: bool = True) -> str:
        """Show the document with its key blocks on a self-contained HTML page.

        ``whole_page=False`` gives a fragment for a notebook.
        """
        document, question = self.blocks.document, self.query.text if self.query else ""
        return report([document], list(map(asdict, self.evidence)), question=question, whole_page=whole_page)

    def _repr_html_(self) -> str:
        return self.to_html(whole_page=False)


@dataclass
class Search:
    """The search state of one document.

    Attributes:
        layout: the query and the document.
        z: the blocks of z, best first.
        kept: those that survived the latest decay.
        limit: how many blocks may stay: the sum of the strides so far.
        relevance: the judge's latest score of each block that was in z, coarse or fine.
        first_step: the step in which each block of z entered it.
        trace: the finished steps.
    """

    layout: Layout
    z: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    limit: int = 0
    relevance: dict[int, float] = field(default_factory=dict)
    first_step: dict[int, int] = field(default_factory=dict)
    trace: list[Step] = field(default_factory=list)

    def memory(self, blocks: Sequence[int]) -> Memory:
        """Return the state of some blocks for the judge."""
        kept = tuple(sorted(blocks))
        return Memory(self.layout, kept, tuple(self.relevance.get(block, np.nan) for block in kept))

    def rehearsed(self, blocks: Sequence[int], fine: Float[np.ndarray, " kept"]) -> None:
        """Note the fine scores of blocks, which are in document order."""
        self.relevance.update(zip(blocks, fine.tolist(), strict=True))

    def best_first(self, blocks: Sequence[int], judge: Judge) -> list[int]:
        """Sort blocks by the score that decides which of them stay; earlier blocks win ties."""
        memory = self.memory(blocks)
        strength = dict(zip(memory.kept, judge.decay_scores(memory).tolist(), strict=True))
        return sorted(memory.kept, key=lambda block: -strength[block])

    @property
    def known_relevance(self) -> BlockScores:
        """The latest fine score of each block, or else its best coarse score; NaN if it has none."""
        coarse = [step.coarse for step in self.trace] or [np.full(len(self.layout.blocks), np.nan)]
        scores = np.fmax.reduce(coarse)
        scores[list(self.relevance)] = list(self.relevance.values())
        return np.asarray(scores)

    def read(self, blocks: Sequence[int], judge: Judge) -> Recall:
        """Return the key blocks, with the scores that decide which blocks stay."""
        memory = self.memory(blocks)
        limit = 1.0 if judge.probabilities else np.inf
        return Recall(
            layout=self.layout,
            key_blocks=memory.kept,
            scores=tuple(np.minimum(judge.decay_scores(memory), limit).tolist()),
            kept=frozenset(self.kept).intersection(memory.kept) or frozenset(memory.kept),
            steps=tuple(self.first_step[block] for block in memory.kept),
            trace=tuple(self.trace),
            relevance=max(memory.relevance, default=0.0),
        )
