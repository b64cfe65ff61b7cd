"""HotpotQA: offsets, gold that has no place, supporting facts and the official scores."""

import json
from pathlib import Path

import pytest

from cogltx.document import Example, Segment, Span
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Evidence, Prediction
from cogltx.tasks import ReadReport, make_task
from cogltx.tasks.hotpotqa import HotpotQA

QUESTION: dict[str, object] = {
    "_id": "5a7a",
    "answer": "York",
    "question": "Where was the maker of Anvil born?",
    "supporting_facts": [["Anvil (film)", 0], ["Ann Lee", 1]],
    "context": [
        ["Anvil (film)", ["Anvil is a film by Ann Lee.", " It was shot in New York."]],
        ["Ann Lee", ["Ann Lee makes films.", " She was born in York, not in Yorkshire.", " "]],
        ["Empty", []],
    ],
    "type": "bridge",
    "level": "hard",
}
TEXT = (
    "Anvil is a film by Ann Lee. It was shot in New York.\n"
    "Ann Lee makes films. She was born in York, not in Yorkshire. \n"
)


def read(folder: Path, *questions: dict[str, object]) -> tuple[list[Example], ReadReport]:
    path = folder / "hotpot.json"
    path.write_text(json.dumps(questions))
    report = ReadReport()
    return list(HotpotQA().read(path, split="validation", report=report)), report


def predict(example: Example, answer: str, *blocks: tuple[str, float]) -> Prediction:
    evidence = []
    for text, score in blocks:
        start = example.document.text.index(text)
        evidence.append(Evidence(start, start + len(text), text, score, 1))
    return Prediction(id=example.id, answer=answer, start=None, end=None, confidence=0.5, evidence=tuple(evidence))


def test_reading(tmp_path: Path) -> None:
    (example,), report = read(tmp_path, QUESTION)
    assert example.document.text == TEXT
    assert example.id == example.document.id == "5a7a"
    assert example.query is not None
    assert example.query.text == QUESTION["question"]
    assert example.document.segments == (
        Segment(0, 27, "Anvil (film)"),
        Segment(27, 52, "Anvil (film)"),
        Segment(53, 73, "Ann Lee"),
        Segment(73, 113, "Ann Lee"),
    )
    assert example.relevant == (Span(0, 27), Span(73, 113))
    # the York of the supporting sentence: neither the one of the first paragraph nor a part of Yorkshire
    assert [TEXT[span.start - 3 : span.end + 1] for span in example.answer_spans] == ["in York,"]
    assert example.extra == {
        "sentences": [
            ["Anvil (film)", 0, 0, 27],
            ["Anvil (film)", 1, 27, 52],
            ["Ann Lee", 0, 53, 73],
            ["Ann Lee", 1, 73, 113],
        ],
        "supporting_facts": [["Anvil (film)", 0], ["Ann Lee", 1]],
        "type": "bridge",
        "level": "hard",
    }
    assert (report.examples, report.unmapped) == (1, [])


def test_a_blank_sentence_keeps_its_number(tmp_path: Path) -> None:
    context = [["A", ["One.", " ", " Three."]]]
    (example,), report = read(
        tmp_path, QUESTION | {"context": context, "supporting_facts": [["A", 2]], "answer": "Three"}
    )
    assert example.relevant == (Span(5, 12),)
    assert not report.unmapped


@pytest.mark.parametrize(
    ("changes", "spans", "unmapped"),
    [
        ({"answer": "yes"}, [], []),
        ({"answer": "no"}, [], []),
        ({"answer": "New York"}, ["New York"], []),
        ({"answer": "Paris"}, [], ["the answer 'Paris' does not occur in the document"]),
        ({"answer": "orkshir"}, ["orkshir"], []),
        (
            {"supporting_facts": [["Anvil (film)", 9], ["Nobody", 0], ["Anvil (film)", 1]]},
            ["York"],
            [
                "no sentence 9 in a paragraph 'Anvil (film)' for a supporting fact",
                "no sentence 0 in a paragraph 'Nobody' for a supporting fact",
            ],
        ),
    ],
)
def test_places(tmp_path: Path, changes: dict[str, object], spans: list[str], unmapped: list[str]) -> None:
    (example,), report = read(tmp_path, QUESTION | changes)
    assert [TEXT[span.start : span.end] for span in example.answer_spans] == spans
    assert report.unmapped == [("5a7a", why) for why in unmapped]
    assert report.examples == 1


