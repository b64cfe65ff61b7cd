"""Classification without an encoder: TF-IDF of single words and a linear SVM (scikit-learn), of the whole text.

The scores are those of the margins (softmax; sigmoid where a text may have any number of labels), not calibrated
probabilities. scikit-learn is imported where it is used, as that takes a second of every command's start.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Float

from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import Judge, ScoringJudge
from cogltx.model import ModelConfig
from cogltx.reader import ReadDocument, Reader
from cogltx.reasoners.base import Conclusion
from cogltx.reasoners.classification import ClassificationConfig, ClassReading, class_reading, conclude
from cogltx.storage import load_tensors, new_folder, read_json, save_tensors, write_json


class BagOfWords(Reader):
    """TF-IDF (logarithmic counts, unit length) and one linear SVM a label against the others.

    Args:
        config: with the reasoner ``classification``, which names the labels.
        terms: the vocabulary.
        idf: of each term.
        weights: of each term for each label.
        bias: of each label.

    Raises:
        ConfigError: the reasoner is not ``classification``, or a label name is the query.
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

        reasoner = config.reasoner
        if not isinstance(reasoner, ClassificationConfig):
            raise ConfigError(f'reader "bag_of_words": expected reasoner.name: classification, got {reasoner.name!r}')
        if config.task.options.get("label_queries"):
            raise ConfigError('reader "bag_of_words": expected texts without queries, got task.options.label_queries')
        self.config, self.labels = config, reasoner
        self._words = TfidfVectorizer(sublinear_tf=True, vocabulary=list(terms) or None)
        if idf is not None:
            self._words.idf_ = idf
        self._weights, self._bias = weights, bias

    @classmethod
    def new(cls, config: ModelConfig) -> Self:
        """See ``Reader.new``."""
        return cls(config)

    @classmethod
    def load(
        cls,
        folder: Path,
        config: ModelConfig,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | None = None,
    ) -> Self:
        """See ``Reader.load``."""
        terms = read_json(folder / "terms.json")
        found = load_tensors(folder / "weights.safetensors")
        if not isinstance(terms, list) or set(found) != {"idf", "weights", "bias"} or len(found["idf"]) != len(terms):
            raise ModelError(f"{folder}: expected the weights of a bag of words and its terms, got others")
        return cls(config, terms, *(found[name].numpy() for name in ("idf", "weights", "bias")))

    def fit(self, examples: Sequence[Example], *, seed: int = 0) -> None:
        """Learns from texts with labels.

        Args:
            examples: those without labels are left out.
            seed: of the SVM's solver.

        Raises:
            DataError: no text has a label, all have the same, or none has a word.
        """
        from sklearn.svm import LinearSVC

        known = [example for example in examples if example.labels is not None]
        names = self.labels.labels
        wanted = np.array([[name in (example.labels or ()) for name in names] for example in known], dtype=bool)
        if not known or not (wanted.any(axis=0) & ~wanted.all(axis=0)).any():
            raise DataError(f"training: expected texts with different labels, got {len(known)} texts")
        try:
            features = self._words.fit_transform([example.document.text for example in known])
        except ValueError as error:
            raise DataError(f"training: expected texts with words, got {len(known)} without any") from error
        self._weights = np.zeros((len(names), features.shape[1]))
        self._bias = np.where(wanted.all(axis=0), 1.0, -1.0)  # of labels that all texts have, or none
        weight = "balanced" if self.labels.class_weights else None
        for index in range(len(names)):
            if wanted[:, index].any() and not wanted[:, index].all():
                svm = LinearSVC(random_state=seed % 2**32, class_weight=weight).fit(features, wanted[:, index])
                self._weights[index], self._bias[index] = svm.coef_[0], svm.intercept_[0]

    def read(self, examples: Sequence[Example]) -> list[ReadDocument]:
        """The scores of every label."""
        if self._weights is None or self._bias is None:
            raise ModelError('reader "bag_of_words": expected a trained model, got a new one')
        features = self._words.transform([example.document.text for example in examples])
        margins = np.asarray(features @ self._weights.T) + self._bias
        return [ReadDocument(class_reading(own, self.labels)) for own in margins]

    def conclude(self, reading: ClassReading) -> Conclusion:
        """See ``Reader.conclude``."""
        return conclude(reading, self.labels)

    def save_pretrained(self, folder: str | Path) -> None:
        """See ``Reader.save_pretrained``: terms as JSON, numbers as safetensors."""
        if self._weights is None or self._bias is None:
            raise ModelError('reader "bag_of_words": expected a trained model to save, got a new one')
        arrays = {"idf": self._words.idf_, "weights": self._weights, "bias": self._bias}
        with new_folder(Path(folder)) as target:
            terms = self._words.get_feature_names_out().tolist()
            (target / "terms.json").write_text(json.dumps(terms, ensure_ascii=False), encoding="utf-8")
            save_tensors(
                target / "weights.safetensors",
                {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()},
            )
            write_json(target / "config.json", self.config.model_dump(mode="json"))
