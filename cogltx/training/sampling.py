"""Training windows (CogLTX §3.3, algorithm 1): the input of judge and reasoner for an example in one epoch.

Every choice is drawn from a generator of (seed, epoch, example), so it does not depend on anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cogltx.baselines import SlidingWindow, WindowReader
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.layout import Layout, Window
from cogltx.judges import Memory
from cogltx.memrecall import MemRecall, fill
from cogltx.pipeline import CogLTX
from cogltx.reasoners import Reasoner

_WITH_MEMORY = 0.5  # share of retrieval windows with relevant blocks in z, as in MemRecall's later steps
_NEAR_RELEVANT = 0.5  # share of retrieval windows whose run certainly contains a relevant block


@dataclass(frozen=True)
class ReasonerTarget:
    """A reasoner's training window, its query and document, and what the reasoner should predict."""

    layout: Layout
    window: Window
    target: Any


def gold_blocks(example: Example, layout: Layout, labels: Bool[np.ndarray, " blocks"]) -> list[int]:
    """Select the blocks that a reasoner must see, as far as they fit: those of the answer first, then relevant ones."""
    blocks = layout.blocks
    gold = [block for span in example.answer_spans[:1] for block in blocks.overlapping(span.start, span.end)]
    gold += [block for block in np.flatnonzero(labels).tolist() if block not in gold]
    return _fitting(gold, blocks, layout.room)


def _fitting(candidates: Iterable[int], blocks: Blocks, room: int) -> list[int]:
    chosen = []
    for block in candidates:
        if blocks.sizes[block] <= room:
            chosen.append(block)
            room -= int(blocks.sizes[block])
    return chosen


def judge_windows(
    layout: Layout,
    labels: Bool[np.ndarray, " blocks"],
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
) -> list[Window]:
    """Build the two windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    Args:
        layout: the query and the document.
        labels: the relevant blocks.
        rng: generator of this example and epoch.
        scores: coarse scores of an earlier epoch; the best-scoring irrelevant blocks then fill half of (relv).
    """
    blocks, room = layout.blocks, layout.room
    if blocks.total_size(range(len(blocks))) <= room:
        return [layout.window(range(len(blocks)))]
    relevant = np.flatnonzero(labels).tolist()
    memory = _random_memory(relevant, blocks, room, rng)
    run = _random_run(relevant, memory, blocks, room, rng)
    return [layout.window([*memory, *run]), layout.window(_rehearsed(relevant, blocks, room, rng, scores))]