def test_one_title_twice(tmp_path: Path) -> None:
    context = [["A", ["One."]], ["A", ["Two.", " Three."]]]
    facts = [["A", 0], ["A", 1]]
    (example,), report = read(tmp_path, QUESTION | {"context": context, "supporting_facts": facts, "answer": "yes"})
    assert example.relevant == (Span(0, 4), Span(9, 16))
    assert not report.unmapped
    prediction = predict(example, "yes", ("One.", 0.9), ("Two.", 0.8), ("Three.", 0.7))
    assert HotpotQA().describe(example, prediction)["supporting_facts"] == [["A", 0], ["A", 1]]
    assert HotpotQA().per_example(example, prediction)["joint_em"] == 1.0


def test_a_test_file_without_gold(tmp_path: Path) -> None:
    gold = ("answer", "supporting_facts", "type", "level")
    (example,), report = read(tmp_path, {key: value for key, value in QUESTION.items() if key not in gold})
    assert (example.answers, example.answer_spans, example.relevant) == (None, (), None)
    assert not report.unmapped
    prediction = predict(example, "York", ("born in York", 0.9))
    assert HotpotQA().per_example(example, prediction) == {}
    assert HotpotQA().metrics([(example, prediction)]) == {}
    assert HotpotQA().describe(example, prediction) == {"supporting_facts": [["Ann Lee", 1]]}
    own = Example(id=example.id, document=example.document, query=example.query)
    assert HotpotQA().describe(own, prediction) == {}, "data of one's own has no sentences"


def test_predicted_facts(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, QUESTION)
    blocks = (
        ("Ann Lee makes", 0.6),
        ("She was", 0.9),
        ("born in York", 0.8),
        ("shot in", 0.7),
        ("film by", 0.5),
    )
    prediction = predict(example, "York", *blocks)
    best = [["Ann Lee", 1], ["Anvil (film)", 1], ["Ann Lee", 0], ["Anvil (film)", 0]]
    for task, count in (
        (HotpotQA(), 2),
        (HotpotQA(supporting_facts=3), 3),
        (HotpotQA(supporting_facts=9), 4),
        (HotpotQA(supporting_facts=0), 0),
        (HotpotQA(supporting_facts=0, fact_threshold=0.7), 2),
        (HotpotQA(fact_threshold=0.95), 2),
        (HotpotQA(fact_threshold=0.6), 3),
    ):
        assert task.describe(example, prediction) == {"supporting_facts": best[:count]}


def test_facts_of_the_best_paragraphs(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, QUESTION)
    prediction = predict(example, "York", ("She was", 0.9), ("Ann Lee makes", 0.8), ("film by", 0.7), ("shot in", 0.2))
    for task, facts in (
        (HotpotQA(), [["Ann Lee", 1], ["Ann Lee", 0]]),
        (HotpotQA(paragraphs=1), [["Ann Lee", 1]]),
        (HotpotQA(paragraphs=1, fact_threshold=0.1), [["Ann Lee", 1], ["Ann Lee", 0]]),
        (HotpotQA(paragraphs=2), [["Ann Lee", 1], ["Anvil (film)", 0]]),
        (HotpotQA(paragraphs=2, fact_threshold=0.75), [["Ann Lee", 1], ["Ann Lee", 0], ["Anvil (film)", 0]]),
        (HotpotQA(paragraphs=9, fact_threshold="tuned"), [["Ann Lee", 1], ["Anvil (film)", 0]]),
    ):
        assert task.describe(example, prediction) == {"supporting_facts": facts}, task


def test_the_threshold_of_facts_is_tuned(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, QUESTION)
    pairs = [
        (example, predict(example, "York", ("Anvil is", 0.9), ("born in York", low), ("shot in", 0.31))) for low in (0.52, 0.61)
    ]  # fmt: skip
    task = HotpotQA(supporting_facts=1, fact_threshold="tuned")
    assert task.tuned(pairs) == HotpotQA(supporting_facts=1, fact_threshold=0.5)
    assert task.tuned(pairs).metrics(pairs)["sup_f1"] == 100
    assert task.tuned([]).fact_threshold is None, "nothing to tune by: no more facts"
    without_probabilities = [(example, predict(example, "York", ("Anvil is", 9), ("born in York", 8), ("shot in", 7)))]
    assert HotpotQA(fact_threshold="tuned").tuned(without_probabilities).fact_threshold is None
    assert HotpotQA(fact_threshold=0.3).tuned(pairs).fact_threshold == 0.3
    with pytest.raises(ConfigError, match="fact_threshold"):
        make_task("hotpotqa", {"fact_threshold": "often"})


