"""Relevance labels of the training examples: from the data, or from interventions.

Labels from interventions are part of every checkpoint, and their history is saved per epoch.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict, Field

from cogltx.blocks import Blocks, relevance_labels
from cogltx.document import Example
from cogltx.encoding.weights import load_tensors, write_tensors

_EPOCH = re.compile(r"epoch-(\d+)\.safetensors")

Labels = Bool[np.ndarray, " blocks"]
Similarity = Callable[[Example, Blocks], "Float[np.ndarray, ' blocks'] | None"]


class RelevanceConfig(BaseModel):
    """Source of the relevance labels.

    Attributes:
        source: the data (``data``), interventions, which need no labels in the data (``interventions``), or ``auto``:
            the data if it has relevance labels, otherwise interventions if every window has a training target.
        initial: initial labels of interventions: none (``none``), or the ``initial_blocks`` blocks most similar to the
            query or the label names by BM25 (``bm25``), word vectors (``glove``) or the encoder (``embedding``).
        initial_blocks: number of blocks per example that are initially relevant.
        vectors: file of word vectors for ``glove``: a word and its numbers per line, separated by spaces.
        from_epoch: first epoch with interventions, from 1.
        raise_threshold: a block becomes relevant if its removal raises the loss by more (the paper's t_up).
        lower_threshold: a block becomes irrelevant if its removal changes the loss by less (t_down).
        budget: tokens in the windows of interventions per token of the reasoner's training. A training step takes about
            three times as long as a forward pass, so 2.5 keeps interventions faster than training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: Literal["auto", "data", "interventions"] = "auto"
    initial: Literal["none", "bm25", "glove", "embedding"] = "none"
    initial_blocks: int = Field(1, ge=1)
    vectors: str | None = None
    from_epoch: int = Field(2, ge=1)
    raise_threshold: float = 0.2
    lower_threshold: float = -0.05
    budget: float = Field(2.5, gt=0)


class RelevanceLabels:
    """The relevant blocks of each training example.

    Args:
        config: source of the labels.
    """

    def __init__(self, config: RelevanceConfig) -> None:
        self.config = config
        self.found: dict[int, Labels] = {}

    @property
    def from_data(self) -> bool:
        """Whether the labels are from the data."""
        return self.config.source != "interventions"

    def known(self, examples: Sequence[Example]) -> bool:
        """Check whether any block is known to be relevant, so that the judge can learn."""
        if self.from_data:
            return any(example.has_relevance for example in examples)
        return any(labels.any() for labels in self.found.values())

    def of(self, index: int, example: Example, blocks: Blocks) -> Labels | None:
        """Return the labels of an example's blocks; None if they are unknown."""
        if self.from_data:
            return relevance_labels(example, blocks)
        return self.found.setdefault(index, np.zeros(len(blocks), dtype=bool))

    def revise(self, index: int, rises: Iterable[tuple[int, float]]) -> int:
        """Revise the labels of an example by interventions; returns the number of changed labels.

        Args:
            index: index of the example.
            rises: pairs of a block and the rise of the loss without it.
        """
        labels = self.found[index]
        before = labels.copy()
        for block, rise in rises:
            if rise > self.config.raise_threshold:
                labels[block] = True
            elif rise < self.config.lower_threshold:
                labels[block] = False
        return int((labels != before).sum())

    def start(self, examples: Sequence[Example], split: Callable[[Example], Blocks], similarity: Similarity) -> int:
        """Set the initial labels of interventions; returns the number of examples with a relevant block.

        Args:
            examples: training examples.
            split: splits an example's document into blocks.
            similarity: computes the similarity of each block to the query; None if there is nothing to compare.
        """
        marked = 0
        for index, example in enumerate(examples):
            blocks = split(example)
            labels = np.zeros(len(blocks), dtype=bool)
            scores = similarity(example, blocks)
            if scores is not None:
                best = np.argsort(-scores, kind="stable")[: self.config.initial_blocks]
                labels[best[scores[best] > 0]] = True
            self.found[index] = labels
            marked += int(labels.any())
        return marked


def save_history(folder: Path, epoch: int, labels: RelevanceLabels, scores: Mapping[int, np.ndarray]) -> None:
    """Save the labels and the judge's scores at the end of an epoch, from 1."""
    named = {f"{index}.labels": torch.from_numpy(own) for index, own in labels.found.items()}
    named |= {f"{index}.scores": torch.from_numpy(own) for index, own in scores.items()}
    write_tensors(folder / f"epoch-{epoch}.safetensors", named)


def load_history(folder: Path, index: int) -> dict[int, tuple[Labels | None, Float[np.ndarray, " blocks"] | None]]:
    """Load labels and judge scores of one example, by epoch."""
    history = {}
    for epoch in sorted(int(name[1]) for path in folder.iterdir() if (name := _EPOCH.fullmatch(path.name))):
        tensors = load_tensors(folder / f"epoch-{epoch}.safetensors")
        labels, scores = tensors.get(f"{index}.labels"), tensors.get(f"{index}.scores")
        history[epoch] = (
            labels.numpy() if labels is not None else None,
            scores.numpy() if scores is not None else None,
        )
    return history
