"""The package's own format: what it says comes back, and what is wrong is told with its line."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.document import Document, Example, Query, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks import ReadReport
from cogltx.tasks.jsonl import JsonLines, as_examples, write_examples

TEXT = "The cat sat. A cat concatenates."
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
TEXTS = st.text(min_size=1).filter(lambda text: bool(text.strip()))


@st.composite
def ranges(draw: st.DrawFn, length: int) -> list[list[int]]:
    pairs = st.lists(st.integers(0, length), min_size=2, max_size=2, unique=True).map(sorted)
    return draw(st.lists(pairs, max_size=3))


@st.composite
def plain_examples(draw: st.DrawFn) -> dict[str, Any]:
    """What an example is made of; the type checker's use of chance forbids making it in here."""
    text = draw(TEXTS)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=5)))
    headings = draw(st.lists(st.none() | st.text(max_size=3), min_size=5, max_size=5))
    spans = draw(ranges(len(text)))
    named = [text[start:end] for start, end in spans]
    return {
        "id": draw(st.text()),
        "document": draw(st.text()),
        "text": text,
        "segments": [
            (*cut, heading) for cut, heading in zip(pairwise(cuts), headings, strict=False) if heading is not None
        ],
        "question": draw(st.none() | TEXTS),
        "answers": draw(st.none() | st.lists(st.text()).map(lambda others: [*named, *others])),
        "answer_spans": spans,
        "relevant": draw(st.none() | ranges(len(text))),
        "extra": draw(st.dictionaries(st.text(), JSON, max_size=3)),
    }


def make(plain: dict[str, Any]) -> Example:
    segments = tuple(Segment(*segment) for segment in plain["segments"])
    return Example(
        id=plain["id"],
        document=Document(plain["text"], plain["document"], segments),
        query=None if plain["question"] is None else Query(plain["question"]),
        answers=None if plain["answers"] is None else tuple(plain["answers"]),
        answer_spans=tuple(Span(*pair) for pair in plain["answer_spans"]),
        relevant=None if plain["relevant"] is None else tuple(Span(*pair) for pair in plain["relevant"]),
        extra=plain["extra"],
    )


def read(folder: Path, *lines: object) -> tuple[list[Example], ReadReport]:
    path = folder / "data.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    report = ReadReport()
    return list(JsonLines().read(path, split="train", report=report)), report


@given(plain=st.lists(plain_examples(), max_size=3, unique_by=lambda plain: plain["id"]), pack=st.booleans())
def test_examples_come_back(tmp_path_factory: pytest.TempPathFactory, plain: list[dict[str, Any]], pack: bool) -> None:
    given = [make(example) for example in plain]
    path = tmp_path_factory.mktemp("examples") / ("data.jsonl.gz" if pack else "data.jsonl")
    write_examples(path, given)
    report = ReadReport()
    assert list(JsonLines().read(path, split="test", report=report)) == given
    assert (report.examples, report.unmapped) == (len(given), [])


def test_everything_left_out(tmp_path: Path) -> None:
    (first, second), _ = read(tmp_path, {"text": TEXT}, "", {"text": TEXT, "id": 7})
    assert first == Example(id="1", document=Document(TEXT, "1"))
    assert (second.id, second.answers, second.relevant) == ("7", None, None)


def test_everything_given(tmp_path: Path) -> None:
    line = {
        "id": "a",
        "document": "d",
        "text": TEXT,
        "question": "Who sat?",
        "answers": [{"text": "cat", "start": 4}, "The cat"],
        "relevant": [[0, 12]],
        "segments": [{"start": 0, "end": 12, "heading": "Cats"}, {"start": 13, "end": 32}],
        "extra": {"source": [1]},
    }
    (example,), _ = read(tmp_path, line)
    assert example == Example(
        id="a",
        document=Document(TEXT, "d", (Segment(0, 12, "Cats"), Segment(13, 32))),
        query=Query("Who sat?"),
        answers=("cat", "The cat"),
        answer_spans=(Span(4, 7), Span(0, 7)),
        relevant=(Span(0, 12),),
        extra={"source": [1]},
    )


