"""The command line from a file to an answer, and what it says to wrong files, options and models."""

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import corpus
import fakes
import pytest
import tiny
import torch
import yaml
from torch import nn

from cogltx.__main__ import main
from cogltx.document import Query
from cogltx.files import write_file
from cogltx.tasks.jsonl import write_examples

COUNT = 5
QUESTION = "what does anna have?"
JUDGE = """
class Overlap:
    def score(self, query, kept, candidates):
        words = set(query.split())
        return [float(len(words & set(text.split()))) for text in candidates]


class Short:
    def score(self, query, kept, candidates):
        return [1.0]


class NotANumber:
    def score(self, query, kept, candidates):
        return [float("nan")] * len(candidates)


class Silent:
    pass
"""


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Output]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command in this process."""

    def run(*arguments: object) -> Output:
        monkeypatch.setattr(sys, "argv", ["cogltx", *map(str, arguments)])
        before = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as stopped:
                main()
        finally:
            signal.signal(signal.SIGINT, before)
        printed = capsys.readouterr()
        return Output(int(stopped.value.code or 0), printed.out, printed.err)

    return run


@dataclass(frozen=True)
class Files:
    folder: Path
    config: Path
    data: Path
    run: Path
    document: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A trained run of the tiny encoder, with its configuration and data."""
    folder = tmp_path_factory.mktemp("command line")
    encoder = tiny.make_encoder(folder / "encoder", texts=corpus.TEXTS)
    data = folder / "examples.jsonl.gz"
    write_examples(data, corpus.make(COUNT, unanswered=True))
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task"})
    values["data"] = {"train": str(data), "validation": str(data), "validation_limit": 3}
    values["training"] = {"epochs": 1, "batch_size": 4}
    config = folder / "run.yaml"
    write_file(config, yaml.safe_dump(values, sort_keys=False))
    document = folder / "document.txt"
    write_file(document, corpus.make(1)[0].document.text)
    (folder / "my_judges.py").write_text(JUDGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["cogltx", "train", str(config), "--output", str(folder / "run")])
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as stopped:
            main()
        signal.signal(signal.SIGINT, before)
        assert not stopped.value.code
    return Files(folder, config, data, folder / "run", document)


def test_help_is_printed_without_torch() -> None:
    code = "import sys; sys.argv = ['cogltx', '--help']; from cogltx.__main__ import main\ntry:\n    main()\nfinally:\n"
    code += "    assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for command in ("train", "evaluate", "predict", "recall", "split", "prepare", "quickstart", "bench"):
        assert command in done.stdout


