"""The table of readers at tiny size: every row is its commands, an interrupted call goes on, wrong files are named."""

import io
import json
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import tiny
import yaml
from command_line import invoke

from cogltx.bench import quality
from cogltx.bench.process import peak_bytes, run_command
from cogltx.bench.quality import _QualityConfig, run
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.tasks.jsonl import write_examples

READERS = [
    {"name": "CogLTX"},
    {"name": "BM25", "trained": "CogLTX", "judge": "bm25"},
    {"name": "sliding window", "changes": ["reader=sliding_window"]},
]


def in_this_process(arguments: Sequence[str]) -> tuple[str, float, int]:
    """Like ``run_command``; a new process takes longer to import than to work."""
    printed, started = io.StringIO(), time.perf_counter()
    with redirect_stdout(printed):
        assert invoke(*arguments) == 0, arguments
    return printed.getvalue(), time.perf_counter() - started, peak_bytes()


@pytest.fixture(autouse=True, scope="module")
def _in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quality, "run_command", in_this_process)
        yield


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> None:
    """New processes after all."""
    monkeypatch.setattr(quality, "run_command", run_command)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quality bench")
    encoder = tiny.make_encoder(folder / "encoder", texts=corpus.TEXTS)
    write_examples(folder / "examples.jsonl", corpus.make(5))
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task"})
    values["data"] = {"train": str(folder / "examples.jsonl"), "validation": str(folder / "examples.jsonl")}
    values["training"] = {"epochs": 1, "batch_size": 4}
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    bench = {"run": "run.yaml", "data": str(folder / "examples.jsonl"), "seeds": [0, 1], "readers": READERS}
    (folder / "bench.yaml").write_text(yaml.safe_dump(bench))
    return folder


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def rows(folder: Path, said: list[str]) -> list[dict[str, Any]]:
    return run(folder / "bench.yaml", folder / "out", report=said.append)[0]


def test_every_row_has_its_metrics_seconds_and_memory(rows: list[dict[str, Any]], folder: Path) -> None:
    assert [row["name"] for row in rows] == [reader["name"] for reader in READERS]
    for row, reader in zip(rows, READERS, strict=True):
        assert len(row["runs"]) == 2
        for one in row["runs"]:
            assert 0 <= one["metrics"]["f1"] <= 100
            assert one["peak_bytes"] > 50 * 2**20
            assert one["seconds"] is not None
            assert one["seconds_per_question"].keys() == {"first", "further"}
            assert 0 < one["seconds_per_question"]["further"] < one["seconds"]
            assert (one["train_seconds"] is None) == ("trained" in reader)
            shows_evidence = any(name.startswith("evidence") for name in one["metrics"])
            assert shows_evidence == (row["name"] in ("CogLTX", "BM25")), "baselines have no key blocks"
        assert (row["difference"] is None) == (row is rows[0])
        if row is not rows[0]:
            ours, first = (np.mean([one["metrics"]["f1"] for one in each["runs"]]) for each in (row, rows[0]))
            assert 100 * row["difference"]["mean_difference"] == pytest.approx(ours - first), "the row minus the first"
            assert row["difference"]["low"] <= row["difference"]["mean_difference"] <= row["difference"]["high"]
        assert len(row["commands"]) == (1 if "trained" in reader else 2)
    text = (folder / "out" / "quality.md").read_text()
    assert all(f"| {row['name']} |" in text for row in rows)
    assert json.loads((folder / "out" / "quality.json").read_text())["rows"] == rows


def test_a_row_is_repeated_by_its_command(rows: list[dict[str, Any]]) -> None:
    row = rows[1]
    (command,) = row["commands"]
    program, *arguments = shlex.split(command)
    assert program == "cogltx"
    place = arguments.index("--predictions")
    del arguments[place : place + 2]  # made anew
    assert json.loads(run_command(arguments)[0])["metrics"] == pytest.approx(row["runs"][0]["metrics"])


