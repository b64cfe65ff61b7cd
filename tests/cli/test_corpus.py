"""Predictions for many files: in this process and on a local Ray cluster, whose workers and driver are killed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from command_line import Call, same

from cogltx.cli import corpus

KILLS = int(os.environ.get("COGLTX_KILLS", "1"))  # of workers; the campaign of maintainers uses more
SMALL_PARTS = (
    "import sys; from cogltx.cli import corpus; corpus.PART_BYTES = 1; from cogltx.__main__ import main; main()"
)
SLOW_JUDGE = """
import time

class Slow:
    def score(self, query, kept, candidates):
        time.sleep(0.1)
        return [float(len(text)) for text in candidates]
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Three files of seven examples each, one packed, one in Parquet."""
    rows = [
        {
            "id": f"{name}{n}",
            "text": f"The tower of {name} is {n} metres high. " * (3 + 5 * n),
            "question": "How high is it?",
        }
        for name in "abc"
        for n in range(7)
    ]
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:7]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows[7:14]).encode()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[14:]), folder / "c.parquet")
    return folder


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "PART_BYTES", 1000)


def predictions(folder: Path) -> list[dict[str, Any]]:
    """All predictions, in the order of the examples; nothing but predictions and settings is in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "settings.json")
    assert {path.suffix for path in files} <= {".jsonl", ".parquet"}
    found: list[dict[str, Any]] = []
    for path in files:
        if path.suffix == ".parquet":
            found += pyarrow.parquet.read_table(path).to_pylist()
        else:
            found += map(json.loads, path.read_text().splitlines())
    return found


def answers(folder: Path) -> Counter[tuple[str, str, str]]:
    return Counter((one["source"], one["id"], one["answer"]) for one in predictions(folder))


