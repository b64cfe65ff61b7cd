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
from cogltx.judges import Memory
from cogltx.memrecall import MemRecall, fill, passages_of
from cogltx.pipeline import CogLTX
from cogltx.reasoners import Reasoner
from cogltx.training.config import ReasonerBlocks, TrainingConfig
from cogltx.training.interventions import ReasonerTarget

_REREAD_SHARE = 0.5  # of the reasoner's windows, if it reads some blocks again


def layouts_of(
    reader: WindowReader,
    example: Example,
    rng: np.random.Generator,
    config: TrainingConfig,
    queries: Callable[[int], Sequence[int]] = range,
) -> Iterator[Layout]:
    """Lay out a document with its query; where blocks are queries, with each block, or with ``windows`` random ones.

    ``queries`` returns the blocks that may be queries, from the number of blocks.
    """
    layout = reader.model.layout(example.document, example.query)
    if reader.model.reasoner.by_block:
        blocks = queries(len(layout.blocks))
        yield from (layout.for_block(blocks[number]) for number in _drawn(len(blocks), rng, config.windows))
    else:
        yield layout


def judge_windows(
    layout: Layout,
    labels: Bool[np.ndarray, " blocks"],
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
    config: TrainingConfig,
    memrecall: MemRecall,
) -> list[Window]:
    """Build the windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    With a shortlist, irrelevant blocks are of it. With coarse scores of an earlier epoch, the best-scoring irrelevant
    blocks fill half of (relv).
    """
    blocks, room = layout.blocks, layout.room
    if layout.fits:
        return [layout.window(layout.candidates)]
    relevant = np.flatnonzero(labels).tolist()
    windows = []
    if config.judge_windows == "both":
        memory = random_memory(relevant, blocks, room, rng, config.memory_share)
        candidates = memrecall.shortlisted(Memory(layout, tuple(memory))).candidates
        run = _random_run(relevant, memory, candidates, blocks, room, rng, config.relevant_share)
        windows.append(layout.window([*memory, *run]))
    others = np.setdiff1d(memrecall.shortlisted(Memory(layout)).candidates, relevant)
    return [*windows, layout.window(_rehearsed(relevant, others, blocks, room, rng, scores))]


