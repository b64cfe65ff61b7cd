"""Measure seconds and peak memory in new processes: a function of this package, or a `cogltx` command."""

import importlib
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
from pathlib import Path
from typing import Any

from cogltx.errors import CogltxError, ModelError

_POLL_SECONDS = 0.05


def call(
    function: str, arguments: dict[str, Any], what: str, *, timeout: float | None = None, limit: int = 0
) -> dict[str, Any] | None:
    """Call a function in a new process and return its result, None after `timeout` seconds.

    Args:
        function: `package.module:function`; its result is a dict for JSON.
        arguments: its keyword arguments, plain data.
        what: the measurement, for error messages.
        timeout: seconds.
        limit: bytes of memory; a process that needs more returns `{"beyond": "memory"}`. 0: no limit.

    Raises:
        ModelError: the process failed; with the last line of its standard error.
    """
    command = [sys.executable, "-m", __name__, function, json.dumps(arguments), str(limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing on standard error"]
        raise ModelError(f"{what}: the measurement failed with exit code {done.returncode}: {lines[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run_command(arguments: Sequence[str]) -> tuple[str, float, int]:
    """Run a `cogltx` command in a new process; return standard output, seconds and peak memory in bytes.

    Raises:
        ModelError: it failed; its messages are on standard error.
    """
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "cogltx", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "a pipe was asked for"
    peak = 0
    with process.stdout, ThreadPoolExecutor(1) as executor:
        output = executor.submit(process.stdout.read)
        try:
            while wait([output], timeout=_POLL_SECONDS).not_done:
                peak = max(peak, high_water_mark(process.pid))
        except BaseException:  # an interrupted call leaves no process behind
            process.terminate()
            raise
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ModelError(f"exit code {process.returncode} of: {shlex.join(['cogltx', *arguments])}")
    return output.result(), time.perf_counter() - started, peak or _in_bytes(usage.ru_maxrss)


def peak_bytes(device: str = "cpu") -> int:
    """Peak memory of this process: reserved on the GPU if `device` is "cuda", resident otherwise."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_reserved())
    return high_water_mark(os.getpid()) or _in_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def high_water_mark(process: int) -> int:
    """Peak resident memory of a process by `/proc`, 0 on systems without it.

    On Linux, `getrusage` and `wait4` include the memory of the parent process at the time of the fork; this does not.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _in_bytes(ru_maxrss: int) -> int:
    return ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _watch(limit: int) -> None:
    """End this process once it has used more than `limit` bytes."""
    while peak_bytes() <= limit:
        time.sleep(_POLL_SECONDS)
    print(json.dumps({"beyond": "memory"}), flush=True)
    os._exit(0)


def _main(function: str, arguments: str, limit: str) -> int:
    """Call the function and print its result as one line of JSON; return the exit code."""
    if int(limit):
        threading.Thread(target=_watch, args=[int(limit)], daemon=True).start()
    module, _, name = function.partition(":")
    try:
        result = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    except CogltxError as error:
        print(error, file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        import torch

        out_of_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not out_of_memory and "can't allocate memory" not in str(error):
            raise
        result = {"beyond": "memory"}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
