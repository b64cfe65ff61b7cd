"""The reasoner reads whole passages: the paragraphs of the best blocks, which share the window.

Training builds the reasoner's windows by the same function, ``passages_of``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from cogltx.blocks import Blocks
from cogltx.document import Query
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.judges.base import Judge
from cogltx.reading.pairs import PairModel
from cogltx.recall import BlockScores, Recall, Search


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
        proposed = [self._proposed(search, passages) for search, passages in zip(searches, needed, strict=True)]
        long = [number for number, search in enumerate(searches) if not search.layout.fits]
        if self.rehearse and long:
            memories = [searches[number].memory(list(chain.from_iterable(proposed[number]))) for number in long]
            for number, memory, fine in zip(long, memories, judge.rehearse(memories), strict=True):
                searches[number].rehearsed(memory.kept, fine)
        return [
            self._recall(search, passages, probabilities, judge)
            for search, passages, probabilities in zip(searches, proposed, needed, strict=True)
        ]

    def _needed(self, search: Search, judge: Judge) -> dict[int, float]:
        """Compute the probability that the question needs each passage; empty without a model of pairs."""
        if self.pairs is None:
            return {}
        if not isinstance(search.layout.query, Query):
            raise ConfigError("memrecall.pairs needs a question; set it to false for tasks without one")
        scores = _probabilities(search.known_relevance, search, judge)
        return self.pairs.probabilities(search.layout.query.text, search.layout.blocks, scores)

    def _proposed(self, search: Search, needed: dict[int, float]) -> list[list[int]]:
        """Select the passages to rehearse: those that are needed, then those of the best blocks of z."""
        scores, paragraphs = search.known_relevance, search.layout.blocks.paragraphs
        scores = np.nan_to_num(scores, nan=float(np.nanmin(scores, initial=0.0)))
        best = [int(np.where(paragraphs == number, scores, -np.inf).argmax()) for number in needed]
        return passages_of([*best, *search.z], search.layout, self.count if needed else 2 * self.count)

    def _recall(self, search: Search, passages: list[list[int]], needed: dict[int, float], judge: Judge) -> Recall:
        """Read the best passages, as far as their paragraphs and the window reach."""
        chosen = search.z
        if not search.layout.fits:
            if self.rehearse and not needed:
                place = {block: place for place, block in enumerate(search.best_first([*chain(*passages)], judge))}
                passages = sorted(passages, key=lambda passage: min(map(place.__getitem__, passage)))
            known = np.nan_to_num(search.known_relevance, nan=-np.inf)
            best = [max(passage, key=known.__getitem__) for passage in passages[: self.count]]
            chosen = list(chain.from_iterable(passages_of(best, search.layout, self.count)))
            _complete(search, chosen)
        recall = search.read(chosen, judge)
        if not needed:
            return recall
        numbers = search.layout.blocks.paragraphs[list(recall.key_blocks)].tolist()
        probabilities = np.array([needed.get(number, 0.0) for number in numbers])
        scores = _probabilities(np.array(recall.scores), search, judge)
        return replace(recall, scores=tuple(((scores + probabilities) / 2).tolist()))


def _complete(search: Search, blocks: Sequence[int]) -> None:
    """Give blocks that were not in z a step, and those that were not rehearsed their coarse score or the lowest one."""
    known = search.known_relevance
    lowest = float(np.nanmin(known, initial=0.0))
    for block in blocks:
        search.first_step.setdefault(block, len(search.trace))
        search.relevance.setdefault(block, float(np.nan_to_num(known[block], nan=lowest)))


def _probabilities(scores: BlockScores, search: Search, judge: Judge) -> BlockScores:
    """Bring scores into [0, 1]; those of a judge without probabilities by the document's lowest and highest."""
    known, low, high = search.known_relevance, 0.0, 1.0
    if not judge.probabilities:
        low, high = float(np.nanmin(known)), float(np.nanmax(known))
    return np.asarray(np.clip((scores - low) / (high - low or 1.0), 0.0, 1.0))


def passages_of(ranked: Sequence[int], layout: Layout, count: int, certain: Sequence[int] = ()) -> list[list[int]]:
    """Share a window among the passages of the best blocks.

    Each passage grows from its best block to the blocks of the same paragraph, the nearest first. The smallest passage
    grows next, so that short paragraphs are read whole and long ones share the rest, until no block fits. A block that
    an earlier passage reaches within an equal share of the window does not begin another one.

    Args:
        ranked: blocks, best first.
        layout: the query and the document.
        count: number of passages.
        certain: blocks that are read in any case; their passages come first, and may be more than ``count``.

    Returns:
        the blocks of each passage, in document order; the best passage first.
    """
    blocks, share = layout.blocks, layout.room // count
    left, free, reached = set(certain), set(layout.candidates).difference(certain), set[int]()
    passages: list[_Passage] = []
    for block in [*certain, *ranked]:
        if block in reached or (block not in free and block not in certain):
            continue
        if len(passages) >= count and block not in certain:
            break
        nearest = _nearest(block, layout)
        sizes = np.cumsum(blocks.sizes[nearest])
        reached.update(nearest[: max(1, int(np.searchsorted(sizes, share, side="right")))])
        own = [one for one in nearest if one in reached and one in left]
        left.difference_update(own)
        passages.append(_Passage(own, nearest))
    _grow(passages, blocks, free, layout.room - blocks.total_size(certain))
    return [sorted(passage.blocks) for passage in passages if passage.blocks]


@dataclass
class _Passage:
    """A passage that grows: its blocks so far, and all blocks of its paragraph, the nearest to its best one first."""

    blocks: list[int]
    nearest: list[int]


def _nearest(block: int, layout: Layout) -> list[int]:
    """Sort the candidates of a block's paragraph by their distance from the block."""
    paragraphs, candidates = layout.blocks.paragraphs, set(layout.candidates)
    first, end = np.searchsorted(paragraphs, [paragraphs[block], paragraphs[block] + 1]).tolist()
    return sorted(candidates.intersection(range(first, end)), key=lambda one: (abs(one - block), one))


def _grow(passages: Sequence[_Passage], blocks: Blocks, free: set[int], room: int) -> None:
    """Grow the smallest passage by its nearest free block, the better one of equal ones, until no block fits."""
    growing = list(passages)
    while growing:
        passage = min(growing, key=lambda one: blocks.total_size(one.blocks))
        rest = [block for block in passage.nearest if block in free]
        best = passage.nearest[0]
        if not rest or (rest[0] == best and int(blocks.sizes[best]) > room):
            growing.remove(passage)
        elif int(blocks.sizes[rest[0]]) <= room:
            passage.blocks.append(rest[0])
            free.discard(rest[0])
            room -= int(blocks.sizes[rest[0]])
        else:  # it ends here; on the other side of its best block it may grow
            passage.nearest = [best, *(block for block in rest if (block > best) != (rest[0] > best))]
