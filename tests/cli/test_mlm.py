"""The command mlm: from texts to an encoder that other commands read, and what it says to wrong files and options."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
import pytest
import tiny
import yaml
from command_line import Call


@pytest.fixture
def config(tmp_path: Path) -> Path:
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
        "training": {"steps": 4, "batch_size": 2, "validation_steps": 2},
    }
    path = tmp_path / "mlm.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_from_texts_to_an_encoder(config: Path, call: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = call("mlm", config, "--output", run, "--json")
    assert done.code == 0, done.err
    summary = done.json
    assert summary["encoder"] == str(run / "encoder")
    assert [validation["step"] for validation in summary["history"]] == [0, 2, 4]
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        f"{summary['rows']} training and {summary['validation_rows']} validation rows; a new head",
        "step 0/4 validation", "step 2/4 validation", "step 4/4 validation",
        f"encoder in {run / 'encoder'}",
    ]  # fmt: skip
    done = call("mlm", config, "--output", run)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{run}: the folder has a run already; choose another, or continue it with --resume" in done.err
    done = call("mlm", config, "--output", run, "--resume")
    assert (done.code, len(done.out.splitlines())) == (0, 4)
    assert "resumed at step 4 of 4" in done.err
    done = call("mlm", config, "--output", run, "--resume", "--set", "length=32")
    assert done.code == 2
    assert f"{run}: was started with length 64, not 32; choose another folder" in done.err
    again = ["--set", f"encoder.name={run / 'encoder'}", "--set", "encoder.positions=null", "--set", "length=600"]
    done = call("mlm", config, "--output", tmp_path / "second", *again)
    assert done.code == 0, done.err
    assert "its own head" in done.err
    done = call("split", "--document", tmp_path / "texts" / "0.txt", "--encoder", run / "encoder")
    assert done.code == 0
    assert done.out


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("length=601", "length is 601, but the encoder has 600 positions; encoder.positions extends them"),
        ("data.train=FOLDER/missing", "FOLDER/missing: file not found"),
        ("data.train=FOLDER/latin.txt", "FOLDER/latin.txt:2: not UTF-8 (byte 0xfc)"),
        ("data.train=FOLDER/empty.txt", "FOLDER/empty.txt: holds no text"),
        ("data.train=$NOT_SET_AT_ALL/a", "the environment variable NOT_SET_AT_ALL is not set"),
        ("data.validation=FOLDER/nothing", "FOLDER/nothing: the folder holds no files that end in .txt or .txt.gz"),
        ("data.validation=null", "data.held_out is 100, but there are only"),
        ("encoder.positions.alpha=0.5", "positions.alpha is 0.5; it must be between 0 and 1 and not 0.5"),
        ("encoder.name=FOLDER/nothing", "nothing': no tokenizer that transformers can load"),
        ("training.rate=1", "--set: rate is not a setting of training; choose from steps, batch_size"),
    ],
)
def test_mistakes_are_one_line(config: Path, call: Call, tmp_path: Path, change: str, expected: str) -> None:
    (tmp_path / "latin.txt").write_bytes("one\nZürich".encode("latin-1"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "nothing").mkdir()
    change, expected = (text.replace("FOLDER", str(tmp_path)) for text in (change, expected))
    done = call("mlm", config, "--output", tmp_path / "run", "--set", change)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert expected in done.err
    assert not (tmp_path / "run" / "run-config.json").exists(), "another try with the same folder is no resumption"


def test_nothing_but_lines_outside_a_terminal(config: Path, tmp_path: Path) -> None:
    command: list[Any] = [sys.executable, "-m", "cogltx", "mlm", config, "--output", tmp_path / "run"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "\r" not in done.stderr
    assert len(done.stderr.splitlines()) == 5
