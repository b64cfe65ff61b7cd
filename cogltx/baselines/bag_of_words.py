"""Classification without an encoder: a linear model of the words of the whole text.

The scores are a softmax of the margins (a sigmoid each if a text may have any number of labels), not calibrated
probabilities.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError
from cogltx.files import new_folder
from cogltx.linear import LinearModel
from cogltx.model import ModelConfig
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction
from cogltx.reasoners import ClassificationConfig


class BagOfWords(Reader):
    """TF-IDF and one linear SVM per label against the others; see ``LinearModel``.

    Args:
        config: with the reasoner ``classification``, which names the labels.
        linear: the model; by default a new one.

    Attributes:
        reasoner: labels and threshold.

    Raises:
        ConfigError: the reasoner is not ``classification``, or label names are queries.
    """

    def __init__(self, config: ModelConfig, linear: LinearModel | None = None) -> None:
        if not isinstance(config.reasoner, ClassificationConfig):
            raise ConfigError(f"reader: bag_of_words needs reasoner.name: classification, not {config.reasoner.name}")
        if config.task.options.get("label_queries"):
            raise ConfigError("reader: bag_of_words reads texts without questions; remove task.options.label_queries")
        self._config, self.reasoner, self._linear = config, config.reasoner, linear or LinearModel()

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
        return cls(config, LinearModel.load(folder))

    def fit(self, examples: Sequence[Example], *, seed: int = 0) -> None:
        """Train on texts with labels; see ``ClassificationConfig.fit``."""
        self.reasoner.fit(self._linear, examples, seed=seed)

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Score every label of each text."""
        margins = self._linear.margins([document.text for document, _ in requests])
        predictions = [self.reasoner.predict(self.reasoner.probabilities(row)) for row in margins]
        return [replace(one, id=document.id) for one, (document, _) in zip(predictions, requests, strict=True)]

    def save_pretrained(self, folder: str | Path, *, name: str | None = None) -> None:
        """See ``Reader.save_pretrained``: terms as JSON, numbers as safetensors."""
        with new_folder(Path(folder)) as target:
            self._linear.save(target)
            self.config.save(target)