def test_interrupted_before_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = ran("split", path=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', os.curdir)}")
    assert (done.returncode, done.stderr) == (130, "cogltx: interrupted\n")


def test_output_is_utf8_whatever_the_terminal_says(tiny_encoder: Path, tmp_path: Path) -> None:
    document = tmp_path / "文.txt"
    document.write_text("巴黎是法国的首都。", encoding="utf-8")
    done = ran("split", "--document", document, "--encoder", tiny_encoder)
    assert "巴黎是法国的首都。" in done.stdout, done.stderr
    done = ran("split", "--document", tmp_path / "报告\udcff")
    assert "报告\\udcff: file not found" in done.stderr


def ran(*arguments: object, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a command does in a process of its own, on a terminal that takes ASCII alone."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii"} | ({"PYTHONPATH": path} if path else {})
    command = [sys.executable, "-m", "cogltx", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, timeout=60)


@pytest.mark.parametrize(
    ("text", "expected"), [("", "expected keys and values, got NoneType"), ("reader: [a", "expected YAML, got")]
)
def test_a_run_whose_configuration_is_cut(files: Files, call: Call, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "config.yaml", text)
    done = call("train", files.config, "--output", tmp_path / "run", "--resume")
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_training_reports_and_does_not_overwrite(files: Files, call: Call) -> None:
    again = call("train", files.config, "--output", files.run)
    assert (again.code, again.out) == (2, "")
    assert again.err == f"cogltx: {files.run}: expected a new folder or --resume, got one that holds a run\n"
    done = call("train", files.config, "--output", files.run, "--resume")
    assert done.code == 0
    assert "resumed at epoch 2 of 1" in done.err
    other = call("train", files.config, "--output", files.run, "--resume", "--set", "training.epochs=2")
    assert other.code == 2
    assert other.err.startswith(f"cogltx: {files.run}: was started with training.epochs 1, not 2; choose")


def test_a_folder_of_something_else_is_not_trained_into(files: Files, call: Call, tmp_path: Path) -> None:
    (tmp_path / "epoch-7").mkdir()
    (tmp_path / "epoch-7" / "mine").touch()
    for more in ([], ["--resume"]):
        done = call("train", files.config, "--output", tmp_path, *more)
        expected = f"{tmp_path}: expected a new folder, an empty one or a run's, got one that holds 'epoch-7'"
        assert (done.code, done.err) == (2, f"cogltx: {expected}\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["epoch-7", "mine"]


def test_a_run_goes_on_with_its_own_data_alone(files: Files, call: Call, tmp_path: Path) -> None:
    data, run = tmp_path / "examples.jsonl", tmp_path / "run"
    write_examples(data, corpus.make(COUNT, unanswered=True))
    command = ["train", files.config, "--output", run, "--set", f"data.train={data}"]
    assert call(*command).code == 0
    write_examples(data, corpus.make(COUNT, seed=5, unanswered=True))
    done = call(*command, "--resume")
    assert done.code == 2
    assert f"{run}: expected data '" in done.err
    assert done.err.endswith("; choose another folder with --output\n")


@pytest.mark.parametrize("lost", ["run.json", "epoch-1"])
def test_a_finished_run_without_its_model(files: Files, call: Call, tmp_path: Path, lost: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(files.run, run)
    (run / lost).rename(tmp_path / "lost")
    done = call("train", files.config, "--output", run, "--resume")
    if lost == "run.json":
        assert done.code == 0
        assert (run / lost).read_text() == (tmp_path / "lost").read_text()
    else:
        assert done.code == 2
        assert done.err.endswith("epoch-1: expected the best epoch's model, found none; train anew in another folder\n")


def test_a_question_that_fits_no_window(files: Files, call: Call, tmp_path: Path) -> None:
    """Found before anything is trained; in a file of examples, those before it are answered and kept."""
    data, output = tmp_path / "examples.jsonl", tmp_path / "predictions.jsonl"
    good, bad = corpus.make(2)
    write_examples(data, [good, replace(bad, query=Query("what " * 600))])
    done = call("train", files.config, "--output", tmp_path / "run", "--set", f"data.train={data}")
    assert done.code == 2
    assert f"training: example '{bad.id}': question: expected at most" in done.err
    done = call("predict", files.run, "--input", data, "--output", output)
    assert done.code == 2
    assert f"example '{bad.id}': question: expected at most" in done.err
    assert [json.loads(line)["id"] for line in output.read_text().splitlines()] == [good.id]


def test_nothing_to_measure_is_said(files: Files, call: Call, tmp_path: Path) -> None:
    data = write(tmp_path / "examples.jsonl", '{"text": "anna has the boat.", "question": "what?"}\n')
    done = call("evaluate", files.run, "--data", data)
    assert done.code == 0
    assert "nothing is measured: no example has known answers" in done.out


def test_a_file_without_examples(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    assert call("predict", files.run, "--input", write(tmp_path / "e.jsonl", "\n"), "--output", output).code == 0
    assert output.read_text() == ""


def same(written: list[str], expected: list[str]) -> bool:
    """Whether predictions are the same but for rounding, which is another in another batch."""
    pairs = zip(map(json.loads, written), map(json.loads, expected), strict=True)
    return all(
        [found[key] for key in ("id", "answer", "start", "end")] == [wanted[key] for key in ("id", "answer", "start", "end")]
        and found["score"] == pytest.approx(wanted["score"], abs=1e-5)
        for found, wanted in pairs
    )  # fmt: skip


def test_evaluation(files: Files, call: Call, tmp_path: Path) -> None:
    written = tmp_path / "predictions.jsonl"
    first = call("evaluate", files.run, "--data", files.data, "--predictions", written, "--json")
    assert first.code == 0, first.err
    assert first.json["examples"] == COUNT
    assert {"exact_match", "f1", "evidence_recall"} <= first.json["metrics"].keys()
    lines = written.read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(number) for number in range(COUNT)]
    written.write_text("\n".join(lines[:2]) + "\n" + lines[2][:20])
    again = call("evaluate", files.run, "--data", files.data, "--predictions", written, "--json")
    assert again.json["metrics"] == pytest.approx(first.json["metrics"])
    assert same(written.read_text().splitlines(), lines)
    table = call("evaluate", files.run, "--data", files.data, "--against", written)
    assert "difference to the other system (paired bootstrap, 95 %)" in table.out
    assert "+0.00  [+0.00, +0.00]" in table.out


def test_evaluation_of_other_choices(files: Files, call: Call) -> None:
    gold = call("evaluate", files.run, "--data", files.data, "--blocks", "gold", "--json")
    assert gold.json["metrics"]["evidence_recall"] == 100
    lexical = call("evaluate", files.run, "--data", files.data, "--judge", "bm25", "--json")
    assert lexical.json["examples"] == COUNT
    first = call("evaluate", files.run, "--data", files.data, "--set", "reader=truncation", "--limit", 3, "--json")
    assert first.json["examples"] == 3


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
    assert "expected a prediction for" in more.err
    none = call(*command, "--longer-than", lengths[-1])
    assert none.code == 2
    assert none.err.endswith(f"expected documents of more than {lengths[-1]} tokens, found none\n")


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
    config.write_text(config.read_text().replace('"no_answer_threshold": ', '"no_answer_threshold": -'))
    done = call("evaluate", copied, *command[2:])
    assert done.code == 2
    assert "expected model '" in done.err, "the run goes on learning, and is another model"


@pytest.mark.parametrize("change", [{"text": "Anna is in a box. Bob too."}, {"question": "Where?"}])
def test_predictions_of_another_text(files: Files, call: Call, tmp_path: Path, change: dict[str, str]) -> None:
    output = tmp_path / "predictions.jsonl"
    fields = {"id": "1", "text": "Anna is in a box.", "question": "Who?"}
    one = write(tmp_path / "one.jsonl", json.dumps(fields))
    other = write(tmp_path / "other.jsonl", json.dumps(fields | change))
    assert call("predict", files.run, "--input", one, "--output", output).code == 0
    done = call("predict", files.run, "--input", other, "--output", output)
    assert done.code == 2
    expected = "expected a prediction for '1' as it is, got one of another text or question; choose another file"
    assert f"{output}:1: {expected}" in done.err


def test_predictions_into_a_pipe(files: Files) -> None:
    command = [
        sys.executable,
        "-m",
        "cogltx",
        "predict",
        str(files.run),
        "--input",
        str(files.data),
        "--output",
        "/dev/stdout",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()[:COUNT]] == [
        str(number) for number in range(COUNT)
    ]


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
        "[" * 100_000,
        '{"id": "0", "answer": null, "start": null, "end": null, "score": 1}',
        '{"id": "0"}',
        '{"id": "0", "answer": "", "start": null, "end": null, "score": "x"}',
        "1" * 5000,
    ],
)
def test_lines_that_are_no_predictions(files: Files, call: Call, tmp_path: Path, line: str) -> None:
    done = call("evaluate", files.run, "--data", files.data, "--against", write(tmp_path / "others.jsonl", line))
    assert done.code == 2
    assert "others.jsonl:1: expected a prediction, got '" in done.err


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
    assert f"{data}:1: expected a prediction, got '{{" in done.err
    assert data.read_text() == before


def test_one_question(files: Files, call: Call) -> None:
    text = files.document.read_text()
    found = call("predict", files.run, "--document", files.document, "--question", QUESTION, "--json").json
    if found["start"] is not None:
        assert found["answer"] == text[found["start"] : found["end"]]
    assert found["evidence"]
    for evidence in found["evidence"]:
        assert evidence["text"] == text[evidence["start"] : evidence["end"]]
    plain = call("predict", files.run, "--document", files.document, "--question", QUESTION)
    assert f"evidence, of {found['n_blocks']} blocks ({found['n_tokens']} tokens):" in plain.out


def test_a_document_from_standard_input(files: Files) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cogltx", "predict", str(files.run), "--document", "-", "--question", QUESTION, "--json"],
        input=files.document.read_text(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_blocks"] > 1


def test_a_file_of_questions_goes_on_where_it_ended(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "out" / "predictions.jsonl"
    assert call("predict", files.run, "--input", files.data, "--output", output).code == 0
    lines = output.read_text().splitlines()
    assert len(lines) == COUNT
    for left in (lines[0] + "\n", lines[0] + "\n" + lines[1], lines[0] + "\n" + lines[1][:40], lines[0][:3]):
        output.write_text(left)
        done = call("predict", files.run, "--input", files.data, "--output", output)
        assert done.err.endswith(f"{COUNT} predictions in {output}\n")
        assert same(output.read_text().splitlines(), lines)


@pytest.mark.parametrize("strides", [None, "2,2"])
def test_recall_by_a_run(files: Files, call: Call, strides: str | None) -> None:
    options = ["--strides", strides] if strides else []
    found = call("recall", files.run, "--document", files.document, "--query", QUESTION, "--json", *options).json
    assert len(found["steps"]) == 2
    text = files.document.read_text()
    assert [text[block["start"] : block["end"]] for block in found["key_blocks"]] == [
        block["text"] for block in found["key_blocks"]
    ]


def test_recall_without_a_run(files: Files, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(files.folder)
    document = tmp_path / "long.txt"
    document.write_text(corpus.make(1, filler=200)[0].document.text)
    for judge in ("bm25", "my_judges:Overlap"):
        found = call(
            "recall", "--judge", judge, "--document", document, "--query", QUESTION, "--json", "--capacity", 96
        )
        assert found.code == 0, found.err
        assert 0 < len(found.json["key_blocks"]) < found.json["n_blocks"]
    plain = call("recall", "--judge", "bm25", "--document", document, "--query", QUESTION)
    assert "key blocks of" in plain.out
    silent = call("recall", "--judge", "bm25", "--document", document)
    assert (silent.code, silent.err) == (2, 'cogltx: judge "bm25": expected a query, got none\n')


def test_split(files: Files, call: Call) -> None:
    lines = call("split", "--document", files.document, "--json", "--max-tokens", 16).out.splitlines()
    assert "".join(json.loads(line)["text"] for line in lines) == files.document.read_text()
    assert len(call("split", "--document", files.document, "--max-tokens", 16).out.splitlines()) == len(lines)


def test_prepare(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "again.jsonl.gz"
    done = call("prepare", "jsonl", "--source", files.data, "--output", output)
    assert done.err == f"{COUNT} examples in {output}, 0 pieces of gold without a place in the text\n"
    assert gzip.decompress(output.read_bytes()) == gzip.decompress(files.data.read_bytes())


@pytest.fixture(scope="module")
def classified(files: Files) -> Path:
    """A run of a classifier that found its relevance labels by interventions."""
    folder = files.folder / "labels"
    for number, example in enumerate(corpus.make(6)):
        place = folder / "data" / ("boat" if number % 2 else "cup") / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(example.document.text)
    values = yaml.safe_load(files.config.read_text())
    values |= {"task": {"name": "classification"}, "reasoner": {"name": "classification"}}
    values["data"] = {"train": str(folder / "data"), "held_out": 2}
    values["training"] = {"epochs": 2, "batch_size": 2, "relevance": {"source": "interventions"}}
    write_file(folder / "run.yaml", yaml.safe_dump(values, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["cogltx", "train", str(folder / "run.yaml"), "--output", str(folder / "run")])
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as stopped:
            main()
        signal.signal(signal.SIGINT, before)
        assert not stopped.value.code
    return folder


def test_labels(files: Files, classified: Path, call: Call, tmp_path: Path) -> None:
    done = call("evaluate", classified / "run", "--data", classified / "data", "--json")
    assert done.code == 0, done.err
    assert {"accuracy", "micro_f1", "macro_f1"} <= done.json["metrics"].keys()
    assert {name: own["texts"] for name, own in done.json["labels"].items()} == {"boat": 3, "cup": 3}
    table = call("evaluate", classified / "run", "--data", classified / "data", "--confusion", tmp_path / "c.png")
    assert "precision  recall      f1   texts" in table.out
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    found = call("predict", classified / "run", "--document", files.document, "--json").json
    assert found["answer"] in ("boat", "cup")
    assert sum(label["score"] for label in found["labels"]) == pytest.approx(1)
    assert found["evidence"]
    plain = call("predict", classified / "run", "--document", files.document)
    assert "labels, * chosen:" in plain.out


def test_relevance_by_epoch(classified: Path, call: Call, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(classified / "data")) for path in (classified / "data").rglob("*.txt"))
    codes = []
    for name in names:
        done = call("relevance", classified / "run", "--example", name, "--json")
        codes.append(done.code)
        if done.code == 0:
            assert done.json["epochs"] == [1, 2]
            text = (classified / "data" / name).read_text()
            assert "".join(block["text"] for block in done.json["blocks"]) == text
            assert not any(block["labels"][0] for block in done.json["blocks"]), "no intervention in the first epoch"
            plain = call("relevance", classified / "run", "--example", name, "--picture", tmp_path / "r.svg")
            assert "epoch 1  epoch 2" in plain.out
            assert b"<svg" in (tmp_path / "r.svg").read_bytes()
        else:
            assert "--example: expected the id of a training example, such as " in done.err
    assert codes.count(0) == 4, "two are held out"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["relevance", "RUN", "--example", "0"], "expected a run with training.relevance.source: interventions"),
        (["relevance", "LABELS/run", "--example", "cup/0.txt", "--picture", "/tmp/a.doc"], "/tmp/a.doc: expected the name"),
        (["evaluate", "RUN", "--data", "DATA", "--confusion", "/tmp/a.png"], "--confusion: expected a model that gives a text one label"),
        (["evaluate", "LABELS/run", "--data", "LABELS/other.jsonl"], "expected labels that the model was trained on, got 'egg'"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "reasoner.name=poet"], "reasoner.name: expected one of span, classification, tagging, got 'poet'"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "reasoner.top_k=3"], "reasoner.top_k: expected one of init_from, name, labels, "),
        (["train", "CONFIG", "--output", "LABELS/x", "--set", "reasoner.name=classification", "--set", "reasoner.top_k=1"], "reasoner"),
        (["train", "LABELS/run.yaml", "--output", "LABELS/x", "--set", "training.relevance.source=data"], "choose training.relevance.source: interventions"),
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


def test_relevance_of_other_texts(classified: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(classified / "data", tmp_path / "data")
    shutil.copytree(classified / "run", tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(classified / "data"), str(tmp_path / "data")))
    changed = next(iter(sorted((tmp_path / "data").rglob("*.txt"))))
    changed.write_text(changed.read_text() * 3)
    done = call("relevance", tmp_path / "run", "--example", changed.relative_to(tmp_path / "data"))
    assert done.code == 2
    assert f"{tmp_path / 'data'}: expected the examples that the run was trained on, got others" in done.err


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "question", "expected"),
    [
        ("", QUESTION, "document.txt: expected text, got none"),
        (" \n\t", QUESTION, "document.txt: expected text, got none"),
        (b"caf\xe9", QUESTION, "document.txt:1: not UTF-8"),
        ("anna has the boat.", " ", "the question is empty"),
        ("anna has the boat.", "what " * 70, "question: expected at most "),
    ],
)
def test_wrong_texts(
    files: Files, call: Call, tmp_path: Path, content: str | bytes, question: str, expected: str
) -> None:
    document = write(tmp_path / "document.txt", content)
    done = call("predict", files.run, "--document", document, "--question", question)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


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


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("trainning.epochs=2", "--set: trainning: expected one of reader, task, "),
        ("training.epoch=2", "--set: training.epoch: expected one of epochs, "),
        ("training.epochs=many", "--set: training.epochs: expected a valid integer"),
        ("memrecall.capacity=600", "memrecall.capacity: expected at most 512, the positions of the encoder, got 600"),
        ("judge.name=nobody:Here", "judge nobody:Here: expected a class that can be imported, got ModuleNotFoundError"),
        (
            "judge.name=bm52",
            'judge.name: expected "encoder", "bm25", "embedding" or package.module:Class, got \'bm52\'',
        ),
        (
            "reader=skimming",
            "reader: expected one of cogltx, sliding_window, truncation, head_and_tail, bag_of_words, got 'skimming'",
        ),
        ("task.name=poetry", "task"),
        ("data.train=/nowhere/data.jsonl", "/nowhere/data.jsonl"),
        ("encoder.name=/nowhere/encoder", "/nowhere/encoder"),
        ("training", "--set: expected KEY=VALUE, got 'training'"),
        ("data.train=2020-99-99", "--set data.train: expected a YAML value, got '2020-99-99'"),
        ("training.patience=" + "[" * 3000, "--set training.patience: expected a YAML value, got '[[["),
        ("judge={name: nope}", "--set: judge.name: expected"),
        ("data.train=~nobodyhere/x", "path '~nobodyhere/x': expected a folder of a known user after ~, got: "),
        (r'data.train="a\0b"', r"'a\x00b': expected the name of a file, got one that holds a null character"),
        ("training.seed=99999999999999999999999999", "--set: training.seed: expected less than 9223372036854775808"),
    ],
)
def test_wrong_configurations(files: Files, call: Call, tmp_path: Path, change: str, expected: str) -> None:
    done = call("train", files.config, "--output", tmp_path / "run", "--set", change)
    assert done.code == 2
    assert expected in done.err.replace("5 training and 3 validation examples\n", "")
    assert done.err.splitlines()[-1].startswith("cogltx: ")
    assert not (tmp_path / "run" / "config.yaml").exists(), "the folder of a run that never began is free"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            "reader",
            "skimming",
            "reader: expected one of cogltx, sliding_window, truncation, head_and_tail, bag_of_words, got 'skimming'",
        ),
        ("task", {"name": "poetry"}, "the task 'poetry' is not known"),
        (
            "judge",
            {"name": "bm52"},
            'judge.name: expected "encoder", "bm25", "embedding" or package.module:Class, got \'bm52\'',
        ),
    ],
)
def test_wrong_names_are_found_in_their_line(
    files: Files, call: Call, tmp_path: Path, key: str, value: object, expected: str
) -> None:
    values = yaml.safe_load(files.config.read_text()) | {key: value}
    wrong = write(tmp_path / "run.yaml", yaml.safe_dump(values, sort_keys=False))
    lines = wrong.read_text().splitlines()
    line = 1 + next(n for n, text in enumerate(lines) if text.startswith(f"{key}:")) + (key != "reader")
    done = call("train", wrong, "--output", tmp_path / "run")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{wrong}:{line}: {expected}" in done.err


