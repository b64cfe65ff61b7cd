"""SQuAD and CUAD: offsets in joined articles, wrong offsets, the official scores."""

import json
from pathlib import Path

import numpy as np
import pytest

from cogltx.document import Document, Example, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Answer, Evidence, Prediction
from cogltx.tasks import ReadReport
from cogltx.tasks.metrics import answer_score
from cogltx.tasks.squad import Squad

FIRST = "Rome is old. It lies on the Tiber."
SECOND = "Paris lies on the Seine.\nIt is big."


def question(id: str, *answers: tuple[str, int], **more: object) -> dict[str, object]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": f"What is {id}?", "answers": given, **more}


def article(first: list[dict[str, object]], second: list[dict[str, object]]) -> dict[str, object]:
    return {
        "title": "Cities",
        "paragraphs": [{"context": FIRST, "qas": first}, {"qas": second, "context": SECOND}],
    }


def read(folder: Path, task: Squad, *articles: dict[str, object]) -> tuple[list[Example], ReadReport]:
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "v2.0", "data": articles}))
    report = ReadReport()
    return list(task.read(path, split="train", report=report)), report


def predict(example: Example, answer: str, *places: Span) -> Prediction:
    evidence = tuple(Evidence(span.start, span.end, "", 0.5, 1) for span in places)
    return Prediction(id=example.id, answer=answer, start=None, end=None, confidence=0.5, evidence=evidence)


def texts(example: Example) -> list[str]:
    return [example.document.text[span.start : span.end] for span in example.answer_spans]


def test_paragraphs(tmp_path: Path) -> None:
    (a, b, c), report = read(
        tmp_path,
        Squad(),
        article([question("a", ("Rome", 0)), question("b", is_impossible=True)], [question("c", ("Seine", 18))]),
    )
    assert a.document is b.document
    assert (a.document.text, a.document.id, a.document.segments) == (
        FIRST,
        "Cities#0",
        (Segment(0, len(FIRST)),),
    )
    assert (a.answers, a.answer_spans, a.relevant) == (("Rome",), (Span(0, 4),), (Span(0, 4),))
    assert (b.answers, b.answer_spans, b.relevant) == ((), (), ())
    assert (c.document.text, texts(c)) == (SECOND, ["Seine"])
    assert (report.examples, report.unmapped) == (3, [])


def test_joined_articles(tmp_path: Path) -> None:
    (a, b), _ = read(
        tmp_path,
        Squad(join_paragraphs=True, headings=True),
        article([question("a", ("Tiber", 28))], [question("b", ("Seine", 18), ("lies on the Seine", 6))]),
    )
    assert a.document is b.document
    assert a.document.text == FIRST + "\n\n" + SECOND
    assert a.document.segments == (
        Segment(0, len(FIRST), "Cities"),
        Segment(len(FIRST) + 2, len(a.document.text), "Cities"),
    )
    assert (texts(a), texts(b)) == (["Tiber"], ["Seine", "lies on the Seine"])


def test_a_choice_of_questions(tmp_path: Path) -> None:
    asked = article([question("a law", ("Rome", 0)), question("a date", ("Tiber", 28))], [question("b", ("Seine", 18))])
    found, report = read(tmp_path, Squad(only=("is a", "date")), asked)
    assert [example.id for example in found] == ["a law", "a date"]
    found, report = read(tmp_path, Squad(only=("date", "law?")), asked)
    assert ([example.id for example in found], report.examples) == (["a law", "a date"], 2)
    assert [example.id for example in read(tmp_path, Squad(only=("b?",)), asked)[0]] == ["b"]


def test_articles_without_paragraphs_or_title(tmp_path: Path) -> None:
    nameless = {"paragraphs": [{"context": FIRST, "qas": [question("a", ("Rome", 0))]}]}
    for task in (Squad(), Squad(join_paragraphs=True)):
        (example,), _ = read(tmp_path, task, {"title": "None", "paragraphs": []}, nameless)
        assert example.document.id.startswith("article 2")


@pytest.mark.parametrize(
    ("answers", "spans"),
    [
        ([("Rome", 0), ("Rome", 0)], ["Rome"]),
        ([(" Tiber", 27)], ["Tiber"]),
        ([(" Tiber ", 28)], ["Tiber"]),
        ([("Tiber. ", 28)], ["Tiber."]),
    ],
)
def test_places(tmp_path: Path, answers: list[tuple[str, int]], spans: list[str]) -> None:
    (example,), report = read(tmp_path, Squad(), article([question("a", *answers)], []))
    assert texts(example) == spans
    assert not report.unmapped


def test_a_place_that_does_not_match(tmp_path: Path) -> None:
    (example,), report = read(tmp_path, Squad(), article([question("a", ("Tiber", 0), ("old", 8), ("", 3))], []))
    assert texts(example) == ["old"]
    assert example.answers == ("Tiber", "old", "")
    assert report.unmapped == [
        ("a", "the text at 0 is 'Rome ', not the answer 'Tiber'"),
        ("a", "the text at 3 is '', not the answer ''"),
    ]