def random_memory(relevant: list[int], blocks: Blocks, room: int, rng: np.random.Generator, share: float) -> list[int]:
    """With a probability of ``share`` some of the relevant blocks, as in z in a later step of MemRecall."""
    if len(relevant) < 2 or rng.random() >= share:
        return []
    candidates = rng.permutation(relevant)[: rng.integers(1, len(relevant))].tolist()
    return sorted(_fitting(candidates, blocks, min(room // 2, room - blocks.max_size)))


def _random_run(
    relevant: list[int],
    memory: list[int],
    candidates: list[int],
    blocks: Blocks,
    room: int,
    rng: np.random.Generator,
    share: float,
) -> list[int]:
    """Consecutive candidates and relevant blocks, with a probability of ``share`` around a relevant one."""
    remaining = [block for block in relevant if block not in set(memory)]
    candidates = sorted({*candidates, *remaining})
    near = remaining and rng.random() < share
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
    others: Int[np.ndarray, " others"],
    blocks: Blocks,
    room: int,
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
) -> list[int]:
    """All relevant blocks that fit, and irrelevant blocks up to the capacity."""
    chosen = _fitting(rng.permutation(relevant).tolist(), blocks, room)
    room -= blocks.total_size(chosen)
    if scores is not None:
        hard = np.full(len(blocks), np.nan)
        hard[others] = scores[others]
        best = fill(hard, blocks, room // 2)
        chosen += best
        room -= blocks.total_size(best)
        others = np.setdiff1d(others, best)
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
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    layouts: Sequence[Layout],
    relevance: Sequence[Bool[np.ndarray, " _"] | None],
    memrecall: MemRecall,
    rngs: Sequence[np.random.Generator],
    known: Sequence[Float[np.ndarray, " _"] | None],
    fill_with: ReasonerBlocks = "recall",
) -> tuple[list[ReasonerTarget | None], list[Float[np.ndarray, " blocks"]]]:
    """Build windows of all relevant blocks and the best others, or of their passages, as at inference.

    Where the reasoner reads the best of them again, half of the windows, drawn at random, are of this second reading.
    The others are ranked as in MemRecall's last retrieval, with the relevant blocks in z, unless their scores are
    ``known``; or as ``fill_with`` says. Also returns the scores of all blocks, NaN where the document is read whole.
    """
    golds = [
        gold_blocks(example, layout, np.zeros(len(layout.blocks), dtype=bool) if labels is None else labels)
        for example, layout, labels in zip(examples, layouts, relevance, strict=True)
    ]
    scores = _block_scores(layouts, golds, memrecall, rngs, known, fill_with)
    targets = [
        _reasoner_target(reasoner, *document, memrecall, with_bonuses=fill_with != "random")
        for document in zip(examples, layouts, golds, scores, rngs, strict=True)
    ]
    return targets, scores


def _block_scores(
    layouts: Sequence[Layout],
    golds: Sequence[list[int]],
    memrecall: MemRecall,
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
            scores[index] = memrecall.retriever.scores(Memory(layouts[index]))
    elif asked:
        memories = [_memory_of(layouts[index], golds[index]) for index in asked]
        for index, coarse in zip(asked, memrecall.retrieve(memories), strict=True):
            scores[index] = coarse
    return scores


def _memory_of(layout: Layout, gold: list[int]) -> Memory:
    """The state of MemRecall with the gold blocks in z, as far as they leave room for others."""
    room = min(layout.room // 2, layout.room - layout.blocks.max_size)
    return Memory(layout, tuple(sorted(_fitting(gold, layout.blocks, room))))


def _reasoner_target(
    reasoner: Reasoner[Any],
    example: Example,
    layout: Layout,
    gold: list[int],
    scores: Float[np.ndarray, " blocks"],
    rng: np.random.Generator,
    memrecall: MemRecall,
    *,
    with_bonuses: bool,
) -> ReasonerTarget | None:
    """Fill a window with the gold blocks and the best others, or their passages; None without a known target."""
    blocks, most_blocks, passages = layout.blocks, memrecall.config.most_blocks, memrecall.config.passages
    reread = memrecall.config.reread
    if reread is not None and rng.random() < _REREAD_SHARE:
        most_blocks, passages = reread, None if passages is None else reread
    others = scores.copy()
    others[gold] = np.nan
    if with_bonuses:
        others = memrecall.compete(others, dict.fromkeys(gold, 1.0), blocks, memrecall.lexical_bonus(layout))
    if layout.fits:
        chosen = layout.candidates
    elif passages is None:
        max_others = None if most_blocks is None else max(0, most_blocks - len(gold))
        chosen = [*gold, *fill(others, blocks, layout.room - blocks.total_size(gold), max_others)]
    else:
        ranked = [block for block in np.argsort(-others, kind="stable").tolist() if not np.isnan(others[block])]
        chosen = list(chain.from_iterable(passages_of(ranked, layout, passages, certain=gold)))
    window = layout.window(sorted(chosen))
    target = reasoner.target(example, blocks, window)
    return None if target is None else ReasonerTarget(layout, window, target)


def drawn_windows(
    reader: WindowReader, example: Example, rng: np.random.Generator, config: TrainingConfig
) -> list[ReasonerTarget]:
    """Draw windows of a document as at inference; keeps those with a known target.

    A baseline's windows cover the document. In a CogLTX window, a block is the query and MemRecall selects the rest.
    Without a number in the configuration, these are all windows if they are joined or every block is a query,
    otherwise one.
    """
    reasoner, layout = reader.model.reasoner, reader.model.layout(example.document, example.query)
    if isinstance(reader, CogLTX):
        windows = list(reader.windows_by_block(layout, _drawn(len(layout.blocks), rng, config.windows)))
    else:
        assert isinstance(reader, SlidingWindow)
        windows = reader.windows(layout)
        if reasoner.negative_target() is None:
            several = reasoner.by_block or reasoner.joins_windows
            count = config.windows if several else config.windows or 1
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
        pool = answering if answering and rng.random() < config.answer_share else known
        item = pool[int(rng.integers(len(pool)))]
        drawn.append(item)
        known = [other for other in known if other is not item]
        answering = [other for other in answering if other is not item]
    return drawn
