"""Training windows (CogLTX §3.3, algorithm 1): the input of judge and reasoner for an example in one epoch.

Every choice is drawn from a generator of (seed, epoch, example), so it does not depend on anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
class JudgeTarget:
    """A judge's training window with the label of every block of the document."""

    window: Window
    relevant: Bool[np.ndarray, " blocks"]

    def token_labels(self) -> tuple[Float[np.ndarray, " tokens"], Bool[np.ndarray, " tokens"]]:
        """Return a label and a weight per token; the query is relevant (eq. 4), separators have weight 0."""
        in_block = self.window.block >= 0
        labels = np.where(in_block, self.relevant[self.window.block], False).astype(np.float32)
        weights = in_block.copy()
        labels[: self.window.n_prefix] = 1
        weights[: self.window.n_prefix] = True
        return labels, weights


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
    gold += [int(block) for block in np.flatnonzero(labels) if int(block) not in gold]
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
    labels: Bool[np.ndarray, " blocks"] | None,
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
) -> list[JudgeTarget]:
    """Build the two windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    Args:
        layout: the query and the document.
        labels: the relevant blocks; without labels there is no window.
        rng: generator of this example and epoch.
        scores: coarse scores of an earlier epoch; the best-scoring irrelevant blocks then fill half of (relv).
    """
    if labels is None:
        return []
    blocks, room = layout.blocks, layout.room
    if blocks.total_size(range(len(blocks))) <= room:
        return [JudgeTarget(layout.window(range(len(blocks))), labels)]
    relevant = [int(block) for block in np.flatnonzero(labels)]
    memory = _random_memory(relevant, blocks, room, rng)
    run = _random_run(relevant, memory, blocks, room, rng)
    rehearsed = _rehearsed(relevant, blocks, room, rng, scores)
    return [
        JudgeTarget(layout.window([*memory, *run]), labels),
        JudgeTarget(layout.window(rehearsed), labels),
    ]


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
    targets = [
        _filled(reasoner, example, layout, memrecall, gold, block_scores, by_judge=by_judge)
        for example, layout, gold, block_scores in zip(examples, layouts, golds, scores, strict=True)
    ]
    return targets, [
        np.full(len(block_scores), np.nan) if layout.fits else block_scores
        for block_scores, layout in zip(scores, layouts, strict=True)
    ]


def _filled(
    reasoner: Reasoner[Any],
    example: Example,
    layout: Layout,
    memrecall: MemRecall,
    gold: list[int],
    scores: Float[np.ndarray, " blocks"],
    *,
    by_judge: bool,
) -> ReasonerTarget | None:
    blocks, most_blocks = layout.blocks, memrecall.config.most_blocks
    max_others = None if layout.fits or most_blocks is None else max(0, most_blocks - len(gold))
    others = scores.copy()
    others[gold] = np.nan
    if by_judge:
        others = memrecall.compete(others, dict.fromkeys(gold, 1.0), memrecall.lexical_bonus(layout))
    added = fill(others, blocks, layout.room - blocks.total_size(gold), max_others)
    window = layout.window(sorted([*gold, *added]))
    target = reasoner.target(example, blocks, window)
    return ReasonerTarget(layout, window, target) if target is not None else None


def drawn_windows(
    reader: WindowReader, example: Example, rng: np.random.Generator, count: int | None
) -> list[ReasonerTarget]:
    """Draw ``count`` of the windows of a document as at inference, all if None; keeps those with a known target.

    A baseline's windows cover the document. In a CogLTX window, a block is the query and MemRecall selects the rest.
    """
    reasoner, layout = reader.model.reasoner, reader.model.layout(example.document, example.query)
    if isinstance(reader, CogLTX):
        windows: Iterable[Window] = reader.windows_by_block(layout, _drawn(len(layout.blocks), rng, count))
    else:
        assert isinstance(reader, SlidingWindow)
        every_window = reader.windows(layout)
        windows = [every_window[index] for index in _drawn(len(every_window), rng, count)]
    targets = ((window, reasoner.target(example, layout.blocks, window)) for window in windows)
    return [ReasonerTarget(layout, window, target) for window, target in targets if target is not None]


def _drawn(total: int, rng: np.random.Generator, count: int | None) -> list[int]:
    return sorted(rng.permutation(total)[:count].tolist())


def baseline_window(reader: SlidingWindow, example: Example, rng: np.random.Generator) -> ReasonerTarget | None:
    """Select one window of a baseline: half of the time one with the answer, else any window.

    For yes and no, the windows with relevant blocks count as those with the answer.
    """
    reasoner = reader.model.reasoner
    layout = reader.model.layout(example.document, example.query)
    windows = reader.windows(layout)
    targets = [reasoner.target(example, layout.blocks, window) for window in windows]
    labels, negative = layout.blocks.relevance_labels(example), reasoner.negative_target()
    if negative is not None and not example.answer_spans and labels is not None and labels.any():
        has_relevant = [labels[window.blocks].any() for window in windows]
        targets = [target if relevant else negative for relevant, target in zip(has_relevant, targets, strict=True)]
    known = [
        ReasonerTarget(layout, window, target)
        for window, target in zip(windows, targets, strict=True)
        if target is not None
    ]
    answering = [item for item in known if not reasoner.is_negative(item.target)]
    pool = answering if answering and rng.random() < 0.5 else known
    return pool[int(rng.integers(len(pool)))] if pool else None