def test_guessed_places(tmp_path: Path) -> None:
    sure, guess = (
        {"text": "old", "answer_start": 8},
        {"text": "Rome", "answer_start": 0, "start_ambiguous": True},
    )
    both, alone = question("a") | {"answers": [guess, sure]}, question("b") | {"answers": [guess]}
    (a, b), _ = read(tmp_path, Squad(), article([both, alone], []))
    assert (texts(a), a.answers) == (["old"], ("Rome", "old"))
    assert texts(b) == ["Rome"]


def test_a_test_file_without_gold(tmp_path: Path) -> None:
    hidden = {"id": "a", "question": " "}
    (example,), _ = read(tmp_path, Squad(), article([hidden], []))
    assert (example.query, example.answers, example.relevant) == (None, None, None)
    assert Squad().metrics([(example, predict(example, "x"))]) == {}


def test_scores(tmp_path: Path) -> None:
    (a, b), _ = read(
        tmp_path,
        Squad(),
        article([question("a", ("Rome", 0), ("the Tiber", 24)), question("b", is_impossible=True)], []),
    )
    assert Squad().per_example(a, predict(a, "on the Tiber", Span(20, 30))) == {
        "exact_match": 0.0,
        "f1": pytest.approx(2 / 3),
        "has_answer_f1": pytest.approx(2 / 3),
        "evidence_recall": 0.5,
        "evidence_complete": 0.0,
    }
    assert Squad().metrics([(a, predict(a, "Rome")), (b, predict(b, "")), (b, predict(b, "x"))]) == {
        "exact_match": pytest.approx(200 / 3),
        "f1": pytest.approx(200 / 3),
        "has_answer_f1": 100.0,
        "no_answer_accuracy": 50.0,
        "evidence_recall": 0.0,
        "evidence_complete": 0.0,
    }
    assert set(Squad().metrics([(a, predict(a, ""))])) == {
        "exact_match",
        "f1",
        "evidence_recall",
        "evidence_complete",
    }
    assert set(Squad().metrics([(b, predict(b, ""))])) == {"exact_match", "f1"}


def test_an_id_that_comes_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"article 'Cities': the id 'a' is already used at "):
        read(tmp_path, Squad(), article([question("a", ("Rome", 0)), question("a", ("Rome", 0))], []))


def test_an_answer_that_is_not_in_the_text_has_the_offset_minus_one(tmp_path: Path) -> None:
    [example], report = read(tmp_path, Squad(), article([question("a", ("a city", -1))], []))
    assert example.answers == ("a city",)
    assert example.answer_spans == ()
    assert report.unmapped == [("a", "the answer 'a city' has no place in the text (answer_start is -1)")]


@pytest.mark.parametrize("start", [-2, len(FIRST), 10**9])
def test_an_offset_outside_the_text(tmp_path: Path, start: int) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, Squad(join_paragraphs=True), article([question("a", ("Rome", start))], []))
    assert str(error.value) == (
        f"{tmp_path / 'squad.json'}: item 1: article 'Cities': question 'a': answer_start is {start}, outside the "
        f"{len(FIRST)} characters of the paragraph"
    )


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ({"qas": []}, "paragraphs[0].context is missing"),
        ({"context": " ", "qas": []}, "document 'Cities#0': the text is only white space"),
        ({"context": "x", "qas": {}}, "paragraphs[0].qas must be a list, but is {}"),
        (
            {"context": "x", "qas": [question("1") | {"id": True}]},
            "paragraphs[0].qas[0].id must be a string or an integer, but is True",
        ),
        (
            {"context": "x", "qas": [question("1") | {"answers": {"text": ["x"], "answer_start": []}}]},
            "paragraphs[0].qas[0].answers must be a list, but is {'text': ['x'], 'answer_start': []}",
        ),
        (
            {"context": "x", "qas": [{"id": "1"}]},
            "paragraphs[0].qas[0].question is missing",
        ),
        (
            {"context": "x", "qas": [question("1") | {"answers": [{"text": "x"}]}]},
            "paragraphs[0].qas[0].answers[0].answer_start is missing",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, paragraph: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, Squad(), {"title": "Cities", "paragraphs": [paragraph]})
    assert str(error.value) == f"{tmp_path / 'squad.json'}: item 1: article 'Cities': {expected}"


def test_ids_that_are_numbers_or_missing(tmp_path: Path) -> None:
    unnamed = {"question": "Where?", "answers": []}
    asked = article([question("a") | {"id": 7}, unnamed, question("b") | {"id": None}], [unnamed])
    examples, _ = read(tmp_path, Squad(), asked)
    assert [(example.id, example.answers) for example in examples] == [("7", ()), ("2", ()), ("3", ()), ("4", ())]
    with pytest.raises(DataError, match="the id '2' is already used"):
        read(tmp_path, Squad(), article([question("a") | {"id": 2}, unnamed], []))


