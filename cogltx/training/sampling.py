"""Training windows (paper §3.3, algorithm 1): what judge and reasoner see of an example in one epoch.

Every choice is drawn from a generator of its own for (seed, epoch, example), so that it depends on nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from cogltx.baselines.sliding_window import SlidingWindow
from cogltx.blocks import Blocks, relevance_labels
from cogltx.competition import Competition, fill
from cogltx.document import Example
from cogltx.encoding.layout import Window, WindowFormat
from cogltx.judges.base import Judge, Memory
from cogltx.memrecall import MemRecall

TargetOf: TypeAlias = Callable[[Example, Blocks, Window], Any]

_WITH_MEMORY = 0.5  # share of retrieval windows with relevant blocks in z, as in MemRecall's later steps
_NEAR_RELEVANT = 0.5  # share of retrieval windows whose run holds a relevant block for certain


@dataclass(frozen=True)
class JudgeTarget:
    """A judge's training window with the label of every block of the document."""

    window: Window
    relevant: Bool[np.ndarray, " blocks"]

    def token_labels(self) -> tuple[Float[np.ndarray, " tokens"], Bool[np.ndarray, " tokens"]]:
        """Label and weight a token: those of the query are relevant (eq. 4), separators between blocks do not count."""
        labels = np.where(self.window.block >= 0, self.relevant[self.window.block], False).astype(np.float32)
        counts = self.window.block >= 0
        labels[: self.window.n_prefix] = 1
        counts[: self.window.n_prefix] = True
        return labels, counts


@dataclass(frozen=True)
class ReasonerTarget:
    """A reasoner's training window with what it should say."""

    window: Window
    target: Any


def gold_blocks(example: Example, blocks: Blocks, labels: Bool[np.ndarray, " blocks"], room: int) -> list[int]:
    """The blocks a reasoner must see, as far as they fit: those of the answer first, then the other relevant ones."""
    wanted = [block for span in example.answer_spans[:1] for block in blocks.overlapping(span.start, span.end)]
    wanted += [int(block) for block in np.flatnonzero(labels) if int(block) not in wanted]
    return _fitting(wanted, blocks, room)


def _fitting(wanted: Sequence[int], blocks: Blocks, room: int) -> list[int]:
    chosen = []
    for block in wanted:
        if blocks.sizes[block] <= room:
            chosen.append(block)
            room -= int(blocks.sizes[block])
    return chosen


def judge_windows(
    example: Example,
    blocks: Blocks,
    labels: Bool[np.ndarray, " blocks"] | None,
    form: WindowFormat,
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
) -> list[JudgeTarget]:
    """The two windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    Args:
        example: whose windows are wanted.
        blocks: its document.
        labels: which blocks are relevant; without them there is no window.
        form: how windows are laid out.
        rng: of this example and epoch.
        scores: coarse scores of an earlier epoch; half of the irrelevant blocks in (relv) are then the best-scoring.
    """
    if labels is None:
        return []
    prefix = form.prefix(example.query, int(blocks.sizes.max()))
    room = form.room(prefix)
    if int(blocks.sizes.sum()) <= room:
        return [JudgeTarget(form.window(prefix, blocks, range(len(blocks))), labels)]
    relevant = [int(block) for block in np.flatnonzero(labels)]
    memory = _random_memory(relevant, blocks, room, rng)
    run = _random_run(relevant, memory, blocks, room, rng)
    rehearsed = _rehearsed(relevant, blocks, room, rng, scores)
    return [
        JudgeTarget(form.window(prefix, blocks, [*memory, *run]), labels),
        JudgeTarget(form.window(prefix, blocks, rehearsed), labels),
    ]