def test_an_interrupted_call_goes_on(rows: list[dict[str, Any]], folder: Path) -> None:
    (folder / "out" / "results" / "bm25-1.json").unlink()
    said: list[str] = []
    again, _ = run(folder / "bench.yaml", folder / "out", report=said.append)
    assert said == ["BM25, seed 1: evaluate"]
    assert [row["runs"][1]["metrics"] for row in again] == [row["runs"][1]["metrics"] for row in rows]
    assert again[1]["runs"][1]["seconds"] is None, "its predictions were there"


def test_equal_seconds(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is twice as fast, says a clock, trains on twice as much; one without a judge after an epoch longer.

    A reader keeps the epochs that it asks for, with fewer examples.
    """
    trained: list[list[str]] = []

    def clocked(arguments: Sequence[str]) -> tuple[str, float, int]:
        printed, _, memory = in_this_process(arguments)
        values = dict(one.split("=", 1) for one in arguments if "=" in one)
        if arguments[0] != "train":
            return printed, 1.0, memory
        sizes = ("data.train_limit", "data.validation_limit", "training.epochs")
        examples, validated, epochs = (int(values[name]) for name in sizes)
        seconds = 10 + (examples * (2 if values.get("reader") == "sliding_window" else 4) + validated) * epochs
        if "training.judge_epochs" in values:
            seconds -= 3 * examples * (epochs - 1)
        if "training.seed" in values:
            trained.append([values["training.epochs"], values["data.train_limit"], str(seconds)])
        return printed, seconds, memory

    monkeypatch.setattr(quality, "run_command", clocked)
    readers = (
        "[{name: CogLTX}, {name: sliding window, changes: [reader=sliding_window]}, "
        "{name: one epoch of the judge, changes: [training.judge_epochs=1]}, "
        "{name: four epochs, changes: [training.epochs=4]}]"
    )
    changes = ["seeds=[0]", "train_seconds=60", f"readers={readers}"]
    said: list[str] = []
    found = run(folder / "bench.yaml", tmp_path / "out", changes, report=said.append)[0]
    assert {line.split(":")[0] for line in said if " epochs, to measure" in line} == {
        "CogLTX",
        "one epoch of the judge",
        "four epochs",
    }, "the epochs of a sliding window cost the same"
    assert trained == [["2", "5", "60"], ["3", "5", "55"], ["3", "5", "55"], ["4", "1", "46"]]
    assert [row["runs"][0]["train_seconds"] for row in found] == [60, 55, 55, 46]
    again = run(folder / "bench.yaml", tmp_path / "out", changes, report=lambda line: None)[0]
    assert again == found
    assert len(trained) == 4


def test_in_shorter_trainings_the_judge_learns_from_the_same_share(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []

    def clocked(arguments: Sequence[str]) -> tuple[str, float, int]:
        printed, _, memory = in_this_process(arguments)
        values = dict(one.split("=", 1) for one in arguments if "=" in one)
        if arguments[0] == "train":
            sizes.append((int(values["data.train_limit"]), int(values["training.judge_examples"])))
        return printed, 10.0 + sizes[-1][0], memory

    monkeypatch.setattr(quality, "run_command", clocked)
    reader = "{name: some, changes: [training.judge_examples=2, training.epochs=1]}"
    run(folder / "bench.yaml", tmp_path / "out", ["seeds=[0]", "train_seconds=13", f"readers=[{reader}]"])
    assert set(sizes) == {(2, 1), (4, 2), (3, 1)}, "two of five examples"


def test_equal_seconds_of_training_and_reading(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads slowly has less time to train: reading takes 2.5 s of 60, or 12.5 s."""
    trained: list[list[str]] = []

    def clocked(arguments: Sequence[str]) -> tuple[str, float, int]:
        printed, _, memory = in_this_process(arguments)
        values = dict(one.split("=", 1) for one in arguments if "=" in one)
        if arguments[0] != "train":
            return printed, 1.0, memory
        examples, validated = (int(values[name]) for name in ("data.train_limit", "data.validation_limit"))
        slow = values.get("reader") == "sliding_window"
        if "training.seed" in values:
            trained.append([values["training.epochs"], values["data.train_limit"]])
        per_epoch = 10.0 * examples + (2.5 if slow else 0.5) * validated
        return printed, 10 + per_epoch * int(values["training.epochs"]), memory

    monkeypatch.setattr(quality, "run_command", clocked)
    readers = "[{name: CogLTX}, {name: sliding window, changes: [reader=sliding_window]}]"
    changes = ["seeds=[0]", "total_seconds=60", f"readers={readers}"]
    run(folder / "bench.yaml", tmp_path / "out", changes, report=lambda line: None)
    assert trained == [["1", "4"], ["1", "2"]]
    with pytest.raises(ConfigError, match=r"total_seconds: reading the 5 examples alone takes about 2 s"):
        run(folder / "bench.yaml", tmp_path / "short", [*changes, "total_seconds=2"], report=lambda line: None)
    with pytest.raises(
        ConfigError, match="train_seconds and total_seconds exclude each other; set one of them to null"
    ):
        _QualityConfig.load(folder / "bench.yaml", ["train_seconds=1", "total_seconds=2"])


def test_a_short_training_holds_few_questions_out(folder: Path, tmp_path: Path) -> None:
    changes = ["changes=[data.validation=null, data.held_out=2]", "seeds=[0]", "readers=[{name: CogLTX}]"]
    said: list[str] = []
    (row,) = run(folder / "bench.yaml", tmp_path / "out", [*changes, "train_seconds=0.1"], report=said.append)[0]
    assert [line.split(", to measure")[0] for line in said[:3]] == [
        "CogLTX: train on 1 examples, validate on 1",
        "CogLTX: train on 2 examples, validate on 1",
        "CogLTX: train on 1 examples, validate on 2",
    ]
    assert "--set data.train_limit=3 --set data.held_out=2 " in row["commands"][0]


@pytest.mark.usefixtures("children")
def test_changes_of_the_comparison(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    readers = "[{name: sliding window, changes: [reader=sliding_window]}]"
    changes = ["seeds=[3]", f"readers={readers}", "changes=[training.epochs=2]", "longer_than=20"]
    (row,), _ = run(folder / "bench.yaml", tmp_path, changes, report=lambda line: None)
    assert len(row["runs"]) == 1
    assert "--set training.epochs=2 --set reader=sliding_window --set training.seed=3" in row["commands"][0]
    assert "--longer-than 20" in row["commands"][1]
    assert "epoch 2/2" in capfd.readouterr().err
    with pytest.raises(ConfigError, match=r"--set: limit must be an integer, but is 'many'"):
        _QualityConfig.load(folder / "bench.yaml", ["limit=many"])
    with pytest.raises(ConfigError, match="--set: training.epochs must be an integer, but is 'few'"):
        run(folder / "bench.yaml", tmp_path / "wrong", ["changes=[training.epochs=few]"])


def test_the_data_are_read_before_anything_is_trained(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(DataError, match=r"nowhere\.jsonl: file not found"):
        run(folder / "bench.yaml", tmp_path, ["data=nowhere.jsonl"], report=said.append)
    with pytest.raises(ConfigError, match="the environment variable NOWHERE is not set"):
        run(folder / "bench.yaml", tmp_path, ["changes=[data.train=$NOWHERE/a.jsonl]"], report=said.append)
    assert not said


@pytest.mark.usefixtures("children")
def test_a_failing_child_is_named(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    values = yaml.safe_load((folder / "bench.yaml").read_text())
    values |= {"run": str(folder / "run.yaml"), "readers": [{"name": "broken", "changes": ["encoder.name=/nowhere"]}]}
    (tmp_path / "bench.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ModelError, match=r"exit code 2 of: cogltx train .*encoder\.name=/nowhere"):
        run(tmp_path / "bench.yaml", tmp_path / "out", report=lambda line: None)
    assert "/nowhere" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ({"readers": []}, r"bench\.yaml:\d+: readers .*at least 1 item"),
        ({"readers": [{"name": "a"}, {"name": "A"}]}, r"readers\.1\.name: 'A' is also the name of another row"),
        ({"readers": [{"name": "a", "trained": "b"}]}, r"readers\.0\.trained: no row above trains 'b'"),
        ({"colour": 1}, r"bench\.yaml:\d+: colour is not a setting; choose from run, changes"),
        (
            {"readers": [{"name": "a", "colour": 1}]},
            r"colour is not a setting of readers\[0\]; choose from name, trained",
        ),
        ({"seeds": []}, r"seeds .*at least 1 item"),
        ({"seeds": [-1]}, r"seeds\[0\] must be greater than or equal to 0, but is -1"),
        ({"seeds": [1, 0, 1]}, r"bench\.yaml: seeds: 1, 0, 1 has a seed twice"),
    ],
)
def test_wrong_files(folder: Path, tmp_path: Path, change: dict[str, object], wording: str) -> None:
    values = yaml.safe_load((folder / "bench.yaml").read_text()) | change
    (tmp_path / "bench.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=wording):
        _QualityConfig.load(tmp_path / "bench.yaml")


def test_another_configuration_needs_another_folder(rows: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"was started with run\.training\.epochs 1, not 2; choose another fol"):
        run(folder / "bench.yaml", folder / "out", ["changes=[training.epochs=2]"], report=lambda line: None)
    with pytest.raises(ConfigError, match="was started with limit None, not 3; choose another folder"):
        run(folder / "bench.yaml", folder / "out", ["limit=3"], report=lambda line: None)
    rows_of = "readers=[{name: CogLTX, changes: [memrecall.capacity=96]}]"
    with pytest.raises(ConfigError, match="was started with commands .*, not .*; choose another name for the row"):
        run(folder / "bench.yaml", folder / "out", [rows_of], report=lambda line: None)


def test_rows_may_come_and_go(rows: list[dict[str, Any]], folder: Path) -> None:
    said: list[str] = []
    some = "readers=[{name: CogLTX}, {name: all in one step, trained: CogLTX, changes: ['memrecall.strides=[4]']}]"
    found, _ = run(folder / "bench.yaml", folder / "out", [some, "metric=exact_match", "seeds=[1]"], report=said.append)
    assert said == ["all in one step, seed 1: evaluate"]
    assert found[0]["runs"] == rows[0]["runs"][1:]


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ("metric=answer_f1", "metric: 'answer_f1' is not measured on this data; choose from exact_match, f1"),
        (
            "readers=[{name: a}, {name: b, trained: a, changes: [memrecall.stride=3]}]",
            "--set: stride is not a setting of memrecall; did you mean strides",
        ),
        (
            "readers=[{name: a}, {name: b, trained: a, judge: bm52}]",
            "'bm52' is not a judge; use encoder, bm25, embedding",
        ),
        ("readers=[{name: a, changes: [task.name=newsgroups]}]", "."),
        (
            "readers=[{name: a}, {name: b, trained: a, changes: [training.epochs=3]}]",
            "--set: training is not a setting; choose from reader, task",
        ),
        (
            "readers=[{name: a, changes: [reader=truncation], judge: bm25}]",
            "a: judge is set, but the reader truncation uses no judge",
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(folder: Path, tmp_path: Path, change: str, wording: str) -> None:
    said: list[str] = []
    with pytest.raises((ConfigError, DataError), match=wording):
        run(folder / "bench.yaml", tmp_path, [change], report=said.append)
    assert not said


def test_what_lies_in_the_folder_is_checked(rows: list[dict[str, Any]], folder: Path) -> None:
    """Predictions that are gone are made again; a record or predictions that are cut are told."""
    record = folder / "out" / "results" / "cogltx-0.json"
    written = folder / "out" / "predictions" / "cogltx-0.jsonl"
    recorded, predicted = record.read_text(), written.read_text()

    def again() -> list[str]:
        said: list[str] = []
        run(folder / "bench.yaml", folder / "out", ["readers=[{name: CogLTX}]", "seeds=[0]"], report=said.append)
        return said

    written.write_text("".join(predicted.splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"cogltx-0\.jsonl: no prediction for example '\d+'; remove the file"):
        again()
    written.unlink()
    assert again() == ["CogLTX, seed 0: evaluate"]
    record.write_text(json.dumps({"commands": json.loads(recorded)["commands"]}))
    with pytest.raises(ModelError, match=r"cogltx-0\.json: this is no measurement; remove the file"):
        again()
    record.write_text(recorded)
    written.write_text(predicted)
