"""`cogltx bench serve`: clients that rerank at the same time, beside plain passes of the encoder over the same pairs.

The passes run in one process per worker of the server, and share the cores in the same way. Run as a module, this is
one of these processes.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeAlias

import torch
from more_itertools import chunked

from cogltx.bench._origin import described, origin
from cogltx.bench._process import call
from cogltx.bench._reading import WORDS
from cogltx.bench._tables import table
from cogltx.errors import CogltxError, ConfigError, ModelError
from cogltx.formats._limits import high_water_mark

Request: TypeAlias = dict[str, Any]
_QUESTION, _SENTENCES = 8, 25  # words of a question; of each text
_BATCH = 32  # pairs of a plain pass
_NO_LIMIT = "1000000"  # requests per minute
_POLL_SECONDS, _MOST_SECONDS = 0.1, 600.0


def measure(
    model: str, *, clients: int = 64, requests: int = 256, texts: int = 10, rounds: int = 3, workers: int = 2,
    report: Callable[[str], None] = print,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Start a server, and measure it and plain passes in turn.

    Each client sends its next request when the last is answered; a request has a question and `texts` sentences.
    A model with a shortlist scores no more texts than that, a plain pass all of them.

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
    with _server(model, workers, clients) as (port, process):
        _send(port, made, clients)  # warms up
        for number in range(rounds):
            with ThreadPoolExecutor(workers) as executor:
                parts = [settings | {"part": part} for part in range(workers)]
                passes = list(executor.map(lambda one: call(__spec__.name, one, "plain passes"), parts))
            if any("beyond" in one for one in passes):
                raise ModelError("plain passes: not enough memory")
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
def _server(model: str, workers: int, clients: int) -> Iterator[tuple[int, int]]:
    """Serve a model in a new process; yield its port and process number."""
    command = [sys.executable, "-m", "cogltx", "serve", "--model", model, "--port", "0", "--workers", str(workers)]
    command += ["--max-requests", _NO_LIMIT, "--queue-size", str(2 * clients)]  # one client may have half of the queue
    environment = {name: value for name, value in os.environ.items() if name != "COGLTX_API_KEY"}
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")  # opened anew to read: a shared file would move the place where the server writes
        with said.open("w") as file, subprocess.Popen(command, stderr=file, env=environment) as process:
            try:
                yield _port(process, said), process.pid
            finally:
                process.terminate()


def _port(process: subprocess.Popen[bytes], said: Path) -> int:
    """Wait until a server has said where it listens."""
    while True:
        ended = process.poll() is not None
        lines = said.read_text(encoding="utf-8").splitlines()
        if address := next((line for line in lines if line.startswith("cogltx serves ")), None):
            return int(address.rstrip("/").rpartition(":")[2])
        if ended:
            last = lines[-1] if lines else "no message"
            raise ModelError(f"the server did not start: {last.removeprefix('cogltx: ')}")
        time.sleep(_POLL_SECONDS)


def _send(port: int, requests: list[Request], clients: int) -> tuple[float, list[float]]:
    """Send all requests; return the seconds in all, and those that each waited."""
    left = iter([json.dumps(one) for one in requests])  # each client takes the next one

    def client() -> list[float]:
        waits = list[float]()
        with closing(HTTPConnection("127.0.0.1", port, timeout=_MOST_SECONDS)) as connection:
            for body in left:
                started = time.perf_counter()
                connection.request("POST", "/rerank", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status != HTTPStatus.OK:
                    raise ModelError(f"the server answered {answer.status} {answer.reason}")
                waits.append(time.perf_counter() - started)
        return waits

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as executor:
        running = [executor.submit(client) for _ in range(clients)]
        try:
            waits = [wait for one in as_completed(running) for wait in one.result()]
        except (OSError, HTTPException) as error:
            raise ModelError(f"the server did not answer: {error}") from None
        finally:
            list(left)  # after an error, the other clients end
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

    torch.set_num_threads(max(1, torch.get_num_threads() // workers))
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
                encoder(**inputs.to(loaded.runner.precision.device)).last_hidden_state.cpu()
        seconds = time.perf_counter() - started
    return {"seconds": seconds}


if __name__ == "__main__":
    try:
        print(json.dumps(plain_passes(**json.loads(sys.argv[1]))))
    except CogltxError as error:
        sys.exit(str(error))
