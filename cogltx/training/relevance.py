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

from cogltx.baselines import WindowReader
from cogltx.blocks import BlockQuery, Blocks
from cogltx.document import Document, Example
from cogltx.encoding.layout import Layout
from cogltx.encoding.weights import load_tensors, to_safetensors
from cogltx.errors import ConfigError, DataError
from cogltx.files import read_lines, write_file
from cogltx.judges.bm25 import BM25Judge
from cogltx.retrieval.block_encoder import block_means

_EPOCH = re.compile(r"epoch-(\d+)\.safetensors")

_Labels = Bool[np.ndarray, " blocks"]
_Similarity = Callable[[Sequence[str], Blocks], Float[np.ndarray, "queries blocks"]]


class RelevanceConfig(BaseModel):
    """Source of the relevance labels.

    Attributes:
        source: the data (``data``), interventions, which need no labels in the data (``interventions``), or ``auto``:
            the data if it has relevance labels, otherwise interventions if every window has a training target.
        initial: initial labels of interventions: none (``none``), or the ``initial_blocks`` blocks most similar to the
            query or the label names by BM25 (``bm25``), word vectors (``glove``) or the encoder (``embedding``). For
            tagging, each block is a query.
        initial_blocks: number of blocks per example that are initially relevant.
        vectors: file of word vectors for ``glove``: a word and its numbers per line, separated by spaces.
        from_epoch: first epoch with interventions, from 1.
        raise_threshold: a block becomes relevant if its removal raises the loss by more (the paper's t_up).
        lower_threshold: a block becomes irrelevant if its removal raises the loss by less (t_down); if
            negative, the removal must lower the loss.
        budget: tokens in the windows of interventions per token of the reasoner's training; blocks beyond it are not
            removed in this epoch. None removes every block, as in the paper. A training step takes about three times as
            long as a forward pass, so 2.5 keeps interventions faster than training; with 63-token blocks in 512-token
            windows it removes about a third of the blocks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: Literal["auto", "data", "interventions"] = "auto"
    initial: Literal["none", "bm25", "glove", "embedding"] = "none"
    initial_blocks: int = Field(1, ge=1)
    vectors: str | None = None
    from_epoch: int = Field(2, ge=1)
    raise_threshold: float = 0.2
    lower_threshold: float = -0.05
    budget: float | None = Field(2.5, gt=0)

    def vectors_file(self) -> Path:
        """Return the file of word vectors; raises ConfigError if it is not set, DataError if it does not exist."""
        if self.vectors is None:
            raise ConfigError("training.relevance.vectors: initial: glove needs a file of word vectors; name one")
        path = Path(self.vectors)
        if not path.is_file():
            raise DataError(f"{path}: file of word vectors not found")
        return path


def query_key(index: int, query_block: int | None) -> str:
    """Name a query of the training: an example, or, where blocks are queries, one of its blocks.

    >>> query_key(3, None), query_key(3, 7)
    ('3', '3.7')
    """
    return f"{index}" if query_block is None else f"{index}.{query_block}"


def key_of(index: int, layout: Layout) -> str:
    """Name the query of an example's layout."""
    return query_key(index, layout.query.block if isinstance(layout.query, BlockQuery) else None)