def _random_memory(relevant: list[int], blocks: Blocks, room: int, rng: np.random.Generator) -> list[int]:
    """Half of the time some of the relevant blocks, as in z in a later step of MemRecall."""
    if len(relevant) < 2 or rng.random() >= _WITH_MEMORY:
        return []
    candidates = rng.permutation(relevant)[: rng.integers(1, len(relevant))].tolist()
    return sorted(_fitting(candidates, blocks, min(room // 2, room - blocks.max_size)))


def _random_run(
    relevant: list[int], memory: list[int], blocks: Blocks, room: int, rng: np.random.Generator
) -> list[int]:
    """Consecutive blocks outside z, half of the time around a relevant one."""
    candidates = [block for block in range(len(blocks)) if block not in set(memory)]
    remaining = [block for block in relevant if block not in set(memory)]
    near = remaining and rng.random() < _NEAR_RELEVANT
    anchor = int(rng.choice(remaining)) if near else int(rng.choice(candidates))
    room -= blocks.total_size(memory)
    before = room * rng.random()
    first = last = candidates.index(anchor)
    room -= int(blocks.sizes[anchor])
    while first > 0 and blocks.sizes[candidates[first - 1]] <= min(room, before):
        first -= 1
        room -= int(blocks.sizes[candidates[first]])
        before -= int(blocks.sizes[candidates[first]])
    while last + 1 < len(candidates) and blocks.sizes[candidates[last + 1]] <= room:
        last += 1
        room -= int(blocks.sizes[candidates[last]])
    return candidates[first : last + 1]


def _rehearsed(
    relevant: list[int],
    blocks: Blocks,
    room: int,
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
) -> list[int]:
    """All relevant blocks that fit, and irrelevant blocks up to the capacity."""
    chosen = _fitting(rng.permutation(relevant).tolist(), blocks, room)
    room -= blocks.total_size(chosen)
    others = np.setdiff1d(np.arange(len(blocks)), relevant)
    if scores is not None:
        hard = np.full(len(blocks), np.nan)
        hard[others] = scores[others]
        best = fill(hard, blocks, room // 2)
        chosen += best
        room -= blocks.total_size(best)
        others = np.setdiff1d(others, best)
    return sorted(chosen + _fitting(rng.permutation(others).tolist(), blocks, room))


def reasoner_windows(
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    layouts: Sequence[Layout],
    relevance: Sequence[Bool[np.ndarray, " _"] | None],
    memrecall: MemRecall,
    rngs: Sequence[np.random.Generator],
    *,
    by_judge: bool = True,
) -> tuple[list[ReasonerTarget | None], list[Float[np.ndarray, " blocks"]]]:
    """Build windows of all relevant blocks and the judge's best-scoring others, filled to the capacity as at inference.

    The others are ranked by the retrieval competition after the relevant blocks, which is MemRecall's last.

    Args:
        reasoner: provides the targets.
        examples: the examples.
        layouts: their queries and documents.
        relevance: their relevant blocks; None where unknown.
        memrecall: the competition at inference; for ``neighbour_bonus`` relevant blocks have the score 1.
        rngs: one generator per example.
        by_judge: rank the other blocks by scores; otherwise they are random (the paper's ablation).

    Returns:
        a window per example, None where its target is unknown; and the scores of all blocks, NaN where the document is
        read whole without the judge.
    """
    golds, memories = [], []
    for example, layout, labels in zip(examples, layouts, relevance, strict=True):
        blocks, room = layout.blocks, layout.room
        gold = gold_blocks(example, layout, np.zeros(len(blocks), dtype=bool) if labels is None else labels)
        golds.append(gold)
        kept = _fitting(gold, blocks, min(room // 2, room - blocks.max_size))
        memories.append(Memory(layout, tuple(sorted(kept))))
    scores = [rng.random(len(layout.blocks)) for layout, rng in zip(layouts, rngs, strict=True)]
    if by_judge:
        contested = [index for index, layout in enumerate(layouts) if not layout.fits]
        coarse = memrecall.judge.retrieve([memories[index] for index in contested]) if contested else []
        for index, block_scores in zip(contested, coarse, strict=True):
            scores[index] = block_scores
    targets, most_blocks = [], memrecall.config.most_blocks
    for index, (example, layout, gold) in enumerate(zip(examples, layouts, golds, strict=True)):
        blocks, others = layout.blocks, scores[index].copy()
        others[gold] = np.nan
        if by_judge:
            others = memrecall.compete(others, dict.fromkeys(gold, 1.0), memrecall.lexical_bonus(layout))
        max_others = None if layout.fits or most_blocks is None else max(0, most_blocks - len(gold))
        added = fill(others, blocks, layout.room - blocks.total_size(gold), max_others)
        window = layout.window(sorted([*gold, *added]))
        target = reasoner.target(example, blocks, window)
        targets.append(None if target is None else ReasonerTarget(layout, window, target))
        if layout.fits:
            scores[index] = np.full(len(blocks), np.nan)
    return targets, scores


def drawn_windows(
    reader: WindowReader, example: Example, rng: np.random.Generator, count: int | None
) -> list[ReasonerTarget]:
    """Draw windows of a document as at inference; keeps those with a known target.

    A baseline's windows cover the document. In a CogLTX window, a block is the query and MemRecall selects the rest.

    Args:
        reader: the model.
        example: the document, and what is known of it.
        rng: generator of this example and epoch.
        count: number of windows; None: all if they are joined or every block is a query, otherwise one.
    """
    reasoner, layout = reader.model.reasoner, reader.model.layout(example.document, example.query)
    several = reasoner.by_block or reasoner.joins_windows or count is not None
    if isinstance(reader, CogLTX):
        windows = list(reader.windows_by_block(layout, _drawn(len(layout.blocks), rng, count)))
    else:
        assert isinstance(reader, SlidingWindow)
        windows = reader.windows(layout)
        if several:
            windows = [windows[index] for index in _drawn(len(windows), rng, count)]
    items = [ReasonerTarget(layout, window, reasoner.target(example, layout.blocks, window)) for window in windows]
    if not several:
        return _one_of(items, reasoner, example, rng)
    return [item for item in items if item.target is not None]


def _drawn(total: int, rng: np.random.Generator, count: int | None) -> list[int]:
    return sorted(rng.permutation(total)[:count].tolist())


def _one_of(
    items: list[ReasonerTarget], reasoner: Reasoner[Any], example: Example, rng: np.random.Generator
) -> list[ReasonerTarget]:
    """Select one window: half of the time one with the answer (for yes and no: with relevant blocks), else any."""
    labels, negative = items[0].layout.blocks.relevance_labels(example), reasoner.negative_target()
    if negative is not None and not example.answer_spans and labels is not None and labels.any():
        items = [item if labels[item.window.blocks].any() else replace(item, target=negative) for item in items]
    known = [item for item in items if item.target is not None]
    answering = [item for item in known if not reasoner.is_negative(item.target)]
    pool = answering if answering and rng.random() < 0.5 else known
    return [pool[int(rng.integers(len(pool)))]] if pool else []
