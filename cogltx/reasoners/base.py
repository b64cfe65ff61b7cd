"""The interface of reasoners: an encoder with a head that solves a task on windows of key blocks."""

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from cogltx.blocks import Blocks
from cogltx.display import text_of
from cogltx.document import Document, Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Layout, Window
from cogltx.linear import LinearModel
from cogltx.prediction import Evidence, Prediction

Target = TypeVar("Target")
WindowOutputs: TypeAlias = tuple[Window, Float[np.ndarray, "_ outputs"]]
"""A window with what the reasoner's ``forward`` returned for it."""

IsRight: TypeAlias = Callable[[str, Sequence[str]], bool]
"""Whether an answer is right, given the gold answers."""

KeyBlocks: TypeAlias = Sequence[Evidence] | None
"""Key blocks with their probabilities of relevance; None if the judge gives no probabilities."""


class ReasonerConfig(BaseModel):
    """Settings that all reasoners have.

    Attributes:
        default_task: the task of a run that names none.
        default_judge: the judge of a run that names none.
        pipeline_tag: the task in the vocabulary of the Hugging Face hub.
        gold: what the reasoner learns from each example, for messages.
        labels_texts: whether it labels whole texts, so that a linear model of their words can be the judge.
        least_steps: optimizer steps that a new one needs, however few the examples.
        name: the reasoner.
        init_from: a run or model folder whose reasoner initializes this one, or ``judge``: the encoder of this run's
            judge after its first epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    default_task: ClassVar[str] = "jsonl"
    default_judge: ClassVar[str] = "encoder"
    pipeline_tag: ClassVar[str] = "question-answering"
    gold: ClassVar[str] = "place of the answer"
    labels_texts: ClassVar[bool] = False
    least_steps: ClassVar[int] = 0

    name: str
    init_from: str | None = None

    @property
    def uses_linear(self) -> bool:
        """Whether the reasoner adds the scores of a linear model of words to its own."""
        return False

    @property
    def as_in_transformers(self) -> bool:
        """Whether windows are laid out as by ``transformers``, whose question answering models the reasoner reads."""
        return False

    def missing_in_checkpoints(self) -> tuple[str, ...]:
        """Return the parts of the reasoner that a model of ``transformers`` does not have."""
        return ()

    def check(self, reader: str) -> None:
        """Check that a reader suits the reasoner.

        Raises:
            ConfigError: it does not.
        """

    def fitted(self, examples: Sequence[Example]) -> Self:
        """Complete the settings with what training takes from the examples, such as label names.

        Raises:
            DataError: the reasoner needs labels, and no example has one.
        """
        return self

    def unknown_labels(self, example: Example) -> list[str]:
        """Return the gold labels of an example that the model was not trained on; none where a task has no labels."""
        return []

    def threshold_candidates(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], is_right: IsRight
    ) -> list[Self]:
        """Return configurations that differ in their thresholds; none if there is nothing to tune.

        ``predictions`` are those of the validation examples, made ``without_thresholds``.
        """
        return []

    def without_thresholds(self) -> Self:
        """Return the configuration whose predictions contain what ``apply_thresholds`` needs."""
        return self

    def apply_thresholds(self, prediction: Prediction) -> Prediction:
        """Apply the thresholds to a prediction that was made ``without_thresholds``."""
        return prediction

    def applied(self, candidates: Sequence[Self], predictions: Sequence[Prediction]) -> Iterator[list[Prediction]]:
        """Apply the thresholds of each candidate to all predictions; an unchanged one may be the same object."""
        return ([candidate.apply_thresholds(one) for one in predictions] for candidate in candidates)

    def format(
        self, prediction: Prediction, documents: Sequence[Document] = (), *, bold: Callable[[str], str] = str
    ) -> str:
        """Format a prediction as text.

        Args:
            prediction: answer, labels and passages.
            documents: what was read, for the places; several if they were joined.
            bold: marks the answer.
        """
        return text_of(prediction.to_dict(), documents, bold)


class Reasoner(nn.Module, abc.ABC, Generic[Target]):
    """Solves a task on windows.

    To add a reasoner: write a file with a configuration and a subclass, and add a line to ``REASONERS``.

    Args:
        encoder: the pretrained encoder.
        config: settings.

    Attributes:
        config_class: class of ``config``.
        config: settings; training completes them with labels and thresholds.
        joint_loss: whether the windows of a document have one loss together, and so share a forward pass.
        linear: the linear model of words whose scores are added, if the settings say so.
    """

    config_class: ClassVar[type[ReasonerConfig]]
    config: Any
    joint_loss: bool = False
    linear: LinearModel | None = None

    def __init__(self, encoder: Encoder, config: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config

    @abc.abstractmethod
    def forward(self, batch: Batch) -> Float[Tensor, "windows rows outputs"]:
        """Compute the outputs of each window: one row per token, or one row."""

    def layouts(self, layout: Layout) -> Iterator[Layout]:
        """Yield the layouts by which a document is read: the given one, unless its blocks are the queries."""
        yield layout

    def windows_per_epoch(self, n_windows: int) -> int:
        """Return how many windows of a document are trained on in an epoch, if the settings name no number."""
        return 1

    @abc.abstractmethod
    def target(self, example: Example, blocks: Blocks, window: Window) -> Target | None:
        """Return the training target of a window; None where it is unknown."""

    @abc.abstractmethod
    def losses(
        self, outputs: Float[Tensor, "windows rows outputs"], windows: Sequence[Window], targets: Sequence[Target]
    ) -> Float[Tensor, " windows"]:
        """Compute the loss of each window."""

    def document_losses(
        self, outputs: Tensor, n_windows: Sequence[int], windows: Sequence[Window], targets: Sequence[Target]
    ) -> Float[Tensor, " losses"]:
        """Compute the losses of some documents: one per window, or with ``joint_loss`` one per document.

        ``n_windows`` are the numbers of windows of the documents, whose windows follow each other.
        """
        return self.losses(outputs, windows, targets)

    def intervention_losses(
        self, outputs: Float[Tensor, "windows rows outputs"], windows: Sequence[Window], targets: Sequence[Target]
    ) -> Float[Tensor, " windows"]:
        """Compute the loss of each window that interventions compare with their thresholds, in nats (CogLTX §3.3)."""
        return self.losses(outputs, windows, targets)

    def is_negative(self, target: Target) -> bool:
        """Check whether a target says that the window does not contain the answer."""
        return False

    def negative_target(self) -> Target | None:
        """Return the target of a window without the answer; None if every window has a target."""
        return None

    @abc.abstractmethod
    def predict(
        self, layout: Layout, outputs: Iterable[WindowOutputs], evidence: KeyBlocks = None, relevance: float = 1.0
    ) -> Prediction:
        """Decode the windows of one document.

        Args:
            layout: the query and the document.
            outputs: all windows of the document, with their outputs.
            evidence: the key blocks, to weigh answers by.
            relevance: the judge's highest score of a key block, without bonuses; only used with ``evidence``.

        Returns:
            a prediction without evidence.
        """


def whole_document(layout: Layout) -> dict[str, Any]:
    """Return the fields of a prediction that describe the document."""
    blocks = layout.blocks
    return {"id": blocks.document.id, "n_tokens": blocks.n_tokens, "n_blocks": len(blocks)}
