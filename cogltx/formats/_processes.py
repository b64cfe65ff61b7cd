"""Read files in another process, which can be ended: its time and memory are limited, and a crash ends only it."""

import atexit
import base64
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from cogltx._progress import logger
from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats._limits import Limits
from cogltx.formats._parse import parse
from cogltx.formats._worker import MORE, NO_MEMORY, READY

_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from cogltx.formats._worker import main; main()"
_START_SECONDS, _GRACE_SECONDS = 60.0, 5.0
_MOST_FILES = 200  # of one process, whose memory may grow
_MOST_IDLE = 2

_idle: list["_Process"] = []
_busy: set["_Process"] = set()
_forgotten: list["_Process"] = []
_here = Lock()  # PDFium reads in one thread only


class _EndedError(Exception):
    """The process ended before it replied."""

    def __init__(self, code: int, is_late: bool) -> None:
        super().__init__(code)
        self.cause = {-number: number.name for number in signal.Signals}.get(code, f"exit code {code}")
        self.is_late = is_late or self.cause in ("SIGPROF", "SIGALRM")
        self._has_no_memory = code == NO_MEMORY

    def describe(self, limits: Limits) -> str:
        """Say why the process ended."""
        if self.is_late:
            return limits.too_long
        return limits.too_much if self._has_no_memory else limits.crashed(self.cause)


class _Process:
    """A process that reads one file after another."""

    def __init__(self) -> None:
        self.n_files = 0
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("this program has no Python interpreter to start")
        command = [sys.executable, "-c", _CODE, json.dumps(list(map(str, sys.path)))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._popen = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
        try:
            self._exchange(b"", _START_SECONDS, end=READY)
        except _EndedError as error:
            raise OSError(f"{sys.executable} does not start ({error.cause})") from None

    @property
    def pid(self) -> int:
        """Number of the process."""
        return int(self._popen.pid)

    def read(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Read a file; raises _EndedError if the process ends instead of replying."""
        self.n_files += 1
        values: dict[str, Any] = json.loads(self._exchange(json.dumps(job).encode() + b"\n", seconds))
        return values

    def kill(self) -> None:
        """End the process while another thread waits for its reply."""
        self._popen.kill()

    def end(self) -> None:
        """End the process."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):
                pipe.close()

    def forget(self) -> None:
        """Leave the process to the one that this process was forked from."""
        self._popen.returncode = 0
        for pipe in (self._popen.stdin, self._popen.stdout):
            pipe.raw.close()

    def _exchange(self, message: bytes, seconds: float, end: bytes = b"\n") -> bytes:
        """Send a message and return the line that answers it; end the process if that takes too long."""
        timer = self._timer(seconds)
        try:
            with suppress(BrokenPipeError):
                self._popen.stdin.write(message)
                self._popen.stdin.flush()
            while (reply := self._popen.stdout.readline()).startswith(MORE):
                timer.cancel()
                seconds += float(reply.removeprefix(MORE))
                timer = self._timer(seconds)
        except BaseException:
            self.end()
            raise
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        if not reply.endswith(end):
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(1)
            self.end()
            raise _EndedError(self._popen.returncode, is_late)
        return bytes(reply)

    def _timer(self, seconds: float) -> Timer:
        timer = Timer(seconds, self._popen.kill)
        timer.daemon = True
        timer.start()
        return timer


def read_apart(path: Path, name: str, module: str, noun: str, limits: Limits) -> Document | None:
    """Read a file as ``parse`` does, in another process and within limits; raises DataError if it exceeds them.

    Where no process can be started, the file is read in this one, without limits.
    """
    job = {"do": "read", "path": os.path.abspath(path), "module": module, "noun": noun}
    try:
        values = _done(job, name, limits)
        return Document.from_dict(values) if values else None
    except OSError as error:
        _warn(str(error))
        with _here:
            return parse(path, name, module, noun, limits)


def page_sizes(path: Path, name: str, limits: Limits) -> list[tuple[float, float]]:
    """Measure the pages of a PDF file in another process: width and height in points; raises DataError."""
    values = _rendered({"path": str(path), "number": None, "scale": 1.0}, name, limits)
    return [(width, height) for width, height in values["sizes"]]


def page_picture(path: Path, name: str, number: int, scale: float, limits: Limits) -> bytes:
    """Draw a page of a PDF file, from 1, as PNG in another process; ``scale`` is pixels per point. Raises DataError."""
    return base64.b64decode(_rendered({"path": str(path), "number": number, "scale": scale}, name, limits)["png"])


def _rendered(job: dict[str, Any], name: str, limits: Limits) -> dict[str, Any]:
    try:
        return _done({"do": "render", **job}, name, limits)
    except OSError as error:
        raise DataError(f"{name}: {error}") from None


def _done(job: dict[str, Any], name: str, limits: Limits) -> dict[str, Any]:
    """Let another process do a job within limits.

    Raises:
        DataError: that of the process, or the job exceeds the limits.
        OSError: no process can be started.
    """
    job |= {"name": name, "seconds": limits.seconds, "megabytes": limits.megabytes}
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            process = _Process()
        _busy.add(process)
        try:
            values = process.read(job, limits.wall_seconds + _GRACE_SECONDS)
        except _EndedError as error:
            if error.is_late or process.n_files == 1:  # else it may have been short of memory, or ended while idle
                raise DataError(f"{name}: {error.describe(limits)}") from None
        else:
            if process.n_files < _MOST_FILES and len(_idle) < _MOST_IDLE:
                _idle.append(process)
            else:
                process.end()
            if "error" in values:
                raise DataError(values["error"])
            return values
        finally:
            _busy.discard(process)


@atexit.register
def end_all() -> None:
    """End all processes; the files that they read are not readable then."""
    while _idle:
        _idle.pop().end()
    for process in list(_busy):
        process.kill()


def _forget_all() -> None:
    """Leave the idle processes to the process that this one was forked from."""
    for process in _idle:
        process.forget()
    _forgotten.extend(_idle)
    _idle.clear()
    _busy.clear()


if os.name == "posix":
    os.register_at_fork(after_in_child=_forget_all)


@cache
def _warn(reason: str) -> None:
    logger.warning(f"files are read without limits of time and memory: {reason}")
