"""`cogltx bench serve`: clients that rerank at the same time, beside plain passes of the encoder over the same pairs.

The passes run in as many processes as the server has workers, which share the cores as those do; run as a module, this
is one of these processes.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median, quantiles
from typing import Any, TypeAlias

import torch
from more_itertools import chunked

from cogltx.bench._origin import described, origin
from cogltx.bench._process import call, high_water_mark
from cogltx.bench._reading import WORDS
from cogltx.bench._tables import table
from cogltx.errors import CogltxError, ConfigError, ModelError

Request: TypeAlias = dict[str, Any]
_QUESTION, _SENTENCES = 8, 25  # words of a question; of each text
_BATCH = 32  # pairs of a plain pass
_NO_LIMIT = "1000000"  # requests per minute


def measure(
    model: str, *, clients: int = 64, requests: int = 256, texts: int = 10, rounds: int = 3, workers: int = 2,
    report: Callable[[str], None] = print,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Start a server, and measure it and plain passes in turn.

    Each client sends its next request when the last is answered; a request has a question and `texts` sentences.

    Returns:
        The settings and a measurement per round, and their table: requests per second of the server and of plain
        passes, their ratio, the 50th and 95th percentile of the seconds that a client waits, and the peak memory of the
        server so far in bytes.

    Raises:
        ModelError: the server or a plain process failed.
    """
    settings = {"model": model, "requests": requests, "texts": texts, "workers": workers}
    made = _requests(requests, texts)
    measured = list[dict[str, float]]()
    with _server(model, workers) as (port, process):
        _send(port, made, clients)  # warms up
        for number in range(rounds):
            with ThreadPoolExecutor(workers) as executor:
                parts = [settings | {"part": part} for part in range(workers)]
                passes = list(executor.map(lambda one: call(__spec__.name, one, "plain passes"), parts))
            plain = requests / max(one["seconds"] for one in passes)
            seconds, waits = _send(port, made, clients)
            served, percentiles = requests / seconds, quantiles(waits, n=20)
            measured.append({
                "served": served, "plain": plain, "ratio": served / plain, "p50": percentiles[9],
                "p95": percentiles[18], "peak_bytes": high_water_mark(str(process)),
            })  # fmt: skip
            report(f"round {number + 1} of {rounds}: {served:.1f} requests / s, {served / plain:.2f} of plain passes")
    result = {**settings, "clients": clients, **origin(), "rounds": measured}
    return result, _table(result)


def _table(result: dict[str, Any]) -> str:
    """Format a measurement in Markdown, with its origin below."""
    lines = [["round", "requests / s", "plain passes", "ratio", "p50, s", "p95, s", "MiB"]]
    for number, one in enumerate(result["rounds"], 1):
        lines.append([
            str(number), f"{one['served']:.1f}", f"{one['plain']:.1f}", f"{one['ratio']:.2f}", f"{one['p50']:.2f}",
            f"{one['p95']:.2f}", f"{one['peak_bytes'] / 2**20:,.0f}",
        ])  # fmt: skip
    ratio = median(one["ratio"] for one in result["rounds"])
    work = f"{result['clients']} clients, {result['texts']} texts per request, {result['workers']} workers"
    return f"{table(lines)}\n\nMedian of the ratios: {ratio:.2f}. {work}; {described(result)}"


def _requests(count: int, texts: int) -> list[Request]:
    """Generate requests of random words, the same in every process."""
    rng = random.Random(0)

    def sentence(length: int) -> str:
        return " ".join(rng.choices(WORDS, k=length))

    return [
        {"query": f"{sentence(_QUESTION)}?", "texts": [sentence(_SENTENCES) for _ in range(texts)]}
        for _ in range(count)
    ]


@contextmanager
def _server(model: str, workers: int) -> Iterator[tuple[int, int]]:
    """Serve a model in a new process; yield its port and process number."""
    command = ["serve", "--model", model, "--port", "0", "--workers", str(workers), "--max-requests", _NO_LIMIT]
    with subprocess.Popen([sys.executable, "-m", "cogltx", *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None, "a pipe was asked for"
        try:
            said = ""
            for said in process.stderr:
                if said.startswith("cogltx serves "):
                    break
            else:
                raise ModelError(f"the server did not start: {said.removeprefix('cogltx: ').strip()}")
            yield int(said.rstrip("/\n").rpartition(":")[2]), process.pid
        finally:
            process.terminate()
            process.stderr.read()


def _send(port: int, requests: list[Request], clients: int) -> tuple[float, list[float]]:
    """Send all requests; return the seconds in all, and those that each waited."""
    left = iter([json.dumps(one) for one in requests])  # each client takes the next one

    def client() -> list[float]:
        connection, waits = HTTPConnection("127.0.0.1", port, timeout=600), []
        for body in left:
            started = time.perf_counter()
            connection.request("POST", "/rerank", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise ModelError(f"the server answered {answer.status} {answer.reason}")
            waits.append(time.perf_counter() - started)
        connection.close()
        return waits

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as executor:
        waits = [wait for one in [executor.submit(client) for _ in range(clients)] for wait in one.result()]
    return time.perf_counter() - started, waits


def plain_passes(model: str, requests: int, texts: int, workers: int, part: int) -> dict[str, float]:
    """Pass one part of the pairs of all requests through the encoder of a model's judge, sorted by length, twice.

    Returns:
        `seconds` of the second time, tokenizing included.

    Raises:
        ConfigError: the judge has no encoder.
    """
    from cogltx.judges.encoder import EncoderJudge
    from cogltx.pipeline import CogLTX

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    loaded = CogLTX.from_pretrained(model).model
    if not isinstance(loaded.judge, EncoderJudge):
        raise ConfigError(f"--model {model}: its judge has no encoder to compare the server with")
    encoder, tokenizer = loaded.judge.encoder.model, loaded.tokenizer
    encoder = encoder.bfloat16() if loaded.runner.precision.bfloat16 else encoder
    pairs = [(one["query"], text) for one in _requests(requests, texts)[part::workers] for text in one["texts"]]
    pairs.sort(key=lambda pair: len(pair[1]))
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        with torch.inference_mode():
            for some in chunked(pairs, _BATCH):
                questions, texts_of = zip(*some, strict=True)
                inputs = tokenizer(list(questions), list(texts_of), padding=True, return_tensors="pt", verbose=False)
                encoder(**inputs.to(loaded.runner.precision.device))
        seconds = time.perf_counter() - started
    return {"seconds": seconds}


if __name__ == "__main__":
    try:
        print(json.dumps(plain_passes(**json.loads(sys.argv[1]))))
    except CogltxError as error:
        sys.exit(str(error))
