"""Documents, queries and examples refuse what makes no sense, in one line."""

import pytest

from cogltx.document import Document, Example, Query, Segment, Span
from cogltx.errors import DataError


@pytest.mark.parametrize(
    ("text", "segments", "wording"),
    [
        ("", (), "document 'x': expected text, got an empty text"),
        (" \n\t", (), "document 'x': expected text, got only white space"),
        ("text", (Segment(0, 5),), "document 'x': segment 0: expected 0 <= start < end <= 4, got start 0 and end 5"),
        ("text", (Segment(2, 2),), "document 'x': segment 0: expected 0 <= start < end <= 4, got start 2 and end 2"),
        ("text", (Segment(-1, 2),), "document 'x': segment 0: expected 0 <= start < end <= 4, got start -1 and end 2"),
        ("text", (Segment(0, 3), Segment(2, 4)), "document 'x': segment 1: expected 3 <= start < end <= 4, got start 2 a"),
    ],
)  # fmt: skip
def test_documents(text: str, segments: tuple[Segment, ...], wording: str) -> None:
    with pytest.raises(DataError, match=wording):
        Document(text, "x", segments)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_question(text: str) -> None:
    with pytest.raises(DataError, match="^question: expected text, got an empty one$"):
        Query(text)


def test_a_question_with_a_lone_surrogate() -> None:
    with pytest.raises(DataError, match="^question: expected Unicode text, got a lone surrogate$"):
        Query("who \udcff?")


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2)])
def test_spans(start: int, end: int) -> None:
    with pytest.raises(DataError, match=f"span: expected 0 <= start < end, got start {start} and end {end}"):
        Span(start, end)


@pytest.mark.parametrize("where", ["answer_spans", "relevant"])
def test_spans_that_leave_the_text(where: str) -> None:
    wording = "example '1': expected spans within the 4 characters of the document, got 2:5"
    with pytest.raises(DataError, match=wording):
        Example(id="1", document=Document("text"), **{where: (Span(2, 5),)})
