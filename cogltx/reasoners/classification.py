"""The classification reasoner: which labels a text has, from the first token of a window (paper figure 2b).

One label of several (softmax), or any number of them (``multi_label``: a yes or no for each). With label names as
queries (``[CLS] label [SEP] z``, the paper's way for many labels) the labels are "yes" and "no", and one model serves
all names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Window
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Answer, Label
from cogltx.reasoners.base import BaseReasonerConfig, Conclusion, Reasoner
from cogltx.reasoners.pooling import over_windows


class ClassificationConfig(BaseReasonerConfig):
    """How texts are classified.

    Attributes:
        name: of the reasoner.
        labels: all labels, in the order of the outputs; training fills it in from the data.
        multi_label: a text may have any number of labels.
        pooling: what the head reads of a window: its first token, as in the paper, or the mean over its tokens.
        label_smoothing: share of the target that is spread over all labels, in [0, 1).
        class_weights: rarer labels count more, by the inverse of their number of training examples.
        weights: of the labels in the loss, their mean 1; training fills it in if ``class_weights`` is set.
        threshold: probability from which a label is chosen where a text may have any number; training chooses it on the
            validation data.
        over_windows: what the sliding window makes of a document's windows: the mean or the maximum of their
            probabilities, or a network over their vectors, trained with the encoder (``mlp``, ``lstm``,
            ``transformer``).
    """

    name: Literal["classification"]
    labels: tuple[str, ...] = ()
    multi_label: bool = False
    pooling: Literal["first", "mean"] = "first"
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    class_weights: bool = False
    weights: tuple[float, ...] = ()
    threshold: float = Field(0.5, ge=0, le=1)
    over_windows: Literal["mean", "max", "mlp", "lstm", "transformer"] = "mean"


@dataclass(frozen=True)
class ClassTarget:
    """The labels that a text has, as indices."""

    labels: tuple[int, ...]


@dataclass(frozen=True)
class ClassReading:
    """The probability of each label, shape [labels]; where windows are joined, the window's vector, shape [width]."""

    probabilities: Float[np.ndarray, " labels"]
    vector: Float[np.ndarray, " width"] | None = None


