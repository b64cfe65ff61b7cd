"""Processes that measure themselves."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cogltx.bench.process import cogltx_command, in_new_process, peak_bytes
from cogltx.errors import ModelError

MEGABYTE = 1 << 20


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that new processes find and this one has not loaded."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "measured_alone.py").write_text(text)
        return "measured_alone"

    return write  # type: ignore[return-value]


def test_its_last_line_is_what_it_found(module) -> None:  # type: ignore[no-untyped-def]
    name = module("import sys\nprint('some library says hello')\nprint('{\"got\": \"' + sys.argv[1] + '\"}')")
    assert in_new_process(name, ["this"], "expected") == {"got": "this"}


def test_a_failure_is_one_line(module) -> None:  # type: ignore[no-untyped-def]
    name = module("raise SystemExit('no such thing')")
    with pytest.raises(ModelError, match="^a peak expected, got exit code 1: no such thing$"):
        in_new_process(name, [], "a peak expected")


def test_too_long(module) -> None:  # type: ignore[no-untyped-def]
    assert in_new_process(module("import time; time.sleep(60)"), [], "expected", timeout=0.5) is None


def test_it_ends_beyond_its_memory(module) -> None:  # type: ignore[no-untyped-def]
    name = module(
        "import time\nfrom cogltx.bench.process import end_beyond, peak_bytes\n"
        f"end_beyond(peak_bytes() + {50 * MEGABYTE})\nheld = bytearray({200 * MEGABYTE})\ntime.sleep(60)"
    )
    assert in_new_process(name, [], "expected", timeout=50) == {"beyond": "memory"}


def test_within_its_memory_it_goes_on(module) -> None:  # type: ignore[no-untyped-def]
    name = module(
        "import time\nfrom cogltx.bench.process import end_beyond, peak_bytes\n"
        f"end_beyond(peak_bytes() + {500 * MEGABYTE})\nheld = bytearray({20 * MEGABYTE})\ntime.sleep(0.3)\nprint('{{}}')"
    )
    assert in_new_process(name, [], "expected") == {}


def test_peak_of_this_process_never_falls() -> None:
    before = peak_bytes()
    held = bytearray(32 * MEGABYTE)
    assert peak_bytes() >= before
    del held
    assert peak_bytes() >= before > MEGABYTE


def test_a_command_is_measured_alone() -> None:
    """What the process that starts it holds is not its own."""
    held = bytearray(b"x") * (1500 * MEGABYTE)
    said, seconds, peak = cogltx_command(["--help"])
    assert "evaluate" in said
    assert seconds > 0
    assert 5 * MEGABYTE < peak < 1000 * MEGABYTE < len(held)


def test_a_command_that_fails() -> None:
    with pytest.raises(ModelError, match="^bench: expected exit code 0, got 2 of: cogltx evaluate --no-such-option$"):
        cogltx_command(["evaluate", "--no-such-option"])


def test_an_interrupted_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Started(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **options: object) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **options)  # type: ignore[call-overload]
            started.append(self)

    def interrupted(process: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cogltx.bench.process.subprocess.Popen", Started)
    monkeypatch.setattr("cogltx.bench.process._held", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cogltx_command(["train"])
    assert started[0].wait(timeout=30) == -signal.SIGTERM