@pytest.mark.parametrize(
    ("line", "spans", "unmapped"),
    [
        ({"answers": ["cat"]}, [Span(4, 7), Span(15, 18)], []),
        ({"answers": ["cat"], "answer_spans": [[0, 7]]}, [Span(0, 7)], []),
        ({"answers": ["cat"], "answer_spans": []}, [], []),
        ({"answers": ["concat"]}, [], ["the answer 'concat' occurs only inside words; give its start"]),
        ({"answers": ["dog", "sat"]}, [Span(8, 11)], ["the answer 'dog' does not occur in the text"]),
        ({"answers": ["yes"]}, [], []),
        ({"answers": ["No"]}, [], []),
        ({"answers": []}, [], []),
    ],
)
def test_places(tmp_path: Path, line: dict[str, object], spans: list[Span], unmapped: list[str]) -> None:
    (example,), report = read(tmp_path, {"text": TEXT, **line})
    assert list(example.answer_spans) == spans
    assert report.unmapped == [("1", why) for why in unmapped]


def test_one_document_for_many_questions(tmp_path: Path) -> None:
    same = {"text": TEXT, "document": "d"}
    (a, b, c), _ = read(tmp_path, same, same, same | {"segments": [{"start": 0, "end": 3}]})
    assert a.document is b.document
    assert c.document is not b.document


def test_a_text_is_written_once_for_many_questions(tmp_path: Path) -> None:
    long = Document(TEXT * 1000, "long", (Segment(0, 12, "Cats"),), pages=((0, 1), (20, "slide 2")))
    asked = [
        (str(n), document)
        for n, document in enumerate([long] * 50 + [Document("x", "long"), long, Document("y", "53")])
    ]
    given = [
        Example(id=id, document=document, answers=("cat",), answer_spans=(Span(4, 7),) * (document == long))
        for id, document in asked
    ]
    path = tmp_path / "data.jsonl"
    write_examples(path, given)
    assert path.stat().st_size < 3 * len(long.text)
    again = list(JsonLines().read(path, split="train"))
    assert again == given
    assert all(example.document is again[0].document for example in again[:50])
    assert list(again[0].document.pages) == [(0, 1), (20, "slide 2")]
    (tmp_path / "tail.jsonl").write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(
        DataError, match=r"tail\.jsonl:1: text is missing; only a line after another of the same document"
    ):
        list(JsonLines().read(tmp_path / "tail.jsonl", split="train"))


@pytest.mark.parametrize("line", [{"document": "e"}, {"document": "d", "segments": [{"start": 0, "end": 1}]}, {}])
def test_a_text_that_is_missing(tmp_path: Path, line: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r":2: text is missing"):
        read(tmp_path, {"text": TEXT, "document": "d"}, line)
    (first, second, third), _ = read(
        tmp_path, {"text": TEXT, "id": "d"}, {"document": "d"}, {"document": "d", "text": None}
    )
    assert first.document is second.document is third.document


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({}, "text is missing"),
        ({"text": " "}, "document '2': the text is only white space"),
        ({"text": 3}, "text must be a string, but is 3"),
        (
            {"text": "x", "answer": "x"},
            "answer is not a field; did you mean answers?",
        ),
        ({"text": "x", "id": True}, "id must be a string or an integer, but is True"),
        ({"text": "x", "id": "first"}, "the id 'first' is already used at FILE:1; every id must be unique"),
        ({"text": "x", "question": ""}, "the question is empty"),
        ({"text": "x", "answers": "x"}, "answers must be a list, but is 'x'"),
        ({"text": "x", "answers": [1]}, "answers[0] must be a string or an object with text and start, but is 1"),
        (
            {"text": TEXT, "answers": ["cat", {"text": "cat", "start": 12}]},
            "answers[1]: the text at 12 is ' A ', not 'cat'",
        ),
        (
            {"text": TEXT, "answers": [{"text": "cat", "start": -3}]},
            "answers[0]: the text at -3 is '', not 'cat'",
        ),
        (
            {"text": TEXT, "answers": [{"text": "cat", "start": 99}]},
            "answers[0]: the text at 99 is '', not 'cat'",
        ),
        (
            {"text": TEXT, "answers": [{"text": "cat"}]},
            "answers[0].start is missing",
        ),
        ({"text": "x", "answer_spans": [[0]]}, "answer_spans[0] must be [start, end], but is [0]"),
        (
            {"text": TEXT, "answers": ["cat"], "answer_spans": [[4, 7], [0, 3]]},
            "answer_spans[1]: the text there is 'The', not 'cat'",
        ),
        ({"text": "x", "relevant": [[0, 1], "x"]}, "relevant[1] must be [start, end], but is 'x'"),
        (
            {"text": "x", "relevant": [[1, 1]]},
            "relevant[0]: span: start 1 and end 1 must be integers with 0 <= start < end",
        ),
        (
            {"text": "x", "relevant": [[0, 2]]},
            "example '2': the span 0:2 leaves the document of 1 characters",
        ),
        (
            {"text": "x", "segments": [{"start": 0, "end": 2}]},
            "document '2': segment 0 has start 0 and end 2, but segments must be in order within 0:1",
        ),
        (
            {"text": "x", "segments": [{"start": 0}]},
            "segments[0].end is missing",
        ),
        ({"text": "x", "extra": []}, "extra must be an object with named fields, but is []"),
    ],
)
def test_wrong_lines(tmp_path: Path, line: dict[str, object], expected: str) -> None:
    path = tmp_path / "data.jsonl"
    with pytest.raises(DataError) as error:
        read(tmp_path, {"id": "first", "text": TEXT}, line)
    assert str(error.value) == f"{path}:2: {expected.replace('FILE', str(path))}"


