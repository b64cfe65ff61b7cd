"""The two kinds of training step (CogLTX algorithm 1): of the judge, and of the reasoner with interventions.

Each builds the windows of a batch of examples and trains one model on them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, padded_length
from cogltx.encoding.layout import Window
from cogltx.judges.encoder import WindowJudge
from cogltx.pipeline import CogLTX
from cogltx.training.interventions import intervene
from cogltx.training.optimizer import Optimizer
from cogltx.training.relevance import RelevanceLabels
from cogltx.training.sampling import (
    ReasonerTarget,
    drawn_windows,
    judge_windows,
    reasoner_windows,
)

Randomness: TypeAlias = Callable[[int], np.random.Generator]
"""Returns the generator of one example in the current phase."""


@dataclass
class JudgeSteps:
    """Trains the judge on windows as in retrieval and as in rehearsal.

    Attributes:
        reader: the model with the judge.
        optimizer: optimizer of the judge.
        examples: training examples.
        relevance: their relevant blocks.
        scores: coarse scores of an earlier epoch, by example; empty for random irrelevant blocks only.
    """

    reader: WindowReader
    optimizer: Optimizer
    examples: Sequence[Example]
    relevance: RelevanceLabels
    scores: dict[int, np.ndarray]

    def step(self, indices: Sequence[int], random: Randomness) -> float | None:
        """Run one optimizer step; returns the mean loss per token, None if no example has labels."""
        windows, labels_of = [], []
        for index in indices:
            example = self.examples[index]
            layout = self.reader.model.layout(example.document, example.query)
            relevant = self.relevance.of(index, example, layout.blocks)
            if relevant is None:
                continue
            for window in judge_windows(layout, relevant, random(index), self.scores.get(index)):
                windows.append(window)
                labels_of.append(_token_labels(window, relevant))
        if not windows:
            return None
        n_tokens = sum(float(weights.sum()) for _, weights in labels_of)

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            logits = WindowJudge.logits(model, batch).float()
            labels, weights = torch.zeros_like(logits), torch.zeros_like(logits)
            for row, index in enumerate(group):
                token_labels, token_weights = labels_of[index]
                labels[row, : len(token_labels)] = torch.from_numpy(token_labels)
                weights[row, : len(token_labels)] = torch.from_numpy(token_weights).float()
            return nn.functional.binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")

        return self.optimizer.learn(windows, loss, n_tokens)


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
        reader: the model with judge and reasoner.
        optimizer: optimizer of the reasoner.
        examples: training examples.
        relevance: their relevant blocks, which interventions revise.
        scores: receives the coarse scores of the blocks, by example.
        by_judge: select the other blocks by the judge; otherwise at random.
        keeps_scores: store the scores.
        windows: maximum number of windows per document and epoch where there are several; None: all if they are joined
            or every block is a query, otherwise one.
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
    by_judge: bool
    keeps_scores: bool
    windows: int | None = None
    skipped: set[str] = field(default_factory=set)
    changed: int = 0
    tried: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"steps": 0.0, "interventions": 0.0})

    def begin_epoch(self) -> None:
        """Reset the counts of the epoch."""
        self.changed = self.tried = 0
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    def step(self, indices: Sequence[int], random: Randomness, *, intervenes: bool) -> float | None:
        """Run one optimizer step and its interventions; returns the mean loss, None if no target is known."""
        started = time.perf_counter()
        by_example = self._items(indices, random)
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
            for number, items in enumerate(documents):
                if first[number] in group:
                    joined = reasoner.join(outputs[first[number] - group[0] : first[number + 1] - group[0]])
                    losses.append(reasoner.losses(joined, [items[0].window], [items[0].target]).sum())
            return torch.stack(losses).sum()

        groups = _whole_groups(counts, [len(window) for window in windows], self.optimizer.runner.batch_tokens)
        return self.optimizer.learn(windows, loss, len(documents), groups)

    def _items(self, indices: Sequence[int], random: Randomness) -> list[list[ReasonerTarget]]:
        """The training windows of each example: none, one or several; stores the judge's scores."""
        reader, reasoner = self.reader, self.reader.model.reasoner
        pairs = [(self.examples[index], random(index)) for index in indices]
        several = reasoner.by_block or reasoner.joins_windows or self.windows is not None
        if several or not isinstance(reader, CogLTX):
            return [drawn_windows(reader, example, rng, self.windows) for example, rng in pairs]
        layouts = [reader.model.layout(example.document, example.query) for example, _ in pairs]
        relevance = [
            self.relevance.of(index, example, layout.blocks)
            for index, (example, _), layout in zip(indices, pairs, layouts, strict=True)
        ]
        items, scores = reasoner_windows(
            reasoner, [example for example, _ in pairs], layouts, relevance, reader.memrecall,
            [rng for _, rng in pairs], by_judge=self.by_judge,
        )  # fmt: skip
        if self.by_judge and self.keeps_scores:
            pairs_of_scores = zip(indices, scores, strict=True)
            self.scores.update((index, block_scores.astype(np.float32)) for index, block_scores in pairs_of_scores)
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
    first = 0
    for count in counts:
        document = list(range(first, first + count))
        first += count
        both = [*groups[-1], *document] if groups else []
        if both and len(both) * padded_length(max(lengths[index] for index in both)) <= batch_tokens:
            groups[-1] = both
        else:
            groups.append(document)
    return groups
