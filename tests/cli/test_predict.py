"""``cogltx predict``: files of examples, resumed after interruptions, in this process and on a local Ray cluster."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import corpus
import pyarrow
import pyarrow.parquet
import pytest
from command_line import COUNT, Call, Files, same, write

import cogltx
from cogltx import pipeline
from cogltx.document import Query
from cogltx.tasks.jsonl import write_examples

KILLS = int(os.environ.get("COGLTX_KILLS", "1"))  # of workers; the campaign of maintainers uses more
SMALL_PARTS = (
    "import sys; from cogltx import pipeline; pipeline._BATCH_TEXTS = 1; from cogltx.__main__ import main; main()"
)
SLOW_JUDGE = """
import time

class Slow:
    def score(self, query, kept, candidates):
        time.sleep(0.1)
        return [float(len(text)) for text in candidates]
"""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_BATCH_TEXTS", 2)


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


def records(path: Path) -> list[dict[str, Any]]:
    """The predictions of a file."""
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    content = path.read_bytes()
    lines = gzip.decompress(content) if path.suffix == ".gz" else content
    return list(map(json.loads, lines.splitlines()))


def predictions(folder: Path) -> list[dict[str, Any]]:
    """All predictions in a folder, in the order of the examples; nothing but predictions and settings is there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".settings.json"))
    return [one for path in files for one in records(path)]


def parts(path: Path) -> list[Path]:
    """The saved parts of a file that is not complete."""
    return sorted(path.with_name(f"{path.name}.parts").rglob("*.jsonl"))


@pytest.mark.usefixtures("small_parts")
def test_a_file_goes_on_where_it_ended(files: Files, call: Call, tmp_path: Path) -> None:
    """With a missing part, and with parts before an example that cannot be read."""
    output, data = tmp_path / "out" / "predictions.jsonl", tmp_path / "examples.jsonl"
    command = ["predict", files.run, "--input", data, "--output", output]
    examples = corpus.make(COUNT, unanswered=True)
    write_examples(data, [*examples[:4], replace(examples[4], query=Query("what " * 600))])
    done = call(*command)
    assert done.code == 2
    assert f"example '{examples[4].id}': the question has 600 tokens; at most" in done.err
    assert [len(records(part)) for part in parts(output)] == [2, 2]
    assert not output.exists()
    write_examples(data, examples)
    kept = [part.stat().st_mtime_ns for part in parts(output)[1:]]
    parts(output)[0].unlink()
    done = call(*command)
    assert (done.code, done.err) == (0, f"3 new predictions in {output}\n")
    assert kept
    assert [one["id"] for one in records(output)] == [example.id for example in examples]
    assert not parts(output)
    alone = tmp_path / "alone.jsonl"
    assert not call("predict", files.run, "--input", data, "--output", alone).code
    assert same(output.read_text().splitlines(), alone.read_text().splitlines())
    before = output.read_text()
    assert call(*command).err == f"0 new predictions in {output}\n"
    assert output.read_text() == before
    assert sorted(path.name for path in output.parent.iterdir()) == [output.name, f"{output.name}.settings.json"]


@pytest.mark.usefixtures("small_parts")
def test_parts_of_other_settings_or_texts_are_refused(files: Files, call: Call, tmp_path: Path) -> None:
    output, data = tmp_path / "predictions.jsonl", tmp_path / "examples.jsonl"
    command = ["predict", files.run, "--input", data, "--output", output]
    good, bad = corpus.make(3), replace(corpus.make(4)[3], query=Query("what " * 600))
    write_examples(data, [*good, bad])
    assert call(*command).code == 2
    before = [part.read_text() for part in parts(output)]
    assert len(before) == 1
    assert f"{output}: was started with changes []" in call(*command, "--set", "memrecall.capacity=100").err
    write_examples(data, [replace(good[0], query=Query("Who ?")), *good[1:], bad])
    done = call(*command)
    assert done.code == 2
    assert f"{parts(output)[0]}:1: the prediction for example '0' was made from another text or question" in done.err
    assert [part.read_text() for part in parts(output)] == before


