"""What a reasoner is: an encoder with a head that solves a task on one window, and what it makes of it.

Knows windows and blocks; not where the windows come from.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Window
from cogltx.prediction import Answer, FoundEntity, Label

Target = TypeVar("Target")
Reading = TypeVar("Reading")


class BaseReasonerConfig(BaseModel):
    """What every reasoner's configuration has.

    Attributes:
        init_from: a run or model folder whose reasoner this one starts from, or ``judge``: the encoder of this run's
            judge, and its head where training asks the reasoner for relevance too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    init_from: str | None = None


@dataclass(frozen=True)
class Relevant:
    """A block of a window with its relevance, in [0, 1]; ``start:end`` are its characters in the document."""

    start: int
    end: int
    score: float


@dataclass(frozen=True)
class Conclusion:
    """What a prediction says of one document, by the reasoner's thresholds; the fields are ``Prediction``'s."""

    answer: str
    start: int | None
    end: int | None
    score: float
    alternatives: tuple[Answer, ...] = ()
    labels: tuple[Label, ...] = ()
    entities: tuple[FoundEntity, ...] = ()
    n_unread: int = 0


class Reasoner(nn.Module, abc.ABC, Generic[Target, Reading]):
    """Solves a task on windows.

    Args:
        encoder: the pre-trained encoder.

    Attributes:
        by_block: whether every part of a document has an answer of its own, so that each block in turn is the query,
            and every window teaches something.
        joins: whether ``joined`` makes one output of those of a document's windows, before there is any loss.
        relevance: the head that tells the relevance of tokens, as the judge's, where training asks for it.
    """

    config: Any
    auxiliary: ClassVar[tuple[str, ...]] = ()
    """Beginnings of the names of weights that training alone needs; a model to start from may lack them."""
    by_block: ClassVar[bool] = False

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.relevance: nn.Module | None = None
        self.joins = False

    @abc.abstractmethod
    def forward(self, batch: Batch) -> Float[Tensor, "windows rows outputs"]:
        """The outputs of each window: a row a token, or one row."""

    def joined(self, outputs: Float[Tensor, "windows rows outputs"]) -> Float[Tensor, "1 rows results"]:
        """One output from those of a document's windows, in order; only for reasoners that join them."""
        raise NotImplementedError

    @abc.abstractmethod
    def target(self, example: Example, blocks: Blocks, window: Window) -> Target | None:
        """What the reasoner should say of a window of an example's document; None where that is unknown."""

    @abc.abstractmethod
    def losses(
        self, outputs: Float[Tensor, "windows rows outputs"], windows: Sequence[Window], targets: Sequence[Target]
    ) -> Float[Tensor, " windows"]:
        """The loss of each window."""

    @abc.abstractmethod
    def says_nothing(self, target: Target) -> bool:
        """Whether a target says that the window does not hold what is asked for."""

    @abc.abstractmethod
    def silent(self) -> Target | None:
        """The target of a window that does not hold what is asked for; None where every window holds it."""

    @abc.abstractmethod
    def read(self, outputs: Float[np.ndarray, "rows outputs"], window: Window, blocks: Blocks) -> Reading:
        """Decodes a window."""

    @abc.abstractmethod
    def merged(self, readings: Sequence[Reading]) -> Reading:
        """One reading of a document from those of its windows."""

    def weighed(self, reading: Reading, relevance: Sequence[Relevant]) -> Reading:
        """A reading in the light of the judge's fine scores; the same where they say nothing about it."""
        return reading

    @abc.abstractmethod
    def conclude(self, reading: Reading) -> Conclusion:
        """What a reading amounts to, by the thresholds."""

    def tunings(self, examples: Sequence[Example], readings: Sequence[Reading]) -> list[Any]:
        """Configurations of this reasoner that differ in their thresholds, worth trying on validation examples.

        Returns:
            none where there is nothing to tune.
        """
        return []
