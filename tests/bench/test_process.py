"""Processes that are measured."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cogltx.bench._process import call, high_water_mark, run_command
from cogltx.errors import ModelError

MEGABYTE = 1 << 20
Module = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Write a module that new processes can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "measured_alone.py").write_text(
            f"import json, sys, time\ngiven = json.loads(sys.argv[1])\n{text}\n"
        )
        return "measured_alone"

    return write


def test_the_result_of_a_module(module: Module) -> None:
    name = module("print('some library says hello')\nprint(json.dumps(given))")
    assert call(name, {"got": "this"}, "a peak") == {"got": "this"}


def test_a_failure_is_one_line(module: Module) -> None:
    with pytest.raises(ModelError, match="^a peak: the measurement failed with exit code 1: no such thing$"):
        call(module("sys.exit('no such thing')"), {}, "a peak")
    with pytest.raises(ModelError, match="exit code 1: RuntimeError: mat1 and mat2"):
        call(module("raise RuntimeError('mat1 and mat2 shapes cannot be multiplied')"), {}, "a peak")


def test_too_long(module: Module) -> None:
    assert call(module("time.sleep(60)"), {}, "a peak", seconds=0.5) == {"beyond": "time"}


@pytest.mark.parametrize(
    "error", ["MemoryError()", 'RuntimeError("DefaultCPUAllocator: can\'t allocate memory: you tried to allocate")']
)
def test_no_memory_left_is_no_failure(error: str, module: Module) -> None:
    assert call(module(f"raise {error}"), {}, "a peak") == {"beyond": "memory"}


def test_a_process_ends_beyond_its_memory(module: Module) -> None:
    text = f"held = bytearray(given['size'] * {MEGABYTE})\ntime.sleep(given['seconds'])\nprint('{{}}')"
    limit = 300 * MEGABYTE
    assert call(module(text), {"size": 600, "seconds": 60}, "a peak", limit=limit) == {"beyond": "memory"}
    assert call(module(text), {"size": 10, "seconds": 0.3}, "a peak", limit=limit) == {}


def test_peak_of_this_process_never_falls() -> None:
    before = high_water_mark()
    held = bytearray(32 * MEGABYTE)
    assert high_water_mark() >= before
    del held
    assert high_water_mark() >= before > MEGABYTE


def test_a_command_is_measured_alone() -> None:
    """Memory of the process that starts it is not counted."""
    held = bytearray(b"x") * (1500 * MEGABYTE)
    printed, seconds, peak = run_command(["--help"])
    assert "evaluate" in printed
    assert seconds > 0
    assert 5 * MEGABYTE < peak < 1000 * MEGABYTE < len(held)


def test_a_command_that_fails() -> None:
    with pytest.raises(ModelError, match="^exit code 2 of: cogltx evaluate --no-such-option$"):
        run_command(["evaluate", "--no-such-option"])


def test_an_interrupted_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Started(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **options: object) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **options)  # type: ignore[call-overload]
            started.append(self)

    def interrupted(process: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cogltx.bench._process.subprocess.Popen", Started)
    monkeypatch.setattr("cogltx.bench._process.high_water_mark", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["train"])
    assert started[0].wait(timeout=30) == -signal.SIGTERM
