"""Documents, queries and examples reject invalid values with one line."""

from typing import Any

import pytest

from cogltx.document import Document, Entity, Example, Line, Query, Segment, Span, named_apart
from cogltx.errors import DataError


@pytest.mark.parametrize(
    ("text", "segments", "wording"),
    [
        ("", (), "the text is empty"),
        (" \n\t", (), "the text is only white space"),
        ("text", (Segment(0, 5),), "segment 0 has start 0 and end 5, but segments must be in order within 0:4"),
        ("text", (Segment(2, 2),), "segment 0 has start 2 and end 2, but segments must be in order within 0:4"),
        ("text", (Segment(-1, 2),), "segment 0 has start -1 and end 2, but segments must be in order within 0:4"),
        ("text", (Segment(0, 3), Segment(2, 4)), "segment 1 has start 2 and end 4, but segments must be in order within 3:4"),
    ],
)  # fmt: skip
def test_documents(text: str, segments: tuple[Segment, ...], wording: str) -> None:
    with pytest.raises(DataError, match=f"^document 'x': {wording}$"):
        Document(text, "x", segments)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("", "the question is empty"),
        (" \n", "the question is empty"),
        ("who \udcff?", "the question contains a lone surrogate, which is not valid Unicode"),
    ],
)
def test_questions(text: str, wording: str) -> None:
    with pytest.raises(DataError, match=f"^{wording}$"):
        Query(text)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2)])
def test_spans(start: int, end: int) -> None:
    wording = f"start {start!r} and end {end!r} must be integers with 0 <= start < end$"
    with pytest.raises(DataError, match=f"^span: {wording}"):
        Span(start, end)
    with pytest.raises(DataError, match=f"^entity: {wording}"):
        Entity(start, end, "PER")


@pytest.mark.parametrize("label", ["", " "])
def test_labels_of_entities(label: str) -> None:
    with pytest.raises(DataError, match=f"^entity 0:2: the label {label!r} is not a name$"):
        Entity(0, 2, label)


@pytest.mark.parametrize(
    "spans",
    [
        {"answer_spans": (Span(2, 5),)},
        {"relevant": (Span(2, 5),)},
        {"entities": (Entity(2, 5, "PER"),)},
    ],
)
def test_spans_outside_the_text(spans: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="^example '1': the span 2:5 leaves the document of 4 characters$"):
        Example(id="1", document=Document("text"), **spans)


def test_joined_documents_keep_their_segments_and_their_borders() -> None:
    first, second = Document("One. Two.", "a"), Document("Three. Four. Five.", "b", (Segment(7, 12, "head"),))
    joined = Document.joined([first, second, first])
    assert [joined.text[one.start : one.end] for one in joined.segments] == ["One. Two.", "Three. ", "Four.", " Five.", "One. Two."]  # fmt: skip
    assert [one.heading for one in joined.segments] == ["", "", "head", "", ""]
    for id, first_character, last in map(joined.part, range(len(joined.text))):
        assert joined.text[first_character:last] == (first if id.startswith("a") else second).text
    assert Document.joined([first]).part(8) == ("a", 0, 9)
    assert joined.separate[0] == first
    assert [one.text for one in joined.separate] == [first.text, second.text, first.text]
    assert [one.heading(8) for one in joined.separate] == ["", "head", ""]
    assert second.separate == (second,)
    with pytest.raises(DataError, match="there is no document to join"):
        Document.joined([])


def test_joined_documents_have_names_of_their_own() -> None:
    documents = [Document("One."), Document("Two.", "a"), Document("Three.", "a"), Document("Four.")]
    names = ["document 1", "a", "a (2)", "document 4"]
    assert [name for name, _ in Document.joined(documents).parts] == names
    assert [document.id for document in named_apart(documents)] == names
    assert named_apart(documents[:1]) == documents[:1]


def test_lines_of_a_span_and_of_joined_documents() -> None:
    box = (72.0, 80.0, 300.0, 92.0)
    lines = (Line(0, 5, 1, box), Line(6, 11, 1, box), Line(13, 18, 2, box))
    document = Document("first line\n\nsecond"[:18], "a.pdf", lines=lines, notes=("page 3 is a picture",))
    assert document.lines_of(0, 6) == lines[:1]
    assert document.lines_of(4, 14) == lines
    joined = Document.joined([Document("before", "b"), document])
    assert joined.lines_of(8, 9) == (Line(8, 13, 1, box),)
    assert joined.notes == ("a.pdf: page 3 is a picture",)


def test_places_are_page_and_heading_or_the_line() -> None:
    sections = (Segment(3, 6, "Installation"), Segment(6, 9))
    paged = Document("a b\nc d\ne f", "a.pdf", sections, pages=((0, 11), (4, 12), (8, "slide 3")))
    assert [paged.place(start) for start in (0, 4, 6, 9)] == ["page 11", "page 12, Installation", "page 12", "slide 3"]
    assert [Document("a b\nc d").place(start) for start in (0, 3, 4, 7)] == ["line 1", "line 1", "line 2", "line 2"]
    assert Document("a b\nc d", segments=(Segment(0, 3, "One"),)).place(5) == ""
