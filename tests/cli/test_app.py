"""The program: help, version, encoding, interrupts, and errors in the use of options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COUNT, Call, Files
from reference import commands

from cogltx import __version__
from cogltx.cli import app
from cogltx.errors import Interrupted


def test_help_is_printed_without_torch() -> None:
    code = "import sys; sys.argv = ['cogltx', '--help']; from cogltx.__main__ import main\ntry:\n    main()\nfinally:\n"
    code += "    assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for command in ("ask", "train", "evaluate", "predict", "recall", "prepare", "bench"):
        assert command in done.stdout


def test_version(call: Call) -> None:
    assert call("--version").out == f"cogltx {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict"], "Missing argument 'run'; see cogltx predict --help"),
        (["recall", "RUN", "--docment", "a"], "No such option: --docment (Possible options: --document); see cogltx recall --help"),
        (["evaluate", "RUN", "--data", "DATA", "--limit", "0"], "'--limit'"),
        (["trian"], "No such command 'trian'"),
    ],
)  # fmt: skip
def test_usage_errors_are_one_line(call: Call, arguments: list[str], expected: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert expected in done.err


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ("predict RUN --input a.jsonl --output b.jsonl", "to resume"), ("ask a.txt Why?", ""),
        ("evaluate RUN --data a --predictions=b", "to resume"), ("evaluate RUN --data a", ""),
        ("export RUN --output b", ""), ("bench quality a.yaml --output b", "to resume"),
    ],
)  # fmt: skip
def test_an_interrupt_promises_only_what_is_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, how: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["cogltx", *arguments.split()])
    with pytest.raises(SystemExit) as exit:
        app._interrupted(2, None)
    hint = f"; progress is saved; run the same command {how}" if how else ""
    assert (exit.value.code, capsys.readouterr().err) == (130, f"cogltx: interrupted{hint}\n")


def test_an_interrupted_training_reports_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cogltx", "train", "a.yaml", "--output=runs/a"])
    with pytest.raises(KeyboardInterrupt) as interrupt:
        app._interrupted(15, None)
    assert isinstance(interrupt.value, Interrupted)
    assert (interrupt.value.text, interrupt.value.signal) == (None, 15)


def test_help_of_a_group_that_is_called_alone(call: Call) -> None:
    done = call("bench")
    assert done.code == 2
    assert "Usage: cogltx bench" in done.err


def test_a_mistyped_folder_is_corrected(files: Files, call: Call) -> None:
    mistyped = files.folder / "rum"
    done = call("ask", files.document, "--model", mistyped)
    assert (done.code, done.err) == (2, f"cogltx: {mistyped}: no such folder; did you mean {files.run}?\n")


def test_interrupted_before_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = ran("recall", path=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', os.curdir)}")
    assert (done.returncode, done.stderr) == (130, "cogltx: interrupted\n")


def test_output_is_utf8_whatever_the_terminal_says(tiny_encoder: Path, tmp_path: Path) -> None:
    document = tmp_path / "文.txt"
    document.write_text("巴黎是法国的首都。", encoding="utf-8")
    encoder = ("--set", f"encoder.name={tiny_encoder}")
    done = ran("recall", "--document", document, "--judge", "bm25", "--question", "巴黎?", *encoder)
    assert "巴黎是法国的首都。" in done.stdout, done.stderr
    done = ran("recall", "--document", tmp_path / "报告\udcff", "--judge", "bm25")
    assert "报告\\xff: file not found" in done.stderr


def ran(*arguments: object, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a command does in a process of its own, on a terminal that takes ASCII alone."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii"} | ({"PYTHONPATH": path} if path else {})
    command = [sys.executable, "-m", "cogltx", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict", "RUN", "--input", "DATA"], "Missing option '--output'; see cogltx predict --help"),
        (["predict", "RUN", "--input", "/nowhere.jsonl", "--output", "a.jsonl"], "/nowhere.jsonl: file not found"),
        (["ask", "DOCUMENT", "--model", "/nowhere", "Who?"], "/nowhere: no such folder"),
        (["train", "CONFIG"], "train: name the folder of the run with --output"),
        (["recall", "--document", "DOCUMENT"], "recall needs a run or --judge NAME, such as --judge bm25"),
        (["recall", "RUN", "--judge", "bm25", "--document", "DOCUMENT"], 'judge "bm25" needs a question'),
        (
            ["recall", "--judge", "bm25", "--document", "DOCUMENT", "--set", "memrecall.capacity=16"],
            "memrecall.capacity must be greater than or equal to 32, but is 16",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--judge", "bm25", "--set", "reader=truncation"],
            "--judge: the baseline truncation does not use a judge",
        ),
        (
            ["recall", "RUN", "--document", "DOCUMENT", "--set", "memrecall.capacity=0"],
            "memrecall.capacity must be greater than or equal to 32, but is 0",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--split", "dev"],
            "'--split': 'dev' is not one of 'train', 'validation', 'test'; see cogltx evaluate --help",
        ),
        (["evaluate", "RUN", "--data", "DATA", "--blocks", "all"], "'--blocks': 'all' is not one of 'recall', 'gold'"),
        (
            ["evaluate", "RUN", "--data", "DATA", "--against", "/nowhere/p.jsonl"],
            "/nowhere/p.jsonl: file not found",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--predictions", "/"],
            "/: is not a file; name a file for the predictions",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--confusion", "/proc/c.png"],
            "/proc/c.png: cannot write a picture there: ",
        ),
        (["prepare", "poetry", "--source", "DATA", "--output", "/tmp/x"], "task"),
        (["recall", "--judge", "bm25", "--document", "DOCUMENT", "--set", "max_block_tokens=1"], "max_block_tokens"),
    ],
)
def test_wrong_options(files: Files, call: Call, arguments: list[str], expected: str) -> None:
    named = {"RUN": files.run, "DATA": files.data, "DOCUMENT": files.document, "CONFIG": files.config}
    done = call(*(named.get(argument, argument) for argument in arguments))
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_out_of_bounds(call: Call, seed: str) -> None:
    done = call("bench", "cost", "--seed", seed)
    assert done.code == 2
    assert "'--seed'" in done.err


def test_quiet_and_verbose(files: Files, call: Call, tmp_path: Path) -> None:
    data = ["predict", files.run, "--input", files.data, "--output"]
    assert call(*data, tmp_path / "a.jsonl").err == f"{COUNT} new predictions in {tmp_path}/a.jsonl\n"
    assert not call("--quiet", *data, tmp_path / "b.jsonl").err
    loud = call("--verbose", *data, tmp_path / "c.jsonl").err
    for line in ("load ", "split ", "reasoner: ", "judge: ", "new predictions in"):
        assert line in loud
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()
    assert "left out" not in loud


def test_the_shell_completes_commands(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setenv("_COGLTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "cogltx ser")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert call().out.split() == ["serve"]


def test_out_of_memory_names_the_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit) as exit:
        app.run()
    expected = "cogltx: out of memory; saved progress is kept. Try --set encoder.batch_tokens=2048.\n"
    assert (exit.value.code, capsys.readouterr().err) == (2, expected)


def test_the_reference_has_every_command_and_option(call: Call) -> None:
    page = commands()
    for name in ("ask", "serve", "train", "evaluate", "predict", "recall", "prepare", "export"):
        _, _, part = page.partition(f"### `cogltx {name}`\n\n")
        usage, shown = part.partition("### ")[0].split("\n\n")[1:3]
        options = set(re.findall(r"  (--[\w-]+)", call(name, "--help").out)) - {"--help"}
        assert set(re.findall(r"--[\w-]+", usage)) == options
        shared = page.partition("### Options of several commands")[2]
        assert options <= {*re.findall(r"^\| `(--[\w-]+)", f"{shown}\n{shared}", re.MULTILINE)}
    assert "| `--split train\\|validation\\|test` | Part of the data set. Default: `train`. |" in page
    assert "    cogltx recall [RUN] --document [--judge]" in page
