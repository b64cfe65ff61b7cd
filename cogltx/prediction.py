"""Predictions: the answer, an exact slice of the text, and the evidence for it. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from pydantic import TypeAdapter

from cogltx.display import report
from cogltx.document import Document, named_apart
from cogltx.errors import DataError

NO_JUDGE = 0.5
"""Relevance that says nothing."""


class _InDocument:
    """A slice of a document with its page; of joined documents, ``start`` and ``end`` count in ``document``."""

    start: int | None
    end: int | None
    text: str

    def within(self, document: Document) -> Self:
        """Count characters from the beginning of the joined document, and name it and the page."""
        return replace(self, **_place(document, self.start, self.end, self.text))  # type: ignore[type-var]


@dataclass(frozen=True)
class Evidence(_InDocument):
    """A key block, without the white space around it.

    Attributes:
        score: the judge's fine score of the block next to all other key blocks; with ``memrecall.pairs``, its mean with
            the probability that the question needs its passage.
        step: the step of MemRecall that retrieved the block, from 1; 0 if the document was read whole.
        kept: the block survived the last decay; the others only fill the reasoner's window. ``score`` is later: of all
            blocks of the window together.
        document: id of the document, if several were joined; ``start`` and ``end`` count in it.
        page: number (from 1) or name ("slide 4") of the page on which the block begins; None without pages.
    """

    start: int
    end: int
    text: str
    score: float
    step: int
    kept: bool = True
    document: str = ""
    page: int | str | None = None


@dataclass(frozen=True)
class Label:
    """A label of a text, its probability, and its margin in the linear model (``reasoner.linear_weight``), if any."""

    name: str
    score: float
    chosen: bool
    margin: float | None = None


@dataclass(frozen=True)
class PredictedEntity(_InDocument):
    """A predicted entity; ``score`` is the probability in [0, 1] of exactly this span and label."""

    start: int
    end: int
    text: str
    label: str
    score: float
    document: str = ""
    page: int | str | None = None


@dataclass(frozen=True)
class Answer(_InDocument):
    """A candidate answer: text, span, confidence, document and page, as in ``Prediction``."""

    text: str
    start: int | None
    end: int | None
    confidence: float
    document: str = ""
    page: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The result for one document and query.

    Attributes:
        answer: a slice of the document, "yes", "no", or "" if the document has no answer. For classification the chosen
            labels, joined by "; ". Empty for tagging.
        start: first character of the answer; None for yes, no and no answer.
        confidence: calibrated probability in [0, 1] that what is shown is right: the answer, or that there is none. An
            answer is right if it shares at least half of its words with a gold answer (F1). For tagging the lowest
            score of the entities, 1 without entities.
        no_answer_confidence: the same for no answer; None for tasks without questions. No answer is shown exactly if
            this is higher than the confidence of every answer, unless the model always answers.
        relevance: the judge's highest relevance of a key block, in [0, 1]; 0.5 without a judge of probabilities.
        evidence: the key blocks, highest score first; empty for readers without a judge.
        alternatives: the next best answers, best first, without duplicates.
        labels: for classification, every label, most probable first.
        entities: for tagging, in document order, without overlap.
        n_unread: for tagging, number of tokens that no window contained, for example after truncation.
        document: id of the document with the answer, if several were joined; ``start`` and ``end`` count in it.
        page: number or name of the page on which the answer begins; None without pages.
    """

    id: str
    answer: str
    start: int | None
    end: int | None
    confidence: float
    no_answer_confidence: float | None = None
    relevance: float = NO_JUDGE
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Answer, ...] = ()
    labels: tuple[Label, ...] = ()
    entities: tuple[PredictedEntity, ...] = ()
    n_tokens: int = 0
    n_blocks: int = 0
    n_unread: int = 0
    document: str = ""
    page: int | str | None = None

    def within(self, document: Document) -> "Prediction":
        """Count characters from the beginnings of the joined documents, and name them and the pages."""
        if not document.parts and not document.pages:
            return self
        place = _place(document, self.start, self.end, self.answer)
        if "text" in place:
            place["answer"] = place.pop("text")
        return replace(
            self,
            **place,
            evidence=tuple(one.within(document) for one in self.evidence),
            alternatives=tuple(one.within(document) for one in self.alternatives),
            entities=tuple(one.within(document) for one in self.entities),
        )

    @property
    def candidates(self) -> tuple[Answer, ...]:
        """The answer, if there is one, and the alternatives, best first."""
        if not self.answer:
            return self.alternatives
        best = Answer(self.answer, self.start, self.end, self.confidence, self.document, self.page)
        return best, *self.alternatives

    def without_answer(self) -> "Prediction":
        """Move the answer to the first place of the alternatives; the confidence of what is left is 0."""
        return replace(
            self, answer="", start=None, end=None, confidence=0.0, document="", page=None,
            alternatives=self.candidates,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        return asdict(self)

    def to_html(
        self,
        document: Document | str | Sequence[Document | str] | None = None,
        question: str = "",
        *,
        links: Mapping[str, str] | None = None,
        whole_page: bool = True,
    ) -> str:
        """Render the answer and its evidence as an HTML page, or as a fragment for a notebook.

        Args:
            document: the document that was read, or those that were joined; None shows the passages alone.
            question: the title of the page.
            links: the address of each document's file, by id; places in a PDF lead to their pages.
            whole_page: False renders a fragment.

        Raises:
            DataError: the documents are not those that were read.
        """
        given = [document] if isinstance(document, Document | str) else document or ()
        read = [Document(one) if isinstance(one, str) else one for one in given]
        documents = named_apart([part for one in read for part in one.separate])
        for block in self.evidence if documents else ():
            text = next((one.text for one in documents if one.id == block.document or len(documents) == 1), "")
            if text[block.start : block.end] != block.text:
                raise DataError("to_html: the documents are not those that were read")
        values = self.to_dict()
        return report(documents, values["evidence"], values, question=question, links=links, whole_page=whole_page)

    def _repr_html_(self) -> str:
        return self.to_html(whole_page=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Prediction":
        """Create a prediction from plain data; ignores unknown keys, raises ValueError for a wrong or missing field."""
        return _ADAPTER.validate_python(values)


def _place(document: Document, start: int | None, end: int | None, text: str) -> dict[str, Any]:
    """Page of a span; in joined documents also its document, and its start, end and text there."""
    if start is None or end is None:
        return {}
    page = document.page(start)
    if not document.parts:
        return {"page": page}
    id, first, last = document.part(start)
    within = {"start": start - first, "end": min(end, last) - first, "text": text[: last - start]}
    return {"document": id, "page": page, **within}


_ADAPTER = TypeAdapter(Prediction)
