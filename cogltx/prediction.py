"""What the flow returns for one example: the answer, an exact slice of the text, and the evidence that led to it.

Plain data; knows nothing about tokens or models.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Evidence:
    """A key block.

    Attributes:
        start: first character of the block in the document, white space around it left out.
        end: one past its last character.
        text: ``document.text[start:end]``.
        score: relevance that the judge gave the block beside all other key blocks (the fine score).
        step: the step of MemRecall that retrieved the block, from 1; 0 where the document was read whole.
        kept: whether the block outlived the last decay; the others only fill the reasoner's window.
    """

    start: int
    end: int
    text: str
    score: float
    step: int
    kept: bool = True


@dataclass(frozen=True)
class Label:
    """How sure the reasoner is of one label.

    Attributes:
        name: the label.
        score: its probability, in [0, 1].
        chosen: whether the document has it, as far as the reasoner says.
    """

    name: str
    score: float
    chosen: bool


@dataclass(frozen=True)
class FoundEntity:
    """An entity that the reasoner found.

    Attributes:
        start: first character in the document.
        end: one past the last character.
        text: ``document.text[start:end]``.
        label: its type.
        score: probability in [0, 1] of this entity, with exactly this place and type.
    """

    start: int
    end: int
    text: str
    label: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answer to one example.

    Attributes:
        id: the example's.
        answer: a slice of the document, "yes", "no", or "" where the document holds no answer. For classification the
            chosen label; several are parted by "; ". Empty for tagging.
        start: first character of the answer in the document; None for yes, no and no answer.
        end: one past its last character.
        score: probability in [0, 1] that the reasoner gives the answer; comparable between documents. For tagging the
            lowest of the entities', 1 where there is none.
        evidence: the key blocks, highest score first.
        alternatives: the next best answers, best first, without duplicates.
        labels: for classification, every label, the most probable first.
        entities: for tagging, in document order, without overlap.
        n_tokens: tokens in the document.
        n_blocks: blocks in the document.
        n_unread: for tagging, tokens that no window showed, as a truncated document's: they have no label.
    """

    id: str
    answer: str
    start: int | None
    end: int | None
    score: float
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple["Answer", ...] = ()
    labels: tuple[Label, ...] = ()
    entities: tuple[FoundEntity, ...] = ()
    n_tokens: int = 0
    n_blocks: int = 0
    n_unread: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The prediction as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Prediction":
        """A prediction from such data; other keys are ignored.

        Raises:
            ValueError: a field is missing, or of another type.
        """
        read: Prediction = _reader().validate_python(values)
        return read


@dataclass(frozen=True)
class Answer:
    """One candidate answer: text, place and probability, as in ``Prediction``."""

    text: str
    start: int | None
    end: int | None
    score: float


@cache
def _reader() -> Any:
    return TypeAdapter(Prediction)
