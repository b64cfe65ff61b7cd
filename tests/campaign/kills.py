"""SIGKILL at random moments: the same command, run again, ends as if nothing had happened."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from random import Random
from shutil import rmtree
from threading import Thread

from forked import Command, content, run
from house import QUESTION, WORD

SERVE = "serve"
_KEPT = 20  # documents of the server
MOST = 6
"""Kills of one job before it may run to its end."""


@dataclass(frozen=True)
class Job:
    """A command that writes to {output}: how it starts, how it goes on, and which of its files must be equal."""

    name: str
    command: str
    resumed: str = ""
    equal: Callable[[str], bool] = lambda name: True
    comparable: Callable[[bytes], object] = lambda content: content

    def arguments(self, house: Path, output: Path, *, again: bool = False) -> list[str]:
        """Return the arguments of the command, as it starts or as it goes on."""
        words = self.command.format(house=house, output=output).split()
        return [*words, self.resumed] if again and self.resumed else words


def _weights(name: str) -> bool:
    """Seconds and names of folders differ in other files."""
    return name.endswith(".safetensors")


def _losses_and_weights(name: str) -> bool:
    return name == "log.jsonl" or _weights(name)


def _rounded(content: bytes) -> object:
    """Predictions, if they are some: scores depend in the last digits on what is read in the same batch."""

    def shorter(digits: str) -> float:
        return round(float(digits), 5)

    try:
        return [json.loads(line, parse_float=shorter) for line in content.splitlines()]
    except ValueError:
        return content


JOBS = (
    Job("train", "train {house}/train.yaml --output {output}", "--resume", _losses_and_weights),
    Job("mlm", "train {house}/mlm.yaml --output {output}", "--resume", _losses_and_weights),
    Job("predict", "predict {house}/model --input {house}/many.jsonl --output {output}", comparable=_rounded),
    Job("corpus", "predict {house}/model --input {house}/corpus --output {output}", comparable=_rounded),
    Job("index", f"ask {{house}}/document.txt {WORD} --model {{house}}/model --index {{output}}"),
    Job("interventions", "train {house}/interventions.yaml --output {output}", "--resume", _weights),
    Job("prepare", "prepare jsonl --source {house}/many.jsonl --output {output}.gz"),
    Job("export", "export {house}/model --int8 --output {output}", equal=_weights),
)


def campaign(house: Path, jobs: Sequence[str], count: int, seed: int, found: Callable[[str], None]) -> dict[str, int]:
    """Kill every job again and again; return the number of kills of each."""
    random, share = Random(seed), -(-count // len(jobs))
    kills = {job.name: _kill(job, house, share, random, found) for job in JOBS if job.name in jobs}
    return kills | ({SERVE: _kill_server(house, share, random, found)} if SERVE in jobs else {})


def _kill(job: Job, house: Path, count: int, random: Random, found: Callable[[str], None]) -> int:
    """Repeat a job with kills in between; compare each end with that of an undisturbed one."""
    outputs = house / "outputs"
    outputs.mkdir(exist_ok=True)
    undisturbed = run(*job.arguments(house, outputs / job.name))
    if undisturbed.code != 0:
        found(f"{job.name}: undisturbed: {undisturbed.err[-2000:]}")
        return 0
    expected = results(job, outputs / job.name)
    kills = repetitions = 0
    while kills < count:
        output = outputs / f"{job.name}-{repetitions}"
        repetitions += 1
        for attempt in range(MOST + 1):
            within = random.uniform(0, 1.1 * undisturbed.seconds) if attempt < MOST else 120
            ended = run(*job.arguments(house, output, again=attempt > 0), within=within)
            if ended.code != -9:
                break
            kills += 1
        where = f"{job.name}: repetition {repetitions - 1}, {attempt} kills"
        if ended.code != 0:
            found(f"{where}: exit code {ended.code}: {ended.err[-2000:]}")
        elif names := differing(expected, results(job, output)):
            found(f"{where}: differs in {', '.join(names)}")
        if left := [path.name for path in outputs.glob(".*")]:
            found(f"{where}: left behind {left}")
        for path in (*outputs.glob(f"{job.name}-*"), *outputs.glob(".*")):
            rmtree(path) if path.is_dir() else path.unlink()
    return kills


def results(job: Job, output: Path) -> dict[str, object]:
    """Return the files of a job that must be equal."""
    if not output.exists():
        output = output.with_name(f"{output.name}.gz")
    return {name: job.comparable(value) for name, value in content(output).items() if job.equal(name)}


def differing(expected: dict[str, object], results: dict[str, object]) -> list[str]:
    """Return the names of files that differ."""
    return sorted(name for name in expected.keys() | results.keys() if expected.get(name) != results.get(name))


def _kill_server(house: Path, count: int, random: Random, found: Callable[[str], None]) -> int:
    """Kill the server during uploads and questions; the next one has every document that was acknowledged."""
    text, kept, answers = (house / "document.txt").read_text(), dict[str, str](), set[str]()
    for number in range(count):
        server = Command(["serve", "--model", house / "model", "--port", 0, "--store", house / "store"])
        try:
            address = _address(server)
            for id, expected in kept.items():
                if _get(f"{address}/documents/{id}/text") != expected:
                    found(f"serve: start {number}: document {id} has another text")
            client = Thread(target=_use, args=(address, text, random.random(), kept, answers))
            client.start()
            time.sleep(random.uniform(0, 0.4))
        except (OSError, TimeoutError) as error:
            found(f"serve: start {number}: {error}: {server.said()[-2000:]}")
            client = Thread()
        server.kill()
        server.end(within=60)
        if client.ident is not None:
            client.join()
        if len(answers) > 1:
            found(f"serve: start {number}: several answers: {answers}")
    return count


def _use(address: str, text: str, seed: float, kept: dict[str, str], answers: set[str]) -> None:
    """Upload, ask and delete until the server is gone; ``kept`` gets what was acknowledged."""
    random = Random(seed)
    with suppress(OSError, HTTPException):
        while True:
            body = f"{text}\n{random.random()}"
            held = str(_post(f"{address}/documents", {"text": body, "name": "text"})["id"])
            kept[held] = body
            if random.random() < 0.5:
                answers.add(str(_post(f"{address}/answer", {"question": QUESTION, "documents": [held]})["answer"]))
            if len(kept) > _KEPT:
                id = random.choice(list(kept))
                del kept[id]
                urllib.request.urlopen(urllib.request.Request(f"{address}/documents/{id}", method="DELETE")).close()


def _address(server: Command) -> str:
    for _ in range(3000):
        if match := re.search(r"http://\S+?(?=/\s)", server.said()):
            return match[0]
        time.sleep(0.01)
    raise TimeoutError("no server after 30 s")


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as response:
        return str(response.read().decode())


def _post(address: str, values: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(address, json.dumps(values).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        result: dict[str, object] = json.load(response)
        return result
