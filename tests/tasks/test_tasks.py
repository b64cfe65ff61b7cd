"""Tasks by name, their options, and the helpers that readers share."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.document import Document, Example, Span
from cogltx.errors import ConfigError
from cogltx.prediction import Evidence, Prediction
from cogltx.tasks import TASKS, make_task
from cogltx.tasks.base import occurrences


def test_names() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert make_task(name, {}) == task()
        assert "." not in task.main_metric


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("hotpot", {}, "the task 'hotpot' is not known; did you mean hotpotqa?"),
        (
            "hotpotqa",
            {"facts": 2},
            "task hotpotqa: facts is not a setting; choose from supporting_facts, paragraphs, fact_threshold",
        ),
        ("jsonl", {"x": 1}, "task jsonl: x is not a setting"),
        (
            "hotpotqa",
            {"supporting_facts": "two"},
            "task hotpotqa: supporting_facts must be an integer, but is 'two'",
        ),
        (
            "hotpotqa",
            {"fact_threshold": 2},
            "task hotpotqa: fact_threshold must be less than or equal to 1 or 'tuned', but is 2",
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
    prediction = Prediction(id="1", answer="", start=None, end=None, confidence=1.0, evidence=blocks)
    assert make_task("jsonl", {}).per_example(example, prediction) == expected


@given(st.text("ab ."), st.text("ab .", min_size=1, max_size=3))
def test_occurrences(text: str, needle: str) -> None:
    found = occurrences(text, needle)
    bare = " ".join(needle.split())
    assert all(" ".join(text[span.start : span.end].split()) == bare for span in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert bool(found) == (bare != "" and bare in " ".join(text.split()))
    assert set(occurrences(text, needle, whole_words=True)) in (set(found), set())


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("The cat sat.", "cat", ["cat"]),
        ("The Mid\nlands are flat.", "Mid lands", ["Mid\nlands"]),
        ("Die Donau\u00adschifffahrt ruht.", "Donauschifffahrt", ["Donau\u00adschifffahrt"]),
        ("Un cafe\u0301 noir.", "café", ["cafe\u0301"]),
        ("Un café noir.", "cafe\u0301", ["café"]),
        ("The o\ufb03ce closed.", "office", ["o\ufb03ce"]),
        ("Köprü Ankara'da.", "Ankara", ["Ankara"]),
        ("Мост в Москве́ закрыт.", "Москве", ["Москве́"]),
        ("Η γέφυρα της Πάτρας.", "Πάτρας", ["Πάτρας"]),
        ("大桥位于南京。", "南京", ["南京"]),
        ("橋は京都の北にある。", "京都", ["京都"]),
        ("橋はKyotoの北に2011年に開通。", "Kyoto", ["Kyoto"]),
        ("橋はKyotoの北に2011年に開通。", "2011", ["2011"]),
        ("ｷｮｳﾄの橋", "キョウト", ["ｷｮｳﾄ"]),
        ("１９９９年に完成", "1999", ["１９９９"]),
        ("สะพานอยู่ที่เชียงใหม่และเก่า", "เชียงใหม่", ["เชียงใหม่"]),
        ("ຂົວຢູ່ຫຼວງພະບາງແລະເກົ່າ", "ຫຼວງພະບາງ", ["ຫຼວງພະບາງ"]),
        ("ស្ពាននៅភ្នំពេញចាស់", "ភ្នំពេញ", ["ភ្នំពេញ"]),
        ("တံတားသည်မန္တလေးတွင်ရှိသည်", "မန္တလေး", ["မန္တလေး"]),
        ("다리는 부산에 있다.", "부산", ["부산"]),
        ("पुल दिल्ली में है।", "दिल्ली", ["दिल्ली"]),
        ("الجسر يقع ببغداد القديمة.", "بغداد", ["بغداد"]),
        ("الجِسْرُ فِي بَغْدَادَ", "بغداد", ["بَغْدَادَ"]),
        ("הגשר בירושלים.", "ירושלים", ["ירושלים"]),
        ("הַגֶּשֶׁר בחיפה.", "הגשר", ["הַגֶּשֶׁר"]),
        ("Cầu ở Đà Nẵng.", "Đà Nẵng", ["Đà Nẵng"]),
        ("پل را می\u200cبینیم.", "میبینیم", ["می\u200cبینیم"]),
        ("The concatenation", "cat", []),
        ("Silta Helsinkiin", "Helsinki", []),
        ("부산대학교", "부산", []),
        ("น้ำแข็ง", "น", []),
        ("WHO is who", "Who", []),
    ],
)
def test_answers_of_many_scripts_are_found_as_whole_words(text: str, answer: str, found: list[str]) -> None:
    spans = occurrences(text, answer, whole_words=True)
    assert [text[span.start : span.end] for span in spans] == found


def test_answers_are_found_within_a_span() -> None:
    text = "Un cafe\u0301. Un cafe\u0301."
    assert occurrences(text, "café", Span(5, len(text))) == (Span(13, 18),)
    assert occurrences(text, "\u00ad") == ()
