"""Documents, queries and examples: raw text, segments, and gold labels. Does not depend on tokens, models or files.

Every position is a character offset into ``Document.text``: ``start`` inclusive, ``end`` exclusive.
"""

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from numbers import Integral
from operator import attrgetter, itemgetter
from typing import Any, Self

from cogltx.errors import DataError

BETWEEN_PARAGRAPHS = "\n\n"
_START = attrgetter("start")


@dataclass(frozen=True, order=True)
class Span:
    """A slice of a document's text; raises DataError unless 0 <= start < end are integers."""

    start: int
    end: int

    def __post_init__(self) -> None:
        start, end = self.start, self.end
        if not (isinstance(start, Integral) and isinstance(end, Integral) and 0 <= start < end):
            kind = type(self).__name__.lower()
            raise DataError(f"{kind}: start {start!r} and end {end!r} must be integers with 0 <= start < end")


@dataclass(frozen=True, order=True)
class Entity(Span):
    """A slice of a document's text with a label that is not blank."""

    label: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.label, str) or not self.label.strip():
            raise DataError(f"entity {self.start}:{self.end}: the label {self.label!r} is not a name")


@dataclass(frozen=True)
class Segment:
    """A span that no block crosses; windows show the heading, which may be empty, before each block."""

    start: int
    end: int
    heading: str = ""


