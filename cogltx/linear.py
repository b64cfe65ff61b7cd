"""Classifiers of bags of words; here a linear one, by scikit-learn, which is imported on use: that takes a second."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Float

from cogltx._files import read_json
from cogltx._messages import some
from cogltx.blocks import AnyQuery, Blocks
from cogltx.document import Query
from cogltx.encoding._weights import load_tensors, to_safetensors
from cogltx.errors import DataError, ModelError


class WordsModel(ABC):
    """Predicts the labels of texts from their words."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Load a saved model; raises ModelError if a file is missing, cut off, or not of this model."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write words as JSON and numbers as safetensors to a folder."""

    def fit(self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], *, seed: int = 0) -> None:
        """Train on texts; raises DataError if all texts have the same labels, or none has a word."""
        if not (has_label.any(axis=0) & ~has_label.all(axis=0)).any():
            raise DataError(f"training: all {len(texts)} labelled texts have the same labels; at least two are needed")
        self._learn(texts, has_label, seed)

    @abstractmethod
    def _learn(self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], seed: int) -> None:
        """Train on texts that differ in their labels."""

    @abstractmethod
    def margins(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the decision value of each label for each text; positive if the model predicts the label."""


class LinearModel(WordsModel):
    """TF-IDF (logarithmic counts, unit length) and one linear SVM per label; label names may be queries."""

    def __init__(
        self,
        terms: Sequence[str] = (),
        idf: Float[np.ndarray, " terms"] | None = None,
        weights: Float[np.ndarray, "labels terms"] | None = None,
        bias: Float[np.ndarray, " labels"] | None = None,
        queries: Sequence[str] = (),
    ) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=list(terms) or None)
        if idf is not None:
            self._vectorizer.idf_ = idf
        self._weights, self._bias, self.queries = weights, bias, tuple(queries)
        self._margins: WeakKeyDictionary[Blocks, Float[np.ndarray, " labels"]] = WeakKeyDictionary()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """See ``WordsModel.load``."""
        words = read_json(folder / "terms.json")
        terms, queries = words.get("terms"), words.get("queries", [])
        saved = load_tensors(folder / "weights.safetensors")
        if (
            not isinstance(terms, list)
            or not isinstance(queries, list)
            or set(saved) != {"idf", "weights", "bias"}
            or len(saved["idf"]) != len(terms)
            or len(queries) not in (0, len(saved["bias"]))
        ):
            raise ModelError(f"{folder}: terms.json and weights.safetensors are not those of one linear model")
        idf, weights, bias = (saved[name].numpy() for name in ("idf", "weights", "bias"))
        return cls(terms, idf, weights, bias, queries)

    def save(self, folder: Path) -> None:
        """See ``WordsModel.save``."""
        weights, bias = self._trained()
        arrays = {"idf": self._vectorizer.idf_, "weights": weights, "bias": bias}
        words = {"terms": self._vectorizer.get_feature_names_out().tolist(), "queries": self.queries}
        (folder / "terms.json").write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
        tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}
        (folder / "weights.safetensors").write_bytes(to_safetensors(tensors))

    def _learn(self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], seed: int) -> None:
        features = count_words(self._vectorizer, texts)
        self._keep([_svm(features, column, seed) for column in has_label.T])

    def fit_queries(self, answers: Mapping[str, Mapping[str, bool]], *, seed: int = 0) -> None:
        """Train on label names that are queries: per label name, texts and whether they have the label."""
        if all(len(set(by_text.values())) < 2 for by_text in answers.values()):
            raise DataError("training: no label name has both answers, yes and no; at least one must")
        row = {text: index for index, text in enumerate(dict.fromkeys(chain.from_iterable(answers.values())))}
        features = count_words(self._vectorizer, list(row))
        self.queries = tuple(answers)
        known = [(features[[row[text] for text in by_text]], by_text.values()) for by_text in answers.values()]
        self._keep([_svm(of_texts, np.array(list(yes)), seed) for of_texts, yes in known])

    def _keep(self, svms: Sequence[tuple[Float[np.ndarray, " terms"], float]]) -> None:
        self._weights, self._bias = np.stack([weights for weights, _ in svms]), np.array([bias for _, bias in svms])
        self._margins.clear()

    def column(self, query: AnyQuery) -> int | None:
        """Return the index of the label that a query names; None if label names are not queries."""
        if not self.queries:
            return None
        name = query.text if isinstance(query, Query) else None
        if name not in self.queries:
            asked = "no question" if name is None else repr(name)
            raise DataError(
                f"the questions of this model are label names, such as {some(sorted(self.queries))}; got {asked}"
            )
        return self.queries.index(name)

    def document_margins(self, blocks: Blocks) -> Float[np.ndarray, " labels"]:
        """Compute the margins of a whole document, once for all its queries."""
        if blocks not in self._margins:
            self._margins[blocks] = self.margins([blocks.document.text])[0]
        return self._margins[blocks]

    def margins(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """See ``WordsModel.margins``."""
        return np.asarray(self.contributions(texts) + self._trained()[1])

    def contributions(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the margins without the bias: the sum over the words of a text."""
        weights, _ = self._trained()
        return np.asarray(self._vectorizer.transform(texts) @ weights.T)

    def _trained(self) -> tuple[Any, Any]:
        if self._weights is None or self._bias is None:
            raise ModelError("the linear model is not trained")
        return self._weights, self._bias


def _svm(features: Any, has_label: Bool[np.ndarray, " texts"], seed: int) -> tuple[Float[np.ndarray, " terms"], float]:
    """Train one SVM; return weights and bias. If all texts have the label, or none, the weights are 0."""
    from sklearn.svm import LinearSVC

    if has_label.all() or not has_label.any():
        return np.zeros(features.shape[1]), 1.0 if has_label.all() else -1.0
    svm = LinearSVC(random_state=seed % 2**32)
    svm.fit(features, has_label)
    return svm.coef_[0], float(svm.intercept_[0])


def count_words(vectorizer: Any, texts: Sequence[str]) -> Any:
    """Fit a vectorizer of scikit-learn to texts, and return their features; raises DataError if no text has a word."""
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:
        raise DataError(f"training: none of the {len(texts)} texts has a word") from error
