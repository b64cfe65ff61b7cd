"""``cogltx train``: the folder of a run, resuming, and errors in configurations."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import corpus
import pytest
import tiny
import yaml
from command_line import COUNT, Call, Files, write

from cogltx._files import claimed
from cogltx.tasks.jsonl import write_examples


def test_training_reports_and_does_not_overwrite(files: Files, call: Call) -> None:
    again = call("train", files.config, "--output", files.run)
    assert (again.code, again.out) == (2, "")
    assert (
        again.err
        == f"cogltx: {files.run}: the folder has a run, finished after epoch 1; continue it with --resume, or choose another folder\n"
    )
    done = call("train", files.config, "--output", files.run, "--resume")
    assert done.code == 0
    assert "resumed a finished run" in done.err
    new = call("train", files.config, "--output", files.run.parent / "new", "--resume")
    assert "no checkpoint to resume from; starting from the beginning" in new.err
    other = call("train", files.config, "--output", files.run, "--resume", "--set", "training.epochs=2")
    assert other.code == 2
    assert other.err.startswith(f"cogltx: {files.run}: was started with training.epochs 1, not 2; choose")


def test_a_folder_of_something_else_is_not_trained_into(files: Files, call: Call, tmp_path: Path) -> None:
    (tmp_path / "epoch-7").mkdir()
    (tmp_path / "epoch-7" / "mine").touch()
    for more in ([], ["--resume"]):
        done = call("train", files.config, "--output", tmp_path, *more)
        expected = (
            f"{tmp_path}: the folder is not empty and is not a run (found 'epoch-7'); choose a new or empty folder"
        )
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
    assert f"{run}: was started with data '" in done.err
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
        assert done.err.endswith("epoch-1: the model of the best epoch is missing; train again in another folder\n")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("trainning.epochs=2", "--set: trainning is not a setting; did you mean training?"),
        ("training.epoch=2", "--set: epoch is not a setting of training; did you mean epochs?"),
        ("training.epochs=many", "--set: training.epochs must be an integer, but is 'many'"),
        ("memrecall.capacity=600", "memrecall.capacity is 600, but the encoder has 512 positions"),
        ("judge.name=nobody:Here", "judge nobody:Here: cannot be imported: ModuleNotFoundError"),
        (
            "judge.name=bm52",
            "judge.name: 'bm52' is not a judge; use encoder, bm25, embedding, linear, a model or package.module:Class",
        ),
        (
            "reader=skimming",
            "reader: 'skimming' is not a reader; use cogltx, sliding_window, truncation",
        ),
        ("task.name=poetry", "task"),
        ("data.train=/nowhere/data.jsonl", "/nowhere/data.jsonl"),
        ("encoder.name=/nowhere/encoder", "/nowhere/encoder"),
        ("training", "--set training: write KEY=VALUE"),
        ("data.train=2020-99-99", "--set data.train: '2020-99-99' is not a YAML value"),
        ("judge={name: nope}", "--set: judge.name: 'nope' is not a judge"),
        ("data.train=~nobodyhere/x", "~nobodyhere/x: file not found"),
        (r'data.train="a\0b"', r"'a\x00b': a file name cannot hold a null character"),
        ("training.seed=99999999999999999999999999", "--set: training.seed must be less than 9223372036854775808"),
    ],
)
def test_wrong_configurations(files: Files, call: Call, tmp_path: Path, change: str, expected: str) -> None:
    done = call("train", files.config, "--output", tmp_path / "run", "--set", change)
    assert done.code == 2
    assert expected in done.err.replace("5 training and 3 validation examples\n", "")
    assert done.err.splitlines()[-1].startswith("cogltx: ")
    assert not (tmp_path / "run" / "run-config.json").exists(), "the folder of a run that never began is free"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            "reader",
            "skimming",
            "reader: 'skimming' is not a reader; use cogltx, sliding_window, truncation",
        ),
        ("task", {"name": "poetry"}, "the task 'poetry' is not known"),
        (
            "judge",
            {"name": "bm52"},
            "judge.name: 'bm52' is not a judge; use encoder, bm25, embedding, linear, a model or package.module:Class",
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
    assert f"{wrong}:{line}: training.batch_size must be an integer, but is 'few'" in done.err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_training_says_how_to_go_on(
    files: Files, call: Call, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    """Ctrl-C or SIGTERM as soon as the first checkpoint is there; after the first, a second call finishes the run."""
    run = tmp_path / "run"
    command = ["train", str(files.config), "--output", str(run)]
    command += ["--set", "training.epochs=8"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "cogltx", *command], stderr=subprocess.PIPE, text=True, env=environment
    )
    while not list(run.glob("checkpoints/0*/progress.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    last = err.splitlines()[-1]
    assert re.fullmatch(
        r"cogltx: interrupted, epoch \d of 8; everything is saved in .*; continue with --resume .*", last
    )
    assert "Traceback" not in err
    if sent == signal.SIGINT:
        done = call(*command, "--resume")
        assert done.code == 0, done.err
        assert "resumed at epoch" in done.err


def test_texts_without_tags(tagged: Path, call: Call, tmp_path: Path) -> None:
    data = tmp_path / "a.jsonl"
    data.write_text('{"id": "1", "text": "anna has the boat."}\n{"id": "2", "text": "the fox."}\n')
    done = call("train", tagged / "run.yaml", "--output", tmp_path / "run", "--set", f"data.train={data}")
    expected = f"cogltx: {data}: no example has an entity, which the reasoner tagging learns"
    assert (done.code, done.err.splitlines()[-1]) == (2, expected)


def test_a_training_that_failed_at_its_start_leaves_its_folder_free(files: Files, call: Call, tmp_path: Path) -> None:
    """A mended configuration trains into the same folder, with --resume or without."""
    for more in ([], ["--resume"]):
        run = tmp_path / f"run{len(more)}"
        run.mkdir()
        shutil.copy(files.run / "run-config.json", run)
        done = call("train", files.config, "--output", run, "--set", "training.batch_size=2", *more)
        assert done.code == 0, done.err


def test_too_few_examples_name_the_setting(files: Files, call: Call, tmp_path: Path) -> None:
    command = ["train", files.config, "--output", tmp_path / "run", "--set", "data.validation=null"]
    done = call(*command, "--set", "data.held_out=5")
    assert done.code == 2
    assert "data.held_out" in done.err.splitlines()[-1]


def test_all_wrong_settings_are_listed(files: Files, call: Call, tmp_path: Path) -> None:
    text = files.config.read_text().replace("batch_size: 4", "batch_size: few\n  learning_rat: 1")
    config = write(tmp_path / "run.yaml", text)
    line = 1 + text.splitlines().index("  batch_size: few")
    done = call("train", config, "--output", tmp_path / "run")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{config}:{line}: training.batch_size must be an integer, but is 'few'; " in done.err
    assert f"{config}:{line + 1}: learning_rat is not a setting of training" in done.err


def test_two_at_the_same_time(files: Files, call: Call, tmp_path: Path) -> None:
    """The second ends in one line, and what the first has written stays."""
    output = tmp_path / "a.jsonl"
    held = [tmp_path / "run", tmp_path / "a.jsonl.parts"]
    commands = [
        ["train", files.config, "--output", held[0]],
        ["predict", files.run, "--input", files.data, "--output", output],
        ["evaluate", files.run, "--data", files.data, "--predictions", output],
        ["predict", files.run, "--input", files.data.parent / "*.jsonl*", "--output", held[0]],
    ]
    with claimed(held[0]), claimed(held[1]):
        for command in commands:
            done = call(*command)
            assert done.code == 2
            assert "another process is writing there; wait for it, or choose another place" in done.err
    assert not list(held[0].iterdir())
    assert not list(held[1].iterdir())
    assert not output.exists()


def test_settings_that_deviate_from_the_paper(files: Files, call: Call, masked: Path) -> None:
    pytest.importorskip("cogltx.training.recipes")
    command = ["train", files.config, "--explain"]
    rows = call(*command, "--json").json
    changed = {row["setting"]: (row["value"], row["paper"]) for row in rows}
    assert changed["training.ranking_weight"] == (1.0, 0)
    head, *lines = call(*command).out.splitlines()
    assert head.split() == ["setting", "value", "paper"]
    assert [line.split()[0] for line in lines] == list(changed)
    assert len({line.index(line.split(maxsplit=1)[1]) for line in (head, *lines)}) == 1, "aligned columns"
    done = call("train", masked, "--explain")
    assert (done.code, done.err.count("\n")) == (2, 1)


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    encoder = tiny.make_encoder(tmp_path / "tiny", texts=corpus.TEXTS)
    texts = [example.document.text for example in corpus.make(6)]
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "texts" / f"{number}.txt").write_text(text)
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:2]))
    values = {
        "encoder": {"name": str(encoder), "positions": {"length": 600}},
        "data": {"train": str(tmp_path / "texts"), "validation": str(tmp_path / "validation.jsonl")},
        "length": 64,
        "training": {"steps": 4, "batch_size": 2},
    }
    path = tmp_path / "masked.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_from_texts_to_an_encoder(masked: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogltx.training.masked_lm.VALIDATION_STEPS", 2)
    run = tmp_path / "run"
    done = call("train", masked, "--output", run, "--json")
    assert done.code == 0, done.err
    summary = done.json
    assert summary["encoder"] == str(run / "encoder")
    assert [validation["step"] for validation in summary["history"]] == [0, 2, 4]
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        f"{summary['rows']} training and {summary['validation_rows']} validation rows; a new head",
        "step 0/4 validation", "step 2/4 validation", "step 4/4 validation",
        f"encoder in {run / 'encoder'}",
    ]  # fmt: skip
    done = call("train", masked, "--output", run)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{run}: the folder has a run, step 4; continue it with --resume, or choose another folder" in done.err
    done = call("train", masked, "--output", run, "--resume")
    assert (done.code, len(done.out.splitlines())) == (0, 4)
    assert "resumed at step 4 of 4" in done.err
    done = call("train", masked, "--output", run, "--resume", "--set", "length=32")
    assert done.code == 2
    assert f"{run}: was started with length 64, not 32; choose another folder" in done.err
    again = ["--set", f"encoder.name={run / 'encoder'}", "--set", "encoder.positions=null", "--set", "length=600"]
    done = call("train", masked, "--output", tmp_path / "second", *again)
    assert done.code == 0, done.err
    assert "its own head" in done.err


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("length=601", "length is 601, but the encoder has 600 positions; encoder.positions extends them"),
        ("data.train=FOLDER/missing", "FOLDER/missing: file not found"),
        ("data.train=FOLDER/odd.txt", "FOLDER/odd.txt: line 2: not UTF-8 (byte 0x81)"),
        ("data.train=FOLDER/empty.txt", "FOLDER/empty.txt: the document has no text"),
        ("data.train=$NOT_SET_AT_ALL/a", "the environment variable NOT_SET_AT_ALL is not set"),
        ("data.validation=FOLDER/nothing", "FOLDER/nothing: the folder has no file of a known format"),
        ("encoder.positions.alpha=0.5", "positions.alpha is 0.5; it must be between 0 and 1 and not 0.5"),
        ("encoder.name=FOLDER/nothing", "nothing': no tokenizer that transformers can load"),
        ("training.rate=1", "--set: rate is not a setting of training; choose from steps, batch_size"),
    ],
)
def test_mistakes_in_a_masked_run_are_one_line(
    masked: Path, call: Call, tmp_path: Path, change: str, expected: str
) -> None:
    (tmp_path / "odd.txt").write_bytes(b"one\nZ\x81rich \x8d\x9d")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "nothing").mkdir()
    change, expected = (text.replace("FOLDER", str(tmp_path)) for text in (change, expected))
    done = call("train", masked, "--output", tmp_path / "run", "--set", change)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert expected in done.err
    assert not (tmp_path / "run" / "run-config.json").exists(), "another try with the same folder is no resumption"


def test_nothing_but_lines_outside_a_terminal(masked: Path, tmp_path: Path) -> None:
    command: list[Any] = [sys.executable, "-m", "cogltx", "train", masked, "--output", tmp_path / "run"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "\r" not in done.stderr
    assert len(done.stderr.splitlines()) == 4