@dataclass(frozen=True)
class Line:
    """A printed line: its span in the text, its page, and its box on the page.

    ``box`` is left, top, right and bottom in points (1/72 inch) from the upper left corner of the page as shown.
    """

    start: int
    end: int
    page: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Document:
    """A text of any length; every answer and evidence span is an exact slice of it.

    Attributes:
        segments: in text order, without overlap; the text between two segments forms segments, too.
        parts: id and first character of each document that this one was joined from.
        pages: first character of each page, in text order, with its number, or a name such as "slide 4".
        lines: the printed lines of a PDF, in text order.
        notes: what a reader of files could not read, one line each.

    Raises:
        DataError: the text is blank, or segments leave the text, overlap or are out of order.
    """

    text: str
    id: str = ""
    segments: tuple[Segment, ...] = ()
    parts: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    pages: tuple[tuple[int, int | str], ...] = field(default=(), repr=False)
    lines: tuple[Line, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        name = f"document {self.id!r}"
        if not isinstance(self.text, str):
            hint = "; read a file with cogltx.read_document" if isinstance(self.text, os.PathLike) else ""
            raise DataError(f"{name}: the text is a {type(self.text).__name__}, not a string{hint}")
        if not self.text.strip():
            raise DataError(f"{name}: the text is {'only white space' if self.text else 'empty'}")
        end = 0
        for number, segment in enumerate(self.segments):
            if not isinstance(segment, Segment):
                raise DataError(f"{name}: segment {number} is a {type(segment).__name__}, not a Segment")
            if not end <= segment.start < segment.end <= len(self.text):
                raise DataError(
                    f"{name}: segment {number} has start {segment.start} and end {segment.end}, "
                    f"but segments must be in order within {end}:{len(self.text)}"
                )
            end = segment.end

    @classmethod
    def joined(cls, documents: Sequence["Document"]) -> "Document":
        """Join documents, under distinct ids, into one; no block crosses from one to the next."""
        if not documents:
            raise DataError("there is no document to join")
        starts = accumulate((len(document.text) + len(BETWEEN_PARAGRAPHS) for document in documents), initial=0)
        parts, pages, lines, notes, segments = [], list[tuple[int, int | str]](), list[Line](), list[str](), []
        for document, start in zip(named_apart(documents), starts, strict=False):
            parts.append((document.id, start))
            pages += [(start + first, number) for first, number in document.pages or ((0, 0),)]
            lines += [replace(line, start=start + line.start, end=start + line.end) for line in document.lines]
            notes += [f"{document.id}: {note}" for note in document.notes]
            ends = [0, *(segment.end for segment in document.segments)]
            first = document.segments[0].start if document.segments else 0
            outer = (Segment(0, first), Segment(ends[-1], len(document.text)))  # not marked, but end with the document
            for segment in (outer[0], *document.segments, outer[1]):
                if segment.start < segment.end:
                    segments.append(Segment(start + segment.start, start + segment.end, segment.heading))
        text = BETWEEN_PARAGRAPHS.join(document.text for document in documents)
        id = f"{len(documents)} documents"
        return cls(text, id, tuple(segments), tuple(parts), tuple(pages), tuple(lines), tuple(notes))

    @property
    def separate(self) -> "tuple[Document, ...]":
        """The documents that this one was joined from, without their notes; itself if it was not joined."""
        return tuple(self._slice(*self.part(first)) for _, first in self.parts) or (self,)

    def _slice(self, id: str, first: int, last: int) -> "Document":
        inside = slice(bisect_left(self.segments, first, key=_START), bisect_left(self.segments, last, key=_START))
        segments = tuple(Segment(one.start - first, one.end - first, one.heading) for one in self.segments[inside])
        pages = tuple((start - first, number) for start, number in self.pages if first <= start < last and number)
        lines = self.lines_of(first, last)
        return Document(
            self.text[first:last], id,
            segments if any(one.heading for one in segments) else (),  # joining marks the text between segments
            pages=pages,
            lines=tuple(replace(one, start=one.start - first, end=one.end - first) for one in lines),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        return {
            "text": self.text,
            "id": self.id,
            "segments": [(one.start, one.end, one.heading) for one in self.segments],
            "parts": self.parts,
            "pages": self.pages,
            "lines": [(one.start, one.end, one.page, one.box) for one in self.lines],
            "notes": self.notes,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Create a document from what ``to_dict`` returned; raises KeyError, TypeError or ValueError for other data."""
        return cls(
            values["text"],
            values["id"],
            tuple(Segment(*one) for one in values["segments"]),
            tuple((id, first) for id, first in values.get("parts", ())),
            tuple((first, number) for first, number in values["pages"]),
            tuple(Line(start, end, page, tuple(box)) for start, end, page, box in values["lines"]),
            tuple(values["notes"]),
        )

    def lines_of(self, start: int, end: int) -> tuple[Line, ...]:
        """Return the printed lines, each with its box, that share a character with ``start:end``; none but in a PDF."""
        first = bisect_right(self.lines, start, key=lambda line: line.end)
        last = bisect_left(self.lines, end, key=lambda line: line.start)
        return self.lines[first:last]

    def page(self, start: int) -> int | str | None:
        """Return the number, or name, of a character's page; None without pages."""
        if lines := self.lines_of(start, start + 1):
            return lines[0].page  # a paragraph may go on on another page
        number = bisect_right(self.pages, start, key=itemgetter(0)) - 1
        return (self.pages[number][1] or None) if number >= 0 else None

    def heading(self, start: int) -> str:
        """Return the heading of a character's section; empty without one."""
        number = bisect_right(self.segments, start, key=_START) - 1
        return self.segments[number].heading if number >= 0 and start < self.segments[number].end else ""

    def place(self, start: int) -> str:
        """Name the page and the heading of a character; the line if the text has no pages and no segments.

        >>> Document("One.\\nTwo.").place(6)
        'line 2'
        """
        if not self.pages and not self.segments:
            return f"line {self.text.count(chr(10), 0, start) + 1:,}"
        page = self.page(start)
        return ", ".join(filter(None, (page_name(page) if page else "", self.heading(start))))

    def part(self, start: int) -> tuple[str, int, int]:
        """Return id, first and end character of the joined document that a character is in; of itself without parts."""
        if not self.parts:
            return self.id, 0, len(self.text)
        number = bisect_right(self.parts, start, key=itemgetter(1)) - 1
        id, first = self.parts[number]
        is_last = number + 1 == len(self.parts)
        return id, first, len(self.text) if is_last else self.parts[number + 1][1] - len(BETWEEN_PARAGRAPHS)


def page_name(page: int | str) -> str:
    """Name a page for people: "page 3", or its own name, such as "slide 4"."""
    return f"page {page}" if isinstance(page, int) else page


def has_surrogate(text: str) -> bool:
    """Check for a lone surrogate, which cannot be encoded."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def named_apart(documents: Sequence[Document]) -> list[Document]:
    """Give several documents distinct ids: the second of a name is ``name (2)``, one without a name ``document 2``."""
    if len(documents) < 2:
        return list(documents)
    seen, named = Counter[str](), []
    for number, document in enumerate(documents, start=1):
        name = document.id or f"document {number}"
        seen[name] += 1
        id = name if seen[name] == 1 else f"{name} ({seen[name]})"
        named.append(document if document.id == id else replace(document, id=id))
    return named


@dataclass(frozen=True)
class Query:
    """A question, or a label name; a blank text or one with a lone surrogate raises DataError."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DataError(f"the question is a {type(self.text).__name__}, not a string")
        if not self.text.strip():
            raise DataError("the question is empty")
        if has_surrogate(self.text):
            raise DataError("the question contains a lone surrogate, which is not valid Unicode")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A document, a query about it, and gold labels; None where labels are unknown.

    Attributes:
        answers: accepted answer texts; ``()``: the document has no answer. ``("yes",)`` and ``("no",)`` have no spans.
        answer_spans: spans of the answer in the document; empty for yes, no and no answer.
        labels: labels of the document, for classification.
        entities: labelled spans of the document, for tagging, in any order.
        relevant: evidence spans; a block that overlaps one is relevant.
        extra: facts of the data set that only its task reads.
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
        """The data marks relevant parts of the document: evidence, or at least spans of the answer."""
        return self.relevant is not None or bool(self.answer_spans)

    def __post_init__(self) -> None:
        name = f"example {self.id!r}"
        if not isinstance(self.document, Document):
            raise DataError(f"{name}: the document is a {type(self.document).__name__}, not a Document")
        if not isinstance(self.query, Query | None):
            raise DataError(f"{name}: the query is a {type(self.query).__name__}, not a Query")
        n_characters = len(self.document.text)
        for span in (*self.answer_spans, *(self.relevant or ()), *(self.entities or ())):
            if not isinstance(span, Span):
                raise DataError(f"{name}: {span!r} is not a Span or an Entity")
            if span.end > n_characters:
                place = f"{span.start}:{span.end}"
                raise DataError(f"{name}: the span {place} leaves the document of {n_characters} characters")
