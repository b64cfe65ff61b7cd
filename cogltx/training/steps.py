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
from torch import Tensor, nn

from cogltx.baselines import SlidingWindow, WindowReader
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, padded_length
from cogltx.judges.encoder import relevance_logits
from cogltx.pipeline import CogLTX
from cogltx.training.interventions import effects, removals
from cogltx.training.optimizer import Optimizer
from cogltx.training.relevance import RelevanceLabels
from cogltx.training.sampling import (
    JudgeTarget,
    ReasonerTarget,
    baseline_window,
    baseline_windows,
    block_windows,
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
        items: list[JudgeTarget] = []
        for index in indices:
            example = self.examples[index]
            layout = self.reader.model.layout(example.document, example.query)
            labels = self.relevance.of(index, example, layout.blocks)
            items += judge_windows(layout, labels, random(index), self.scores.get(index))
        if not items:
            return None
        labels_of = [item.token_labels() for item in items]
        tokens = sum(float(counts.sum()) for _, counts in labels_of)

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            logits = relevance_logits(model, batch).float()
            wanted = torch.zeros_like(logits)
            weights = torch.zeros_like(logits)
            for row, index in enumerate(group):
                wanted[row, : len(labels_of[index][0])] = torch.from_numpy(labels_of[index][0])
                weights[row, : len(labels_of[index][0])] = torch.from_numpy(labels_of[index][1]).float()
            return nn.functional.binary_cross_entropy_with_logits(logits, wanted, weight=weights, reduction="sum")

        return self.optimizer.learn([item.window for item in items], loss, tokens)


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
        found = self._items(indices, random)
        known = [(index, item) for index, own in zip(indices, found, strict=True) for item in own]
        self.skipped |= {self.examples[index].id for index, own in zip(indices, found, strict=True) if not own}
        if not known:
            return None
        items = [item for _, item in known]
        value = self._learn_joined(found) if self.reader.model.reasoner.joins_windows else self._learn_each(items)
        self.seconds["steps"] += time.perf_counter() - started
        if intervenes:
            started = time.perf_counter()
            self._intervene([index for index, _ in known], items, random(indices[0]))
            self.seconds["interventions"] += time.perf_counter() - started
        return value

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
        known = [own for own in documents if own]
        windows = [item.window for own in known for item in own]
        first = [0, *accumulate(map(len, known))]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            outputs = model(batch)
            places = [place for place, own in enumerate(known) if first[place] in group]
            losses = [
                reasoner.losses(
                    reasoner.join(outputs[first[place] - group[0] : first[place + 1] - group[0]]),
                    [known[place][0].window], [known[place][0].target],
                ).sum()
                for place in places
            ]  # fmt: skip
            return torch.stack(losses).sum()

        groups = _whole_groups(list(map(len, known)), [len(window) for window in windows], self.optimizer.batch_tokens)
        return self.optimizer.learn(windows, loss, len(known), groups)

    def _items(self, indices: Sequence[int], random: Randomness) -> list[list[ReasonerTarget]]:
        """The training windows of each example: none, one or several."""
        reader = self.reader
        examples = [self.examples[index] for index in indices]
        rngs = [random(index) for index in indices]
        if reader.model.reasoner.by_block:
            pairs = zip(examples, rngs, strict=True)
            if isinstance(reader, CogLTX):
                return [block_windows(reader, example, rng, self.windows) for example, rng in pairs]
            assert isinstance(reader, SlidingWindow)
            return [baseline_windows(reader, example, rng, self.windows) for example, rng in pairs]
        if reader.model.reasoner.joins_windows or self.windows is not None:
            assert isinstance(reader, SlidingWindow), "CogLTX reads one window per document"
            pairs = zip(examples, rngs, strict=True)
            return [baseline_windows(reader, example, rng, self.windows) for example, rng in pairs]
        items = self._one_each(indices, examples, rngs)
        return [[] if item is None else [item] for item in items]

    def _one_each(
        self, indices: Sequence[int], examples: Sequence[Example], rngs: Sequence[np.random.Generator]
    ) -> list[ReasonerTarget | None]:
        reader = self.reader
        if isinstance(reader, CogLTX):
            layouts = [reader.model.layout(example.document, example.query) for example in examples]
            relevance = [
                self.relevance.of(index, example, layout.blocks)
                for index, example, layout in zip(indices, examples, layouts, strict=True)
            ]
            found, scores = reasoner_windows(
                reader.model.reasoner, examples, layouts, relevance, reader.memrecall, rngs, by_judge=self.by_judge
            )
            if self.by_judge and self.keeps_scores:
                self.scores.update((index, own.astype(np.float32)) for index, own in zip(indices, scores, strict=True))
            return found
        assert isinstance(reader, SlidingWindow)
        return [baseline_window(reader, example, rng) for example, rng in zip(examples, rngs, strict=True)]

    def _intervene(self, indices: Sequence[int], items: Sequence[ReasonerTarget], rng: np.random.Generator) -> None:
        model, config = self.reader.model, self.relevance.config
        examples = [self.examples[index] for index in indices]
        removed = removals(model.reasoner, examples, items, config.budget, rng)
        if not removed:
            return
        rises: dict[int, list[tuple[int, float]]] = {}
        for effect in effects(model.reasoner, items, removed, model.runner):
            rises.setdefault(effect.item, []).append((effect.block, effect.rise))
        self.tried += len(removed)
        self.changed += sum(self.relevance.revise(indices[item], own) for item, own in rises.items())


def _whole_groups(counts: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group consecutive windows into forward passes; the windows of a document stay together.

    Args:
        counts: number of windows per document.
        lengths: number of tokens per window.
        batch_tokens: maximum number of tokens per pass, with padding; a larger document is a pass by itself.

    >>> _whole_groups([2, 1, 3], [60, 60, 40, 60, 60, 60], batch_tokens=200)
    [[0, 1, 2], [3, 4, 5]]
    """
    groups: list[list[int]] = []
    first = 0
    for count in counts:
        own = list(range(first, first + count))
        first += count
        both = [*groups[-1], *own] if groups else []
        if both and len(both) * padded_length(max(lengths[index] for index in both)) <= batch_tokens:
            groups[-1] = both
        else:
            groups.append(own)
    return groups
