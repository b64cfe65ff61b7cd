"""Documents, queries and examples: raw text, the spans that the data itself marks, and gold.

Knows nothing about tokens, models or files. Every position is a character offset into ``Document.text``:
``start`` inclusive, ``end`` exclusive.
"""

from dataclasses import dataclass, field
from numbers import Integral

from cogltx.errors import DataError


@dataclass(frozen=True, order=True)
class Span:
    """A slice of a document's text.

    Attributes:
        start: first character, from 0.
        end: one past the last character; greater than ``start``.

    Raises:
        DataError: they are other numbers, or none.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        _check("span", self.start, self.end)

    def overlaps(self, other: "Span") -> bool:
        """Whether the two spans share a character.

        >>> Span(0, 3).overlaps(Span(2, 5)), Span(0, 3).overlaps(Span(3, 5))
        (True, False)
        """
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, order=True)
class Entity:
    """A labelled slice of a document's text: a person's name, a gene.

    Attributes:
        start: first character, from 0.
        end: one past the last character; greater than ``start``.
        label: its type.

    Raises:
        DataError: as ``Span``, or the label is empty or no text.
    """

    start: int
    end: int
    label: str

    def __post_init__(self) -> None:
        _check("entity", self.start, self.end)
        if not isinstance(self.label, str) or not self.label.strip():
            got = "an empty one" if isinstance(self.label, str) else type(self.label).__name__
            raise DataError(f"entity {self.start}:{self.end}: expected a label, got {got}")


@dataclass(frozen=True)
class Segment:
    """A span that the data marks and no block may cross: a sentence, a paragraph.

    Attributes:
        start: first character.
        end: one past the last character.
        heading: what windows show before each of the segment's blocks (HotpotQA: the paragraph's title); may be empty.
    """

    start: int
    end: int
    heading: str = ""


@dataclass(frozen=True)
class Document:
    """A text of any length.

    Attributes:
        text: the raw text; every answer and evidence span is an exact slice of it.
        id: a name for messages and predictions.
        segments: in text order, without overlap; text between two segments forms segments of its own.

    Raises:
        DataError: the text is none, or holds nothing but white space, or segments leave the text, overlap or are out of
            order.
    """

    text: str
    id: str = ""
    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DataError(f"document {self.id!r}: expected a text, got {type(self.text).__name__}")
        if not self.text.strip():
            got = "only white space" if self.text else "an empty text"
            raise DataError(f"document {self.id!r}: expected text, got {got}")
        end = 0
        for number, segment in enumerate(self.segments):
            if not isinstance(segment, Segment):
                kind = type(segment).__name__
                raise DataError(f"document {self.id!r}: segment {number}: expected a Segment, got {kind}")
            if not end <= segment.start < segment.end <= len(self.text):
                raise DataError(
                    f"document {self.id!r}: segment {number}: expected {end} <= start < end <= {len(self.text)}, "
                    f"got start {segment.start} and end {segment.end}"
                )
            end = segment.end


@dataclass(frozen=True)
class Query:
    """What is asked of a document: a question or a label name.

    Raises:
        DataError: the text is none, holds nothing but white space (leave the query out instead: ``None``), or a lone
            surrogate.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DataError(f"question: expected a text, got {type(self.text).__name__}")
        if not self.text.strip():
            raise DataError("question: expected text, got an empty one")
        if any("\ud800" <= character <= "\udfff" for character in self.text):
            raise DataError("question: expected Unicode text, got a lone surrogate")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A document, a query about it, and what is known of the answer.

    Attributes:
        id: unique within a data set.
        document: the text to read.
        query: the question, or None for tasks without one.
        answers: accepted answer texts, the metric takes the best match; ``()`` says that the document holds no
            answer, None that the answer is unknown. ``("yes",)`` and ``("no",)`` without spans are yes/no answers.
        answer_spans: places of the answer in the document, each a target for training; empty for yes, no and no answer.
        labels: the labels that the document has, for classification: one, or any number of them; None: unknown.
        entities: the labelled spans of the document, for tagging, in any order; ``()`` says that it has none, None that
            they are unknown.
        relevant: the evidence spans; a block that overlaps one is relevant. None where the data has no such labels.
        extra: facts of the data set that only its task and metric read.

    Raises:
        DataError: a span leaves the text, or the document or the query is none.
    """

    id: str
    document: Document
    query: Query | None = None
    answers: tuple[str, ...] | None = None
    answer_spans: tuple[Span, ...] = ()
    labels: tuple[str, ...] | None = None
    entities: tuple[Entity, ...] | None = None
    relevant: tuple[Span, ...] | None = None
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def has_relevance(self) -> bool:
        """Whether the data says which parts of the document matter: evidence, or at least places of the answer."""
        return self.relevant is not None or bool(self.answer_spans)

    def __post_init__(self) -> None:
        if not isinstance(self.document, Document):
            raise DataError(f"example {self.id!r}: expected a Document, got {type(self.document).__name__}")
        if not isinstance(self.query, Query | None):
            raise DataError(f"example {self.id!r}: expected a Query or none, got {type(self.query).__name__}")
        spans: tuple[Span | Entity, ...] = (*self.answer_spans, *(self.relevant or ()), *(self.entities or ()))
        for span in spans:
            if not isinstance(span, Span | Entity):
                raise DataError(f"example {self.id!r}: expected a Span or an Entity each, got {type(span).__name__}")
            if span.end > len(self.document.text):
                raise DataError(
                    f"example {self.id!r}: expected spans within the {len(self.document.text)} characters of the "
                    f"document, got {span.start}:{span.end}"
                )


def _check(kind: str, start: int, end: int) -> None:
    if not (isinstance(start, Integral) and isinstance(end, Integral) and 0 <= start < end):
        raise DataError(f"{kind}: expected 0 <= start < end, got start {start!r} and end {end!r}")
