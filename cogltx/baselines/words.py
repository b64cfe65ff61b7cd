"""Classification without an encoder: a model of the words of a text.

The scores are a softmax of the margins (a sigmoid each if a text may have any number of labels), not calibrated
probabilities.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch

from cogltx._files import new_folder
from cogltx.baselines.text_cnn import ConvolutionalModel
from cogltx.config import ModelConfig, save_config
from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError
from cogltx.linear import LinearModel, WordsModel
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction
from cogltx.reasoners.classification import ClassificationConfig, choose_labels, fit_words, label_probabilities


class WordsReader(Reader):
    """Labels a text by a model of its words.

    Args:
        config: with the reasoner ``classification``, which names the labels.
        words: the model; by default a new one.

    Attributes:
        model_class: the class of the model.
        reasoner: the settings with labels and threshold.

    Raises:
        ConfigError: the reasoner is not ``classification``, or label names are queries.
    """

    model_class: ClassVar[type[WordsModel]]

    def __init__(self, config: ModelConfig, words: WordsModel | None = None) -> None:
        name, reasoner = config.reader, config.reasoner
        if not reasoner.labels_texts:
            raise ConfigError(f"reader: {name} needs reasoner.name: classification, not {reasoner.name}")
        if config.task.options.get("label_queries"):
            raise ConfigError(f"reader: {name} reads texts without questions; remove task.options.label_queries")
        self._config, self._words = config, words or self.model_class()
        self.reasoner = cast(ClassificationConfig, reasoner)

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
        return cls(config, cls.model_class.load(folder))

    def fit(self, examples: Sequence[Example], *, seed: int = 0) -> None:
        """Train on texts with labels; see ``fit_words``."""
        fit_words(self._words, self.reasoner, examples, seed=seed)

    def can_read(self, document: Document) -> bool:
        """See ``Reader.can_read``; a text without a word has scores, too."""
        return True

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Score every label of each text."""
        margins = self._words.margins([document.text for document, _ in requests])
        predictions = [choose_labels(self.reasoner, label_probabilities(self.reasoner, row)) for row in margins]
        return [replace(one, id=document.id) for one, (document, _) in zip(predictions, requests, strict=True)]

    def save_pretrained(self, folder: str | Path, *, name: str | None = None) -> None:
        """See ``Reader.save_pretrained``: words as JSON, numbers as safetensors."""
        with new_folder(Path(folder)) as target:
            self._words.save(target)
            save_config(self.config, target)


class BagOfWords(WordsReader):
    """TF-IDF and one linear SVM per label against the others; see ``LinearModel``."""

    model_class = LinearModel


class TextCNN(WordsReader):
    """Convolutions over vectors of the words; see ``ConvolutionalModel``."""

    model_class = ConvolutionalModel
