"""Models of the words of a text; here a linear one: TF-IDF of single words, one linear SVM per label (scikit-learn).

scikit-learn is imported where it is used, because that takes a second.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float

from cogltx.encoding.weights import load_tensors, to_safetensors
from cogltx.errors import DataError, ModelError
from cogltx.files import read_json


class WordsModel(ABC):
    """Learns from the words of texts which labels they have."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Load what ``save`` wrote.

        Raises:
            ModelError: a file is missing, cut off, or not of this model.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write words as JSON and numbers as safetensors to a folder."""

    def fit(
        self,
        texts: Sequence[str],
        has_label: Bool[np.ndarray, "texts labels"],
        *,
        balanced: bool = False,
        seed: int = 0,
    ) -> None:
        """Train on texts.

        Args:
            texts: the training texts.
            has_label: whether a text has a label.
            balanced: weigh texts by the inverse frequency of having the label or not.
            seed: seed of all random choices.

        Raises:
            DataError: all texts have the same labels, or none has a word.
        """
        if not (has_label.any(axis=0) & ~has_label.all(axis=0)).any():
            raise DataError(f"training: all {len(texts)} labelled texts have the same labels; at least two are needed")
        self._learn(texts, has_label, balanced, seed)

    @abstractmethod
    def _learn(
        self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], balanced: bool, seed: int
    ) -> None:
        """Train on texts that differ in their labels."""

    @abstractmethod
    def margins(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the decision value of each label for each text; positive if the model predicts the label."""


class LinearModel(WordsModel):
    """TF-IDF (logarithmic counts, unit length) and one linear SVM per label against the others.

    Args:
        terms: the vocabulary.
        idf: inverse document frequency per term.
        weights: weight per label and term.
        bias: bias per label.
    """

    def __init__(
        self,
        terms: Sequence[str] = (),
        idf: Float[np.ndarray, " terms"] | None = None,
        weights: Float[np.ndarray, "labels terms"] | None = None,
        bias: Float[np.ndarray, " labels"] | None = None,
    ) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=list(terms) or None)
        if idf is not None:
            self._vectorizer.idf_ = idf
        self._weights, self._bias = weights, bias

    @classmethod
    def load(cls, folder: Path) -> Self:
        """See ``WordsModel.load``."""
        terms = read_json(folder / "terms.json")["terms"]
        saved = load_tensors(folder / "weights.safetensors")
        if not isinstance(terms, list) or set(saved) != {"idf", "weights", "bias"} or len(saved["idf"]) != len(terms):
            raise ModelError(f"{folder}: terms.json and weights.safetensors are not those of one linear model")
        return cls(terms, *(saved[name].numpy() for name in ("idf", "weights", "bias")))

    def save(self, folder: Path) -> None:
        """See ``WordsModel.save``."""
        weights, bias = self._trained()
        arrays = {"idf": self._vectorizer.idf_, "weights": weights, "bias": bias}
        terms = self._vectorizer.get_feature_names_out().tolist()
        (folder / "terms.json").write_text(json.dumps({"terms": terms}, ensure_ascii=False), encoding="utf-8")
        tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}
        (folder / "weights.safetensors").write_bytes(to_safetensors(tensors))

    def _learn(
        self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], balanced: bool, seed: int
    ) -> None:
        from sklearn.svm import LinearSVC

        varies = has_label.any(axis=0) & ~has_label.all(axis=0)
        features = count_words(self._vectorizer, texts)
        weights = np.zeros((has_label.shape[1], features.shape[1]))
        bias = np.where(has_label.all(axis=0), 1.0, -1.0)  # for labels that all texts have, or none
        for index in np.flatnonzero(varies):
            svm = LinearSVC(random_state=seed % 2**32, class_weight="balanced" if balanced else None)
            svm.fit(features, has_label[:, index])
            weights[index], bias[index] = svm.coef_[0], svm.intercept_[0]
        self._weights, self._bias = weights, bias

    def margins(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the distance of each text from the boundary of each label, positive on the label's side."""
        return np.asarray(self.contributions(texts) + self._trained()[1])

    def contributions(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the margins without the bias: the sum over the words of a text."""
        weights, _ = self._trained()
        return np.asarray(self._vectorizer.transform(texts) @ weights.T)

    def _trained(self) -> tuple[Any, Any]:
        if self._weights is None or self._bias is None:
            raise ModelError("the linear model is not trained")
        return self._weights, self._bias


def count_words(vectorizer: Any, texts: Sequence[str]) -> Any:
    """Fit a vectorizer of scikit-learn to training texts, and return their features.

    Raises:
        DataError: no text has a word.
    """
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:
        raise DataError(f"training: none of the {len(texts)} texts has a word") from error
