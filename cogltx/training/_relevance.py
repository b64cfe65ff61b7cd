"""The training examples and the relevance labels of their blocks: from the data, or from interventions.

Labels from interventions are part of every checkpoint, and are saved per epoch.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict, Field

from cogltx._files import read_lines, write_file
from cogltx.baselines import WindowReader
from cogltx.blocks import BlockQuery, Blocks
from cogltx.document import Example
from cogltx.encoding._weights import to_safetensors
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError, DataError
from cogltx.judges.bm25 import BM25Judge

FIRST_EPOCH = 1  # with interventions, from 0 (CogLTX §3.3)

_Similarity: TypeAlias = Callable[[str], Float[np.ndarray, " blocks"]]


class RelevanceConfig(BaseModel):
    """Source of the relevance labels.

    Attributes:
        source: the data (``data``), interventions, which need no labels in the data (``interventions``), or ``auto``:
            the data if it has relevance labels, otherwise interventions if every window has a training target.
        initial: initial labels of interventions: none (``none``), or the ``initial_blocks`` blocks most similar to the
            query or the label names by BM25 (``bm25``) or word vectors (``glove``). For tagging, each block is a query.
        initial_blocks: number of blocks per example that are initially relevant.
        vectors: file of word vectors for ``glove``: a word and its numbers per line, separated by spaces.
        raise_threshold: a block becomes relevant if its removal raises the loss by more (the paper's t_up).
        lower_threshold: a block becomes irrelevant if its removal raises the loss by less (t_down); if
            negative, the removal must lower the loss.
        budget: tokens in the windows of interventions per token of the reasoner's training, from the second epoch on;
            blocks beyond it are not removed in this epoch. None removes every block, as in the paper; 0 none, so that
            the initial labels stay. With 2.5, interventions take less time than training, and about a third of the
            63-token blocks in 512-token windows are removed per epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: Literal["auto", "data", "interventions"] = "auto"
    initial: Literal["none", "bm25", "glove"] = "none"
    initial_blocks: int = Field(1, ge=1)
    vectors: str | None = None
    raise_threshold: float = 0.2
    lower_threshold: float = -0.05
    budget: float | None = Field(2.5, ge=0)

    def check(self) -> None:
        """Check that the word vectors exist if they are needed; raises ConfigError or DataError."""
        if self.source == "interventions" and self.initial == "glove":
            if self.vectors is None:
                raise ConfigError("training.relevance.vectors: initial: glove needs a file of word vectors; name one")
            if not Path(self.vectors).is_file():
                raise DataError(f"{self.vectors}: file of word vectors not found")


class RelevanceLabels:
    """Training examples, with the relevant blocks and latest scores of each; where blocks are queries, of each block.

    Attributes:
        examples: the training examples.
        by_query: labels from interventions, by ``key_of``.
        scores: the judge's latest coarse scores, by ``key_of``.
    """

    def __init__(self, config: RelevanceConfig, examples: Sequence[Example]) -> None:
        self.config, self.examples, self.from_data = config, examples, config.source != "interventions"
        self.by_query: dict[str, Bool[np.ndarray, " blocks"]] = {}
        self.scores: dict[str, Float[np.ndarray, " blocks"]] = {}

    @property
    def known(self) -> bool:
        """Whether any block is known to be relevant, so that the judge can learn."""
        if self.from_data:
            return any(example.has_relevance for example in self.examples)
        return any(labels.any() for labels in self.by_query.values())

    def of(self, index: int, layout: Layout) -> Bool[np.ndarray, " blocks"] | None:
        """Return the labels of an example's blocks for a query; None if they are unknown."""
        if not self.from_data:
            return self.by_query.setdefault(key_of(index, layout), np.zeros(len(layout.blocks), dtype=bool))
        return layout.blocks.relevance_labels(self.examples[index])

    def teaches(self, index: int, layout: Layout) -> bool:
        """Whether the judge learns from a query: a question, or a block for which another one is relevant."""
        labels = self.by_query.get(key_of(index, layout))
        return not isinstance(layout.query, BlockQuery) or (labels is not None and bool(labels.any()))

    def revise(self, index: int, layout: Layout, rises: Iterable[tuple[int, float]]) -> int:
        """Revise labels by pairs of a block and the rise of the loss without it; returns the number of changed ones."""
        labels = self.by_query[key_of(index, layout)]
        before = labels.copy()
        for block, rise in rises:
            if rise > self.config.raise_threshold:
                labels[block] = True
            elif rise < self.config.lower_threshold:
                labels[block] = False
        return int((labels != before).sum())

    def start(self, reader: WindowReader) -> int | None:
        """Set the initial labels of interventions by similarity (CogLTX §3.3).

        Returns the number of examples with a relevant block; None without initial labels.
        """
        if self.config.initial == "none":
            return None
        vectors = _word_vectors(Path(self.config.vectors or "")) if self.config.initial == "glove" else None
        labelled = set()
        for index, example in enumerate(self.examples):
            blocks = reader.model.split(example.document)
            similarity = _similarity_to(blocks, vectors)
            for layout in reader.model.reasoner.layouts(reader.model.layout(example.document, example.query)):
                similar = np.zeros(len(blocks))
                similar[layout.candidates] = similarity(_query_text(example, layout))[layout.candidates]
                best = np.argsort(-similar, kind="stable")[: self.config.initial_blocks]
                labels = self.by_query[key_of(index, layout)] = np.zeros(len(blocks), dtype=bool)
                labels[best[similar[best] > 0]] = True
                labelled |= {index} if labels.any() else set()
        return len(labelled)

    def save(self, folder: Path, epoch: int) -> None:
        """Save the labels and the latest scores at the end of an epoch, from 1."""
        tensors = {f"{key}.labels": torch.from_numpy(labels) for key, labels in self.by_query.items()}
        tensors |= {f"{key}.scores": torch.from_numpy(block_scores) for key, block_scores in self.scores.items()}
        write_file(folder / f"epoch-{epoch}.safetensors", to_safetensors(tensors))


def key_of(index: int, layout: Layout) -> str:
    """Name the query of an example: ``3``, or where blocks are queries ``3.7``."""
    return f"{index}.{layout.query.block}" if isinstance(layout.query, BlockQuery) else f"{index}"


def asks_by_block(reader: WindowReader, example: Example) -> bool:
    """Whether the reader's reasoner takes each block of a document as a query."""
    layout = reader.model.layout(example.document, example.query)
    return isinstance(next(reader.model.reasoner.layouts(layout)).query, BlockQuery)


def _similarity_to(blocks: Blocks, vectors: dict[str, Float[np.ndarray, " width"]] | None) -> _Similarity:
    """Return the similarity of a text to each block: by word vectors, in [−1, 1], or without them by BM25."""
    if vectors is None:
        judge = BM25Judge()
        return lambda text: judge.text_scores(text, blocks)
    from sklearn.metrics.pairwise import cosine_similarity  # imported late, as in cogltx.linear

    def mean(text: str) -> Float[np.ndarray, " width"]:
        known = [vectors[word] for word in BM25Judge.terms(text) if word in vectors]
        return np.mean(known, axis=0) if known else np.zeros_like(next(iter(vectors.values())))

    means = np.stack([mean(blocks.text_with_heading(index)) for index in range(len(blocks))])
    return lambda text: np.asarray(cosine_similarity(mean(text)[None], means)[0])


def _query_text(example: Example, layout: Layout) -> str:
    """Return the text of the query, or the names of the labels; empty if there are none."""
    if layout.query is not None:
        return layout.query.text
    return " ".join(BM25Judge.terms(" ".join(example.labels or ())))


def _word_vectors(path: Path) -> dict[str, Float[np.ndarray, " width"]]:
    """Load word vectors from a file with a word and its numbers per line."""
    vectors: dict[str, Float[np.ndarray, " width"]] = {}
    width = 0
    for number, line in enumerate(read_lines(path), start=1):
        word, *numbers = line.rstrip().split(" ")
        try:
            vector = np.array([float(value) for value in numbers], dtype=np.float32)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not a word and its numbers: {line[:40]!r}") from error
        width = width or len(vector)
        if not width or len(vector) != width:
            wanted = width or "at least one"
            raise DataError(f"{path}:{number}: the word has {len(vector)} numbers; it needs {wanted}")
        vectors[word] = vector
    if not vectors:
        raise DataError(f"{path}: the file has no word vectors")
    return vectors
