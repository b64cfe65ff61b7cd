"""The windows that judge and reasoner are trained on (CogLTX §3.3, algorithm 1): random ones, or as at inference."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from cogltx.baselines import SlidingWindow, WindowReader
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.layout import Layout, Window
from cogltx.judges import Judge, Memory
from cogltx.memrecall import fill
from cogltx.pipeline import CogLTX
from cogltx.reading import passages_of
from cogltx.reasoners import Reasoner
from cogltx.training._interventions import ReasonerTarget
from cogltx.training.config import ReasonerBlocks, TrainingConfig

_ANSWER_SHARE = 0.5  # of a baseline's windows that hold the answer for certain

Relevant = Bool[np.ndarray, " blocks"]


def layouts_of(
    reader: WindowReader,
    example: Example,
    rng: np.random.Generator,
    config: TrainingConfig,
    wanted: Callable[[Layout], bool] = lambda layout: True,
) -> Iterator[Layout]:
    """Lay out a document with its query; where blocks are queries, with each one, or with ``windows`` random ones.

    ``wanted`` leaves out layouts.
    """
    layout = reader.model.layout(example.document, example.query)
    layouts = list(filter(wanted, reader.model.reasoner.layouts(layout)))
    return (layouts[number] for number in _drawn(len(layouts), rng, config.windows))


def judge_windows(
    layout: Layout, labels: Relevant, rng: np.random.Generator, config: TrainingConfig, judge: Judge
) -> list[Window]:
    """Build the windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    With a shortlist, irrelevant blocks are of it.
    """
    blocks, room = layout.blocks, layout.room
    if layout.fits:
        return [layout.window(layout.candidates)]
    relevant, candidates = np.flatnonzero(labels).tolist(), judge.shortlisted(Memory(layout)).candidates
    windows = []
    if config.judge_windows == "both":
        windows.append(layout.window(_random_run(sorted({*candidates, *relevant}), blocks, room, rng)))
    others = np.setdiff1d(candidates, relevant)
    return [*windows, layout.window(_rehearsed(relevant, others, blocks, room, rng))]


def _random_run(candidates: list[int], blocks: Blocks, room: int, rng: np.random.Generator) -> list[int]:
    """Select consecutive candidates around a random one, which is at a random place of the window."""
    anchor = int(rng.choice(candidates))
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
    relevant: list[int], others: Int[np.ndarray, " others"], blocks: Blocks, room: int, rng: np.random.Generator
) -> list[int]:
    """Select all relevant blocks that fit, and random irrelevant blocks up to the capacity."""
    chosen = _fitting(rng.permutation(relevant).tolist(), blocks, room)
    room -= blocks.total_size(chosen)
    return sorted(chosen + _fitting(rng.permutation(others).tolist(), blocks, room))


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


def reasoner_windows(
    reader: CogLTX,
    examples: Sequence[Example],
    layouts: Sequence[Layout],
    relevance: Sequence[Bool[np.ndarray, " _"] | None],
    rngs: Sequence[np.random.Generator],
    known: Sequence[Float[np.ndarray, " _"] | None],
    fill_with: ReasonerBlocks = "recall",
) -> tuple[list[ReasonerTarget | None], list[Float[np.ndarray, " blocks"]]]:
    """Build windows of all relevant blocks and the best others, or of their passages, as at inference.

    The others are ranked as in MemRecall's last retrieval, with the relevant blocks in z, unless their scores are
    ``known``; or as ``fill_with`` says. Also returns the scores of all blocks, NaN where the document is read whole.
    """
    golds = [
        gold_blocks(example, layout, np.zeros(len(layout.blocks), dtype=bool) if labels is None else labels)
        for example, layout, labels in zip(examples, layouts, relevance, strict=True)
    ]
    scores = _block_scores(reader, layouts, golds, rngs, known, fill_with)
    targets = []
    for example, layout, gold, coarse in zip(examples, layouts, golds, scores, strict=True):
        competing = coarse.copy()
        competing[gold] = np.nan
        if fill_with != "random":
            memory = Memory(layout, tuple(sorted(gold)), (1.0,) * len(gold))
            competing = reader.memrecall.judge.competition_scores(memory, competing)
        window = layout.window(sorted(_read(layout, gold, competing, reader.config.memrecall.passages)))
        target = reader.model.reasoner.target(example, layout.blocks, window)
        targets.append(None if target is None else ReasonerTarget(layout, window, target))
    return targets, scores


def _block_scores(
    reader: CogLTX,
    layouts: Sequence[Layout],
    golds: Sequence[list[int]],
    rngs: Sequence[np.random.Generator],
    known: Sequence[Float[np.ndarray, " _"] | None],
    fill_with: ReasonerBlocks,
) -> list[Float[np.ndarray, " blocks"]]:
    """Score the blocks that compete for the room that the gold blocks leave; NaN where all blocks fit."""
    scores = [
        np.full(len(layout.blocks), np.nan) if layout.fits or block_scores is None else block_scores
        for layout, block_scores in zip(layouts, known, strict=True)
    ]
    asked = [index for index, layout in enumerate(layouts) if not layout.fits and known[index] is None]
    if fill_with == "random":
        for index in asked:
            candidates = layouts[index].candidates
            scores[index][candidates] = rngs[index].random(len(scores[index]))[candidates]
    elif fill_with == "retriever":
        for index in asked:
            scores[index] = reader.retriever.ranking(Memory(layouts[index]))
    elif asked:
        memories = [_memory_of(layouts[index], golds[index]) for index in asked]
        for index, coarse in zip(asked, reader.memrecall.judge.retrieve(memories), strict=True):
            scores[index] = coarse
    return scores


def _memory_of(layout: Layout, gold: list[int]) -> Memory:
    """The state of MemRecall with the gold blocks in z, as far as they leave room for others."""
    room = min(layout.room // 2, layout.room - layout.blocks.max_size)
    return Memory(layout, tuple(sorted(_fitting(gold, layout.blocks, room))))


def _read(layout: Layout, gold: list[int], competing: Float[np.ndarray, " blocks"], passages: int | None) -> list[int]:
    """Select the gold blocks and the best others, or the passages of both."""
    if layout.fits:
        return layout.candidates
    if passages is None:
        return [*gold, *fill(competing, layout.blocks, layout.room - layout.blocks.total_size(gold))]
    ranked = [block for block in np.argsort(-competing, kind="stable").tolist() if not np.isnan(competing[block])]
    return list(chain.from_iterable(passages_of(ranked, layout, passages, certain=gold)))


def drawn_windows(
    reader: WindowReader, example: Example, rng: np.random.Generator, config: TrainingConfig
) -> list[ReasonerTarget]:
    """Draw windows of a document as at inference; keeps those with a known target.

    A baseline's windows cover the document. In a CogLTX window, a block is the query and MemRecall selects the rest.
    """
    reasoner, layout = reader.model.reasoner, reader.model.layout(example.document, example.query)
    if isinstance(reader, CogLTX):
        windows = [recall.window for recall in reader.recalls(layouts_of(reader, example, rng, config))]
    else:
        assert isinstance(reader, SlidingWindow)
        windows = reader.windows(layout)
        if reasoner.negative_target() is None:
            count = config.windows or reasoner.windows_per_epoch(len(windows))
            windows = [windows[index] for index in _drawn(len(windows), rng, count)]
    items = [ReasonerTarget(layout, window, reasoner.target(example, layout.blocks, window)) for window in windows]
    if reasoner.negative_target() is not None:
        return _with_answers(items, reasoner, example, rng, config)
    return [item for item in items if item.target is not None]


def _drawn(total: int, rng: np.random.Generator, count: int | None) -> list[int]:
    return sorted(rng.permutation(total)[:count].tolist())


def _with_answers(
    items: list[ReasonerTarget],
    reasoner: Reasoner[Any],
    example: Example,
    rng: np.random.Generator,
    config: TrainingConfig,
) -> list[ReasonerTarget]:
    """Draw windows, a share of them from those with the answer (for yes and no: with relevant blocks)."""
    labels, negative = items[0].layout.blocks.relevance_labels(example), reasoner.negative_target()
    if negative is not None and not example.answer_spans and labels is not None and labels.any():
        items = [item if labels[item.window.blocks].any() else replace(item, target=negative) for item in items]
    known = [item for item in items if item.target is not None]
    answering = [item for item in known if not reasoner.is_negative(item.target)]
    drawn: list[ReasonerTarget] = []
    for _ in range(min(config.windows or 1, len(known))):
        pool = answering if answering and rng.random() < _ANSWER_SHARE else known
        item = pool[int(rng.integers(len(pool)))]
        drawn.append(item)
        known = [other for other in known if other is not item]
        answering = [other for other in answering if other is not item]
    return drawn