def test_a_wrong_line_of_a_configuration(files: Files, call: Call, tmp_path: Path) -> None:
    wrong = write(tmp_path / "run.yaml", files.config.read_text().replace("batch_size: 4", "batch_size: few"))
    line = 1 + wrong.read_text().splitlines().index("  batch_size: few")
    done = call("train", wrong, "--output", tmp_path / "run")
    assert done.code == 2
    assert f"{wrong}:{line}: training.batch_size: expected a valid integer" in done.err
    assert "got 'few'" in done.err


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ("my_judges:Nobody", "expected a class that can be imported, got AttributeError"),
        ("my_judges:Short", "scores, got shape (1,)"),
        ("my_judges:NotANumber", "judge my_judges:NotANumber: expected finite scores, got nan"),
        ("my_judges:Silent", "expected an nn.Module or a method score(query, kept, candidates), got neither"),
        ("encoder", 'expected "bm25", "embedding" or package.module:Class, got "encoder", which needs a trained run'),
    ],
)
def test_wrong_judges(
    files: Files, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, judge: str, expected: str
) -> None:
    monkeypatch.chdir(files.folder)
    document = write(tmp_path / "long.txt", corpus.make(1, filler=100)[0].document.text)
    done = call("recall", "--judge", judge, "--document", document, "--query", QUESTION)
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def copy_of(run: Path, target: Path) -> Path:
    """The run's model folder, to be damaged."""
    best = run / json.loads((run / "run.json").read_text())["best"]
    for path in best.rglob("*"):
        if path.is_file():
            (target / path.relative_to(best)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(best)).write_bytes(path.read_bytes())
    return target


