"""MemRecall: finds the key blocks of documents by retrieval, rehearsal and decay (paper §3.2), many documents at once.

    z = nothing but the query
    for each step with stride s:
        retrieve   coarse scores of all blocks outside z; the best enter z while they fit the window
        rehearse   fine scores of the blocks in z, all seeing each other
        decay      the s blocks more than before with the highest fine scores stay in z, the others leave it

After the last step the window is not emptied: z filled up to the capacity is what the reasoner is trained on (or the
best so many blocks of it), and the blocks that outlive the last decay are marked as kept. So after step k,
s_1 + … + s_k blocks are kept; one kept earlier can fall out. In between, z takes at most half of the room (or one
block), so that retrieval can compete.
A document that fits one window is read whole. Where the query is a block of the document, it is no candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field

from cogltx.blocks import Asked, BlockQuery, Blocks
from cogltx.competition import Competition, fill
from cogltx.encoding.layout import WindowFormat
from cogltx.judges.base import Judge, Memory


class MemRecallConfig(BaseModel):
    """How key blocks are found.

    Attributes:
        capacity: L, tokens in a window.
        strides: how many more blocks each step keeps.
        rehearse: give fine scores and decay by them; without, coarse scores decide.
        neighbour_bonus: share of its better neighbour's score that a block gains in the competition for z, so that the
            sentence before a strong one, which may hold what it refers to, comes along; 0 is the paper's.
        lexical_bonus: share of its BM25 score (the best block's of the document counts as 1) that a block gains in the
            competition for z, and in decay; it helps where questions repeat words of the document. 0 is the paper's.
        most_blocks: how many of the blocks in z the reasoner reads, the best by fine score and lexical bonus; None: all
            (the paper's). A small reasoner errs less among few blocks, where the judge is sure of the best.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    capacity: int = Field(512, ge=32)
    strides: tuple[Annotated[int, Field(ge=1)], ...] = Field((3, 5), min_length=1)
    rehearse: bool = True
    neighbour_bonus: float = Field(0.0, ge=0)
    lexical_bonus: float = Field(0.0, ge=0)
    most_blocks: int | None = Field(None, ge=1)


@dataclass(frozen=True)
class Step:
    """One step of MemRecall.

    Attributes:
        coarse: the score of every block in the retrieval competition; NaN for those already in z.
        retrieved: the blocks that entered z, best first.
        fine: the score of every block in z after rehearsal.
        kept: the blocks that stay, best first.
        decayed: the blocks that leave z (at the last step: that only fill the window), best first.
    """

    coarse: Float[np.ndarray, " blocks"]
    retrieved: tuple[int, ...]
    fine: dict[int, float]
    kept: tuple[int, ...]
    decayed: tuple[int, ...]

    @property
    def ranked(self) -> tuple[int, ...]:
        """All blocks in z after rehearsal, best first."""
        return (*self.kept, *self.decayed)


@dataclass(frozen=True)
class Recall:
    """The key blocks of a document.

    Attributes:
        query: what was asked.
        blocks: the document.
        key_blocks: the paper's z, filled up to the capacity or to ``most_blocks``, in document order.
        scores: the fine score of each key block.
        kept: the key blocks that outlived the last decay.
        steps: the step that retrieved each key block, from 1; 0 where the document was read whole.
        trace: what happened at each step.
    """

    query: Asked
    blocks: Blocks
    key_blocks: tuple[int, ...]
    scores: tuple[float, ...]
    kept: frozenset[int]
    steps: tuple[int, ...]
    trace: tuple[Step, ...]


@dataclass
class _Search:
    """One document on its way through MemRecall."""

    query: Asked
    blocks: Blocks
    room: int
    whole: bool
    words: Float[np.ndarray, " blocks"]
    kept: list[int] = field(default_factory=list)
    allowance: int = 0
    first_seen: dict[int, int] = field(default_factory=dict)
    fine: dict[int, float] = field(default_factory=dict)
    trace: list[Step] = field(default_factory=list)

    def memory(self, kept: Sequence[int]) -> Memory:
        return Memory(self.query, self.blocks, tuple(sorted(kept)))

    def standing(self, competition: Competition, coarse: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        kept = {block: self.fine[block] for block in self.kept}
        return competition.standing(coarse, kept, self.words)


class MemRecall:
    """Finds key blocks.

    Args:
        judge: scores blocks.
        form: how windows are laid out; its capacity counts.
        config: strides and options.
    """

    def __init__(self, judge: Judge, form: WindowFormat, config: MemRecallConfig) -> None:
        self.judge = judge
        self.form = form
        self.config = config
        self.competition = Competition(config.neighbour_bonus, config.lexical_bonus)

    def __call__(self, items: Sequence[tuple[Asked, Blocks]]) -> list[Recall]:
        """Key blocks of each document for its query.

        Raises:
            DataError: a query leaves no room for one block.
        """
        searches = [self._begin(query, blocks) for query, blocks in items]
        short = [search for search in searches if search.whole]
        long = [search for search in searches if not search.whole]
        if short:
            self._read_whole(short)
        if long:
            for number, stride in enumerate(self.config.strides, start=1):
                self._step(long, number, stride)
        return [self._result(search) for search in searches]

    def _begin(self, query: Asked, blocks: Blocks) -> _Search:
        room = self.form.room(self.form.prefix(query, int(blocks.sizes.max())))
        size = int(blocks.sizes.sum()) - (int(blocks.sizes[query.block]) if isinstance(query, BlockQuery) else 0)
        return _Search(query, blocks, room, size <= room, self.competition.words(query, blocks))

    def _read_whole(self, searches: Sequence[_Search]) -> None:
        memories = [search.memory(search.memory([]).candidates) for search in searches]
        for search, memory, fine in zip(searches, memories, self._rehearse(memories), strict=True):
            search.kept = list(memory.kept)
            search.first_seen = dict.fromkeys(memory.kept, 0)
            search.fine = dict(zip(memory.kept, fine.tolist(), strict=True))

    def _rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Fine scores; the judge is not asked about an empty z, as of a document that is one block, the query."""
        found = iter(self.judge.rehearse([memory for memory in memories if memory.kept]))
        return [next(found) if memory.kept else np.empty(0) for memory in memories]

    def _step(self, searches: Sequence[_Search], number: int, stride: int) -> None:
        coarse = self.judge.retrieve([search.memory(search.kept) for search in searches])
        competing = [search.standing(self.competition, scores) for search, scores in zip(searches, coarse, strict=True)]
        retrieved = [_fill(search, scores) for search, scores in zip(searches, competing, strict=True)]
        memories = [search.memory([*search.kept, *new]) for search, new in zip(searches, retrieved, strict=True)]
        fine = self._rehearse(memories) if self.config.rehearse else None
        last = number == len(self.config.strides)
        for index, (search, memory) in enumerate(zip(searches, memories, strict=True)):
            for block in retrieved[index]:
                search.first_seen.setdefault(block, number)
                search.fine[block] = float(coarse[index][block])
            if fine is not None:
                search.fine.update(zip(memory.kept, fine[index].tolist(), strict=True))
            value = {block: search.fine[block] + search.words[block] for block in memory.kept}
            ranked = sorted(memory.kept, key=lambda block: (-value[block], block))
            search.allowance += stride
            kept = ranked[: search.allowance] if last else _affordable(search, ranked)
            decayed = [block for block in ranked if block not in set(kept)]
            scores = {block: search.fine[block] for block in memory.kept}
            search.trace.append(Step(coarse[index], tuple(retrieved[index]), scores, tuple(kept), tuple(decayed)))
            search.kept = kept
            if not last:
                for block in decayed:
                    search.first_seen.pop(block)

    def _result(self, search: _Search) -> Recall:
        key_blocks = tuple(sorted(search.trace[-1].ranked[: self.config.most_blocks] if search.trace else search.kept))
        return Recall(
            query=search.query,
            blocks=search.blocks,
            key_blocks=key_blocks,
            scores=tuple(search.fine[block] for block in key_blocks),
            kept=frozenset(search.kept).intersection(key_blocks),
            steps=tuple(search.first_seen[block] for block in key_blocks),
            trace=tuple(search.trace),
        )


def _fill(search: _Search, scores: Float[np.ndarray, " blocks"]) -> list[int]:
    """The best-scoring blocks that fit beside z, best first; one that does not fit is skipped."""
    taken = int(search.blocks.sizes[search.kept].sum()) if search.kept else 0
    return fill(scores, search.blocks, search.room - taken)


def _affordable(search: _Search, ranked: Sequence[int]) -> list[int]:
    """The best blocks within the allowance that any other block fits beside, and, from the second, half of the room."""
    sizes = search.blocks.sizes
    kept: list[int] = []
    for block in ranked[: search.allowance]:
        used = int(sizes[[*kept, block]].sum())
        largest_other = int(np.delete(sizes, [*kept, block]).max(initial=0))
        if used + largest_other > search.room or (kept and used > search.room // 2):
            break
        kept.append(block)
    return kept