class ClassificationReasoner(Reasoner[ClassTarget, ClassReading]):
    """A score for every label on the vectors of an encoder.

    Args:
        encoder: the pre-trained encoder.
        config: names the labels.

    Raises:
        ConfigError: there are too few labels: fewer than two, or none where a text may have any number; or
            one comes twice.
    """

    def __init__(self, encoder: Encoder, config: ClassificationConfig) -> None:
        super().__init__(encoder)
        least = 1 if config.multi_label else 2
        if len(config.labels) < least:
            raise ConfigError(f"reasoner.labels: expected at least {least} in the data, got {len(config.labels)}")
        if len(set(config.labels)) < len(config.labels):
            raise ConfigError(f"reasoner.labels: expected each label once, got {', '.join(config.labels)}")
        self.config = config
        self.head = nn.Linear(encoder.width, len(config.labels))
        self.over: nn.Module | None = None
        if config.over_windows != "mean" and config.over_windows != "max":
            self.over = over_windows(config.over_windows, encoder.width)
        self.joins = self.over is not None
        self._index = {label: index for index, label in enumerate(config.labels)}

    def forward(self, batch: Batch) -> Float[Tensor, "windows 1 outputs"]:
        """The logit of every label; where windows are joined, their vectors."""
        hidden = self.encoder(batch)
        if self.config.pooling == "first":
            pooled = hidden[:, 0]
        else:
            shown = batch.attention_mask[..., None].to(hidden.dtype)
            pooled = (hidden * shown).sum(dim=1) / shown.sum(dim=1)
        outputs: Tensor = pooled if self.joins else self.head(pooled)
        return outputs[:, None]

    def joined(self, outputs: Float[Tensor, "windows 1 width"]) -> Float[Tensor, "1 1 labels"]:
        """The logit of every label, from the vectors of a document's windows."""
        assert self.over is not None, "windows are joined"
        with torch.autocast(outputs.device.type, enabled=False):
            logits: Tensor = self.head(self.over(outputs[:, 0].float()))
        return logits[None, None]

    def target(self, example: Example, blocks: Blocks, window: Window) -> ClassTarget | None:
        """The labels of the example, whatever the window shows.

        Raises:
            DataError: the example has a label that the reasoner does not know, or not exactly one.
        """
        if example.labels is None:
            return None
        unknown = next((label for label in example.labels if label not in self._index), None)
        if unknown is not None:
            known = ", ".join(self.config.labels[:10]) + (", …" if len(self.config.labels) > 10 else "")
            raise DataError(f"example {example.id!r}: expected one of the labels {known}, got {unknown!r}")
        if not self.config.multi_label and len(example.labels) != 1:
            raise DataError(
                f"example {example.id!r}: expected one label, got {len(example.labels)}; set reasoner.multi_label"
            )
        return ClassTarget(tuple(self._index[label] for label in example.labels))

    def losses(
        self, outputs: Float[Tensor, "windows 1 labels"], windows: Sequence[Window], targets: Sequence[ClassTarget]
    ) -> Float[Tensor, " windows"]:
        """Cross-entropy, a window; for any number of labels the mean of the labels' own."""
        logits = outputs[:, 0].float()
        wanted = torch.zeros_like(logits)
        for row, target in enumerate(targets):
            wanted[row, list(target.labels)] = 1
        smoothing = self.config.label_smoothing
        weights = torch.tensor(self.config.weights or (1.0,), device=logits.device)
        if self.config.multi_label:
            wanted = wanted * (1 - smoothing) + smoothing / 2
            each = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
            return (each * weights).mean(dim=-1)
        wanted = wanted * (1 - smoothing) + smoothing / logits.shape[-1]
        losses: Tensor = -(wanted * weights * logits.log_softmax(dim=-1)).sum(dim=-1)
        return losses

    def says_nothing(self, target: ClassTarget) -> bool:
        """Never: every window of a text has the text's labels."""
        return False

    def silent(self) -> None:
        """There is no such target."""

    def read(self, outputs: Float[np.ndarray, "1 outputs"], window: Window, blocks: Blocks) -> ClassReading:
        """The probability of every label."""
        if self.joins:
            return self._read_together(outputs)
        return class_reading(outputs[0].astype(np.float64), self.config)

    @torch.inference_mode()
    def _read_together(self, vectors: Float[np.ndarray, "windows width"]) -> ClassReading:
        given = torch.from_numpy(vectors.astype(np.float32)).to(self.head.weight.device)
        logits = self.joined(given[:, None])[0, 0].double().cpu().numpy()
        return ClassReading(class_reading(logits, self.config).probabilities, vectors[0])

    def merged(self, readings: Sequence[ClassReading]) -> ClassReading:
        """The mean or the maximum over the windows of a document, or what the network makes of them."""
        vectors = [reading.vector for reading in readings if reading.vector is not None]
        if vectors:
            return self._read_together(np.stack(vectors))
        every = np.stack([reading.probabilities for reading in readings])
        pooled = every.mean(axis=0) if self.config.over_windows == "mean" else every.max(axis=0)
        return ClassReading(pooled if self.config.multi_label else pooled / pooled.sum())

    def conclude(self, reading: ClassReading) -> Conclusion:
        """See ``conclude``."""
        return conclude(reading, self.config)

    def tunings(
        self, examples: Sequence[Example], readings: Sequence[ClassReading]
    ) -> list[ClassificationConfig]:  # fmt: skip
        """Thresholds for labels of any number: quantiles of the probabilities that the validation texts got."""
        if not self.config.multi_label:
            return []
        every = np.concatenate([reading.probabilities for reading in readings])
        quantiles = np.quantile(every, np.linspace(0.5, 1, 101))
        candidates = np.unique(np.clip([*quantiles, 0.5], 0, 1)).tolist()
        return [self.config.model_copy(update={"threshold": threshold}) for threshold in candidates]


def class_reading(logits: Float[np.ndarray, " labels"], config: ClassificationConfig) -> ClassReading:
    """Probabilities from logits: softmax, or a sigmoid each where a text may have any number of labels."""
    if config.multi_label:
        return ClassReading(1 / (1 + np.exp(-logits)))
    exponential = np.exp(logits - logits.max())
    return ClassReading(exponential / exponential.sum())


def conclude(reading: ClassReading, config: ClassificationConfig) -> Conclusion:
    """The most probable label, or all from the threshold on; the score is the lowest of the chosen ones'."""
    order = np.argsort(-reading.probabilities, kind="stable").tolist()
    scores = [(config.labels[index], float(reading.probabilities[index])) for index in order]
    least = config.threshold if config.multi_label else scores[0][1]
    labels = tuple(
        Label(name, score, score >= least and (config.multi_label or place == 0))
        for place, (name, score) in enumerate(scores)
    )
    chosen = [label for label in labels if label.chosen]
    others = tuple(Answer(label.name, None, None, label.score) for label in labels if not label.chosen)[:2]
    score = min((label.score for label in chosen), default=1 - scores[0][1])
    return Conclusion("; ".join(label.name for label in chosen), None, None, score, others, labels)
