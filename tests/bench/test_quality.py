"""The comparison of readers at tiny size: every row is its commands, an interrupted call resumes, mistakes are named."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import tiny
import yaml
from command_line import invoke
from measured import in_this_process

from cogltx.bench import _quality as quality
from cogltx.bench._process import run_command
from cogltx.bench._quality import Comparison, compare
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.tasks.jsonl import write_examples

READERS = ("cogltx", "bm25", "random", "sliding_window", "truncation")


@pytest.fixture(autouse=True, scope="module")
def _in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quality, "run_command", in_this_process)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quality bench")
    encoder = tiny.make_encoder(folder / "encoder", texts=corpus.TEXTS)
    write_examples(folder / "examples.jsonl", corpus.make(5))
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task"})
    values["data"] = {"train": str(folder / "examples.jsonl"), "validation": str(folder / "examples.jsonl")}
    values["training"] = {"epochs": 1, "batch_size": 4}
    (folder / "run-minilm.yaml").write_text(yaml.safe_dump(values))
    return folder


def comparison(folder: Path, output: Path | None = None, **options: Any) -> Comparison:
    options = {"readers": READERS, **options}
    return Comparison(folder / "run-minilm.yaml", str(folder / "examples.jsonl"), output or folder / "out", **options)


def said_by(wanted: Comparison, **options: Any) -> tuple[dict[str, Any], list[str]]:
    said: list[str] = []
    return compare(replace(wanted, report=said.append), **options)[0], said


@pytest.fixture(scope="module")
def measured(folder: Path) -> dict[str, Any]:
    return compare(comparison(folder), folder / "results")[0]


def test_every_row_has_its_metrics_seconds_and_memory(measured: dict[str, Any], folder: Path) -> None:
    rows = measured["rows"]
    assert [row["reader"] for row in rows] == list(READERS)
    for row in rows:
        assert len(row["runs"]) == len(row["seeds"]) == 2
        shares_a_model = row["reader"] in ("bm25", "random", "truncation")
        for one in row["runs"]:
            assert 0 <= one["metrics"]["f1"] <= 100
            assert one["peak_bytes"] > 50 * 2**20
            assert one["seconds"] is not None
            assert 0 < one["seconds_per_question"]["further"] < one["seconds"]
            assert (one["train_seconds"] is None) == shares_a_model
            shows_evidence = any(name.startswith("evidence") for name in one["metrics"])
            assert shows_evidence == (row["reader"] in ("cogltx", "bm25", "random")), "baselines have no key blocks"
        if row is not rows[0]:
            ours, first = (np.mean([one["metrics"]["f1"] for one in each["runs"]]) for each in (row, rows[0]))
            difference = row["difference"]["f1"]
            assert difference["points"] == pytest.approx(ours - first), "the row minus the first"
            assert difference["low"] <= difference["points"] <= difference["high"]
        assert [command.split()[1] for command in row["commands"]] == ["train", "evaluate"]
    assert rows[0]["difference"] == {}


def test_a_measurement_says_where_it_comes_from(measured: dict[str, Any], folder: Path) -> None:
    assert measured["title"] == "run"
    assert measured["examples"] == 5
    assert measured["command"].startswith("cogltx")
    assert set(measured["sha256"]) == {str(folder / "examples.jsonl")}
    assert all(len(digest) == 64 for digest in measured["sha256"].values())
    for named in (measured, *measured["rows"]):
        assert named["version"]
        assert named["machine"]
        assert named["date"] >= "2026"
        assert "commit" in named
    assert json.loads((folder / "out" / "quality.json").read_text()) == measured
    assert json.loads((folder / "results" / "run.json").read_text()) == measured


def test_a_row_is_repeated_by_its_command(measured: dict[str, Any]) -> None:
    row = measured["rows"][1]
    _, command = row["commands"]
    program, *arguments = shlex.split(command)
    assert program == "cogltx"
    place = arguments.index("--predictions")
    del arguments[place : place + 2]  # made anew
    assert json.loads(run_command(arguments)[0])["metrics"] == pytest.approx(row["runs"][0]["metrics"])


def test_an_interrupted_call_resumes(measured: dict[str, Any], folder: Path) -> None:
    (folder / "out" / "results" / "bm25-1.json").unlink()
    again, said = said_by(comparison(folder))
    assert said == ["bm25, seed 1: evaluate"]
    runs = again["rows"][1]["runs"]
    assert [one["metrics"] for one in runs] == [one["metrics"] for one in measured["rows"][1]["runs"]]
    assert runs[1]["seconds"] is None, "its predictions were there"


def test_rows_may_come_and_go(measured: dict[str, Any], folder: Path) -> None:
    again, said = said_by(comparison(folder, readers=("truncation", "cogltx"), seeds=(1,)))
    assert not said
    assert again["rows"][1]["runs"] == measured["rows"][0]["runs"][1:]
    assert again["rows"][0]["difference"] == {}
    assert set(again["rows"][1]["difference"]) == {"f1"}, "the first row is the reference"


def test_the_model_of_a_reader_that_is_no_row_is_trained(folder: Path, tmp_path: Path) -> None:
    found, said = said_by(comparison(folder, tmp_path, readers=("truncation",), seeds=(0,)))
    assert said == ["sliding_window, seed 0: train", "truncation, seed 0: evaluate"]
    assert [row["reader"] for row in found["rows"]] == ["truncation"]


def test_changes_of_all_readers_and_of_one(folder: Path, tmp_path: Path) -> None:
    changes = ("training.batch_size=2", "sliding_window:training.epochs=2")
    wanted = comparison(
        folder, tmp_path, readers=("cogltx", "sliding_window"), seeds=(3,), changes=changes, limit=4, longer_than=20
    )
    found, _ = said_by(wanted)
    first, second = found["rows"]
    assert "--set training.batch_size=2 --set training.seed=3" in first["commands"][0]
    own = "--set reader=sliding_window --set training.epochs=2 --set training.seed=3"
    assert f"--set training.batch_size=2 {own}" in second["commands"][0]
    assert "--limit 4 --longer-than 20" in second["commands"][1]
    assert second["notes"] == ["training.epochs=2"]
    assert second["changes"] == ["reader=sliding_window", "training.epochs=2"]
    assert found["title"] == "run-over-20"
    assert found["examples"] == 4


def test_another_comparison_needs_another_folder(measured: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"was started with run\.training\.epochs 1, not 2; choose another fol"):
        said_by(comparison(folder, changes=("training.epochs=2",)))
    with pytest.raises(ConfigError, match="was started with limit None, not 3; choose another folder"):
        said_by(comparison(folder, limit=3))
    with pytest.raises(ConfigError, match="was started with commands .*, not .*; choose another folder"):
        said_by(comparison(folder, changes=("cogltx:memrecall.capacity=96",)))


@pytest.mark.parametrize(
    ("options", "wording"),
    [
        ({"readers": ("cogltx", "gpt")}, "--readers: 'gpt' is not a reader; choose from cogltx, paper, bm25"),
        ({"readers": ("bag_of_words",)}, "--readers: bag_of_words needs examples with a label"),
        ({"changes": ("gpt:reader=cogltx",)}, "--set gpt:…: not a reader; choose from cogltx"),
        ({"changes": ("training.epochs=few",)}, "--set: training.epochs must be an integer, but is 'few'"),
        ({"changes": ("bm25:memrecall.stride=3",)}, "--set: stride is not a setting of memrecall; did you mean"),
        ({"changes": ("bm25:training.epochs=3",)}, "--set: training is not a setting; choose from reader, task"),
        ({"changes": ("data.train=$NOWHERE/a.jsonl",)}, "the environment variable NOWHERE is not set"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    folder: Path, tmp_path: Path, options: dict[str, Any], wording: str
) -> None:
    said: list[str] = []
    with pytest.raises((ConfigError, DataError), match=wording):
        compare(comparison(folder, tmp_path, **options, report=said.append))
    assert not said


def test_the_data_is_read_before_anything_is_trained(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(DataError, match=r"nowhere\.jsonl: file not found"):
        compare(Comparison(folder / "run-minilm.yaml", "nowhere.jsonl", tmp_path, report=said.append))
    assert not said


def test_a_failing_command_is_named(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "run_command", run_command)
    broken = comparison(folder, tmp_path, readers=("cogltx",), changes=("encoder.name=/nowhere",))
    with pytest.raises(ModelError, match=r"exit code 2 of: cogltx train .*encoder\.name=/nowhere"):
        said_by(broken)
    assert "/nowhere" in capfd.readouterr().err


def test_files_of_the_folder_are_checked(measured: dict[str, Any], folder: Path) -> None:
    """Predictions that are gone are made again; predictions that are cut are named."""
    record = folder / "out" / "results" / "cogltx-0.json"
    written = folder / "out" / "predictions" / "cogltx-0.jsonl"
    recorded, predicted = record.read_text(), written.read_text()
    one_row = comparison(folder, readers=("cogltx",), seeds=(0,))
    written.write_text("".join(predicted.splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"cogltx-0\.jsonl: no prediction for example '\d+'; remove the file"):
        said_by(one_row)
    written.unlink()
    assert said_by(one_row)[1] == ["cogltx, seed 0: evaluate"]
    record.write_text(recorded)
    written.write_text(predicted)


def test_the_command(measured: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "quality", folder / "run-minilm.yaml", "--data", folder / "examples.jsonl"]
    arguments += ["--output", folder / "out", "--readers", "cogltx,bm25", "--seeds", "1", "--json"]
    assert invoke(*arguments) == 0
    assert [row["reader"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["cogltx", "bm25"]
    assert invoke(*arguments[:-2], "one") == 2
    assert "--seeds: 'one' is not a list of whole numbers from 0, such as 1,2" in capsys.readouterr().err
