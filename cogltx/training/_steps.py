"""Training steps of retriever, judge and reasoner (CogLTX §3.3, algorithm 1).

Every choice is drawn from a generator of (seed, epoch, example), so it does not depend on anything else.
"""

import time
from collections.abc import Callable, Iterator, Sequence, Sized
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
from cogltx.encoding.encoder import Batch, padded_length
from cogltx.encoding.layout import Layout, Window
from cogltx.judges import Memory, TrainedRetriever
from cogltx.judges.encoder import WindowJudge
from cogltx.judges.retriever import block_vectors
from cogltx.pipeline import CogLTX
from cogltx.training._interventions import ReasonerTarget, intervene
from cogltx.training._relevance import RelevanceLabels, asks_by_block, key_of
from cogltx.training._windows import drawn_windows, judge_windows, layouts_of, reasoner_windows
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import Optimizer

_RETRIEVER_WINDOWS = 2  # per document and step: one with relevant blocks, one other
_LAYOUTS_AT_ONCE = 256  # of documents whose blocks are queries

Randomness: TypeAlias = Callable[[int], np.random.Generator]
"""Returns the generator of one example in the current phase."""


class _Lesson(NamedTuple):
    """A query of a document, the windows in a training step, and the relevant blocks."""

    layout: Layout
    windows: list[Window]
    relevant: Bool[np.ndarray, " blocks"]


@dataclass
class _RecallSteps:
    reader: CogLTX
    optimizer: Optimizer
    relevance: RelevanceLabels
    config: TrainingConfig

    def _labelled(self, index: int, rng: np.random.Generator) -> Iterator[tuple[Layout, Bool[np.ndarray, " blocks"]]]:
        """Lay out an example for each of its queries whose relevant blocks are known; yields them with the labels."""
        example, wanted = self.relevance.examples[index], partial(self.relevance.teaches, index)
        for layout in layouts_of(self.reader, example, rng, self.config, wanted):
            relevant = self.relevance.of(index, layout)
            if relevant is not None:
                yield layout, relevant


