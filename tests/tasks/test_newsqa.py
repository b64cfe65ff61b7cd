"""NewsQA: splits, trimmed and clipped ranges, questions that are bad or have no answer."""

import gzip
import json
from pathlib import Path

import corpus
import pytest

from cogltx.cli._yaml_config import load_yaml
from cogltx.cli.evaluate import evaluate
from cogltx.document import Example, Span
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks import ReadReport, Split
from cogltx.tasks.newsqa import NewsQA
from cogltx.training.config import RunConfig
from cogltx.training.run import train_run

TEXT = 'LONDON (CNN) -- It is 19 today.\n\n  He said "no."\n'


def question(consensus: dict[str, object], **more: object) -> dict[str, object]:
    return {"q": "How old?", "consensus": consensus, "answers": [], "isAnswerAbsent": 0.0, **more}


def story(*questions: dict[str, object], id: str = "./cnn/stories/0a.story", type: str = "train") -> dict[str, object]:
    return {"storyId": id, "text": TEXT, "type": type, "questions": questions}


def read(folder: Path, *stories: dict[str, object], split: Split = "train") -> tuple[list[Example], ReadReport]:
    path = folder / "combined-newsqa-data-v1.json"
    path.write_text(json.dumps({"data": stories, "version": "1"}))
    report = ReadReport()
    return list(NewsQA().read(path, split=split, report=report)), report


def test_reading(tmp_path: Path) -> None:
    (example,), report = read(tmp_path, story(question({"s": 22, "e": 25})))
    assert example.id == "./cnn/stories/0a.story#0"
    assert (example.document.text, example.document.id) == (TEXT, "./cnn/stories/0a.story")
    assert example.document.segments == (), "short lines share a block"
    assert (example.answers, example.answer_spans, example.relevant) == (
        ("19",),
        (Span(22, 24),),
        (Span(22, 24),),
    )
    assert (report.examples, report.unmapped, example.extra) == (1, [], {})


@pytest.mark.parametrize(
    ("start", "end", "answer"),
    [
        (22, 25, "19"),
        (22, 31, "19 today"),
        (22, 33, "19 today"),
        (7, 12, "(CNN)"),
        (42, 48, '"no'),
        (33, 9999, 'He said "no'),
        (-5, 6, "LONDON"),
        (46, 48, '."'),
    ],
)
def test_ranges(tmp_path: Path, start: int, end: int, answer: str) -> None:
    (example,), report = read(tmp_path, story(question({"s": start, "e": end})))
    assert example.answers == (answer,)
    assert not report.unmapped


@pytest.mark.parametrize(("start", "end"), [(25, 22), (31, 33), (9999, 10000), (4, 4)])
def test_ranges_without_text(tmp_path: Path, start: int, end: int) -> None:
    (example,), report = read(tmp_path, story(question({"s": start, "e": end})))
    assert (example.answers, example.answer_spans) == ((), ())
    assert report.unmapped == [
        (example.id, f"the answer at {start}:{min(end, len(example.document.text))} is not text")
    ]


def test_splits(tmp_path: Path) -> None:
    stories = [story(question({"noAnswer": True}), id=type, type=type) for type in ("test", "dev", "train")]
    splits: list[tuple[Split, str]] = [("train", "train"), ("validation", "dev"), ("test", "test")]
    for split, type in splits:
        (example,), report = read(tmp_path, *stories, split=split)
        assert (example.document.id, report.examples) == (type, 1)
        assert (example.answers, example.relevant) == ((), ())


def test_ids_of_stories(tmp_path: Path) -> None:
    (example,), _ = read(tmp_path, story(question({"s": 22, "e": 25})) | {"storyId": 7})
    assert (example.id, example.document.id) == ("7#0", "7")
    with pytest.raises(DataError, match=r"item 2: story 7: the id '7#0' is already used at .*item 1: story 7"):
        read(tmp_path, *[story(question({"s": 22, "e": 25})) | {"storyId": 7}] * 2)


