"""How like each block is to what is asked, without training: what interventions can begin with (paper §3.3).

Compared are the query, or the label names where there is none, with the document's blocks: by BM25, by the mean of word
vectors from a file (GloVe's format), or by the mean vectors of the run's own encoder.
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
    """The similarity that a config names; None for no labels to begin with.

    Raises:
        ConfigError: the file of vectors is not named.
        DataError: it is missing or not in the format.
    """
    if config.initial == "none":
        return None
    if config.initial == "bm25":
        judge = BM25Judge()
        return lambda example, blocks: judge.text_scores(asked(example), blocks) if asked(example) else None
    if config.initial == "embedding":
        return Embeddings(reader)
    return WordVectors(vectors_file(config))


def vectors_file(config: RelevanceConfig) -> Path:
    """The file of word vectors that a config names.

    Raises:
        ConfigError: it names none.
        DataError: there is no such file.
    """
    if config.vectors is None:
        raise ConfigError("training.relevance.vectors: expected a file of word vectors beside initial: glove, got none")
    path = Path(config.vectors)
    if not path.is_file():
        raise DataError(f"{path}: expected a file of word vectors, found none")
    return path


def asked(example: Example) -> str:
    """The query, or the names of the example's labels; empty where there is neither.

    >>> asked(Example(id="1", document=Document("a"), labels=("rec.autos", "sci.space")))
    'rec autos sci space'
    """
    if example.query is not None:
        return example.query.text
    return " ".join(terms(" ".join(example.labels or ())))


class WordVectors:
    """Cosine of the mean word vectors.

    Args:
        path: a word and its numbers a line, parted by spaces.

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
                raise DataError(f"{path}:{number}: expected a word and numbers, got {line[:40]!r}") from error
            dimension = dimension or len(vector)
            if not dimension or len(vector) != dimension:
                raise DataError(f"{path}:{number}: expected {dimension or 'some'} numbers, got {len(vector)}")
            self.vectors[word] = vector
        if not self.vectors:
            raise DataError(f"{path}: expected word vectors, found none")

    def __call__(self, example: Example, blocks: Blocks) -> Float[np.ndarray, " blocks"] | None:
        """Similarities in [−1, 1]; None where no word of what is asked has a vector."""
        query = self._mean(terms(asked(example)))
        if query is None:
            return None
        found = [self._mean(terms(blocks.text_with_heading(index))) for index in range(len(blocks))]
        return np.array([cosine(query, vector) if vector is not None else 0.0 for vector in found])

    def _mean(self, words: Iterable[str]) -> Float[np.ndarray, " dimension"] | None:
        known = [self.vectors[word] for word in words if word in self.vectors]
        return np.mean(known, axis=0) if known else None


class Embeddings:
    """Cosine of the mean token vectors of the encoder that the reasoner starts from.

    Args:
        reader: whose encoder and windows are used.
    """

    def __init__(self, reader: WindowReader) -> None:
        self.reader = reader

    def __call__(self, example: Example, blocks: Blocks) -> Float[np.ndarray, " blocks"] | None:
        """Similarities in [−1, 1]; None where nothing is asked."""
        text = asked(example)
        if not text:
            return None
        query = self._means(self.reader.model.split(Document(text, id="query")))
        return np.array([cosine(query.mean(axis=0), vector) for vector in self._means(blocks)])

    def _means(self, blocks: Blocks) -> Float[np.ndarray, "blocks width"]:
        model = self.reader.model
        encoder = model.reasoner.encoder.eval()
        means = np.zeros((len(blocks), encoder.width))
        for window, vectors in model.runner.run(model.form.layout(None, blocks).windows(), encoder):
            for block in np.unique(window.block[window.block >= 0]):
                means[block] = vectors[window.block == block].mean(axis=0)
        return means


def cosine(first: Float[np.ndarray, " width"], second: Float[np.ndarray, " width"]) -> float:
    """Their cosine; 0 where one of them is zero."""
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if norm else 0.0