ROWS = [
    {
        "id": 1,
        "title": "Cities",
        "context": FIRST,
        "question": "What?",
        "answers": {"text": ["Rome"], "answer_start": [0]},
    },
    {"id": 2, "title": "Cities", "context": FIRST, "question": "Who?", "answers": {"text": [], "answer_start": []}},
    {
        "id": 3,
        "title": "Cities",
        "context": SECOND,
        "question": "Where?",
        "answers": {"text": "Seine", "answer_start": 18},
    },
]
PARAGRAPHS = [
    {"title": "Cities", "context": FIRST, "qas": [row | {"context": 0} for row in ROWS[:2]]},
    {"title": "Cities", "context": SECOND, "qas": ROWS[2:]},
]


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"data": [{"title": "Cities", "paragraphs": PARAGRAPHS}]}),
        json.dumps([{"title": "Cities", "paragraphs": PARAGRAPHS}]),
        json.dumps({"title": "Cities", "paragraphs": PARAGRAPHS}, indent=2),
        json.dumps({"version": 1, "data": PARAGRAPHS}),
        "\n".join(map(json.dumps, PARAGRAPHS)),
        json.dumps({"data": ROWS}),
        json.dumps(ROWS),
        "\n".join(map(json.dumps, ROWS)) + "\n",
    ],
)
def test_other_files_with_the_same_questions(tmp_path: Path, content: str, join: bool) -> None:
    path = tmp_path / "squad.json"
    path.write_text(content)
    a, b, c = Squad(join_paragraphs=join).read(path, split="train")
    assert (a.id, b.id, c.id) == ("1", "2", "3")
    assert (texts(a), b.answers, texts(c)) == (["Rome"], (), ["Seine"])
    assert a.document is b.document
    assert (a.document.id, c.document.id) == (("Cities", "Cities") if join else ("Cities#0", "Cities#1"))
    assert a.document.text == (f"{FIRST}\n\n{SECOND}" if join else FIRST)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "the file ends early, after 0 complete items"),
        ('{"version": 1}', "must be a JSON object with a list 'data'; choose another format with --set task.name"),
        (json.dumps(ROWS[0]) + '\n{"id": 2, "con', "the file ends early, after 1 complete items"),
        (json.dumps(ROWS[0]) + "\n3", "item 2 must be a JSON object, but is 3"),
        ('{"question": "x", "id": 1}', "item 1: article 'article 1': paragraphs[0].context is missing"),
    ],
)
def test_files_that_are_nearly_right(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "squad.json"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        list(Squad().read(path, split="train"))
    assert str(error.value) == f"{path}: {expected}"


@pytest.mark.parametrize("name", ["squad/dev-v1.1", "squad/dev-v2.0", "cuad/test"])
@pytest.mark.parametrize("join", [False, True])
def test_real_data(data_folder: Path, name: str, join: bool) -> None:
    task, report = Squad(join_paragraphs=join), ReadReport()
    pairs = []
    for example in task.read(data_folder / f"{name}.json.gz", split="test", report=report):
        assert set(texts(example)) <= {answer.strip() for answer in example.answers or ()}
        assert bool(example.answers) == bool(example.answer_spans)
        pairs.append((example, predict(example, (example.answers or ("",))[-1], *example.answer_spans)))
    assert report.examples == len(pairs) > 1000
    assert not report.unmapped
    assert set(task.metrics(pairs).values()) == {100.0}


def test_best_scores_over_all_thresholds() -> None:
    """Against trying every threshold, as one would by hand."""
    rng = np.random.default_rng(0)
    document = Document("one two three")
    for _ in range(20):
        pairs, margins = [], []
        for number in range(12):
            gold = [(), ("one",), ("one two",)][rng.integers(3)]
            candidate = ["one", "two", "one two"][rng.integers(3)]
            found, none = rng.uniform(size=2).tolist()
            made = Prediction(
                id=str(number), answer="" if none > found else candidate, start=None, end=None,
                confidence=max(none, found), no_answer_confidence=none,
                alternatives=(Answer(candidate, 0, 3, found),) * (none > found),
            )  # fmt: skip
            pairs.append((Example(id=str(number), document=document, answers=gold), made, candidate))
            margins.append(none - found)
        found = Squad().metrics([pair[:2] for pair in pairs])
        if "best_f1" not in found:
            continue
        for name, kind in (("best_f1", "f1"), ("best_exact_match", "em")):
            totals = [
                sum(
                    getattr(answer_score(candidate if margin <= threshold else "", example.answers or ()), kind)
                    for margin, (example, _, candidate) in zip(margins, pairs, strict=True)
                )
                for threshold in (-9.0, *margins)
            ]
            assert found[name] == pytest.approx(100 * max(totals) / 12)