def _pickle(model: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), model / "reasoner.safetensors")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda model: (model / "reasoner.safetensors").unlink(), "reasoner.safetensors: expected"),
        (lambda model: (model / "judge.safetensors").unlink(), "judge.safetensors: expected"),
        (lambda model: (model / "config.json").unlink(), "found neither config.json nor run.json"),
        (lambda model: (model / "config.json").write_text("{}}"), "config.json: not valid JSON"),
        (lambda model: (model / "config.json").write_text('{"readers": 1}'), "config.json: expected the configuration"),
        (lambda model: (model / "reasoner.safetensors").write_bytes(b"x" * 99), "reasoner.safetensors: expected"),
        (_pickle, "reasoner.safetensors: expected"),
        (lambda model: (model / "tokenizer" / "tokenizer.json").unlink(), "tokenizer"),
    ],
)
def test_damaged_models(
    files: Files, call: Call, tmp_path: Path, damage: Callable[[Path], object], expected: str
) -> None:
    model = copy_of(files.run, tmp_path / "model")
    assert call("predict", model, "--document", files.document, "--question", QUESTION).code == 0
    damage(model)
    done = call("predict", model, "--document", files.document, "--question", QUESTION)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict", "RUN"], "predict: expected --document FILE, or --input FILE and --output FILE, got another"),
        (["predict", "RUN", "--input", "DATA"], "predict: expected --document FILE, or"),
        (["predict", "/nowhere", "--document", "DOCUMENT"], "/nowhere: expected a model folder, a run or a name on"),
        (["predict", "RUN", "--document", "/nowhere/a.txt"], "/nowhere/a.txt: expected"),
        (["recall", "--document", "DOCUMENT"], "recall: expected a run or --judge NAME, got neither"),
        (["recall", "RUN", "--judge", "bm25", "--document", "DOCUMENT"], "recall: expected a run or --judge NAME"),
        (
            ["recall", "--judge", "bm25", "--document", "DOCUMENT", "--capacity", "16"],
            "recall: capacity: expected greater",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--judge", "bm25", "--set", "reader=truncation"],
            "got the baseline truncation",
        ),
        (["recall", "RUN", "--document", "DOCUMENT", "--capacity", "0"], "--set: memrecall.capacity: expected greater"),
        (["bench", "memory", "--budget", "nan"], "--budget: expected a number above 0, got nan"),
        (["bench", "cost", "--readers", "all", "--limit", "inf"], "--limit: expected a number above 0, got inf"),
        (
            ["recall", "RUN", "--document", "DOCUMENT", "--strides", "3;5"],
            "--strides: expected whole numbers with commas between",
        ),
        (["evaluate", "RUN", "--data", "DATA", "--split", "dev"], "--split: expected one of train, validation, test"),
        (["evaluate", "RUN", "--data", "DATA", "--blocks", "all"], "--blocks: expected one of recall, gold"),
        (["evaluate", "RUN", "--data", "DATA", "--against", "/nowhere/p.jsonl"], "/nowhere/p.jsonl: expected a file"),
        (
            ["evaluate", "RUN", "--data", "DATA", "--predictions", "/"],
            "/: expected a file of predictions, got: Is a directory",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--confusion", "/proc/c.png"],
            "/proc/c.png: expected to write a picture there",
        ),
        (
            ["predict", "RUN", "--input", "DATA", "--output", "/tmp/x", "--question", "who?"],
            "predict: expected --question and --json with --document only",
        ),
        (["prepare", "poetry", "--source", "DATA", "--output", "/tmp/x"], "task"),
        (["split", "--document", "DOCUMENT", "--max-tokens", "1"], "max_tokens"),
    ],
)
def test_wrong_options(files: Files, call: Call, arguments: list[str], expected: str) -> None:
    named = {"RUN": files.run, "DATA": files.data, "DOCUMENT": files.document}
    done = call(*(named.get(argument, argument) for argument in arguments))
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", [["quickstart"], ["bench", "cost"]])
@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_out_of_bounds(call: Call, command: list[str], seed: str) -> None:
    done = call(*command, "--seed", seed)
    assert done.code == 2
    assert "'--seed'" in done.err