class RelevanceLabels:
    """The relevant blocks of each training example; where blocks are queries, those of each block.

    Attributes:
        by_query: labels from interventions, by ``query_key``.
    """

    def __init__(self, config: RelevanceConfig) -> None:
        self.config, self.from_data = config, config.source != "interventions"
        self.by_query: dict[str, _Labels] = {}

    def known(self, examples: Sequence[Example]) -> bool:
        """Check whether any block is known to be relevant, so that the judge can learn."""
        if self.from_data:
            return any(example.has_relevance for example in examples)
        return any(labels.any() for labels in self.by_query.values())

    def queries_with_relevant_blocks(self, index: int, n_blocks: int) -> list[int]:
        """The blocks of an example that, as queries, have a relevant block."""
        labels_of = {block: self.by_query.get(query_key(index, block)) for block in range(n_blocks)}
        return [block for block, labels in labels_of.items() if labels is not None and labels.any()]

    def of(self, index: int, example: Example, layout: Layout) -> _Labels | None:
        """Return the labels of an example's blocks for a query; None if they are unknown."""
        if not self.from_data:
            return self.by_query.setdefault(key_of(index, layout), np.zeros(len(layout.blocks), dtype=bool))
        return layout.blocks.relevance_labels(example)

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

    def start(self, examples: Sequence[Example], reader: WindowReader) -> int | None:
        """Set the initial labels of interventions by similarity (CogLTX §3.3).

        Returns the number of examples with a relevant block; None without initial labels.
        """
        similarity = _similarity_of(self.config, reader)
        if similarity is None:
            return None
        by_block = reader.model.reasoner.by_block
        for index, example in enumerate(examples):
            blocks = reader.model.split(example.document)
            scores = similarity([*map(blocks.text, range(len(blocks)))] if by_block else [_asked(example)], blocks)
            if by_block:
                np.fill_diagonal(scores, 0)  # no block is relevant to itself
            for row, similar in enumerate(scores):
                labels = np.zeros(len(blocks), dtype=bool)
                best = np.argsort(-similar, kind="stable")[: self.config.initial_blocks]
                labels[best[similar[best] > 0]] = True
                self.by_query[query_key(index, row if by_block else None)] = labels
        return len({key.partition(".")[0] for key, labels in self.by_query.items() if labels.any()})

    def save(self, folder: Path, epoch: int, scores: Mapping[str, np.ndarray]) -> None:
        """Save the labels and the judge's last scores at the end of an epoch, from 1."""
        tensors = {f"{key}.labels": torch.from_numpy(labels) for key, labels in self.by_query.items()}
        tensors |= {f"{key}.scores": torch.from_numpy(block_scores) for key, block_scores in scores.items()}
        write_file(folder / f"epoch-{epoch}.safetensors", to_safetensors(tensors))

    @staticmethod
    def load_history(
        folder: Path, index: int, block: int | None = None
    ) -> dict[int, tuple[_Labels | None, Float[np.ndarray, " blocks"] | None]]:
        """Load labels and judge scores of an example, by epoch; where blocks are queries, those for one block."""
        history = {}
        for epoch in sorted(int(name[1]) for path in folder.iterdir() if (name := _EPOCH.fullmatch(path.name))):
            tensors = load_tensors(folder / f"epoch-{epoch}.safetensors")
            labels, scores = (tensors.get(f"{query_key(index, block)}.{name}") for name in ("labels", "scores"))
            history[epoch] = None if labels is None else labels.numpy(), None if scores is None else scores.numpy()
        return history


def _similarity_of(config: RelevanceConfig, reader: WindowReader) -> _Similarity | None:
    """Create the similarity that a configuration names, in [−1, 1] for vectors; None for no initial labels."""
    if config.initial == "none":
        return None
    if config.initial == "bm25":
        judge = BM25Judge()
        return lambda queries, blocks: np.stack([judge.text_scores(query, blocks) for query in queries])
    from sklearn.metrics.pairwise import cosine_similarity  # imported late, as in cogltx.linear

    word_vectors = _word_vectors(config.vectors_file()) if config.initial == "glove" else {}

    def mean(text: str) -> Float[np.ndarray, " width"]:
        known = [word_vectors[word] for word in BM25Judge.terms(text) if word in word_vectors]
        return np.mean(known, axis=0) if known else np.zeros_like(next(iter(word_vectors.values())))

    def encoded(text: str) -> Float[np.ndarray, " width"]:
        if not text:
            return np.zeros(reader.model.reasoner.encoder.width)
        return np.asarray(_token_means(reader, reader.model.split(Document(text, id="query"))).mean(axis=0))

    def similarity(queries: Sequence[str], blocks: Blocks) -> Float[np.ndarray, "queries blocks"]:
        if config.initial == "glove":
            asked = np.stack([mean(query) for query in queries])
            means = np.stack([mean(blocks.text_with_heading(index)) for index in range(len(blocks))])
        else:
            asked, means = np.stack([encoded(query) for query in queries]), _token_means(reader, blocks)
        return np.asarray(cosine_similarity(asked, means))

    return similarity


def _asked(example: Example) -> str:
    """Return the text of the query, or the names of the labels; empty if there are none.

    >>> _asked(Example(id="1", document=Document("a"), labels=("rec.autos", "sci.space")))
    'rec autos sci space'
    """
    if example.query is not None:
        return example.query.text
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


def _token_means(reader: WindowReader, blocks: Blocks) -> Float[np.ndarray, "blocks width"]:
    """Mean token vector of each block by the reasoner's encoder."""
    model, encoder = reader.model, reader.model.reasoner.encoder.eval()
    means = np.zeros((len(blocks), encoder.width))
    for window, vectors in model.runner.run(model.form.layout(None, blocks).windows(), encoder):
        means[window.blocks] = block_means(window, torch.from_numpy(vectors))
    return means