def test_a_file_without_examples(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    assert call("predict", files.run, "--input", write(tmp_path / "e.jsonl", "\n"), "--output", output).code == 0
    assert output.read_text() == ""
    assert not parts(output)


def test_a_question_that_fits_no_window(files: Files, call: Call, tmp_path: Path) -> None:
    """Found before anything is trained."""
    data = tmp_path / "examples.jsonl"
    good, bad = corpus.make(2)
    write_examples(data, [good, replace(bad, query=Query("what " * 600))])
    done = call("train", files.config, "--output", tmp_path / "run", "--set", f"data.train={data}")
    assert done.code == 2
    assert f"training: example '{bad.id}': the question has" in done.err


@pytest.mark.parametrize("change", [{"text": "Anna is in a box. Bob too."}, {"question": "Where?"}])
def test_predictions_of_another_text(files: Files, call: Call, tmp_path: Path, change: dict[str, str]) -> None:
    output = tmp_path / "predictions.jsonl"
    fields = {"id": "1", "text": "Anna is in a box.", "question": "Who?"}
    one = write(tmp_path / "one.jsonl", json.dumps(fields))
    other = write(tmp_path / "other.jsonl", json.dumps(fields | change))
    assert call("predict", files.run, "--input", one, "--output", output).code == 0
    done = call("predict", files.run, "--input", other, "--output", output)
    assert done.code == 2
    expected = "the prediction for example '1' was made from another text or question; choose another file"
    assert f"{output}:1: {expected}" in done.err


def test_predictions_of_other_examples_are_not_overwritten(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    call("predict", files.run, "--input", files.data, "--output", output)
    before = output.read_text()
    others = tmp_path / "others.jsonl"
    write_examples(others, corpus.make(2, seed=5)[1:])
    done = call("predict", files.run, "--input", others, "--output", output)
    assert done.code == 2
    assert f"{output}:1: a prediction for example '0', but example '1' comes next; choose another file" in done.err
    assert output.read_text() == before


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
    assert "cannot be saved: File too large; what was saved before is kept" in done.err
    assert call("predict", files.run, "--input", files.data, "--output", output).code == 0
    assert len(output.read_text().splitlines()) == COUNT


@pytest.mark.usefixtures("small_parts")
def test_a_folder_is_answered_as_its_files_are(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call("predict", model, "--input", texts, "--output", out)
    assert (done.code, done.err) == (0, f"21 new predictions in {out}\n")
    assert [one["id"] for one in predictions(out)] == [f"{name}{n}" for name in "abc" for n in range(7)]
    names = [path.name for path in out.iterdir() if not path.name.endswith(".settings.json")]
    assert sorted(names) == ["a.jsonl", "b.jsonl.gz", "c.parquet"]
    call("predict", model, "--input", texts / "b.jsonl.gz", "--output", tmp_path / "b.jsonl")
    found = [json.dumps(one) for one in records(out / "b.jsonl.gz")]
    assert same((tmp_path / "b.jsonl").read_text().splitlines(), found)


@pytest.mark.usefixtures("small_parts")
def test_only_missing_files_are_made(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    command = ["predict", model, "--input", texts / "*.jsonl*", "--output", tmp_path / "out"]
    assert call(*command).err.startswith("14 new predictions")
    before = predictions(tmp_path / "out")
    (tmp_path / "out" / "a.jsonl").unlink()
    assert call(*command).err.startswith("7 new predictions")
    assert predictions(tmp_path / "out") == before
    assert call(*command).err.startswith("0 new predictions")
    assert "was started with changes []" in call(*command, "--set", "memrecall.capacity=100").err
    same_size = (texts / "a.jsonl").read_text().replace("tower", "spire")
    (texts / "a.jsonl").write_text(same_size)
    changed = f"{tmp_path / 'out' / 'a.jsonl'}:1: the prediction for example 'a0' was made from another text"
    assert changed in call(*command).err
    assert predictions(tmp_path / "out") == before


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
    (tmp_path / "texts" / "a.jsonl").write_text('{"text": "It\u2028rained.", "question": "Who?"}\n' * 2)
    done = call("predict", model, "--input", tmp_path / "texts" / "a.jsonl", "--output", tmp_path / "a.parquet")
    assert not done.code, done.err
    schema = pyarrow.parquet.read_schema(tmp_path / "a.parquet")
    assert schema.field("start").type == schema.field("page").type == pyarrow.int64()
    assert schema.field("entities").type.value_type.field("label").type == pyarrow.string()


def test_parquet_out(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    command = ["predict", model, "--input", texts / "c.parquet", "--output"]
    for name in ("c.parquet", "c.jsonl"):
        done = call(*command, tmp_path / name)
        assert (done.code, done.err) == (0, f"7 new predictions in {tmp_path / name}\n")
        assert [one["id"] for one in records(tmp_path / name)] == [f"c{n}" for n in range(7)]
        assert call(*command, tmp_path / name).err.startswith("0 new predictions")
    pyarrow.parquet.write_table(pyarrow.table({"id": ["1"]}), tmp_path / "c.parquet")
    assert "c.parquet:1: not a prediction: \"{'id': '1'}\"" in call(*command, tmp_path / "c.parquet").err
    (tmp_path / "c.parquet").write_bytes(b"PAR1 broken")
    assert "c.parquet: not a readable Parquet file: " in call(*command, tmp_path / "c.parquet").err


def test_what_is_no_corpus(texts: Path, model: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    out = ["--output", tmp_path / "out"]
    assert "no file .jsonl, .jsonl.gz or .parquet" in call("predict", model, "--input", tmp_path / "empty", *out).err
    (texts / "z.jsonl").write_text('{"text": ""}\n')
    done = call("predict", model, "--input", texts, *out)
    assert done.code == 2
    assert "z.jsonl" in done.err or "example '1'" in done.err
    assert len(predictions(tmp_path / "out")) == 21, "the others are kept"
    (texts / "d.parquet").write_bytes(b"PAR1 broken")
    assert "d.parquet: not a readable Parquet file: " in call("predict", model, "--input", texts, *out).err
    alone = call("predict", model, "--input", texts, *out, "--workers", "2")
    assert (alone.code, alone.err) == (2, "cogltx: predict: --workers goes with --engine ray\n")


def test_parquet_needs_pyarrow(
    texts: Path, model: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for given, output, file in (
        (texts / "a.jsonl", tmp_path / "a.parquet", tmp_path / "a.parquet"),
        (texts / "c.parquet", tmp_path / "c.jsonl", texts / "c.parquet"),
    ):
        done = call("predict", model, "--input", given, "--output", output)
        needed = f'cogltx: {file}: Parquet needs pyarrow; pip install "cogltx[parquet]"\n'
        assert (done.code, done.err, output.exists()) == (2, needed, False)


class Slow:
    """``cogltx predict`` in a process of its own, with a slow judge and an example per part."""

    def __init__(self, model: str, texts: Path, output: Path) -> None:
        (texts.parent / "slow.py").write_text(SLOW_JUDGE)
        command = [sys.executable, "-c", SMALL_PARTS, "predict", model, "--judge", "slow:Slow"]
        self.command = [*command, "--input", str(texts), "--output", str(output)]
        paths = [str(texts.parent), str(Path(cogltx.__file__).parents[1])]
        self.environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "RAY_USAGE_STATS_ENABLED": "0"}

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.command, *options], env=self.environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )


def n_made(folder: Path) -> int:
    """Number of predictions that are saved, in parts and in complete files."""
    return sum(path.read_bytes().count(b'{"id"') for path in folder.rglob("*.jsonl"))


def workers_of(driver: int) -> list[int]:
    """Processes of the driver's session that hold a model."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if "_Worker" in (folder / "cmdline").read_text() and str(driver) in _ancestors(int(folder.name)):
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
    kills, slow = 0, Slow(model, texts, tmp_path / "ray")
    driver = slow.start("--engine", "ray", "--workers", "2")
    while kills < KILLS and driver.poll() is None:
        time.sleep(0.1)
        for worker in workers_of(driver.pid)[:1] if n_made(tmp_path / "ray") > 12 * kills / KILLS else ():
            os.kill(worker, signal.SIGKILL)
            kills += 1
    while n_made(tmp_path / "ray") < 14 and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    _, err = driver.communicate(timeout=60)
    assert kills == KILLS, err
    assert n_made(tmp_path / "ray") >= 14
    again = slow.start("--engine", "ray", "--workers", "1")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    monkeypatch.syspath_prepend(tmp_path)
    alone = call("predict", model, "--input", texts, "--judge", "slow:Slow", "--output", tmp_path / "alone")
    assert not alone.code, alone.err
    assert [one["id"] for one in predictions(tmp_path / "ray")] == [f"{name}{n}" for name in "abc" for n in range(7)]
    assert list(map(str, predictions(tmp_path / "ray"))) == list(map(str, predictions(tmp_path / "alone")))