def test_scores(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, QUESTION)
    right = predict(example, "york", ("Anvil is", 0.9), ("born in York", 0.8), ("Ann Lee makes", 0.1))
    wrong = predict(example, "New York", ("Anvil is", 0.9), ("shot in", 0.8))
    assert set(HotpotQA().metrics([(example, right)]).values()) == {100.0}
    assert HotpotQA().per_example(example, wrong) == {
        "answer_em": 0.0,
        "answer_f1": pytest.approx(2 / 3),
        "sup_em": 0.0,
        "sup_f1": 0.5,
        "sup_precision": 0.5,
        "sup_recall": 0.5,
        "joint_em": 0.0,
        "joint_f1": pytest.approx(2 * 0.25 * 0.5 / 0.75),
        "evidence_recall": 0.5,
        "evidence_complete": 0.0,
    }
    both = HotpotQA().metrics([(example, right), (example, wrong)])
    assert both["sup_f1"] == 75.0
    assert HotpotQA.main_metric in both


def test_a_fact_without_a_place_still_counts(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, QUESTION | {"supporting_facts": [["Anvil (film)", 0], ["Ann Lee", 9]]})
    numbers = HotpotQA(supporting_facts=1).per_example(example, predict(example, "York", ("Anvil is", 0.9)))
    assert (numbers["sup_recall"], numbers["evidence_recall"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"_id": None}, "question None: _id must be a string or an integer, but is None"),
        ({"answer": 3}, "question '5a7a': answer must be a string, but is 3"),
        (
            {"context": [["A", ["x", 1]]]},
            "question '5a7a': context[0][1][1] must be a string, but is 1",
        ),
        (
            {"context": [["A"]]},
            "question '5a7a': context[0][1] is missing",
        ),
        ({"context": []}, "question '5a7a': document '5a7a': "),
        (
            {"supporting_facts": [["A", "0"]]},
            "question '5a7a': supporting_facts[0][1] must be an integer, but is '0'",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, changes: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, QUESTION | changes)
    assert str(error.value).startswith(f"{tmp_path / 'hotpot.json'}: item 1: {expected}")


def test_missing_field(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"json: item 1: question None: _id is missing; question is missing; context is missing$"
    ):
        read(tmp_path, {"x": "1"})


@pytest.mark.parametrize("by_line", [False, True])
def test_rows_with_lists_per_field(tmp_path: Path, by_line: bool) -> None:
    context = {"title": ["Anvil (film)", "Ann Lee", "Empty"], "sentences": [row[1] for row in QUESTION["context"]]}  # type: ignore[attr-defined]
    facts = {"title": ["Anvil (film)", "Ann Lee"], "sent_id": [0, 1]}
    row = {"id": 7, "question": QUESTION["question"], "answer": "York", "context": context, "supporting_facts": facts}
    path = tmp_path / "rows.json"
    path.write_text(
        "\n".join(map(json.dumps, (row, row | {"id": 8}))) if by_line else json.dumps([row, row | {"id": 8}])
    )
    (official,), _ = read(tmp_path, QUESTION | {"_id": 7})
    one, other = HotpotQA().read(path, split="train")
    assert (one.id, other.id) == ("7", "8")
    assert (one.document, one.answer_spans, one.relevant) == (
        official.document,
        official.answer_spans,
        official.relevant,
    )


def test_real_data(data_folder: Path) -> None:
    report = ReadReport()
    examples = list(HotpotQA().read(data_folder / "hotpotqa" / "dev.json.gz", split="validation", report=report))
    assert len(examples) == report.examples == 300
    for example in examples:
        text = example.document.text
        assert example.answers
        assert all(text[span.start : span.end] == example.answers[0] for span in example.answer_spans)
        assert bool(example.answer_spans) == (example.answers[0] not in ("yes", "no"))
        relevant = example.relevant or ()
        segments = {(segment.start, segment.end) for segment in example.document.segments}
        assert {(span.start, span.end) for span in relevant} <= segments
        blocks = tuple(Evidence(span.start, span.end, text[span.start : span.end], 1.0, 1) for span in relevant)
        perfect = Prediction(
            id=example.id, answer=example.answers[0], start=None, end=None, confidence=1.0, evidence=blocks
        )
        assert set(HotpotQA(supporting_facts=99).per_example(example, perfect).values()) == {1.0}