def test_all_findings_of_a_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, {"txt": "x", "label": True, "segments": [{"start": "0", "end": 1}]})
    assert str(error.value) == (
        f"{tmp_path / 'data.jsonl'}:1: text is missing; label must be a string or an integer, but is True; "
        "segments[0].start must be an integer, but is '0'; txt is not a field; did you mean text?"
    )


def test_examples_from_objects_and_dicts() -> None:
    made = Example(id="a", document=Document(TEXT))
    line = {"text": TEXT, "document": "d", "answers": ["cat"], "relevant": [(0, 3)], "question": None}
    first, second, third = as_examples([made, line, line])
    assert first is made
    assert (second.id, third.id, second.answers) == ("1", "2", ("cat",))
    assert second.document is third.document
    assert second == as_examples([line | {"id": "1"}])[0]
    assert second.answer_spans == (Span(4, 7), Span(15, 18))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"text": TEXT}, {"txt": TEXT}], "example 1: text is missing; txt is not a field; did you mean text?"),
        ([{"text": " "}], "example 0: document '0': "),
        ([{"text": "x", "id": "a"}] * 2, "example 1: the id 'a' is already used at example 0; every id must be unique"),
        (["text"], "example 0: must be an Example or a dict with the field text, but is str"),
    ],
)
def test_wrong_examples(data: list[Any], expected: str) -> None:
    with pytest.raises(DataError) as error:
        as_examples(iter(data))
    assert str(error.value).startswith(expected)


@pytest.mark.parametrize("extra", [{"a": Span(0, 1)}, {"a": float("nan")}])
def test_what_json_cannot_hold(tmp_path: Path, extra: dict[str, object]) -> None:
    example = Example(id="1", document=Document(TEXT), extra=extra)
    with pytest.raises(DataError, match=r"^example '1': extra cannot be written as JSON: "):
        write_examples(tmp_path / "out.jsonl", [example])
    assert list(tmp_path.iterdir()) == []


def test_scores() -> None:
    example = Example(id="1", document=Document(TEXT), answers=("cat", "a big cat"), answer_spans=(Span(4, 7),))
    prediction = Prediction(id="1", answer="big dog", start=None, end=None, confidence=0.5)
    assert JsonLines().per_example(example, prediction) == {"exact_match": 0.0, "f1": 0.5}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"text": "a"}', True),
        ('\ufeff\n{"id": "1", "title": "x", "answers": [{"text": "a", "start": 0}], "text": "a', True),
        ('{"version": "1", "data": [{"text": "a"}]}', False),
        ('{"storyId": "1", "questions": [], "text": "a"}', False),
        ('{"id": "1", "context": "a", "question": "b", "answers": []}\n{"text": "a"}', False),
        ('[{"text": "a"}]', False),
        ("1", False),
        ("text", False),
        ("", False),
    ],
)
def test_the_form_is_known_by_its_first_object(tmp_path: Path, content: str, expected: bool) -> None:
    path = tmp_path / "data"
    path.write_text(content)
    assert JsonLines.is_form_of(path) is expected
    assert not JsonLines.is_form_of(tmp_path)