@pytest.mark.usefixtures("small_parts")
def test_a_folder_is_answered_as_its_files_are(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    done = call("predict", model, "--input", texts, "--output", tmp_path / "out")
    assert (done.code, done.err) == (0, f"21 new predictions in {tmp_path / 'out'}\n")
    found = predictions(tmp_path / "out")
    assert [one["id"] for one in found] == [f"{name}{n}" for name in "abc" for n in range(7)]
    assert len(list((tmp_path / "out" / "b.jsonl.gz").glob("*.jsonl"))) > 1, "several parts"
    call("predict", model, "--input", texts / "b.jsonl.gz", "--output", tmp_path / "b.jsonl")
    alone = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert same(
        [json.dumps({**one, "source": str(texts / "b.jsonl.gz")}) for one in alone], list(map(json.dumps, found[7:14]))
    )


@pytest.mark.usefixtures("small_parts")
def test_only_missing_parts_are_made(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    command = ["predict", model, "--input", texts / "*.jsonl*", "--output", tmp_path / "out"]
    assert call(*command).err.startswith("14 new predictions")
    before = predictions(tmp_path / "out")
    removed = next((tmp_path / "out" / "a.jsonl").glob("*.jsonl"))
    n_removed = len(removed.read_text().splitlines())
    removed.unlink()
    assert call(*command).err.startswith(f"{n_removed} new predictions")
    assert predictions(tmp_path / "out") == before
    assert call(*command).err.startswith("0 new predictions")
    assert "was started with changes []" in call(*command, "--set", "memrecall.capacity=100").err
    same_size = (texts / "a.jsonl").read_text().replace("tower", "spire")
    (texts / "a.jsonl").write_text(same_size)
    assert f"{tmp_path / 'out' / 'a.jsonl'}: was started with input" in call(*command).err


def test_a_mistake_leaves_no_trace(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    command = ["predict", model, "--input", texts, "--output", tmp_path / "out"]
    for mistake in (["--set", "memrecall.strids=[8]"], ["--judge", "bm52"]):
        assert call(*command, *mistake).code == 2
    assert call(*command).code == 0


def test_the_output_is_no_input(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    command = ["predict", model, "--input", texts, "--output", texts / "out"]
    assert [call(*command).err.split()[0] for _ in range(2)] == ["21", "0"]


def test_parquet_parts_have_one_schema(model: str, call: Call, tmp_path: Path) -> None:
    """Even if nothing in a part has an answer in the text."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.jsonl").write_text('{"text": "It rained.", "question": "Who?"}\n' * 2)
    done = call("predict", model, "--input", tmp_path / "texts", "--output", tmp_path / "out", "--format", "parquet")
    assert not done.code, done.err
    schema = pyarrow.parquet.read_schema(next((tmp_path / "out").rglob("*.parquet")))
    assert schema.field("start").type == schema.field("page").type == pyarrow.int64()
    assert schema.field("entities").type.value_type.field("label").type == pyarrow.string()


def test_parquet_out(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    done = call("predict", model, "--input", texts / "c.parquet", "--output", tmp_path / "out", "--format", "parquet")
    assert not done.code, done.err
    assert [one["id"] for one in predictions(tmp_path / "out")] == [f"c{n}" for n in range(7)]
    assert [path.name for path in (tmp_path / "out" / "c.parquet").glob("*.parquet")] == ["000000000000.parquet"]
    assert not call("predict", model, "--input", texts / "c.parquet", "--output", tmp_path / "lines").code
    assert len((tmp_path / "lines" / "c.parquet" / "000000000000.jsonl").read_text().splitlines()) == 7


def test_what_is_no_corpus(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    out = ["--output", tmp_path / "out"]
    assert "no file .jsonl, .jsonl.gz or .parquet" in call("predict", model, "--input", tmp_path / "empty", *out).err
    (texts / "d.parquet").write_bytes(b"PAR1 broken")
    assert "d.parquet: not a readable Parquet file: " in call("predict", model, "--input", texts, *out).err
    (texts / "d.parquet").unlink()
    (texts / "z.jsonl").write_text('{"text": ""}\n')
    done = call("predict", model, "--input", texts, *out)
    assert done.code == 2
    assert "z.jsonl" in done.err or "example '1'" in done.err
    assert len(predictions(tmp_path / "out")) == 21, "the others are kept"
    document = call("predict", model, "--document", "x", "--engine", "ray")
    assert "--engine and --format go with --input" in document.err
    alone = call("predict", model, "--input", texts, *out, "--workers", "2")
    assert (alone.code, alone.err) == (2, "cogltx: predict: --workers goes with --engine ray\n")


def test_parquet_needs_pyarrow(
    texts: Path, model: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    done = call("predict", model, "--input", texts, "--output", tmp_path / "out", "--format", "parquet")
    needed = 'cogltx: --format parquet: Parquet needs pyarrow; pip install "cogltx[parquet]"\n'
    assert (done.code, done.err, (tmp_path / "out").exists()) == (2, needed, False)


class Ray:
    """``cogltx predict --engine ray`` in a process of its own, with a slow judge and an example per part."""

    def __init__(self, model: str, texts: Path, output: Path) -> None:
        (texts.parent / "slow.py").write_text(SLOW_JUDGE)
        self.command = [
            sys.executable,
            "-c",
            SMALL_PARTS,
            "predict",
            model,
            "--input",
            str(texts),
            "--judge",
            "slow:Slow",
        ]
        self.command += ["--output", str(output)]
        paths = [str(texts.parent), str(Path(corpus.__file__).parents[2])]
        self.environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "RAY_USAGE_STATS_ENABLED": "0"}

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.command, *options], env=self.environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )


def workers_of(driver: int) -> list[int]:
    """Processes of the driver's session that hold a model."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if "MapWorker(" in (folder / "cmdline").read_text() and str(driver) in _ancestors(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _ancestors(process: int) -> set[str]:
    found: set[str] = set()
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        found.add(str(process))
    return found


def test_ray_answers_as_one_process_whatever_is_killed(
    model: str, texts: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills, ray = 0, Ray(model, texts, tmp_path / "ray")
    driver = ray.start("--engine", "ray", "--workers", "2")
    while kills < KILLS and driver.poll() is None:
        time.sleep(0.1)
        made = len(list((tmp_path / "ray").rglob("0*.jsonl")))
        for worker in workers_of(driver.pid)[:1] if made > 12 * kills / KILLS else ():
            os.kill(worker, signal.SIGKILL)
            kills += 1
    while len(list((tmp_path / "ray").rglob("0*.jsonl"))) < 14 and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    _, err = driver.communicate(timeout=60)
    assert kills == KILLS, err
    assert 14 <= len(predictions(tmp_path / "ray")) < 21
    again = ray.start("--engine", "ray", "--workers", "2")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    monkeypatch.syspath_prepend(tmp_path)
    alone = call("predict", model, "--input", texts, "--judge", "slow:Slow", "--output", tmp_path / "alone")
    assert not alone.code, alone.err
    assert answers(tmp_path / "ray") == answers(tmp_path / "alone")
    assert set(answers(tmp_path / "ray").values()) == {1}
    assert sorted(map(str, predictions(tmp_path / "ray"))) == sorted(map(str, predictions(tmp_path / "alone")))