def test_bad_questions(tmp_path: Path) -> None:
    bad, good = (
        question({"badQuestion": True}, isQuestionBad=1.0),
        question({"s": 22, "e": 24}, isQuestionBad=0.4),
    )
    both = story(bad, good)
    assert [example.id[-2:] for example in read(tmp_path, both)[0]] == ["#1"]
    splits: list[tuple[Split, str]] = [("validation", "dev"), ("test", "test")]
    for split, type in splits:
        (first, second), report = read(tmp_path, both | {"type": type}, split=split)
        assert (first.answers, first.extra) == ((), {"bad_question": True})
        assert (second.answers, second.extra) == (("19",), {})
        assert report.examples == 2


def test_scores(tmp_path: Path) -> None:
    examples, _ = read(tmp_path, story(question({"s": 22, "e": 24}), question({"noAnswer": True})))
    pairs = [
        (example, Prediction(id=example.id, answer="19 today", start=22, end=30, confidence=0.5))
        for example in examples
    ]
    assert NewsQA().metrics(pairs) == {
        "exact_match": 0.0,
        "f1": pytest.approx(100 / 3),
        "answerable_em": 0.0,
        "answerable_f1": pytest.approx(200 / 3),
        "evidence_recall": 0.0,
        "evidence_complete": 0.0,
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (story(type="eval"), "type must be 'train', 'dev' or 'test', but is 'eval'"),
        (
            story() | {"text": ""},
            "story './cnn/stories/0a.story': document './cnn/stories/0a.story': ",
        ),
        (story(question({"s": 1})), "questions[0].consensus must have s and e, noAnswer or badQuestion"),
        (
            story({"q": "?"}),
            "story './cnn/stories/0a.story': questions[0].consensus is missing",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, changed: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, changed)
    assert str(error.value).startswith(f"{tmp_path / 'combined-newsqa-data-v1.json'}: item 1: ")
    assert expected in str(error.value)


def test_real_data(data_folder: Path) -> None:
    path = data_folder / "newsqa" / "combined-newsqa-data-v1.json.gz"
    splits: tuple[Split, ...] = ("train", "validation", "test")
    examples = [example for split in splits for example in NewsQA().read(path, split=split)]
    assert len({example.id for example in examples}) == len(examples) == 14818
    for example in examples:
        text = example.document.text
        assert tuple(text[span.start : span.end] for span in example.answer_spans) == example.answers


def test_the_recipe_trains_on_the_official_file_and_is_evaluated_on_it(
    tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file has all splits: training reads train and dev of it, evaluation reads test."""
    splits = {"train": 8, "dev": 4, "test": 6}
    stories = []
    for name, count in splits.items():
        for number, example in enumerate(corpus.make(count, seed=len(stories), unanswered=True)):
            assert example.query is not None
            (span,) = example.answer_spans or (None,)
            said = {"noAnswer": True} if span is None else {"s": span.start, "e": span.end + 1}
            asked = question(said, q=example.query.text, answers=[{"sourcerAnswers": [said]}])
            one = story(asked, id=f"./cnn/stories/{name}{number}.story", type=name)
            stories.append(one | {"text": example.document.text})
    path = tmp_path / "combined-newsqa-data-v1.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"data": stories, "version": "1"}).encode()))
    changes = [
        f"data.train={path}", f"data.validation={path}", f"encoder.name={tiny_encoder}", "encoder.precision=float32",
        "max_block_tokens=16", "memrecall.capacity=64", "training.epochs=1", "training.batch_size=4",
    ]  # fmt: skip
    run = load_yaml(RunConfig, Path(__file__).parents[2] / "configs" / "paper" / "newsqa.yaml", changes)
    said: list[str] = []
    train_run(run, tmp_path / "run", report=said.append)
    assert said[0] == f"{splits['train']} training and {splits['dev']} validation examples"
    capsys.readouterr()
    evaluate(str(tmp_path / "run"), str(path), as_json=True)
    measured = json.loads(capsys.readouterr().out)
    assert measured["examples"] == splits["test"]
    assert {"exact_match", "f1", "answerable_f1", "evidence_recall"} <= set(measured["metrics"])
