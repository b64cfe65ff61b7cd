"""The process that reads files: a job per line of its standard input, a reply per line of its standard output."""

import base64
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from cogltx.errors import DataError
from cogltx.formats import _limits
from cogltx.formats._limits import Limits
from cogltx.formats._parse import load_reader, parse

READY = b"ready\n"
MORE = b"more "
"""Begins the line that asks for more seconds for a file."""
NO_MEMORY = 77
"""Exit code of the process if it needed more memory."""


def main() -> None:
    """Read files until the standard input ends, as it does when the process that started this one has ended."""
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what libraries print is no reply
        if os.name == "posix":
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
            for number in (signal.SIGPROF, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)

        def reply(line: bytes) -> None:
            replies.write(line)
            replies.flush()

        _limits.on_more_time = lambda seconds: reply(b"%s%f\n" % (MORE, seconds))
        reply(READY)
        for job in sys.stdin.buffer:
            reply(json.dumps(_reply(**json.loads(job))).encode() + b"\n")


def _reply(do: str, name: str, seconds: float, megabytes: float, **job: Any) -> dict[str, Any]:
    """Do one job within limits; end this process if it lacks memory."""
    limits = Limits(seconds, megabytes)
    try:
        return _read(name, limits, **job) if do == "read" else _render(name, limits, **job)
    except DataError as error:
        if error.__cause__ is None or not limits.memory_is_used():  # libraries call its lack a fault of the file
            return {"error": str(error)}
        os._exit(NO_MEMORY)
    except MemoryError:
        os._exit(NO_MEMORY)


def _read(name: str, limits: Limits, path: str, module: str, noun: str) -> dict[str, Any]:
    """Read a file."""
    load_reader(module, noun, name)  # takes time once
    with limits.in_force():
        document = parse(Path(path), name, module, noun, limits)
    return {} if document is None else document.to_dict()


def _render(name: str, limits: Limits, path: str, number: int | None, scale: float) -> dict[str, Any]:
    """Draw a page of a PDF file, or without a number measure the width and height in points of all."""
    from cogltx.formats import _pdf_pages

    with limits.in_force(), _pdf_pages.opened(Path(path), name, limits) as file:
        if number is None:
            return {"sizes": [file.get_page_size(index) for index in range(len(file))]}
        return {"png": base64.b64encode(_pdf_pages.png(file, number, scale)).decode()}
