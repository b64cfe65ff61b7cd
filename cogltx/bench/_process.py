"""Run commands in new processes and measure their seconds and peak memory."""

import json
import math
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import IO, Any

from cogltx.errors import ModelError
from cogltx.formats._limits import high_water_mark

_POLL_SECONDS = 0.05
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "MemoryError")


def run_command(arguments: Sequence[str]) -> tuple[str, float, int]:
    """Run a `cogltx` command in a new process; return standard output, seconds and peak memory in bytes.

    Raises:
        ModelError: it failed; its messages are on standard error.
    """
    started = time.perf_counter()
    output, code, peak = _run(["cogltx", *arguments])
    if code:
        raise ModelError(f"exit code {code} of: {shlex.join(['cogltx', *arguments])}")
    return output, time.perf_counter() - started, peak


def call(
    module: str, arguments: dict[str, Any], what: str, *, seconds: float = math.inf, limit: float = math.inf
) -> dict[str, Any]:
    """Run a module, which prints JSON, in a new process and return its result.

    Args:
        module: gets its arguments as JSON on the command line.
        arguments: plain data.
        what: the measurement, for error messages.
        seconds: a process that takes longer is ended; the result is `{"beyond": "time"}`.
        limit: bytes of memory; for a process that needs more the result is `{"beyond": "memory"}`.

    Raises:
        ModelError: the process failed; with the last line of its standard error.
    """
    with tempfile.TemporaryFile("w+") as errors:
        try:
            output, code, _ = _run([module, json.dumps(arguments)], errors, seconds, limit)
        except TimeoutError:
            return {"beyond": "time"}
        except MemoryError:
            return {"beyond": "memory"}
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["nothing on standard error"])[-1]
    if code == -signal.SIGKILL or (code and any(words in last for words in _OUT_OF_MEMORY)):
        return {"beyond": "memory"}
    if code:
        raise ModelError(f"{what}: the measurement failed with exit code {code}: {last}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def _run(
    command: Sequence[str], errors: IO[str] | None = None, seconds: float = math.inf, limit: float = math.inf
) -> tuple[str, int, int]:
    """Run a module; return standard output, exit code and peak memory. TimeoutError or MemoryError: beyond a limit."""
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None, "a pipe was asked for"
    with process, ThreadPoolExecutor(1) as executor:
        output = executor.submit(process.stdout.read)
        try:
            while wait([output], timeout=_POLL_SECONDS).not_done:
                peak = max(peak, high_water_mark(str(process.pid)))
                if peak > limit:
                    raise MemoryError
                if time.perf_counter() - started > seconds:
                    raise TimeoutError
        except BaseException:  # an interrupted call leaves no process behind
            process.terminate()
            raise
    return output.result(), process.returncode, peak
