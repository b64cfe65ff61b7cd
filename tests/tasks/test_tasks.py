"""Tasks by name, their options, and the helpers that readers share."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.document import Document, Example, Span
from cogltx.errors import ConfigError
from cogltx.prediction import Evidence, Prediction
from cogltx.tasks import TASKS, make_task
from cogltx.tasks.base import evidence_scores
from cogltx.tasks.spans import occurrences, trim, words


def test_names() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert make_task(name, {}) == task()
        assert "." not in task.main_metric


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("hotpot", {}, "task: expected one of hotpotqa, "),
        (
            "hotpotqa",
            {"facts": 2},
            "task hotpotqa: expected supporting_facts, fact_threshold, headings, got the unknown option 'facts'",
        ),
        ("jsonl", {"x": 1}, "task jsonl: expected no options, got the unknown option 'x'"),
        (
            "hotpotqa",
            {"supporting_facts": "two"},
            "task hotpotqa: option 'supporting_facts': expected a valid integer, unable to parse string as "
            "an integer, got 'two'",
        ),
        (
            "hotpotqa",
            {"fact_threshold": 2},
            "task hotpotqa: option 'fact_threshold': expected less than or equal to 1, got 2",
        ),
    ],
)
def test_wrong_options(name: str, options: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_task(name, options)
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("relevant", "expected"),
    [
        (None, {}),
        ((), {}),
        ((Span(0, 2),), {"evidence_recall": 0.0, "evidence_complete": 0.0}),
        ((Span(0, 3), Span(9, 10)), {"evidence_recall": 0.5, "evidence_complete": 0.0}),
        ((Span(4, 5), Span(6, 8)), {"evidence_recall": 1.0, "evidence_complete": 1.0}),
    ],
)
def test_evidence(relevant: tuple[Span, ...] | None, expected: dict[str, float]) -> None:
    example = Example(id="1", document=Document("0123456789"), relevant=relevant)
    blocks = (Evidence(2, 5, "234", 0.9, 1), Evidence(7, 8, "7", 0.8, 2))
    prediction = Prediction(id="1", answer="", start=None, end=None, score=1.0, evidence=blocks)
    assert evidence_scores(example, prediction) == expected


@given(st.text("ab ."), st.text("ab .", min_size=1, max_size=3))
def test_occurrences(text: str, needle: str) -> None:
    found = occurrences(text, needle)
    bare = needle.strip()
    assert all(text[span.start : span.end] == bare for span in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert bool(found) == (bare != "" and bare in text)
    assert set(words(text, needle)) in (set(found), set())


@given(st.text("ab .\n"), st.data())
def test_trim(text: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    span = trim(text, start, end, ".")
    left = text[start:end].strip().rstrip(". \n")
    assert (text[span.start : span.end] if span else "") == left