def test_predictions_of_other_examples_are_not_overwritten(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    call("predict", files.run, "--input", files.data, "--output", output)
    before = output.read_text()
    others = tmp_path / "others.jsonl"
    write_examples(others, corpus.make(2, seed=5)[1:])
    done = call("predict", files.run, "--input", others, "--output", output)
    assert done.code == 2
    assert f"{output}:1: expected a prediction for '1', got one for '0'" in done.err
    assert output.read_text() == before


def test_an_unwritable_output(files: Files, call: Call) -> None:
    done = call("predict", files.run, "--input", files.data, "--output", files.document / "predictions.jsonl")
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_a_full_disk(files: Files, call: Call, tmp_path: Path) -> None:
    """Files may not grow beyond 300 bytes."""
    output = tmp_path / "predictions.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        done = call("predict", files.run, "--input", files.data, "--output", output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 2
    assert f"{output}: expected to add predictions, got: File too large; those before are kept" in done.err
    assert call("predict", files.run, "--input", files.data, "--output", output).code == 0
    assert len(output.read_text().splitlines()) == COUNT


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_training_says_how_to_go_on(files: Files, tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """Ctrl-C or SIGTERM as soon as the first checkpoint is there; after the first, a second call finishes the run."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "cogltx", "train", str(files.config), "--output", str(run)]
    command += ["--set", "training.epochs=8", "--set", "training.checkpoint_steps=1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    while not (run / "run.json").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert err.splitlines()[-1].startswith("cogltx: interrupted; what was written is kept")
    assert "Traceback" not in err
    if sent == signal.SIGINT:
        done = subprocess.run([*command, "--resume"], capture_output=True, text=True, env=environment, timeout=240)
        assert done.returncode == 0, done.stderr
        assert "resumed at epoch" in done.stderr


@pytest.fixture(scope="module")
def tagged(files: Files) -> Path:
    """A run of a tagger that reads overlapping windows."""
    folder = files.folder / "tags"
    folder.mkdir()
    sentence = "anna B-PER\nhas O\nthe O\nboat B-THING\n. O\n\n"
    (folder / "data.conll").write_text("".join(f"-DOCSTART- O\n\n{sentence * count}" for count in (3, 4, 16)))
    values = yaml.safe_load(files.config.read_text())
    values |= {"reader": "sliding_window", "task": {"name": "tagging"}, "reasoner": {"name": "tagging"}}
    values["data"] = {"train": str(folder / "data.conll"), "held_out": 1}
    values["training"] = {"epochs": 25, "batch_size": 1, "reasoner": {"learning_rate": 0.003}}
    write_file(folder / "run.yaml", yaml.safe_dump(values, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["cogltx", "train", str(folder / "run.yaml"), "--output", str(folder / "run")])
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as stopped:
            main()
        signal.signal(signal.SIGINT, before)
        assert not stopped.value.code
    return folder


def test_tags(tagged: Path, call: Call, tmp_path: Path) -> None:
    data = tagged / "data.conll"
    predictions = tmp_path / "p.jsonl"
    done = call("evaluate", tagged / "run", "--data", data, "--predictions", predictions, "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["entity_f1"] == 100
    assert {name: own["entities"] for name, own in done.json["labels"].items()} == {"PER": 23, "THING": 23}
    lines = [json.loads(line) for line in predictions.read_text().splitlines()]
    assert lines[0]["entities"][0] | {"score": 1} == {"start": 0, "end": 4, "text": "anna", "label": "PER", "score": 1}
    predictions.write_text("".join(json.dumps(line) + "\n" for line in lines[:1]) + '{"id": "cut')
    again = call("evaluate", tagged / "run", "--data", data, "--predictions", predictions, "--json")
    assert again.json == done.json
    table = call("evaluate", tagged / "run", "--data", data, "--set", "reader=truncation")
    assert "precision  recall      f1  entities" in table.out
    assert "tokens_read" in table.out
    compared = call("evaluate", tagged / "run", "--data", data, "--against", predictions)
    assert "document_f1" in compared.out


def test_tags_of_a_document(tagged: Path, call: Call, tmp_path: Path) -> None:
    document = tmp_path / "a.txt"
    document.write_text("anna has the boat.\n" * 16)
    found = call("predict", tagged / "run", "--document", document, "--json").json
    assert [own["text"] for own in found["entities"]] == ["anna", "boat"] * 16
    plain = call("predict", tagged / "run", "--document", document)
    assert plain.out.startswith(f"32 entities in {found['n_tokens']} tokens:\n")
    assert "0-4       PER  anna" in plain.out
    cut = call("predict", tagged / "run", "--document", document, "--set", "reader=truncation").out
    assert "were not read" in cut.splitlines()[0]
    examples = tmp_path / "a.jsonl"
    examples.write_text('{"id": "1", "text": "anna has the boat ."}\n')
    call("predict", tagged / "run", "--input", examples, "--output", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["entities"]
    wrong = tmp_path / "wrong.conll"
    wrong.write_text("anna B-PER\nhas I-PER\nthe I-THING\n")
    refused = call("evaluate", tagged / "run", "--data", wrong)
    assert (refused.code, refused.err) == (
        2, f"cogltx: {wrong}:3: expected B-THING or I-THING before I-THING (IOB2), got I-PER\n",
    )  # fmt: skip


def test_texts_without_tags(tagged: Path, call: Call, tmp_path: Path) -> None:
    data = tmp_path / "a.jsonl"
    data.write_text('{"id": "1", "text": "anna has the boat."}\n{"id": "2", "text": "the fox."}\n')
    done = call("train", tagged / "run.yaml", "--output", tmp_path / "run", "--set", f"data.train={data}")
    expected = f"cogltx: {data}: expected examples with entities for reasoner tagging, got none"
    assert (done.code, done.err.splitlines()[-1]) == (2, expected)
