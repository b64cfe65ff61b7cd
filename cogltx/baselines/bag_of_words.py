"""Classification without an encoder: TF-IDF of single words and a linear SVM (scikit-learn), of the whole text.

The scores are a softmax of the margins (a sigmoid each if a text may have any number of labels), not calibrated
probabilities. scikit-learn is imported where it is used, because that takes a second.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float

from cogltx.document import Document, Example, Query
from cogltx.encoding.weights import load_tensors, to_safetensors
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import new_folder, read_json
from cogltx.model import ModelConfig
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction
from cogltx.reasoners import ClassificationConfig


class BagOfWords(Reader):
    """TF-IDF (logarithmic counts, unit length) and one linear SVM per label against the others.

    Args:
        config: with the reasoner ``classification``, which names the labels.
        terms: the vocabulary.
        idf: inverse document frequency per term.
        weights: weight per label and term.
        bias: bias per label.

    Attributes:
        reasoner: labels and threshold.

    Raises:
        ConfigError: the reasoner is not ``classification``, or label names are queries.
    """

    def __init__(
        self,
        config: ModelConfig,
        terms: Sequence[str] = (),
        idf: Float[np.ndarray, " terms"] | None = None,
        weights: Float[np.ndarray, "labels terms"] | None = None,
        bias: Float[np.ndarray, " labels"] | None = None,
    ) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        if not isinstance(config.reasoner, ClassificationConfig):
            raise ConfigError(f"reader: bag_of_words needs reasoner.name: classification, not {config.reasoner.name}")
        if config.task.options.get("label_queries"):
            raise ConfigError("reader: bag_of_words reads texts without questions; remove task.options.label_queries")
        self._config, self.reasoner = config, config.reasoner
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=list(terms) or None)
        if idf is not None:
            self._vectorizer.idf_ = idf
        self._weights, self._bias = weights, bias

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return self._config.model_copy(update={"reasoner": self.reasoner})

    @classmethod
    def create(cls, config: ModelConfig, *, device: torch.device | str | None = None) -> Self:
        """See ``Reader.create``."""
        return cls(config)

    @classmethod
    def load(
        cls, folder: Path, config: ModelConfig, *, device: torch.device | str | None = None, judge: Any = None
    ) -> Self:
        """See ``Reader.load``."""
        terms = read_json(folder / "terms.json")["terms"]
        saved = load_tensors(folder / "weights.safetensors")
        if not isinstance(terms, list) or set(saved) != {"idf", "weights", "bias"} or len(saved["idf"]) != len(terms):
            raise ModelError(f"{folder}: terms.json and weights.safetensors are not those of one bag of words")
        return cls(config, terms, *(saved[name].numpy() for name in ("idf", "weights", "bias")))

    def fit(self, examples: Sequence[Example], *, seed: int = 0) -> None:
        """Train on texts with labels.

        Args:
            examples: those without labels are ignored.
            seed: seed of the SVM's solver.

        Raises:
            DataError: no text has a label, all have the same, or none has a word.
        """
        from sklearn.svm import LinearSVC

        labelled = [example for example in examples if example.labels is not None]
        names = self.reasoner.labels
        has_label = np.array([[name in (example.labels or ()) for name in names] for example in labelled], dtype=bool)
        if not labelled or not (has_label.any(axis=0) & ~has_label.all(axis=0)).any():
            raise DataError(
                f"training: all {len(labelled)} labelled texts have the same labels; at least two are needed"
            )
        try:
            features = self._vectorizer.fit_transform([example.document.text for example in labelled])
        except ValueError as error:
            raise DataError(f"training: none of the {len(labelled)} texts has a word") from error
        self._weights = np.zeros((len(names), features.shape[1]))
        self._bias = np.where(has_label.all(axis=0), 1.0, -1.0)  # for labels that all texts have, or none
        class_weight = "balanced" if self.reasoner.class_weights else None
        for index in range(len(names)):
            if has_label[:, index].any() and not has_label[:, index].all():
                svm = LinearSVC(random_state=seed % 2**32, class_weight=class_weight).fit(features, has_label[:, index])
                self._weights[index], self._bias[index] = svm.coef_[0], svm.intercept_[0]

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Score every label of each text."""
        if self._weights is None or self._bias is None:
            raise ModelError("reader bag_of_words: the model is not trained")
        features = self._vectorizer.transform([document.text for document, _ in requests])
        margins = np.asarray(features @ self._weights.T) + self._bias
        predictions = [self.reasoner.predict(self.reasoner.probabilities(row)) for row in margins]
        return [replace(one, id=document.id) for one, (document, _) in zip(predictions, requests, strict=True)]

    def save_pretrained(self, folder: str | Path, *, name: str | None = None) -> None:
        """See ``Reader.save_pretrained``: terms as JSON, numbers as safetensors."""
        if self._weights is None or self._bias is None:
            raise ModelError("reader bag_of_words: the model is not trained, so there is nothing to save")
        arrays = {"idf": self._vectorizer.idf_, "weights": self._weights, "bias": self._bias}
        with new_folder(Path(folder)) as target:
            terms = self._vectorizer.get_feature_names_out().tolist()
            (target / "terms.json").write_text(json.dumps({"terms": terms}, ensure_ascii=False), encoding="utf-8")
            tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}
            (target / "weights.safetensors").write_bytes(to_safetensors(tensors))
            self.config.save(target)
