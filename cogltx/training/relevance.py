"""Relevance labels of the training examples: the data's own, or those that interventions find.

The store knows which blocks of each example are relevant and what that was epoch by epoch; it is part of every
checkpoint. Knows nothing about reasoners.
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
    """Where relevance labels come from.

    Attributes:
        source: the data (``data``), interventions, which need no labels in the data (``interventions``), or ``auto``:
            the data if it has relevance labels, otherwise interventions if every window has a training target.
        initial: what labels interventions begin with: none at all (``none``), or the ``initial_blocks`` blocks that are
            most like the query or the label names, by BM25 (``bm25``), by word vectors (``glove``) or by sentence
            embeddings of the run's own encoder (``embedding``).
        initial_blocks: how many blocks of an example they mark.
        vectors: the file of word vectors for ``glove``: a word and its numbers a line, parted by spaces.
        from_epoch: the first epoch with interventions, from 1.
        raise_threshold: a block whose removal raises the loss by more becomes relevant (the paper's t_up).
        lower_threshold: one whose removal changes it by less becomes irrelevant (t_down).
        budget: tokens of the windows that interventions read, for each token the reasoner was trained on; a training
            step takes about three times a forward's time, so 2.5 keeps interventions below the steps they follow.
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
    """Which blocks of each training example are relevant.

    Args:
        config: where the labels come from.
    """

    def __init__(self, config: RelevanceConfig) -> None:
        self.config = config
        self.found: dict[int, Labels] = {}

    @property
    def from_data(self) -> bool:
        """Whether the data's own labels count."""
        return self.config.source != "interventions"

    def known(self, examples: Sequence[Example]) -> bool:
        """Whether some block of some example is known to be relevant, so that a judge has something to learn."""
        if self.from_data:
            return any(example.has_relevance for example in examples)
        return any(labels.any() for labels in self.found.values())

    def of(self, index: int, example: Example, blocks: Blocks) -> Labels | None:
        """The labels of an example's blocks; None where they are unknown."""
        if self.from_data:
            return relevance_labels(example, blocks)
        return self.found.setdefault(index, np.zeros(len(blocks), dtype=bool))

    def revise(self, index: int, rises: Iterable[tuple[int, float]]) -> int:
        """Takes up what interventions found of an example.

        Args:
            index: of the example.
            rises: block and rise of the loss without it.

        Returns:
            how many labels changed.
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
        """Sets the labels that interventions begin with.

        Args:
            examples: of the training data.
            split: cuts an example's document.
            similarity: of each block to what is asked; it gives None where there is nothing to compare with.

        Returns:
            how many examples have a relevant block now.
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
    """Notes the labels and the judge's scores at the end of an epoch, from 1."""
    named = {f"{index}.labels": torch.from_numpy(own) for index, own in labels.found.items()}
    named |= {f"{index}.scores": torch.from_numpy(own) for index, own in scores.items()}
    write_tensors(folder / f"epoch-{epoch}.safetensors", named)


def load_history(folder: Path, index: int) -> dict[int, tuple[Labels | None, Float[np.ndarray, " blocks"] | None]]:
    """Labels and the judge's scores of one example, by epoch."""
    history = {}
    for epoch in sorted(int(name[1]) for path in folder.iterdir() if (name := _EPOCH.fullmatch(path.name))):
        tensors = load_tensors(folder / f"epoch-{epoch}.safetensors")
        labels, scores = tensors.get(f"{index}.labels"), tensors.get(f"{index}.scores")
        history[epoch] = (
            labels.numpy() if labels is not None else None,
            scores.numpy() if scores is not None else None,
        )
    return history
