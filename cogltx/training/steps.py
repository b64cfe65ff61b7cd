"""Training steps of retriever, judge and reasoner (CogLTX §3.3, algorithm 1), and the windows that they train on.

Every choice is drawn from a generator of (seed, epoch, example), so it does not depend on anything else.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx.baselines import SlidingWindow, WindowReader
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, padded_length
from cogltx.encoding.layout import Layout, Window
from cogltx.judges import Memory
from cogltx.judges.encoder import WindowJudge
from cogltx.memrecall import MemRecall, fill, passages_of
from cogltx.pipeline import CogLTX
from cogltx.reasoners import Reasoner
from cogltx.retrieval.block_encoder import block_means
from cogltx.training.config import TrainingConfig
from cogltx.training.interventions import ReasonerTarget, intervene
from cogltx.training.optimizer import Optimizer
from cogltx.training.relevance import RelevanceLabels

_RETRIEVER_WINDOWS = 2  # per document and step: one with relevant blocks, one other

Randomness: TypeAlias = Callable[[int], np.random.Generator]
"""Returns the generator of one example in the current phase."""


@dataclass
class RetrieverSteps:
    """Trains the retriever to rank the relevant blocks of a document above its others (InfoNCE, van den Oord 2018).

    A step shows each document by some windows of consecutive blocks, some of them with relevant blocks; all of their
    irrelevant blocks are negatives. As in later steps of MemRecall, some relevant blocks may be in z.
    """

    reader: CogLTX
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    config: TrainingConfig

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per example, None if no long document has relevant blocks."""
        lessons = [lesson for index in indices if (lesson := self._lesson(index, random(index))) is not None]
        if not lessons:
            return None
        retriever = self.reader.memrecall.retriever
        trained = retriever.trained
        assert trained is not None, "the run trains a retriever"
        windows = [window for _, windows, _ in lessons for window in windows]
        first = [0, *accumulate(len(windows) for _, windows, _ in lessons)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            memory, windows, relevant = lessons[first.index(group[0])]
            asked = memory.layout.window(memory.kept)
            question = model(self.optimizer.runner.tensors([asked])).float()[0, : asked.n_prefix].mean(dim=0)
            vectors = torch.cat(list(map(block_means, windows, model(batch).float())))
            shown = np.concatenate([window.blocks for window in windows])
            words = torch.from_numpy(retriever.bm25_shares(memory)[shown]).to(vectors)
            logits = trained.encoder.scores(question, vectors, words)
            found = relevant[shown] & np.isin(shown, memory.kept)
            counts = ~found  # a relevant block in z is neither to be found nor wrong
            return _ranking_loss(logits[torch.from_numpy(counts)], relevant[shown[counts]])

        loss_value = self.optimizer.learn(
            windows, loss, len(lessons), [list(range(start, end)) for start, end in pairwise(first)]
        )
        trained.forget()
        return loss_value

    def _lesson(
        self, index: int, rng: np.random.Generator
    ) -> tuple[Memory, list[Window], Bool[np.ndarray, " blocks"]] | None:
        """Draw z and the windows of an example; None if nothing is to be found."""
        example = self.examples[index]
        layout = self.reader.model.layout(example.document, example.query)
        labels = None if layout.fits else self.relevance.of(index, example, layout.blocks)
        if labels is None or not labels.any():
            return None
        relevant = np.flatnonzero(labels).tolist()
        kept = _random_memory(relevant, layout.blocks, layout.room, rng, self.config.memory_share)
        windows = layout.form.layout(None, layout.blocks).windows()
        wanted = set(relevant).difference(kept)
        order = rng.permutation(len(windows)).tolist()
        holding = [i for i in order if wanted.intersection(windows[i].blocks)][: _RETRIEVER_WINDOWS - 1]
        others = [i for i in order if i not in holding][: _RETRIEVER_WINDOWS - len(holding)]
        return Memory(layout, tuple(kept)), [windows[i] for i in sorted(holding + others)], labels


@dataclass
class JudgeSteps:
    """Trains the judge on windows as in retrieval and as in rehearsal.

    Attributes:
        scores: coarse scores of an earlier epoch, by example, for hard negatives.
    """

    reader: CogLTX
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    scores: dict[int, np.ndarray]
    config: TrainingConfig

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per token, None if no example has labels."""
        lessons: list[tuple[list[Window], Bool[np.ndarray, " blocks"]]] = []
        for index in indices:
            example = self.examples[index]
            layout = self.reader.model.layout(example.document, example.query)
            relevant = self.relevance.of(index, example, layout.blocks)
            if relevant is not None:
                scores = self.scores.get(index) if self.config.hard_negatives else None
                shown = _judge_windows(layout, relevant, random(index), scores, self.config, self.reader.memrecall)
                lessons.append((shown, relevant))
        if not lessons:
            return None
        windows = [window for shown, _ in lessons for window in shown]
        labels_of = [_token_labels(window, relevant) for shown, relevant in lessons for window in shown]
        n_tokens = sum(float(weights.sum()) for _, weights in labels_of)
        counts = [len(shown) for shown, _ in lessons]
        first = [0, *accumulate(counts)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            logits = WindowJudge.logits(model, batch).float()
            labels, weights = torch.zeros_like(logits), torch.zeros_like(logits)
            for row, index in enumerate(group):
                token_labels, token_weights = labels_of[index]
                labels[row, : len(token_labels)] = torch.from_numpy(token_labels)
                weights[row, : len(token_labels)] = torch.from_numpy(token_weights).float()
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")
            if not self.config.ranking_weight:
                return loss
            ranking = [
                _document_ranking(*lesson, logits[group.index(start) :])
                for start, lesson in zip(first, lessons, strict=False)
                if start in group
            ]
            return loss + self.config.ranking_weight * torch.stack(ranking).sum() * n_tokens / len(lessons)

        together = _whole_groups(counts, list(map(len, windows)), self.optimizer.runner.batch_tokens)
        return self.optimizer.learn(windows, loss, n_tokens, together if self.config.ranking_weight else None)


def _document_ranking(
    windows: Sequence[Window], relevant: Bool[np.ndarray, " blocks"], logits: Float[Tensor, "windows tokens"]
) -> Tensor:
    """The ranking loss over all blocks that a document's windows show; a block's score is as in ``WindowJudge``."""
    means = [block_means(window, row.sigmoid()[:, None]) for window, row in zip(windows, logits, strict=False)]
    shown = np.concatenate([np.unique(window.block[window.block >= 0]) for window in windows])
    return _ranking_loss(torch.cat(means)[:, 0].logit(eps=1e-6), relevant[shown])


def _ranking_loss(scores: Float[Tensor, " blocks"], relevant: Bool[np.ndarray, " blocks"]) -> Tensor:
    """Mean over the relevant blocks of −log p(the block, not one of the irrelevant ones); 0 if one kind is missing."""
    if relevant.all() or not relevant.any():
        return 0 * scores.sum()
    positives, others = scores[torch.from_numpy(relevant)], scores[torch.from_numpy(~relevant)].logsumexp(dim=0)
    return nn.functional.softplus(others - positives).mean()


def _token_labels(
    window: Window, relevant: Bool[np.ndarray, " blocks"]
) -> tuple[Float[np.ndarray, " tokens"], Bool[np.ndarray, " tokens"]]:
    """A label and a weight per token; the query is relevant (eq. 4), separators have weight 0."""
    weights = window.block >= 0
    labels = np.where(weights, relevant[window.block], False).astype(np.float32)
    labels[: window.n_prefix] = 1
    weights[: window.n_prefix] = True
    return labels, weights


def _judge_windows(
    layout: Layout,
    labels: Bool[np.ndarray, " blocks"],
    rng: np.random.Generator,
    scores: Float[np.ndarray, " blocks"] | None,
    config: TrainingConfig,
    memrecall: MemRecall,
) -> list[Window]:
    """Build the two windows of algorithm 1: (rand) as in the retrieval competition, (relv) as in rehearsal.

    With a shortlist, irrelevant blocks are of it. With coarse scores of an earlier epoch, the best-scoring irrelevant
    blocks fill half of (relv).
    """
    blocks, room = layout.blocks, layout.room
    if blocks.total_size(range(len(blocks))) <= room:
        return [layout.window(range(len(blocks)))]
    relevant = np.flatnonzero(labels).tolist()
    memory = _random_memory(relevant, blocks, room, rng, config.memory_share)
    candidates = memrecall.shortlisted(Memory(layout, tuple(memory))).candidates
    run = _random_run(relevant, memory, candidates, blocks, room, rng, config.relevant_share)
    others = np.setdiff1d(memrecall.shortlisted(Memory(layout)).candidates, relevant)
    rehearsed = _rehearsed(relevant, others, blocks, room, rng, scores)
    return [layout.window([*memory, *run]), layout.window(rehearsed)]


def _random_memory(relevant: list[int], blocks: Blocks, room: int, rng: np.random.Generator, share: float) -> list[int]:
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


@dataclass
class ReasonerSteps:
    """Trains the reasoner on the relevant blocks and the judge's best others, and intervenes on these windows.

    Attributes:
        relevance: the relevant blocks of the examples, which interventions revise.
        scores: receives the coarse scores of the blocks, by example.
        skipped: ids of examples without a known target.
        changed: number of labels that interventions changed in this epoch.
        tried: number of blocks that interventions removed in this epoch.
        seconds: duration of steps and interventions of this process in this epoch.
    """

    reader: WindowReader
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    scores: dict[int, np.ndarray]
    config: TrainingConfig
    skipped: set[str] = field(default_factory=set)
    changed: int = 0
    tried: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"steps": 0.0, "interventions": 0.0})

    def begin_epoch(self) -> None:
        """Reset the counts of the epoch."""
        self.changed = self.tried = 0
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    def step(
        self, indices: Sequence[int], random: Randomness, *, intervenes: bool, scored: bool = False
    ) -> float | None:
        """Run one optimizer step and its interventions; returns the mean loss, None if no target is known.

        With ``scored``, the blocks have the scores of an earlier epoch: judge and relevance labels are still the same.
        """
        started = time.perf_counter()
        by_example = self._items(indices, random, scored=scored)
        self.skipped |= {self.examples[i].id for i, items in zip(indices, by_example, strict=True) if not items}
        known = [(index, item) for index, items in zip(indices, by_example, strict=True) for item in items]
        if not known:
            return None
        items = [item for _, item in known]
        joins = self.reader.model.reasoner.joins_windows
        loss = self._learn_joined([items for items in by_example if items]) if joins else self._learn_each(items)
        self.seconds["steps"] += time.perf_counter() - started
        if intervenes:
            started = time.perf_counter()
            self._intervene([index for index, _ in known], items, random(indices[0]))
            self.seconds["interventions"] += time.perf_counter() - started
        return loss

    def _learn_each(self, items: Sequence[ReasonerTarget]) -> float:
        """A step with one loss per window."""
        reasoner = self.reader.model.reasoner

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            windows = [items[index].window for index in group]
            return reasoner.losses(model(batch), windows, [items[index].target for index in group]).sum()

        return self.optimizer.learn([item.window for item in items], loss, len(items))

    def _learn_joined(self, documents: Sequence[Sequence[ReasonerTarget]]) -> float:
        """A step with one loss per document, whose windows are joined and share a forward pass."""
        reasoner = self.reader.model.reasoner
        windows = [item.window for items in documents for item in items]
        counts = [len(items) for items in documents]
        first = [0, *accumulate(counts)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            outputs = model(batch)
            losses = []
            for (start, end), items in zip(pairwise(first), documents, strict=True):
                if start in group:
                    joined = reasoner.join(outputs[start - group[0] : end - group[0]])
                    losses.append(reasoner.losses(joined, [items[0].window], [items[0].target]).sum())
            return torch.stack(losses).sum()

        groups = _whole_groups(counts, [len(window) for window in windows], self.optimizer.runner.batch_tokens)
        return self.optimizer.learn(windows, loss, len(documents), groups)

    def _items(self, indices: Sequence[int], random: Randomness, *, scored: bool = False) -> list[list[ReasonerTarget]]:
        """The training windows of each example: none, one or several; stores the judge's scores."""
        reader, reasoner = self.reader, self.reader.model.reasoner
        examples, rngs = [self.examples[index] for index in indices], [random(index) for index in indices]
        if reasoner.by_block or not isinstance(reader, CogLTX):
            return [_drawn_windows(reader, *one, self.config) for one in zip(examples, rngs, strict=True)]
        layouts = [reader.model.layout(example.document, example.query) for example in examples]
        blocks = [layout.blocks for layout in layouts]
        relevance = list(map(self.relevance.of, indices, examples, blocks))
        by_judge = self.config.reasoner_blocks == "recall"
        known = [
            self.scores.get(index) if scored and not layout.fits else None
            for index, layout in zip(indices, layouts, strict=True)
        ]
        items, scores = _reasoner_windows(
            reasoner, examples, layouts, relevance, reader.memrecall, rngs, known, by_judge=by_judge
        )
        if by_judge:
            self.scores.update(zip(indices, (one.astype(np.float32) for one in scores), strict=True))
        return [[] if item is None else [item] for item in items]

    def _intervene(self, indices: Sequence[int], items: Sequence[ReasonerTarget], rng: np.random.Generator) -> None:
        model, examples = self.reader.model, [self.examples[index] for index in indices]
        by_item = intervene(model.reasoner, examples, items, self.relevance.config.budget, rng, model.runner)
        for item, rises in by_item.items():
            self.tried += len(rises)
            self.changed += self.relevance.revise(indices[item], rises)


def _whole_groups(counts: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group consecutive windows into forward passes; the windows of a document stay together.

    >>> _whole_groups([2, 1, 3], [60, 60, 40, 60, 60, 60], batch_tokens=200)
    [[0, 1, 2], [3, 4, 5]]
    """
    groups: list[list[int]] = []
    for start, end in pairwise([0, *accumulate(counts)]):
        both = [*(groups[-1] if groups else []), *range(start, end)]
        if groups and len(both) * padded_length(max(lengths[index] for index in both)) <= batch_tokens:
            groups[-1] = both
        else:
            groups.append(list(range(start, end)))
    return groups


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


def _reasoner_windows(
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    layouts: Sequence[Layout],
    relevance: Sequence[Bool[np.ndarray, " _"] | None],
    memrecall: MemRecall,
    rngs: Sequence[np.random.Generator],
    known: Sequence[Float[np.ndarray, " _"] | None],
    *,
    by_judge: bool = True,
) -> tuple[list[ReasonerTarget | None], list[Float[np.ndarray, " blocks"]]]:
    """Build windows of all relevant blocks and the best others, or of their passages, as at inference.

    The others are ranked as in MemRecall's last retrieval, with the relevant blocks in z, unless their scores are
    known; or at random.
    Also returns the scores of all blocks, NaN where the document is read whole.
    """
    golds, memories = [], []
    for example, layout, labels in zip(examples, layouts, relevance, strict=True):
        blocks, room = layout.blocks, layout.room
        gold = gold_blocks(example, layout, np.zeros(len(blocks), dtype=bool) if labels is None else labels)
        golds.append(gold)
        kept = _fitting(gold, blocks, min(room // 2, room - blocks.max_size))
        memories.append(Memory(layout, tuple(sorted(kept))))
    scores = [
        rng.random(len(layout.blocks)) if found is None else found.astype(float)
        for layout, rng, found in zip(layouts, rngs, known, strict=True)
    ]
    if by_judge:
        contested = [index for index, layout in enumerate(layouts) if not layout.fits and known[index] is None]
        coarse = memrecall.retrieve([memories[index] for index in contested]) if contested else []
        for index, block_scores in zip(contested, coarse, strict=True):
            scores[index] = block_scores
    targets, most_blocks, passages = [], memrecall.config.most_blocks, memrecall.config.passages
    for index, (example, layout, gold) in enumerate(zip(examples, layouts, golds, strict=True)):
        blocks, others = layout.blocks, scores[index].copy()
        others[gold] = np.nan
        if by_judge:
            others = memrecall.compete(others, dict.fromkeys(gold, 1.0), blocks, memrecall.lexical_bonus(layout))
        if passages is None or layout.fits:
            max_others = None if layout.fits or most_blocks is None else max(0, most_blocks - len(gold))
            shown = [*gold, *fill(others, blocks, layout.room - blocks.total_size(gold), max_others)]
        else:
            ranked = [block for block in np.argsort(-others, kind="stable").tolist() if not np.isnan(others[block])]
            shown = list(chain.from_iterable(passages_of(ranked, layout, passages, certain=gold)))
        window = layout.window(sorted(shown))
        target = reasoner.target(example, blocks, window)
        targets.append(None if target is None else ReasonerTarget(layout, window, target))
        if layout.fits:
            scores[index] = np.full(len(blocks), np.nan)
    return targets, scores


def _drawn_windows(
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
