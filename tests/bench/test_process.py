"""Processes that measure themselves."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cogltx.bench.process import call, peak_bytes, run_command
from cogltx.errors import ModelError

MEGABYTE = 1 << 20


Module = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Write a module with a function `measure` that new processes can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "measured_alone.py").write_text(text)
        return "measured_alone:measure"

    return write


def test_the_result_of_a_function(module: Module) -> None:
    name = module("def measure(got):\n    print('some library says hello')\n    return {'got': got}")
    assert call(name, {"got": "this"}, "a peak") == {"got": "this"}


def test_a_failure_is_one_line(module: Module) -> None:
    name = module("def measure():\n    raise SystemExit('no such thing')")
    with pytest.raises(ModelError, match="^a peak: the measurement failed with exit code 1: no such thing$"):
        call(name, {}, "a peak")
    name = module("from cogltx.errors import DataError\ndef measure():\n    raise DataError('no text')")
    with pytest.raises(ModelError, match="^a peak: the measurement failed with exit code 2: no text$"):
        call(name, {}, "a peak")


def test_too_long(module: Module) -> None:
    assert call(module("import time\ndef measure(): time.sleep(60)"), {}, "a peak", timeout=0.5) is None


@pytest.mark.parametrize(
    "error", ["MemoryError()", 'RuntimeError("DefaultCPUAllocator: can\'t allocate memory: you tried to allocate")']
)
def test_no_memory_left_is_no_failure(error: str, module: Module) -> None:
    assert call(module(f"def measure():\n    raise {error}"), {}, "a peak") == {"beyond": "memory"}


def test_other_errors_are_not_hidden(module: Module) -> None:
    name = module("def measure():\n    raise RuntimeError('mat1 and mat2 shapes cannot be multiplied')")
    with pytest.raises(ModelError, match="exit code 1: RuntimeError: mat1 and mat2"):
        call(name, {}, "a peak")


def test_a_process_ends_beyond_its_memory(module: Module) -> None:
    text = f"import time\ndef measure(size, seconds):\n    held = bytearray(size * {MEGABYTE})\n    time.sleep(seconds)\n    return {{}}"
    limit = 300 * MEGABYTE
    assert call(module(text), {"size": 600, "seconds": 60}, "a peak", timeout=50, limit=limit) == {"beyond": "memory"}
    assert call(module(text), {"size": 10, "seconds": 0.3}, "a peak", limit=limit) == {}


def test_peak_of_this_process_never_falls() -> None:
    before = peak_bytes()
    held = bytearray(32 * MEGABYTE)
    assert peak_bytes() >= before
    del held
    assert peak_bytes() >= before > MEGABYTE


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

    def interrupted(process: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cogltx.bench.process.subprocess.Popen", Started)
    monkeypatch.setattr("cogltx.bench.process.high_water_mark", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["train"])
    assert started[0].wait(timeout=30) == -signal.SIGTERM
