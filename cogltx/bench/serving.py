"""Load on `cogltx serve`: answers per second, latency and memory, by the number of clients that ask at once."""

import http.client
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from cogltx.bench.process import high_water_mark
from cogltx.bench.prose import QUESTION, generated
from cogltx.bench.tables import table
from cogltx.blocks import load_tokenizer
from cogltx.errors import ModelError

LENGTHS = (512, 2048, 8192, 32768)
"""Tokens of the documents that the clients ask about."""

_PAUSE = 0.5  # seconds that a client waits after a 429


@dataclass
class _Load:
    """The responses to one client: seconds of its answers, and the number of responses by status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


def measure(
    model: str, clients: Sequence[int], seconds: float, *, seed: int = 0, report: Callable[[str], None]
) -> tuple[list[dict[str, Any]], str]:
    """Start a server and ask it from several clients at once; return rows as plain data, and their table.

    Raises:
        ModelError: the server does not start, or answers with an error other than 429.
    """
    tokenizer = load_tokenizer("minilm")
    texts = [generated(length, tokenizer, seed=seed).text for length in LENGTHS]
    rows = []
    with _server(model) as (port, pid), closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        ids = [_post(connection, "/documents", {"text": text})[1]["id"] for text in texts]
        for id in ids:  # the first question about a document reads it
            _post(connection, "/answer", {"question": QUESTION, "documents": [id]})
        for count in clients:
            report(f"{count} clients, {seconds:g} s")
            ask = partial(_ask, port, ids, time.monotonic() + seconds)
            with ThreadPoolExecutor(count) as executor:
                loads = list(executor.map(ask, range(count)))
            statuses = sum((load.statuses for load in loads), Counter[int]())
            if failed := {status: number for status, number in statuses.items() if status not in (200, 429)}:
                raise ModelError(f"serve: {count} clients: responses by status: {failed}")
            spent = [one for load in loads for one in load.seconds]
            rows.append(
                {
                    "clients": count,
                    "answers_per_second": len(spent) / seconds,
                    "p50": float(np.percentile(spent, 50)),
                    "p95": float(np.percentile(spent, 95)),
                    "answers": statuses[200],
                    "refused": statuses[429],
                    "memory": high_water_mark(pid),
                }
            )
    heading = ["clients", "answers per s", "p50 s", "p95 s", "answers", "429", "peak MiB"]
    lines = [
        [
            str(row["clients"]), f"{row['answers_per_second']:.1f}", f"{row['p50']:.2f}", f"{row['p95']:.2f}",
            f"{row['answers']:,}", f"{row['refused']:,}", f"{row['memory'] / 2**20:,.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return rows, table([heading, *lines])


@contextmanager
def _server(model: str) -> Iterator[tuple[int, int]]:
    """Run a server on a free port; yields the port and the process id."""
    command = [sys.executable, "-m", "cogltx", "serve", "--model", model, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None, "a pipe was asked for"
    try:
        lines = []
        while line := process.stderr.readline():
            lines.append(line.strip())
            if found := re.search(r"http://\S+:(\d+)/", line):
                yield int(found[1]), process.pid
                return
        raise ModelError(lines[-1].removeprefix("cogltx: ") if lines else "serve: the server did not start")
    finally:
        process.terminate()
        process.communicate()


def _ask(port: int, ids: Sequence[str], end: float, client: int) -> _Load:
    """Ask one question after another, about one document after another, until the end."""
    load, number = _Load(), client
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while (start := time.monotonic()) < end:
            question = f"{QUESTION} ({client}, {number})"
            status, _ = _post(connection, "/answer", {"question": question, "documents": [ids[number % len(ids)]]})
            load.statuses[status] += 1
            number += 1
            if status == 200:
                load.seconds.append(time.monotonic() - start)
            else:
                time.sleep(_PAUSE)
    return load


def _post(connection: http.client.HTTPConnection, path: str, body: object) -> tuple[int, Any]:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())
