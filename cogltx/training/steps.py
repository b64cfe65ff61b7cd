"""Training steps of retriever, judge and reasoner (CogLTX §3.3, algorithm 1).

Every choice is drawn from a generator of (seed, epoch, example), so it does not depend on anything else.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from more_itertools import chunked
from torch import Tensor, nn

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, padded_length
from cogltx.encoding.layout import Layout, Window
from cogltx.judges import Memory
from cogltx.judges.encoder import WindowJudge
from cogltx.pipeline import CogLTX
from cogltx.retrieval.block_encoder import block_means
from cogltx.training.config import TrainingConfig
from cogltx.training.interventions import ReasonerTarget, intervene
from cogltx.training.optimizer import Optimizer
from cogltx.training.relevance import RelevanceLabels, key_of
from cogltx.training.windows import drawn_windows, judge_windows, layouts_of, random_memory, reasoner_windows

_RETRIEVER_WINDOWS = 2  # per document and step: one with relevant blocks, one other
_LAYOUTS_AT_ONCE = 256  # of documents whose blocks are queries

Randomness: TypeAlias = Callable[[int], np.random.Generator]
"""Returns the generator of one example in the current phase."""


class _Lesson(NamedTuple):
    """The windows of a document in a training step, its relevant blocks, and the state of z (the retriever's)."""

    windows: list[Window]
    relevant: Bool[np.ndarray, " blocks"]
    memory: Memory


@dataclass
class _RecallSteps:
    reader: CogLTX
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    config: TrainingConfig

    def _labelled(self, index: int, rng: np.random.Generator) -> Iterator[tuple[Layout, Bool[np.ndarray, " blocks"]]]:
        """Lay out an example for each of its queries whose relevant blocks are known; yields them with the labels."""
        example, queries = self.examples[index], partial(self.relevance.queries_with_relevant_blocks, index)
        for layout in layouts_of(self.reader, example, rng, self.config, queries):
            relevant = self.relevance.of(index, example, layout)
            if relevant is not None:
                yield layout, relevant


@dataclass
class RetrieverSteps(_RecallSteps):
    """Trains the retriever to rank the relevant blocks of a document above its others (InfoNCE, van den Oord 2018).

    A step shows each document by some windows of consecutive blocks, some of them with relevant blocks; all of their
    irrelevant blocks are negatives. As in later steps of MemRecall, some relevant blocks may be in z.
    """

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per example, None if no long document has relevant blocks."""
        lessons = [lesson for index in indices for lesson in self._lessons(index, random(index))]
        if not lessons:
            return None
        retriever = self.reader.memrecall.retriever
        trained = retriever.trained
        assert trained is not None, "the run trains a retriever"
        windows = [window for lesson in lessons for window in lesson.windows]
        first = [0, *accumulate(len(lesson.windows) for lesson in lessons)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            windows, relevant, memory = lessons[first.index(group[0])]
            asked = memory.layout.window(memory.kept)
            question = model(self.optimizer.runner.tensors([asked])).float()[0, : asked.n_prefix].mean(dim=0)
            vectors = torch.cat(list(map(block_means, windows, model(batch).float())))
            blocks = np.concatenate([window.blocks for window in windows])
            words = torch.from_numpy(retriever.bm25_shares(memory)[blocks]).to(vectors)
            logits = trained.encoder.scores(question, vectors, words)
            # a relevant block in z is neither to be found nor wrong, and neither is a block that is the query
            in_z = relevant[blocks] & np.isin(blocks, memory.kept)
            counts = ~in_z & np.isin(blocks, memory.layout.candidates)
            return _ranking_loss(logits[torch.from_numpy(counts)], relevant[blocks[counts]])

        groups = [list(range(start, end)) for start, end in pairwise(first)]
        loss_value = self.optimizer.learn(windows, loss, len(lessons), groups)
        trained.forget()
        return loss_value

    def _lessons(self, index: int, rng: np.random.Generator) -> Iterator[_Lesson]:
        """Draw z and the windows of an example, for each query for which something is to be found."""
        for layout, relevant in self._labelled(index, rng):
            if relevant.any() and not layout.fits:
                yield self._lesson(layout, relevant, rng)

    def _lesson(self, layout: Layout, relevant: Bool[np.ndarray, " blocks"], rng: np.random.Generator) -> _Lesson:
        to_find = np.flatnonzero(relevant).tolist()
        kept = random_memory(to_find, layout.blocks, layout.room, rng, self.config.memory_share)
        windows = list(layout.form.layout(None, layout.blocks).windows())
        remaining = set(to_find).difference(kept)
        order = rng.permutation(len(windows)).tolist()
        relevant_windows = [i for i in order if remaining.intersection(windows[i].blocks)][: _RETRIEVER_WINDOWS - 1]
        others = [i for i in order if i not in relevant_windows][: _RETRIEVER_WINDOWS - len(relevant_windows)]
        drawn = [windows[i] for i in sorted(relevant_windows + others)]
        return _Lesson(drawn, relevant, Memory(layout, tuple(kept)))


@dataclass
class JudgeSteps(_RecallSteps):
    """Trains the judge on windows as in retrieval and as in rehearsal.

    Attributes:
        scores: coarse scores of an earlier epoch, by query, for hard negatives.
    """

    scores: dict[str, np.ndarray]

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per token, None if no example has labels."""
        lessons = [lesson for index in indices for lesson in self._lessons(index, random(index))]
        if not lessons:
            return None
        windows = [window for lesson in lessons for window in lesson.windows]
        labels_of = [_token_labels(window, lesson.relevant) for lesson in lessons for window in lesson.windows]
        n_tokens = sum(float(weights.sum()) for _, weights in labels_of)
        counts = [len(lesson.windows) for lesson in lessons]
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
                _document_ranking(lesson, logits[group.index(start) :])
                for start, lesson in zip(first, lessons, strict=False)
                if start in group
            ]
            return loss + self.config.ranking_weight * torch.stack(ranking).sum() * n_tokens / len(lessons)

        together = _whole_groups(counts, list(map(len, windows)), self.optimizer.runner.batch_tokens)
        return self.optimizer.learn(windows, loss, n_tokens, together if self.config.ranking_weight else None)

    def _lessons(self, index: int, rng: np.random.Generator) -> Iterator[_Lesson]:
        """Draw the windows of an example, for each query whose relevant blocks are known."""
        for layout, relevant in self._labelled(index, rng):
            scores = self.scores.get(key_of(index, layout)) if self.config.hard_negatives else None
            windows = judge_windows(layout, relevant, rng, scores, self.config, self.reader.memrecall)
            yield _Lesson(windows, relevant, Memory(layout))