class RetrieverSteps(_RecallSteps):
    """Trains the retriever to rank the relevant blocks of a document above its others (InfoNCE, van den Oord 2018).

    A step shows each document by some windows of consecutive blocks, one of them with a relevant block; all of their
    irrelevant blocks are negatives.
    """

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per example, None if no long document has relevant blocks."""
        lessons = [lesson for index in indices for lesson in self._lessons(index, random(index))]
        if not lessons:
            return None
        retriever = self.reader.retriever
        assert isinstance(retriever, TrainedRetriever), "the run trains a retriever"
        windows = [window for lesson in lessons for window in lesson.windows]
        first = [0, *accumulate(len(lesson.windows) for lesson in lessons)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            layout, windows, relevant = lessons[first.index(group[0])]
            asked = layout.window(())
            question = model(self.optimizer.runner.tensors([asked])).float()[0, : asked.n_prefix].mean(dim=0)
            vectors = torch.cat(list(map(block_vectors, windows, model(batch).float())))
            blocks = np.concatenate([window.blocks for window in windows])
            words = torch.from_numpy(retriever.bm25.shares(Memory(layout))[blocks]).to(vectors)
            logits = retriever.encoder.scores(question, vectors, words)
            counts = np.isin(blocks, layout.candidates)
            return _ranking_loss(logits[torch.from_numpy(counts)], relevant[blocks[counts]])

        groups = [list(range(start, end)) for start, end in pairwise(first)]
        loss_value = self.optimizer.learn(windows, loss, len(lessons), groups)
        retriever.forget()
        return loss_value

    def _lessons(self, index: int, rng: np.random.Generator) -> Iterator[_Lesson]:
        """Draw the windows of an example, for each query for which something is to be found."""
        for layout, relevant in self._labelled(index, rng):
            if relevant.any() and not layout.fits:
                windows = list(layout.form.layout(None, layout.blocks).windows())
                order = rng.permutation(len(windows)).tolist()
                with_relevant = [number for number in order if relevant[windows[number].blocks].any()][:1]
                others = [number for number in order if number not in with_relevant][: _RETRIEVER_WINDOWS - 1]
                yield _Lesson(layout, [windows[number] for number in sorted(with_relevant + others)], relevant)


class JudgeSteps(_RecallSteps):
    """Trains the judge on windows as in retrieval and as in rehearsal."""

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per token, None if no example has labels."""
        lessons = [lesson for index in indices for lesson in self._lessons(index, random(index))]
        if not lessons:
            return None
        windows = [window for lesson in lessons for window in lesson.windows]
        labels_of = [_token_labels(window, lesson.relevant) for lesson in lessons for window in lesson.windows]
        n_tokens, weight = sum(float(weights.sum()) for _, weights in labels_of), self.config.ranking_weight
        counts = [len(lesson.windows) for lesson in lessons]
        first = [0, *accumulate(counts)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            logits = WindowJudge.logits(model, batch).float()
            labels, weights = torch.zeros_like(logits), torch.zeros_like(logits)
            for row, index in enumerate(group):
                token_labels, token_weights = labels_of[index]
                labels[row, : len(token_labels)] = torch.from_numpy(token_labels)
                weights[row, : len(token_labels)] = torch.from_numpy(token_weights).float()
            total = nn.functional.binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")
            if weight:
                shown = [(lesson, start) for lesson, start in zip(lessons, first, strict=False) if start in group]
                ranking = [_document_ranking(lesson, logits[start - group[0] :]) for lesson, start in shown]
                total = total + weight * torch.stack(ranking).sum() * n_tokens / len(lessons)
            return total

        groups = _whole_groups(counts, windows, self.optimizer.runner.batch_tokens) if weight else None
        return self.optimizer.learn(windows, loss, n_tokens, groups)

    def _lessons(self, index: int, rng: np.random.Generator) -> Iterator[_Lesson]:
        """Draw the windows of an example, for each query whose relevant blocks are known."""
        for layout, relevant in self._labelled(index, rng):
            windows = judge_windows(layout, relevant, rng, self.config, self.reader.memrecall.judge)
            yield _Lesson(layout, windows, relevant)


def _document_ranking(lesson: _Lesson, logits: Float[Tensor, "windows tokens"]) -> Tensor:
    """The ranking loss over all blocks that a document's windows show; a block's score is as in ``WindowJudge``."""
    means = [block_vectors(window, row.sigmoid()[:, None]) for window, row in zip(lesson.windows, logits, strict=False)]
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
        relevance: the examples and their relevant blocks, which interventions revise; receives the judge's scores.
        skipped: ids of examples without a known target.
        counts: of this epoch: ``tried`` blocks that interventions removed, ``changed`` labels, and the duration in
            seconds of ``steps`` and ``interventions`` in this process.
    """

    reader: WindowReader
    optimizer: Optimizer
    relevance: RelevanceLabels
    config: TrainingConfig
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
        self.skipped |= {self.relevance.examples[index].id for index, items in by_example.items() if not items}
        documents = {index: items for index, items in by_example.items() if items}
        if not documents:
            return None
        loss = self._learn(list(documents.values()))
        self.counts["steps"] += time.perf_counter() - started
        if intervenes:
            started = time.perf_counter()
            self._intervene(documents, random(indices[0]))
            self.counts["interventions"] += time.perf_counter() - started
        return loss

    def _learn(self, documents: Sequence[Sequence[ReasonerTarget]]) -> float:
        """Run one optimizer step on the windows of some documents, with one loss per window or per document."""
        reasoner = self.reader.model.reasoner
        items, counts = [item for document in documents for item in document], list(map(len, documents))
        windows, first = [item.window for item in items], [0, *accumulate(counts)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            n_windows = [count for count, start in zip(counts, first, strict=False) if start in group]
            chosen = [windows[index] for index in group], [items[index].target for index in group]
            return reasoner.document_losses(model(batch), n_windows, *chosen).sum()

        if not reasoner.joint_loss:
            return self.optimizer.learn(windows, loss, len(windows))
        groups = _whole_groups(counts, windows, self.optimizer.runner.batch_tokens)
        return self.optimizer.learn(windows, loss, len(documents), groups)

    def _items(
        self, indices: Sequence[int], random: Randomness, *, scored: bool = False
    ) -> dict[int, list[ReasonerTarget]]:
        """The training windows of each example: none, one or several; stores the judge's scores."""
        reader, relevance, config = self.reader, self.relevance, self.config
        examples = {index: relevance.examples[index] for index in indices}
        if not isinstance(reader, CogLTX) or (relevance.from_data and asks_by_block(reader, examples[indices[0]])):
            return {index: drawn_windows(reader, example, random(index), config) for index, example in examples.items()}
        rngs = {index: random(index) for index in indices}
        asked = ((index, one) for index in indices for one in layouts_of(reader, examples[index], rngs[index], config))
        by_example: dict[int, list[ReasonerTarget]] = {index: [] for index in indices}
        for some in chunked(asked, _LAYOUTS_AT_ONCE):
            numbers, layouts = zip(*some, strict=True)
            keys, labels = list(map(key_of, numbers, layouts)), list(map(relevance.of, numbers, layouts))
            known = [
                relevance.scores.get(key) if scored and not layout.fits else None
                for key, layout in zip(keys, layouts, strict=True)
            ]
            items, scores = reasoner_windows(
                reader, [examples[index] for index in numbers], layouts, labels, [rngs[index] for index in numbers],
                known, config.reasoner_blocks,
            )  # fmt: skip
            if config.reasoner_blocks == "recall":
                relevance.scores.update(zip(keys, (one.astype(np.float32) for one in scores), strict=True))
            for index, item in zip(numbers, items, strict=True):
                by_example[index] += [] if item is None else [item]
        return by_example

    def _intervene(self, documents: dict[int, list[ReasonerTarget]], rng: np.random.Generator) -> None:
        model, budget = self.reader.model, self.relevance.config.budget
        known = [(index, item) for index, items in documents.items() for item in items]
        examples, items = [self.relevance.examples[index] for index, _ in known], [item for _, item in known]
        for number, rises in intervene(model.reasoner, examples, items, budget, rng, model.runner).items():
            self.counts["tried"] += len(rises)
            self.counts["changed"] += self.relevance.revise(known[number][0], items[number].layout, rises)


def _whole_groups(counts: Sequence[int], windows: Sequence[Sized], batch_tokens: int) -> list[list[int]]:
    """Group consecutive windows into forward passes; the windows of a document stay together.

    >>> _whole_groups([2, 1, 3], ["a" * length for length in (60, 60, 40, 60, 60, 60)], batch_tokens=200)
    [[0, 1, 2], [3, 4, 5]]
    """
    groups: list[list[int]] = []
    for start, end in pairwise([0, *accumulate(counts)]):
        both = [*(groups[-1] if groups else []), *range(start, end)]
        if groups and len(both) * padded_length(max(len(windows[index]) for index in both)) <= batch_tokens:
            groups[-1] = both
        else:
            groups.append(list(range(start, end)))
    return groups