def _random_memory(relevant: list[int], blocks: Blocks, room: int, rng: np.random.Generator) -> list[int]:
    """Half of the time some of the relevant blocks, as z holds them in a later step of MemRecall."""
    if len(relevant) < 2 or rng.random() >= _WITH_MEMORY:
        return []
    some = rng.permutation(relevant)[: rng.integers(1, len(relevant))]
    return sorted(_fitting([int(block) for block in some], blocks, min(room // 2, room - int(blocks.sizes.max()))))


def _random_run(
    relevant: list[int], memory: list[int], blocks: Blocks, room: int, rng: np.random.Generator
) -> list[int]:
    """Consecutive blocks outside z, around a relevant one half of the time."""
    candidates = [block for block in range(len(blocks)) if block not in set(memory)]
    left = [block for block in relevant if block not in set(memory)]
    near = left and rng.random() < _NEAR_RELEVANT
    anchor = int(rng.choice(left)) if near else int(rng.choice(candidates))
    room -= int(blocks.sizes[memory].sum()) if memory else 0
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
    """All relevant blocks that fit, and irrelevant ones up to the capacity."""
    chosen = _fitting([int(block) for block in rng.permutation(relevant)], blocks, room)
    room -= int(blocks.sizes[chosen].sum()) if chosen else 0
    others = np.setdiff1d(np.arange(len(blocks)), relevant)
    if scores is not None:
        hard = np.full(len(blocks), np.nan)
        hard[others] = scores[others]
        best = fill(hard, blocks, room // 2)
        chosen += best
        room -= int(blocks.sizes[best].sum()) if best else 0
        others = np.setdiff1d(others, best)
    return sorted(chosen + _fitting([int(block) for block in rng.permutation(others)], blocks, room))


def reasoner_windows(
    target: TargetOf,
    examples: Sequence[Example],
    documents: Sequence[Blocks],
    relevance: Sequence[Bool[np.ndarray, " _"] | None],
    memrecall: MemRecall,
    rngs: Sequence[np.random.Generator],
    *,
    by_judge: bool = True,
) -> tuple[list[ReasonerTarget | None], list[Float[np.ndarray, " blocks"]]]:
    """All relevant blocks and the judge's best-scoring others, filled to capacity as at inference.

    The others are ranked by the retrieval competition behind the relevant blocks, which is MemRecall's last.

    Args:
        target: what the reasoner should say of a window (``Reasoner.target``).
        examples: whose windows are wanted.
        documents: their blocks.
        relevance: which of the blocks are relevant, if that is known.
        memrecall: how blocks compete at inference; to ``neighbour_bonus`` relevant blocks count as certain.
        rngs: one an example.
        by_judge: whether scores rank the other blocks; random ones otherwise (the paper's ablation of train-test
            matching).

    Returns:
        a window an example, None where its target is unknown; and the scores of all blocks, NaN where the document is
        read whole and so nothing was asked of the judge.
    """
    form = memrecall.form
    memories, golds, contested = [], [], []
    for example, blocks, labels in zip(examples, documents, relevance, strict=True):
        room = form.room(form.prefix(example.query, int(blocks.sizes.max())))
        gold = gold_blocks(example, blocks, np.zeros(len(blocks), dtype=bool) if labels is None else labels, room)
        golds.append(gold)
        kept = _fitting(gold, blocks, min(room // 2, room - int(blocks.sizes.max())))
        memories.append(Memory(example.query, blocks, tuple(sorted(kept))))
        contested.append(int(blocks.sizes.sum()) > room)
    scores = _others(memories, contested, memrecall.judge if by_judge else None, rngs)
    competition = memrecall.competition if by_judge else Competition()
    windows = [
        _filled(target, example, blocks, memrecall, gold, found, competition)
        for example, blocks, gold, found in zip(examples, documents, golds, scores, strict=True)
    ]  # fmt: skip
    asked = [own if one else np.full(len(own), np.nan) for own, one in zip(scores, contested, strict=True)]
    return windows, asked


def _others(
    memories: Sequence[Memory], contested: Sequence[bool], judge: Judge | None, rngs: Sequence[np.random.Generator]
) -> list[Float[np.ndarray, " blocks"]]:
    """Scores of all blocks; a document that fits the window is read whole, so its blocks need no judge."""
    scores = [rng.random(len(memory.blocks)) for memory, rng in zip(memories, rngs, strict=True)]
    if judge is not None:
        places = [place for place, short_of_room in enumerate(contested) if short_of_room]
        found = judge.retrieve([memories[place] for place in places]) if places else []
        for place, own in zip(places, found, strict=True):
            scores[place] = own
    return scores


def _filled(
    target: TargetOf,
    example: Example,
    blocks: Blocks,
    memrecall: MemRecall,
    gold: list[int],
    scores: Float[np.ndarray, " blocks"],
    competition: Competition,
) -> ReasonerTarget | None:
    form, most_blocks = memrecall.form, memrecall.config.most_blocks
    prefix = form.prefix(example.query, int(blocks.sizes.max()))
    room = form.room(prefix)
    whole = int(blocks.sizes.sum()) <= room
    most = None if whole or most_blocks is None else max(0, most_blocks - len(gold))
    room -= int(blocks.sizes[gold].sum()) if gold else 0
    others = scores.copy()
    others[gold] = np.nan
    others = competition.standing(others, dict.fromkeys(gold, 1.0), competition.words(example.query, blocks))
    window = form.window(prefix, blocks, sorted([*gold, *fill(others, blocks, room, most)]))
    wanted = target(example, blocks, window)
    return ReasonerTarget(window, wanted) if wanted is not None else None


def baseline_window(reader: SlidingWindow, example: Example, rng: np.random.Generator) -> ReasonerTarget | None:
    """One window of a baseline: half of the time one with the answer, else any; its target says what it holds.

    For yes and no, the windows that show relevant blocks count as those with the answer.
    """
    blocks = reader.split(example.document)
    reasoner = reader.reasoner
    windows = reader.windows(example.query, blocks)
    targets = [reasoner.target(example, blocks, window) for window in windows]
    labels, silent = relevance_labels(example, blocks), reasoner.silent()
    if silent is not None and not example.answer_spans and labels is not None and labels.any():
        shown = [labels[window.block[window.block >= 0]].any() for window in windows]
        targets = [found if told else silent for told, found in zip(shown, targets, strict=True)]
    known = [ReasonerTarget(window, found) for window, found in zip(windows, targets, strict=True) if found is not None]
    answering = [item for item in known if not reasoner.says_nothing(item.target)]
    pool = answering if answering and rng.random() < 0.5 else known
    return pool[int(rng.integers(len(pool)))] if pool else None
