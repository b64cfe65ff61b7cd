"""The classification reasoner: the labels of a text, from the first token of a window (CogLTX figure 2b).

One label of several (softmax), or any number of labels (``multi_label``: a sigmoid each). With label names as queries
(``[CLS] label [SEP] z``, the paper's method for many labels) the labels are "yes" and "no", and one model serves all
names.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from cogltx._messages import unknown_label
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Layout, Window
from cogltx.errors import ConfigError, DataError
from cogltx.linear import LinearModel, WordsModel
from cogltx.prediction import Answer, Label, Prediction
from cogltx.reasoners._pooling import window_pooling
from cogltx.reasoners.base import IsRight, KeyBlocks, Reasoner, ReasonerConfig, WindowOutputs, whole_document

_LINEAR_WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
_LEAST = 1e-9  # probability
LabelScores: TypeAlias = Float[np.ndarray, " labels"]


class ClassificationConfig(ReasonerConfig):
    """Settings of the classification reasoner.

    Attributes:
        name: ``classification``.
        labels: all labels, in the order of the outputs; training collects them from the data.
        multi_label: a text may have any number of labels.
        pooling: input of the head: the first token of a window, as in the paper, or the mean over its tokens.
        threshold: probability from which a label is chosen if ``multi_label`` is set, or, for the labels "yes" and
            "no", from which the answer is yes; training chooses it on the validation data.
        over_windows: how the sliding window combines the windows of a document: mean or maximum of their
            probabilities (for the labels "yes" and "no": the window with the highest p(yes)), or a network over their
            vectors, trained with the encoder (``mlp``, ``lstm``).
        linear_weight: weight of the margins of a linear model of the words of the whole text, added to the logits;
            with any number, training fits the model and chooses the weight on the validation data. None: no model.
    """

    default_task: ClassVar[str] = "classification"
    pipeline_tag: ClassVar[str] = "text-classification"
    gold: ClassVar[str] = "labels"
    labels_texts: ClassVar[bool] = True

    name: Literal["classification"] = "classification"
    labels: tuple[str, ...] = ()
    multi_label: bool = False
    pooling: Literal["first", "mean"] = "first"
    threshold: float = Field(0.5, ge=0, le=1)
    over_windows: Literal["mean", "max", "mlp", "lstm"] = "mean"
    linear_weight: float | None = Field(None, ge=0)

    @property
    def uses_linear(self) -> bool:
        """See ``ReasonerConfig.uses_linear``."""
        return self.linear_weight is not None

    def check(self, reader: str) -> None:
        """See ``ReasonerConfig.check``."""
        if self.over_windows in ("mlp", "lstm") and reader != "sliding_window":
            raise ConfigError(
                "reasoner.over_windows: a network over windows needs reader: sliding_window; use mean or max"
            )

    def fitted(self, examples: Sequence[Example]) -> Self:
        """Collect the labels; see ``ReasonerConfig.fitted``."""
        labels = {label for example in examples for label in example.labels or ()}
        if not labels:
            raise DataError("no example has a label, which the reasoner classification learns")
        return self.model_copy(update={"labels": self.labels or tuple(sorted(labels))})

    @property
    def answers_label_names(self) -> bool:
        """Whether the labels are "yes" and "no", for label names as queries."""
        return set(self.labels) == {"yes", "no"}

    def unknown_labels(self, example: Example) -> list[str]:
        """See ``ReasonerConfig.unknown_labels``."""
        return [label for label in example.labels or () if label not in self.labels]

    def threshold_candidates(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], is_right: IsRight
    ) -> list[Self]:
        """Return weights of the linear model and, for any number of labels or "yes" and "no", thresholds.

        The thresholds are quantiles of the probabilities of the validation texts.
        """
        weighed = [self]
        if self.uses_linear:
            weighed = [self.model_copy(update={"linear_weight": weight}) for weight in _LINEAR_WEIGHTS]
        if not self.multi_label and not self.answers_label_names:
            return weighed if self.uses_linear else []
        candidates = []
        for config in weighed:
            labels = [label for one in predictions for label in _joined(config, one.labels)]
            probabilities = [label.score for label in labels if self.multi_label or label.name == "yes"]
            quantiles = np.quantile(probabilities, np.linspace(0, 1, 201))
            thresholds = np.unique(np.clip([*quantiles, 0.5], 0, 1)).tolist()
            candidates += [config.model_copy(update={"threshold": threshold}) for threshold in thresholds]
        return candidates

    def without_thresholds(self) -> Self:
        """See ``ReasonerConfig.without_thresholds``."""
        return self.model_copy(update={"linear_weight": 0.0}) if self.uses_linear else self

    def apply_thresholds(self, prediction: Prediction) -> Prediction:
        """Join the scores, and choose all labels from the threshold on, yes from it on, or the most probable label."""
        joined = _joined(self, prediction.labels)
        return _with_chosen(prediction, joined, self._chosen(joined))

    def applied(self, candidates: Sequence[Self], predictions: Sequence[Prediction]) -> Iterator[list[Prediction]]:
        """See ``ReasonerConfig.applied``; most thresholds change the labels of few texts."""
        for _, of_weight in groupby(candidates, key=lambda candidate: candidate.linear_weight):
            configs = list(of_weight)
            joined = [_joined(configs[0], prediction.labels) for prediction in predictions]
            made: list[tuple[set[str] | None, Prediction]] = [(None, prediction) for prediction in predictions]
            for config in configs:
                for number, labels in enumerate(joined):
                    names = config._chosen(labels)
                    if names != made[number][0]:
                        made[number] = names, _with_chosen(predictions[number], labels, names)
                yield [prediction for _, prediction in made]

    def _chosen(self, joined: Sequence[Label]) -> set[str]:
        """Names of the labels that are chosen."""
        if self.multi_label:
            return {label.name for label in joined if label.score >= self.threshold}
        if self.answers_label_names:
            return {"yes" if next(label.score for label in joined if label.name == "yes") >= self.threshold else "no"}
        return {joined[0].name}


def fit_words(model: WordsModel, config: ClassificationConfig, examples: Sequence[Example], *, seed: int = 0) -> None:
    """Train a model of words for the labels of a reasoner; examples without labels are ignored.

    Where label names are queries, a linear model learns one label per query: whether the answer is yes.

    Raises:
        DataError: no text has a label, all have the same, or none has a word.
    """
    labelled = [example for example in examples if example.labels is not None]
    queried = [(one.query.text, one) for one in labelled if one.query is not None]
    if queried and isinstance(model, LinearModel) and config.answers_label_names:
        answers: dict[str, dict[str, bool]] = {name: {} for name, _ in queried}
        for name, one in queried:
            answers[name][one.document.text] = "yes" in (one.labels or ())
        model.fit_queries(answers, seed=seed)
        return
    has_label = np.array([[name in (one.labels or ()) for name in config.labels] for one in labelled], dtype=bool)
    has_label = has_label.reshape(len(labelled), len(config.labels))
    model.fit([one.document.text for one in labelled], has_label, seed=seed)


def choose_labels(
    config: ClassificationConfig, probabilities: LabelScores, margins: LabelScores | None = None
) -> Prediction:  # fmt: skip
    """Choose labels by their probabilities and, if there are any, the margins of a linear model.

    The confidence is the lowest of the chosen labels; see ``ClassificationConfig.apply_thresholds``.
    """
    said = [None] * len(config.labels) if margins is None else margins.tolist()
    scores = zip(config.labels, probabilities.tolist(), said, strict=True)
    labels = tuple(Label(name, probability, False, margin) for name, probability, margin in scores)
    return config.apply_thresholds(Prediction(id="", answer="", start=None, end=None, confidence=0.0, labels=labels))


def label_probabilities(config: ClassificationConfig, logits: LabelScores) -> LabelScores:
    """Compute a softmax over the labels, or a sigmoid per label if ``multi_label`` is set."""
    if config.multi_label:
        return np.asarray(1 / (1 + np.exp(-logits)))
    exponential = np.exp(logits - logits.max())
    return np.asarray(exponential / exponential.sum())


def _with_chosen(prediction: Prediction, joined: Sequence[Label], names: Set[str]) -> Prediction:
    """Fill a prediction from its labels, of which those with the given names are chosen."""
    labels = tuple(replace(label, chosen=label.name in names) for label in joined)
    chosen = [label for label in labels if label.chosen]
    others = tuple(Answer(label.name, None, None, label.score) for label in labels if not label.chosen)
    return replace(
        prediction,
        answer="; ".join(label.name for label in chosen),
        confidence=min((label.score for label in chosen), default=1 - labels[0].score),
        alternatives=others[:2],
        labels=labels,
    )


def _joined(config: ClassificationConfig, labels: Sequence[Label]) -> tuple[Label, ...]:
    """Add the weighted margins to the logits of probabilities, and sort the labels by the result."""
    scores = np.array([label.score for label in labels])
    if config.linear_weight and labels[0].margin is not None:
        likely = np.clip(scores, _LEAST, 1 - _LEAST)
        logits = np.log(likely) - np.log1p(-likely) * config.multi_label
        margins = np.array([label.margin for label in labels])
        scores = label_probabilities(config, logits + config.linear_weight * margins)
    order = np.argsort(-scores, kind="stable").tolist()
    return tuple(replace(labels[index], score=float(scores[index])) for index in order)


class ClassificationReasoner(Reasoner[tuple[int, ...]]):
    """A score per label from the vectors of an encoder; the target of a window is the indices of its labels.

    Raises:
        ConfigError: there are fewer than two labels (``multi_label``: none), or a label is repeated.
    """

    config_class = ClassificationConfig

    def __init__(self, encoder: Encoder, config: ClassificationConfig) -> None:
        super().__init__(encoder, config)
        n_required = 1 if config.multi_label else 2
        if len(config.labels) < n_required:
            raise ConfigError(
                f"reasoner.labels: the data has {len(config.labels)} labels; at least {n_required} needed"
            )
        if len(set(config.labels)) < len(config.labels):
            raise ConfigError(f"reasoner.labels: a label is repeated in {', '.join(config.labels)}")
        self.head = nn.Linear(encoder.width, len(config.labels))
        self.over: nn.Module | None = None
        if config.over_windows != "mean" and config.over_windows != "max":
            self.over = window_pooling(config.over_windows, encoder.width)
        self.joint_loss = self.over is not None

    def forward(self, batch: Batch) -> Float[Tensor, "windows 1 outputs"]:
        """Compute the logit of every label, or the vector of the window for a network over windows."""
        hidden = self.encoder(batch)
        if self.config.pooling == "first":
            pooled = hidden[:, 0]
        else:
            mask = batch.attention_mask[..., None].to(hidden.dtype)
            pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        outputs: Tensor = self.head(pooled) if self.over is None else pooled
        return outputs[:, None]

    def _logits(self, vectors: Float[Tensor, "windows 1 width"]) -> Float[Tensor, "1 1 labels"]:
        """Compute the logit of every label from the vectors of a document's windows, in order."""
        assert self.over is not None, "there is a network over windows"
        with torch.autocast(vectors.device.type, enabled=False):
            logits: Tensor = self.head(self.over(vectors[:, 0].float()))
        return logits[None, None]

    def windows_per_epoch(self, n_windows: int) -> int:
        """Train on all windows together if a network reads over them."""
        return n_windows if self.joint_loss else 1

    def target(self, example: Example, blocks: Blocks, window: Window) -> tuple[int, ...] | None:
        """Return the labels of the example; they do not depend on the window.

        Raises:
            DataError: a label is unknown, or there is not exactly one label and ``multi_label`` is not set.
        """
        if example.labels is None:
            return None
        if unknown := self.config.unknown_labels(example):
            raise DataError(unknown_label(example.id, unknown[0], self.config.labels))
        if not self.config.multi_label and len(example.labels) != 1:
            raise DataError(
                f"example {example.id!r} has {len(example.labels)} labels, not one; set reasoner.multi_label: true"
            )
        return tuple(map(self.config.labels.index, example.labels))

    def losses(
        self, outputs: Float[Tensor, "windows 1 labels"], windows: Sequence[Window], targets: Sequence[tuple[int, ...]]
    ) -> Float[Tensor, " windows"]:
        """Compute the cross-entropy per window; for any number of labels, the mean over the labels."""
        logits = outputs[:, 0].float()
        expected = torch.zeros_like(logits)
        for row, target in enumerate(targets):
            expected[row, list(target)] = 1
        if self.config.multi_label:
            return nn.functional.binary_cross_entropy_with_logits(logits, expected, reduction="none").mean(dim=-1)
        cross_entropy: Tensor = -(expected * logits.log_softmax(dim=-1)).sum(dim=-1)
        return cross_entropy

    def document_losses(
        self, outputs: Tensor, n_windows: Sequence[int], windows: Sequence[Window], targets: Sequence[tuple[int, ...]]
    ) -> Float[Tensor, " losses"]:
        """Compute the cross-entropy per window, or per document if a network reads over its windows."""
        if not self.joint_loss:
            return self.losses(outputs, windows, targets)
        ends = [0, *accumulate(n_windows)]
        logits = torch.cat([self._logits(outputs[start:end]) for start, end in pairwise(ends)])
        return self.losses(logits, [windows[start] for start in ends[:-1]], [targets[start] for start in ends[:-1]])

    def intervention_losses(
        self, outputs: Float[Tensor, "windows 1 labels"], windows: Sequence[Window], targets: Sequence[tuple[int, ...]]
    ) -> Float[Tensor, " windows"]:
        """Compute ``losses``; for any number of labels their sum, so that a threshold holds for one changed label."""
        return self.losses(outputs, windows, targets) * (len(self.config.labels) if self.config.multi_label else 1)

    def predict(
        self, layout: Layout, outputs: Iterable[WindowOutputs], evidence: KeyBlocks = None, relevance: float = 1.0
    ) -> Prediction:
        """Combine the windows of a document: mean or maximum of their probabilities, or the network over them."""
        rows = np.stack([row[0] for _, row in outputs])
        if self.joint_loss:
            with torch.inference_mode():
                vectors = torch.from_numpy(rows.astype(np.float32)).to(self.head.weight.device)
                logits = self._logits(vectors[:, None])[0, 0].double().cpu().numpy()
            probabilities = label_probabilities(self.config, logits)
        else:
            per_window = np.stack([label_probabilities(self.config, row.astype(np.float64)) for row in rows])
            if self.config.over_windows == "mean":
                probabilities = per_window.mean(axis=0)
            elif self.config.answers_label_names:  # one window is enough for "yes"; "no" holds in all
                probabilities = per_window[per_window[:, self.config.labels.index("yes")].argmax()]
            else:
                probabilities = per_window.max(axis=0)
            if not self.config.multi_label:
                probabilities = probabilities / probabilities.sum()
        return replace(choose_labels(self.config, probabilities, self._margins(layout)), **whole_document(layout))

    def _margins(self, layout: Layout) -> LabelScores | None:
        """The margins of the linear model; for a label name as query, those of its answers yes and no."""
        if self.linear is None:
            return None
        margins, queried = self.linear.document_margins(layout.blocks), self.linear.column(layout.query)
        if queried is None:
            return margins
        return np.array([margins[queried] if name == "yes" else -margins[queried] for name in self.config.labels])
