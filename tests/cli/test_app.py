"""The program: help, version, encoding, interrupts, and errors in the use of options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COUNT, Call, Files

from cogltx import __version__
from cogltx.cli import app


def test_help_is_printed_without_torch() -> None:
    code = "import sys; sys.argv = ['cogltx', '--help']; from cogltx.__main__ import main\ntry:\n    main()\nfinally:\n"
    code += "    assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for command in ("train", "evaluate", "predict", "recall", "split", "prepare", "quickstart", "bench"):
        assert command in done.stdout


def test_version(call: Call) -> None:
    assert call("--version").out == f"cogltx {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict"], "Missing argument 'run'; see cogltx predict --help"),
        (["predict", "RUN", "--docment", "a"], "No such option: --docment (Possible options: --document); see cogltx predict --help"),
        (["evaluate", "RUN", "--data", "DATA", "--limit", "0"], "'--limit'"),
        (["trian"], "No such command 'trian'"),
    ],
)  # fmt: skip
def test_usage_errors_are_one_line(call: Call, arguments: list[str], expected: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert expected in done.err


@pytest.mark.parametrize(
    ("arguments", "is_saved"),
    [
        ("train a.yaml --output=runs/a", True), ("predict RUN --input a.jsonl --output b.jsonl", True),
        ("predict RUN --document a.txt --question Why?", False), ("evaluate RUN --data a --predictions=b", True),
        ("export RUN --output b", False), ("bench quality a.yaml --output b", True), ("bench serve --output b", False),
    ],
)  # fmt: skip
def test_an_interrupt_promises_only_what_is_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, is_saved: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["cogltx", *arguments.split()])
    with pytest.raises(SystemExit) as exit:
        app._interrupted(2, None)
    hint = "; progress is saved; run the same command to resume (train, mlm: with --resume)" if is_saved else ""
    assert (exit.value.code, capsys.readouterr().err) == (130, f"cogltx: interrupted{hint}\n")


def test_help_of_a_group_that_is_called_alone(call: Call) -> None:
    done = call("bench")
    assert done.code == 2
    assert "Usage: cogltx bench" in done.err


def test_a_mistyped_folder_is_corrected(files: Files, call: Call) -> None:
    mistyped = files.folder / "rum"
    done = call("predict", mistyped, "--document", files.document)
    assert (done.code, done.err) == (2, f"cogltx: {mistyped}: no such folder; did you mean {files.run}?\n")


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
    ("arguments", "expected"),
    [
        (["predict", "RUN"], "predict needs either --document FILE, --index FILE, or --input FILE and --output FILE"),
        (["predict", "RUN", "--input", "DATA"], "predict needs either --document FILE, --index FILE, or"),
        (["predict", "RUN", "--document", "DOCUMENT"], "predict: this model answers questions; give --question"),
        (
            ["predict", "RUN", "--document", "DOCUMENT", "--output", "a.json"],
            "predict: --output goes with --input; for a",
        ),
        (["predict", "/nowhere", "--document", "DOCUMENT"], "/nowhere: no such folder"),
        (["predict", "RUN", "--document", "/nowhere/a.txt"], "/nowhere/a.txt: file not found"),
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
        (["bench", "memory", "--budget", "nan"], "--budget: nan is not a number above 0"),
        (["bench", "cost", "--readers", "all", "--limit", "inf"], "--limit: inf is not a number above 0"),
        (
            ["bench", "cost", "--readers", "all", "--shortlist", "3;5"],
            "--shortlist: '3;5' is not a list of positive whole numbers, such as 3,5",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--split", "dev"],
            "'--split': 'dev' is not one of 'train', 'validation', 'test'; see cogltx evaluate --help",
        ),
        (["evaluate", "RUN", "--data", "DATA", "--blocks", "all"], "'--blocks': 'all' is not one of 'recall', 'gold'"),
        (
            ["evaluate", "RUN", "--data", "DATA", "--against", "/nowhere/p.jsonl"],
            "/nowhere/p.jsonl: cannot read predictions: No such file",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--predictions", "/"],
            "/: cannot read predictions: Is a directory",
        ),
        (
            ["evaluate", "RUN", "--data", "DATA", "--confusion", "/proc/c.png"],
            "/proc/c.png: cannot write a picture there: ",
        ),
        (
            ["predict", "RUN", "--input", "DATA", "--output", "/tmp/x", "--question", "who?"],
            "predict: --question and --json go with --document",
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


def test_quiet_and_verbose(files: Files, call: Call, tmp_path: Path) -> None:
    data = ["predict", files.run, "--input", files.data, "--output"]
    assert call(*data, tmp_path / "a.jsonl").err == f"{COUNT} predictions in {tmp_path}/a.jsonl\n"
    assert not call("--quiet", *data, tmp_path / "b.jsonl").err
    loud = call("--verbose", *data, tmp_path / "c.jsonl").err
    for line in ("load ", "split ", "reasoner: ", "judge: ", "predictions in"):
        assert line in loud
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()
    assert "left out" not in loud


def test_the_shell_completes_commands(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setenv("_COGLTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "cogltx ser")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert call().out.split() == ["serve"]
