"""Measurements in a process of their own: start one, and what memory the one under way has taken.

Knows nothing of what is measured.
"""

import json
import os
import resource
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from cogltx.errors import ModelError

_FORGET = Path("/proc/self/clear_refs")
_LOOK_EVERY = 0.05


def in_new_process(
    module: str, arguments: Sequence[str], expected: str, *, timeout: float | None = None
) -> dict[str, Any] | None:
    """What a module that runs in a process of its own prints as its last line, of JSON; None if it takes too long.

    Args:
        module: its name.
        arguments: of its command line.
        expected: opens the message of an error.
        timeout: seconds.

    Raises:
        ModelError: the process failed; its last words.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["nothing on standard error"]
        raise ModelError(f"{expected}, got exit code {done.returncode}: {words[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cogltx_command(arguments: Sequence[str]) -> tuple[str, float, int]:
    """Runs a command of cogltx in a process of its own: what it prints, its seconds, its peak memory in bytes.

    Raises:
        ModelError: it failed; what it said stands on standard error.
    """
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "cogltx", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "a pipe was asked for"
    peak = 0
    with process.stdout, ThreadPoolExecutor(1) as reading:
        said = reading.submit(process.stdout.read)
        try:
            while wait([said], timeout=_LOOK_EVERY).not_done:
                peak = max(peak, _held(process.pid))
        except BaseException:  # an interrupted call leaves nothing running
            process.terminate()
            raise
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        command = shlex.join(["cogltx", *arguments])
        raise ModelError(f"bench: expected exit code 0, got {process.returncode} of: {command}")
    return said.result(), time.perf_counter() - started, peak or _in_bytes(usage.ru_maxrss)


def peak_bytes() -> int:
    """The most memory that this process has held (resident set)."""
    return _held(os.getpid()) or _in_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _held(process: int) -> int:
    """The most that a process has held by what Linux tells in ``/proc``; 0 where it does not.

    Linux counts the process that started it into ``getrusage`` and ``wait4``, but not here.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _in_bytes(ru_maxrss: int) -> int:
    return ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Lets ``peak_bytes`` count from what this process holds now, where the system can (Linux)."""
    with suppress(OSError):
        _FORGET.write_text("5")


def end_beyond(limit: int) -> None:
    """Ends this process, with a line ``{"beyond": "memory"}``, once it has held more than ``limit`` bytes."""

    def watch() -> None:
        while peak_bytes() <= limit:
            time.sleep(_LOOK_EVERY)
        print(json.dumps({"beyond": "memory"}), flush=True)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