def _document_ranking(lesson: _Lesson, logits: Float[Tensor, "windows tokens"]) -> Tensor:
    """The ranking loss over all blocks that a document's windows show; a block's score is as in ``WindowJudge``."""
    means = [block_means(window, row.sigmoid()[:, None]) for window, row in zip(lesson.windows, logits, strict=False)]
    blocks = np.concatenate([np.unique(window.block[window.block >= 0]) for window in lesson.windows])
    return _ranking_loss(torch.cat(means)[:, 0].logit(eps=1e-6), lesson.relevant[blocks])


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


@dataclass
class ReasonerSteps:
    """Trains the reasoner on the relevant blocks and the judge's best others, and intervenes on these windows.

    Attributes:
        relevance: the relevant blocks of the examples, which interventions revise.
        scores: receives the coarse scores of the blocks, by query.
        skipped: ids of examples without a known target.
        counts: of this epoch: ``tried`` blocks that interventions removed, ``changed`` labels, and the duration in
            seconds of ``steps`` and ``interventions`` in this process.
    """

    reader: WindowReader
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    config: TrainingConfig
    scores: dict[str, np.ndarray]
    skipped: set[str] = field(default_factory=set)
    counts: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("tried", "changed", "steps", "interventions"), 0.0)
    )

    def begin_epoch(self) -> None:
        """Reset the counts of the epoch."""
        self.counts.update(dict.fromkeys(self.counts, 0.0))

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
        self.counts["steps"] += time.perf_counter() - started
        if intervenes:
            started = time.perf_counter()
            self._intervene([index for index, _ in known], items, random(indices[0]))
            self.counts["interventions"] += time.perf_counter() - started
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
        if not isinstance(reader, CogLTX) or (reasoner.by_block and self.relevance.from_data):
            return [drawn_windows(reader, self.examples[index], random(index), self.config) for index in indices]
        asked = (
            (index, rng, layout)
            for index, rng in zip(indices, map(random, indices), strict=True)
            for layout in layouts_of(reader, self.examples[index], rng, self.config)
        )
        by_example: dict[int, list[ReasonerTarget]] = {index: [] for index in indices}
        for some in chunked(asked, _LAYOUTS_AT_ONCE):
            of_example, rngs, layouts = zip(*some, strict=True)
            examples = [self.examples[index] for index in of_example]
            keys = list(map(key_of, of_example, layouts))
            relevance = list(map(self.relevance.of, of_example, examples, layouts))
            known = [
                self.scores.get(key) if scored and not layout.fits else None
                for key, layout in zip(keys, layouts, strict=True)
            ]
            items, scores = reasoner_windows(
                reasoner, examples, layouts, relevance, reader.memrecall, rngs, known, self.config.reasoner_blocks
            )
            if self.config.reasoner_blocks == "recall":
                self.scores.update(zip(keys, (one.astype(np.float32) for one in scores), strict=True))
            for index, item in zip(of_example, items, strict=True):
                by_example[index] += [] if item is None else [item]
        return list(by_example.values())

    def _intervene(self, indices: Sequence[int], items: Sequence[ReasonerTarget], rng: np.random.Generator) -> None:
        model, examples = self.reader.model, [self.examples[index] for index in indices]
        by_item = intervene(model.reasoner, examples, items, self.relevance.config.budget, rng, model.runner)
        for item, rises in by_item.items():
            self.counts["tried"] += len(rises)
            self.counts["changed"] += self.relevance.revise(indices[item], items[item].layout, rises)


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
