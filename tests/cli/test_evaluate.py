"""``cogltx evaluate``: metrics, resumable predictions, labels and entities."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import corpus
import pytest
from command_line import COUNT, Call, Files, same, write

from cogltx import pipeline
from cogltx.bench._quality import _document_sums
from cogltx.cli._comparison import System, compare
from cogltx.cli._predictions import Predictor, task_of, to_line
from cogltx.document import Document, Example, Query
from cogltx.prediction import Evidence, Prediction
from cogltx.reasoners import SpanReasonerConfig
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples
from cogltx.tasks.metrics import is_right


@pytest.mark.parametrize("task", ["squad", "hotpotqa", "newsqa", "cuad"])
def test_json_lines_are_read_whatever_the_task_of_the_model(files: Files, call: Call, task: str) -> None:
    done = call("evaluate", files.run, "--data", files.data, "--set", f"task.name={task}", "--json")
    assert done.code == 0, done.err
    assert (done.json["task"], done.json["examples"]) == (task, COUNT)
    assert ("answer_f1" if task == "hotpotqa" else "f1") in done.json["metrics"]


def test_nothing_to_measure_is_said(files: Files, call: Call, tmp_path: Path) -> None:
    data = write(tmp_path / "examples.jsonl", '{"text": "anna has the boat.", "question": "what?"}\n')
    done = call("evaluate", files.run, "--data", data)
    assert done.code == 0
    assert "warning: nothing is measured: no example has gold answers" in done.err


def test_labels_are_nothing_for_a_task_of_questions(files: Files, call: Call, tmp_path: Path) -> None:
    data = write(tmp_path / "examples.jsonl", '{"text": "anna has the boat.", "question": "what?", "label": "boats"}\n')
    done = call("evaluate", files.run, "--data", data)
    assert "warning: nothing is measured: no example has what the task jsonl measures" in done.err


def test_examples_without_labels_are_counted(files: Files, call: Call, tmp_path: Path) -> None:
    lines = ['{"text": "anna has the boat.", "question": "what?"}']
    lines.append('{"text": "anna has the boat.", "question": "what?", "answers": [{"text": "boat", "start": 13}]}')
    done = call("evaluate", files.run, "--data", write(tmp_path / "examples.jsonl", "\n".join(lines) + "\n"))
    assert done.err == "warning: 1 of 2 examples have no gold labels; the metrics leave them out\n"
    assert "exact_match" in done.out


def test_evaluation(files: Files, call: Call, tmp_path: Path) -> None:
    written = tmp_path / "predictions.jsonl"
    first = call("evaluate", files.run, "--data", files.data, "--predictions", written, "--json")
    assert first.code == 0, first.err
    assert first.json["examples"] == COUNT
    assert {"exact_match", "f1", "evidence_recall"} <= first.json["metrics"].keys()
    lines = written.read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(number) for number in range(COUNT)]
    written.unlink()
    again = call("evaluate", files.run, "--data", files.data, "--predictions", written, "--json")
    assert again.json["metrics"] == pytest.approx(first.json["metrics"])
    assert same(written.read_text().splitlines(), lines)
    table = call("evaluate", files.run, "--data", files.data, "--against", written)
    assert "difference in points (95 %)" in table.out
    assert "+0.00  (+0.00 to +0.00)" in table.out
    assert f"\n\nNo difference: f1 is the same, {COUNT} questions.\nWith only {COUNT} documents, " in table.out


def test_scores_beside_the_share_that_is_right(files: Files, call: Call, tmp_path: Path) -> None:
    options = ["--reliability", tmp_path / "curve.svg", "--predictions", tmp_path / "predictions.jsonl", "--json"]
    done = call("evaluate", files.run, "--data", files.data, *options)
    calibration = done.json["calibration"]
    bins = [(one["count"], one["mean_score"], one["accuracy"]) for one in calibration["bins"]]
    assert sum(n for n, _, _ in bins) == COUNT
    distances = [n * abs(score - right) for n, score, right in bins]
    assert calibration["error"] == pytest.approx(sum(distances) / COUNT)
    answers = [json.loads(line)["answer"] for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    gold = [example.answers or () for example in corpus.make(COUNT, unanswered=True)]
    n_right = sum(map(is_right, answers, gold))
    assert sum(n * share for n, _, share in bins) == pytest.approx(n_right)
    assert "share of right predictions" in (tmp_path / "curve.svg").read_text()
    assert "calibration error" in call("evaluate", files.run, "--data", files.data).out


def test_predictions_go_on_where_they_ended(
    files: Files, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_BATCH_TEXTS", 2)
    data, written = tmp_path / "examples.jsonl", tmp_path / "predictions.jsonl"
    examples = corpus.make(COUNT, unanswered=True)
    write_examples(data, [*examples[:4], replace(examples[4], query=Query("what " * 600))])
    command = ["evaluate", files.run, "--data", data, "--predictions", written, "--json"]
    assert call(*command).code == 2
    saved = {part: part.stat().st_mtime_ns for part in (tmp_path / "predictions.jsonl.parts").rglob("*.jsonl")}
    assert len(saved) == 2
    write_examples(data, examples)
    refused = call(*command, "--set", "memrecall.strides=[2]")
    assert "was started with changes []" in refused.err
    assert call(*command, "--limit", "1").code == 2, "the parts are of other examples"
    assert saved == {part: part.stat().st_mtime_ns for part in saved}
    done = call(*command)
    assert done.code == 0, done.err
    assert [json.loads(line)["id"] for line in written.read_text().splitlines()] == [one.id for one in examples]
    assert done.json["metrics"] == pytest.approx(call(*command[:4], "--json").json["metrics"])
    assert not (tmp_path / "predictions.jsonl.parts").exists()


def test_evaluation_of_other_choices(files: Files, call: Call) -> None:
    gold = call("evaluate", files.run, "--data", files.data, "--blocks", "gold", "--json")
    assert gold.json["metrics"]["evidence_recall"] == 100
    lexical = call("evaluate", files.run, "--data", files.data, "--judge", "bm25", "--json")
    assert lexical.json["examples"] == COUNT
    first = call("evaluate", files.run, "--data", files.data, "--set", "reader=truncation", "--limit", 3, "--json")
    assert first.json["examples"] == 3


def test_a_calibration_that_is_fitted_anew(files: Files, call: Call, tmp_path: Path) -> None:
    """For the judge of the training it is the same as in training."""
    run, validation = tmp_path / "run", tmp_path / "validation.jsonl"
    write_examples(validation, corpus.make(20, seed=1, unanswered=True))
    changes = ["--set", f"data.validation={validation}", "--set", "data.validation_limit=null"]
    assert not call("train", files.config, "--output", run, *changes).code
    predictor = Predictor(run)
    before = predictor.reader.config
    assert isinstance(before.reasoner, SpanReasonerConfig)
    assert before.reasoner.calibration is not None
    predictor.tune()
    assert predictor.reader.config == before
    changed = Predictor(run, ["reasoner.calibration.no_answer=10"])
    assert changed.reader.config != before
    changed.tune()
    assert changed.reader.config == before, "whatever it was"
    data = ["--data", files.data, "--predictions", tmp_path / "a.jsonl"]
    assert call("evaluate", run, *data, "--judge", "bm25", "--tune", "--json").json["examples"] == COUNT
    assert call("evaluate", run, *data, "--judge", "bm25").code == 2, "the predictions are by another calibration"
    assert not call("export", run, "--output", tmp_path / "model").code
    failed = call("evaluate", tmp_path / "model", *data, "--tune")
    assert failed.code == 2
    assert "model: not the folder of a run, whose validation examples it needs" in failed.err


def test_seconds_per_question(files: Files, call: Call) -> None:
    found = call("evaluate", files.run, "--data", files.data, "--timed", 2, "--json").json["seconds_per_question"]
    assert found["first"] > 0 < found["further"]
    printed = call("evaluate", files.run, "--data", files.data, "--timed", 1, "--limit", 1).out
    assert "  first question " in printed
    assert "  further question " in printed
    assert "seconds_per_question" not in call("evaluate", files.run, "--data", files.data, "--json").json


def test_a_limit_draws_the_same_examples_every_time(files: Files, call: Call, tmp_path: Path) -> None:
    ids = []
    for name in ("a.jsonl", "b.jsonl"):
        done = call("evaluate", files.run, "--data", files.data, "--limit", 2, "--predictions", tmp_path / name)
        assert done.code == 0
        ids.append([json.loads(line)["id"] for line in (tmp_path / name).read_text().splitlines()])
    assert ids[0] == ids[1] == sorted(ids[0])
    assert len(ids[0]) == 2


def test_long_documents_alone(files: Files, call: Call, tmp_path: Path) -> None:
    written = tmp_path / "predictions.jsonl"
    command = ["evaluate", files.run, "--data", files.data, "--predictions", written]
    assert call(*command).code == 0
    lengths = sorted(json.loads(line)["n_tokens"] for line in written.read_text().splitlines())
    before = written.read_text()
    longest = call(*command, "--longer-than", lengths[-1] - 1, "--json")
    assert longest.json["examples"] == lengths.count(lengths[-1])
    assert written.read_text() == before, "the file holds them all"
    alone = tmp_path / "alone.jsonl"
    call("evaluate", files.run, "--data", files.data, "--longer-than", lengths[-1] - 1, "--predictions", alone)
    assert len(alone.read_text().splitlines()) == lengths.count(lengths[-1]), "no others are read"
    more = call("evaluate", files.run, "--data", files.data, "--predictions", alone)
    assert more.code == 2
    assert "but example '" in more.err
    none = call(*command, "--longer-than", lengths[-1])
    assert none.code == 2
    assert none.err.endswith(f"no document has more than {lengths[-1]} tokens\n")


def test_predictions_are_of_the_model_that_began_them(files: Files, call: Call, tmp_path: Path) -> None:
    written = tmp_path / "predictions.jsonl"
    command = ["evaluate", files.run, "--data", files.data, "--predictions", written]
    assert call(*command).code == 0
    before = written.read_text()
    for other in (["--set", "memrecall.strides=[2]"], ["--judge", "bm25"], ["--blocks", "gold"], ["--split", "train"]):
        done = call(*command, *other)
        assert done.code == 2
        assert "was started with" in done.err
        assert done.err.endswith("; choose another file\n")
    assert written.read_text() == before
    copied = tmp_path / "copied"
    shutil.copytree(files.run, copied)
    assert call("evaluate", copied, *command[2:]).code == 0, "a model is what it is, wherever it lies"
    config = next(copied.glob("epoch-*")) / "config.json"
    values = json.loads(config.read_text())
    values["reasoner"]["evidence_weight"] += 1
    config.write_text(json.dumps(values))
    done = call("evaluate", copied, *command[2:])
    assert done.code == 2
    assert "was started with model '" in done.err, "the run goes on learning, and is another model"


@pytest.mark.parametrize(
    "option", [["--confusion", "x.bmp"], ["--against", "/nowhere/p.jsonl"], ["--confusion", "none"]]
)
def test_options_are_checked_before_anything_is_read(
    files: Files, call: Call, tmp_path: Path, option: list[str]
) -> None:
    written = tmp_path / "predictions.jsonl"
    assert call("evaluate", files.run, "--data", files.data, "--predictions", written, *option).code == 2
    assert not written.exists()


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "0", "answer": null, "start": null, "end": null, "confidence": 1}',
        '{"id": "0"}',
        '{"id": "0", "answer": "", "start": null, "end": null, "confidence": "x"}',
        "1" * 5000,
    ],
)
def test_lines_that_are_no_predictions(files: Files, call: Call, tmp_path: Path, line: str) -> None:
    done = call("evaluate", files.run, "--data", files.data, "--against", write(tmp_path / "others.jsonl", line))
    assert done.code == 2
    assert "others.jsonl:1: not a prediction: '" in done.err


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_of_something_else_is_left_as_it_is(
    files: Files, call: Call, tmp_path: Path, command: str, end: str
) -> None:
    data = tmp_path / "data.jsonl"
    write_examples(data, corpus.make(1))
    data.write_text(data.read_text().rstrip("\n") + end)
    before = data.read_text()
    options = ["--data", data, "--predictions", data] if command == "evaluate" else ["--input", data, "--output", data]
    done = call(command, files.run, *options)
    assert done.code == 2
    assert f"{data}:1: not a prediction: '{{" in done.err
    assert data.read_text() == before


def test_labels(classified: Path, call: Call, tmp_path: Path) -> None:
    done = call("evaluate", classified / "run", "--data", classified / "data", "--json")
    assert done.code == 0, done.err
    assert {"accuracy", "micro_f1", "macro_f1"} <= done.json["metrics"].keys()
    assert {name: own["texts"] for name, own in done.json["labels"].items()} == {"boat": 3, "cup": 3}
    table = call("evaluate", classified / "run", "--data", classified / "data", "--confusion", tmp_path / "c.png")
    assert "precision  recall      f1     texts" in table.out
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "RUN", "--data", "DATA", "--confusion", "/tmp/a.png"], "--confusion needs texts with one label each"),
        (["evaluate", "LABELS/run", "--data", "LABELS/other.jsonl"], "run was not trained on the labels of the data: egg"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "reasoner.name=poet"], "reasoner.name: 'poet' is not known; choose from span, classification, tagging"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "reasoner.top_k=3"], "top_k is not a setting of reasoner; choose from"),
        (["train", "CONFIG", "--output", "LABELS/x", "--set", "reasoner.name=classification", "--set", "reasoner.top_k=1"], "reasoner"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "training.relevance.source=data"], "set training.relevance.source: interventions"),
    ],
)  # fmt: skip
def test_wrong_labels(files: Files, classified: Path, call: Call, arguments: list[str], expected: str) -> None:
    (classified / "other.jsonl").write_text('{"id": "1", "text": "anna has the egg.", "label": "egg"}\n')
    named = {"RUN": files.run, "DATA": files.data, "CONFIG": files.config}
    chosen = [
        named.get(one, one.replace("LABELS", str(classified))) if isinstance(one, str) else one for one in arguments
    ]
    done = call(*chosen)
    assert done.code == 2
    assert expected in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('{"text": "a b"', "data.jsonl:1: not valid JSON (it ends early)"),
        (
            '{"text": "a b"}\n{"text": "a", "answers": ["b"',
            "data.jsonl:2: not valid JSON (it ends early)",
        ),
        ('{"text": ""}', "data.jsonl:1"),
        ('{"text": "anna has", "answers": [{"text": "boat", "start": 0}]}', "data.jsonl:1"),
        ('{"question": "what?"}', "data.jsonl:1: text is missing"),
        ("", "data.jsonl"),
    ],
)
def test_wrong_data(files: Files, call: Call, tmp_path: Path, lines: str, expected: str) -> None:
    data = write(tmp_path / "data.jsonl", lines)
    done = call("evaluate", files.run, "--data", data)
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_tags(tagged: Path, call: Call, tmp_path: Path) -> None:
    data = tagged / "data.conll"
    predictions = tmp_path / "p.jsonl"
    done = call("evaluate", tagged / "run", "--data", data, "--predictions", predictions, "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["entity_f1"] == 100
    assert {name: own["entities"] for name, own in done.json["labels"].items()} == {"PER": 23, "THING": 23}
    lines = [json.loads(line) for line in predictions.read_text().splitlines()]
    entity = {"start": 0, "end": 4, "text": "anna", "label": "PER", "score": 1, "document": "", "page": None}
    assert lines[0]["entities"][0] | {"score": 1} == entity
    again = call("evaluate", tagged / "run", "--data", data, "--predictions", predictions, "--json")
    assert again.json == done.json
    table = call("evaluate", tagged / "run", "--data", data, "--set", "reader=truncation")
    assert "precision  recall      f1  entities" in table.out
    assert "tokens_read" in table.out
    compared = call("evaluate", tagged / "run", "--data", data, "--against", predictions)
    assert "document_f1" in compared.out
    wrong = write(tmp_path / "wrong.conll", "anna B-PER\nhas I-PER\nthe I-THING\n")
    refused = call("evaluate", tagged / "run", "--data", wrong)
    assert (refused.code, refused.err) == (
        2, f"cogltx: {wrong}:3: I-THING follows I-PER, but in this file B begins an entity\n",
    )  # fmt: skip
    examples = write(tmp_path / "a.jsonl", '{"id": "1", "text": "anna has the boat ."}\n')
    call("predict", tagged / "run", "--input", examples, "--output", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["entities"]


def test_each_system_is_measured_by_the_options_that_it_was_tuned_with(tmp_path: Path) -> None:
    sentences = [["Ann", 0, 0, 4], ["Ann", 1, 4, 8], ["Bo", 0, 8, 12]]
    facts = {"sentences": sentences, "supporting_facts": [["Ann", 0], ["Ann", 1]]}
    example = Example(id="q", document=Document("one two six "), answers=("two",), extra=facts)

    def system(*scores: float) -> Prediction:
        evidence = tuple(Evidence(4 * i, 4 * i + 4, "", score, 1) for i, score in enumerate(scores))
        return Prediction(id="q", answer="two", start=4, end=7, confidence=1.0, evidence=evidence)

    tuned = make_task("hotpotqa", {"supporting_facts": 1, "fact_threshold": "tuned"})
    ours, others = system(0.9, 0.8, 0.1), system(0.09, 0.08, 0.01)
    task, theirs = tuned.tuned([(example, ours)]), tuned.tuned([(example, others)])
    file = write(tmp_path / "theirs.jsonl", to_line(theirs, example, others))
    options = theirs.model_dump(exclude_defaults=True)
    write(tmp_path / "theirs.jsonl.settings.json", json.dumps({"task": {"name": "hotpotqa", "options": options}}))
    assert (task_of(file, task), task_of(tmp_path / "alone.jsonl", task)) == (theirs, task)
    found = compare(System("a", task, [(example, ours)]), System("b", task_of(file, task), [(example, others)]))
    assert {row["metric"]: row["difference"] for row in found["against"]}["sup_f1"] == 0
    [sums] = _document_sums(tuned, "sup_f1", [example], [file])
    assert sums == {example.document.text: (1.0, 1.0)}
