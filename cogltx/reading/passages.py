"""The reasoner reads the blocks of z, as in the paper, or whole passages: paragraphs, which share the window.

Training builds the reasoner's windows by the same function, ``passages_of``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from cogltx.blocks import Blocks
from cogltx.document import Query
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.judges.base import Judge
from cogltx.reading.pairs import PairModel
from cogltx.recall import BlockScores, Recall, Search


def read_blocks(searches: Sequence[Search], judge: Judge) -> list[Recall]:
    """Read all of z: the blocks that stay, and those that fill the window."""
    return [search.read(search.z, judge) for search in searches]


@dataclass(frozen=True)
class Passages:
    """Reads the best passages: of twice as many, which the judge scores together, or those that a question needs.

    Args:
        count: number of passages.
        pairs: a model of which two passages a question needs together; it replaces the judge's choice. The score of a
            key block is then the mean of the judge's and the probability of its passage.
        rehearse: let the judge score the passages together.
    """

    count: int
    pairs: PairModel | None = None
    rehearse: bool = True

    def __call__(self, searches: Sequence[Search], judge: Judge) -> list[Recall]:
        """Choose the passages of each document; one that fits the window is read whole."""
        needed = [self._needed(search, judge) for search in searches]
        long = [number for number, search in enumerate(searches) if not search.layout.fits]
        proposed = {number: self._proposed(searches[number], needed[number]) for number in long}
        self._rehearse([(searches[number], proposed[number]) for number in long], judge)
        read = {number: self._best(searches[number], proposed[number], needed[number], judge) for number in long}
        self._rehearse([(searches[n], read[n]) for n in long if set(read[n]) != set(proposed[n])], judge)
        return [
            self._recall(search, read.get(number, search.z), needed[number], judge)
            for number, search in enumerate(searches)
        ]

    def _needed(self, search: Search, judge: Judge) -> dict[int, float]:
        """Compute the probability that the question needs each passage; empty without a model of pairs."""
        if self.pairs is None:
            return {}
        if not isinstance(search.layout.query, Query):
            raise ConfigError("memrecall.pairs needs a question; set it to false for tasks without one")
        scores = _probabilities(search.known_relevance, search, judge)
        return self.pairs.probabilities(search.layout.query.text, search.layout.blocks, scores)

    def _proposed(self, search: Search, needed: dict[int, float]) -> list[int]:
        """Select the passages that are needed, or twice as many as are read, around the best blocks of z."""
        scores, paragraphs = np.nan_to_num(search.known_relevance, nan=-np.inf), search.layout.blocks.paragraphs
        best = [int(np.where(paragraphs == number, scores, -np.inf).argmax()) for number in needed]
        count = self.count if needed or not self.rehearse else 2 * self.count
        return [*chain(*passages_of([*best, *search.z], search.layout, count))]

    def _rehearse(self, chosen: Sequence[tuple[Search, Sequence[int]]], judge: Judge) -> None:
        """Let the judge score blocks together; without rehearsal, their coarse scores count."""
        new = [(search, search.memory(blocks)) for search, blocks in chosen]
        fine = judge.rehearse([memory for _, memory in new]) if self.rehearse and new else [None] * len(new)
        for (search, memory), scores in zip(new, fine, strict=True):
            if scores is None:
                scores = np.nan_to_num(search.known_relevance)[list(memory.kept)]
            search.rehearsed(memory.kept, scores)
            for block in memory.kept:
                search.first_step.setdefault(block, len(search.trace))

    def _best(self, search: Search, proposed: list[int], needed: dict[int, float], judge: Judge) -> list[int]:
        """Select the best of the proposed passages, as far as their paragraphs and the window reach."""
        if needed or not self.rehearse:
            return proposed
        return [*chain(*passages_of(search.best_first(proposed, judge), search.layout, self.count))]

    def _recall(self, search: Search, read: Sequence[int], needed: dict[int, float], judge: Judge) -> Recall:
        """Return what is read; with a model of pairs, its probabilities count in the scores."""
        recall = search.read(read, judge)
        if not needed:
            return recall
        numbers = search.layout.blocks.paragraphs[list(recall.key_blocks)].tolist()
        probabilities = np.array([needed.get(number, 0.0) for number in numbers])
        scores = _probabilities(np.array(recall.scores), search, judge)
        return replace(recall, scores=tuple(((scores + probabilities) / 2).tolist()))


def _probabilities(scores: BlockScores, search: Search, judge: Judge) -> BlockScores:
    """Bring scores into [0, 1]; those of a judge without probabilities by the document's lowest and highest."""
    known, low, high = search.known_relevance, 0.0, 1.0
    if not judge.probabilities:
        low, high = float(np.nanmin(known)), float(np.nanmax(known))
    return np.asarray(np.clip((scores - low) / (high - low or 1.0), 0.0, 1.0))


def passages_of(ranked: Sequence[int], layout: Layout, count: int, certain: Sequence[int] = ()) -> list[list[int]]:
    """Share a window among the passages of the best blocks.

    A passage is a block's paragraph, or what fits of it: the blocks nearest to the best one. Better passages come
    first, and leave half of an equal share to each that follows. What is left at the end goes to them in this order.

    Args:
        ranked: blocks, best first.
        layout: the query and the document.
        count: number of passages.
        certain: blocks that are read in any case; their passages come first, and may be more than ``count``.

    Returns:
        the blocks of each passage, in document order; the best passage first.
    """
    blocks, unread, room = layout.blocks, set(layout.candidates), layout.room - layout.blocks.total_size(certain)
    cost = {block: 0 if block in certain else int(blocks.sizes[block]) for block in unread}
    passages: dict[int, list[int]] = {}
    for block in [*certain, *ranked]:
        if len(passages) >= count and block not in certain:
            break
        if block in unread and cost[block] <= room:
            reserve = layout.room // (2 * count) * max(0, count - len(passages) - 1)
            passages[block] = _nearest(block, unread, cost, max(room - reserve, cost[block]), blocks)
            room -= sum(map(cost.__getitem__, passages[block]))
            unread.difference_update(passages[block])
    for block, passage in passages.items():
        more = _nearest(block, unread, cost, room, blocks)
        room -= sum(map(cost.__getitem__, more))
        unread.difference_update(more)
        passage += more
    return [sorted(passage) for passage in passages.values()]


def _nearest(block: int, unread: set[int], cost: Mapping[int, int], room: int, blocks: Blocks) -> list[int]:
    """Select the unread blocks of a block's paragraph that fit together, the nearest first."""
    number = blocks.paragraphs[block]
    first, end = np.searchsorted(blocks.paragraphs, [number, number + 1]).tolist()
    around = sorted(unread.intersection(range(first, end)), key=lambda one: (abs(one - block), one))
    totals = accumulate(map(cost.__getitem__, around))
    return [one for one, total in zip(around, totals, strict=True) if total <= room]
