"""Unsupervised query-block similarity, used as initial relevance labels (CogLTX §3.3).

The query, or the label names if there is none, is compared with each block: by BM25, by mean word vectors from a file
in GloVe's format, or by mean token vectors of the encoder.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Float

from cogltx.baselines import WindowReader
from cogltx.blocks import Blocks
from cogltx.document import Document, Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import read_lines
from cogltx.judges.bm25 import BM25Judge, terms
from cogltx.training.relevance import RelevanceConfig, Similarity


def similarity_of(config: RelevanceConfig, reader: WindowReader) -> Similarity | None:
    """Create the similarity that a configuration names; None for no initial labels.

    Raises:
        ConfigError: ``vectors`` is not set.
        DataError: the file of vectors is missing or not valid.
    """
    if config.initial == "none":
        return None
    if config.initial == "bm25":
        judge = BM25Judge()
        return lambda example, blocks: judge.text_scores(asked(example), blocks) if asked(example) else None
    if config.initial == "embedding":
        return _Embeddings(reader)
    return WordVectors(vectors_file(config))


def vectors_file(config: RelevanceConfig) -> Path:
    """Return the file of word vectors of a configuration.

    Raises:
        ConfigError: it is not set.
        DataError: it does not exist.
    """
    if config.vectors is None:
        raise ConfigError("training.relevance.vectors: initial: glove needs a file of word vectors; name one")
    path = Path(config.vectors)
    if not path.is_file():
        raise DataError(f"{path}: file of word vectors not found")
    return path


def asked(example: Example) -> str:
    """Return the text of the query, or the names of the labels; empty if there are none.

    >>> asked(Example(id="1", document=Document("a"), labels=("rec.autos", "sci.space")))
    'rec autos sci space'
    """
    if example.query is not None:
        return example.query.text
    return " ".join(terms(" ".join(example.labels or ())))


class WordVectors:
    """Cosine similarity of mean word vectors.

    Args:
        path: a file with a word and its numbers per line, separated by spaces.

    Raises:
        DataError: the file is missing, or a line has no numbers or another dimension than the first; names the line.
    """

    def __init__(self, path: Path) -> None:
        self.vectors: dict[str, Float[np.ndarray, " dimension"]] = {}
        dimension = 0
        for number, line in enumerate(read_lines(path), start=1):
            word, *numbers = line.rstrip().split(" ")
            try:
                vector = np.array([float(value) for value in numbers], dtype=np.float32)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not a word and its numbers: {line[:40]!r}") from error
            dimension = dimension or len(vector)
            if not dimension or len(vector) != dimension:
                raise DataError(f"{path}:{number}: the word has {len(vector)} numbers; expected {dimension or 'some'}")
            self.vectors[word] = vector
        if not self.vectors:
            raise DataError(f"{path}: the file has no word vectors")

    def __call__(self, example: Example, blocks: Blocks) -> Float[np.ndarray, " blocks"] | None:
        """Compute similarities in [−1, 1]; None if no word of the query has a vector."""
        query = self._mean(terms(asked(example)))
        if query is None:
            return None
        means = [self._mean(terms(blocks.text_with_heading(index))) for index in range(len(blocks))]
        return np.array([_cosine(query, vector) if vector is not None else 0.0 for vector in means])

    def _mean(self, words: Iterable[str]) -> Float[np.ndarray, " dimension"] | None:
        known = [self.vectors[word] for word in words if word in self.vectors]
        return np.mean(known, axis=0) if known else None


class _Embeddings:
    """Cosine similarity of mean token vectors of the reasoner's encoder.

    Args:
        reader: the model with the encoder.
    """

    def __init__(self, reader: WindowReader) -> None:
        self.reader = reader

    def __call__(self, example: Example, blocks: Blocks) -> Float[np.ndarray, " blocks"] | None:
        """Compute similarities in [−1, 1]; None without a query."""
        text = asked(example)
        if not text:
            return None
        query = self._means(self.reader.model.split(Document(text, id="query")))
        return np.array([_cosine(query.mean(axis=0), vector) for vector in self._means(blocks)])

    def _means(self, blocks: Blocks) -> Float[np.ndarray, "blocks width"]:
        model = self.reader.model
        encoder = model.reasoner.encoder.eval()
        means = np.zeros((len(blocks), encoder.width))
        for window, vectors in model.runner.run(model.form.layout(None, blocks).windows(), encoder):
            for block in np.unique(window.block[window.block >= 0]):
                means[block] = vectors[window.block == block].mean(axis=0)
        return means


def _cosine(first: Float[np.ndarray, " width"], second: Float[np.ndarray, " width"]) -> float:
    """Cosine of two vectors; 0 if one of them is zero."""
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if norm else 0.0
