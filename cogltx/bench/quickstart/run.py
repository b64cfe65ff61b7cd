"""`cogltx quickstart`: generate a corpus, train two readers on it, print a table and explain one answer.

Uses the training and evaluation commands; everything is in one folder, in the files that a user's own runs have. Run it
again to resume it.
"""

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from statistics import fmean
from string import Template

from pydantic import BaseModel, ConfigDict

from cogltx.baselines import load_reader
from cogltx.bench.quickstart.corpus import generate
from cogltx.bench.quickstart.explain import explain
from cogltx.bench.tables import table
from cogltx.blocks import BUNDLED
from cogltx.cli.options import note
from cogltx.cli.predictions import Predictor, read_predictions
from cogltx.cli.yaml_config import load_yaml
from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.files import check_settings, read_json, write_file, write_json
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples
from cogltx.training.config import RunConfig
from cogltx.training.run import train_run

_FOREIGN = "What is the capital of France?"
_PROGRESS_SECONDS = 20.0
_SYSTEMS: dict[str, tuple[str, tuple[str, ...], str | None]] = {  # run, changes of its configuration, judge
    "CogLTX": ("cogltx", (), None),
    "CogLTX, one step": ("cogltx", ("memrecall.strides=[5]",), None),
    "CogLTX, BM25 as judge": ("cogltx", (), "bm25"),
    "sliding window": ("sliding-window", (), None),
    "truncation": ("sliding-window", ("reader=truncation",), None),
}


class QuickstartConfig(BaseModel):
    """Sizes of the quickstart.

    Attributes:
        encoder: initial weights of judge and reasoners.
        train: training documents of little more than the facts; they fit one window, so the reasoner sees all decoys.
        train_long: training documents with filler between the facts, from which the judge learns to search.
        validation: documents that choose the best epoch and the threshold for "no answer".
        held_out: test documents whose question has an answer; none of their names and answers is in the training set.
        held_out_unanswerable: test documents whose question has none.
        unanswerable: share of the training and validation questions without an answer.
        chains: pairs of facts per document, all but one of them decoys; training documents have at least two.
        tokens: length of validation and test documents, whose two facts are more than 512 tokens apart.
        train_tokens: length of the training documents with filler.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: str = BUNDLED
    train: int = 3700
    train_long: int = 300
    validation: int = 16
    held_out: int = 100
    held_out_unanswerable: int = 20
    unanswerable: float = 0.17
    chains: int = 3
    tokens: int = 1200
    train_tokens: int = 450


@dataclass(frozen=True)
class _Row:
    """One line of the table, in percent; None where a system has no such figure."""

    system: str
    right: float
    complete: float | None = None
    refused: float | None = None


def run(
    output: Path,
    *,
    seed: int = 0,
    config: QuickstartConfig = QuickstartConfig(),  # noqa: B008
    report: Callable[[str], None] = print,
) -> str:
    """Run the quickstart, or resume it, and return the text of `results.txt`: table, explanation and commands.

    Raises:
        ConfigError: the folder holds a finished quickstart, one with another seed or other sizes, or other files.
    """
    started = time.monotonic()
    _check_folder(output, seed, config)
    n_train, n_test = config.train + config.train_long, config.held_out + config.held_out_unanswerable
    report(f"1. Corpus in {output}: {n_train:,} training and {n_test:,} test documents")
    _write_corpus(output, seed, config)
    report("2. Training")
    for name in ("cogltx", "sliding-window"):
        path, folder = output / f"{name}.yaml", output / name
        paths = {key: output / f"{key.replace('_', '-')}.jsonl" for key in ("train", "train_long", "validation")}
        values = {"encoder": config.encoder, "cogltx": output / "cogltx", **paths}
        template = Template(files(__package__).joinpath(path.name).read_text(encoding="utf-8"))
        write_file(path, template.substitute({key: json.dumps(str(each)) for key, each in values.items()}, seed=seed))
        report(f"{name}, by cogltx train {path} --output {folder}")
        settings = load_yaml(RunConfig, path)
        n_examples = n_train if name == "cogltx" else config.train_long
        steps = -(-n_examples // settings.training.batch_size) * (2 if name == "cogltx" else 1)  # judge and reasoner
        with _progress(name, folder / "log.jsonl", steps, "steps"):
            train_run(settings, folder, resume=True, report=lambda line: report(f"  {line}"))
    report(f"3. {n_test:,} test documents of {config.tokens:,} tokens, with names and answers that are not in training")
    examples = list(make_task("jsonl", {}).read(output / "test.jsonl", split="test"))
    chance = _Row(f"guessing one of {config.chains} answers", 100 / config.chains)
    results = _table([chance, *(_measure(output, system, examples) for system in _SYSTEMS)])
    report(f"\n{results}\n")
    report("4. One answer, step by step")
    explanation = _explain(output, examples)
    report(f"\n{explanation}\n")
    report(f"{(time.monotonic() - started) / 60:.1f} minutes; table and explanation are in {output / 'results.txt'}")
    text = f"{results}\n\n{explanation}\n"
    write_file(output / "results.txt", text)
    return text


def _check_folder(output: Path, seed: int, config: QuickstartConfig) -> None:
    """Write seed and sizes to a new folder, or check that the interrupted quickstart in it has the same."""
    noted, results = output / "quickstart.json", output / "results.txt"
    settings = {"seed": seed, **config.model_dump(mode="json")}
    if results.exists():
        raise ConfigError(f"{output}: this quickstart is finished (see {results}); choose another folder with --output")
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    elif output.exists() and any(output.iterdir()):
        raise ConfigError(f"{output}: the folder holds other files; choose another folder with --output")
    else:
        write_json(noted, settings)


def _write_corpus(output: Path, seed: int, config: QuickstartConfig) -> None:
    """Write the splits; training and validation share names and answers, the test split has others.

    Half of the training documents' decoys keep only one of their two facts. With complete decoys only, a model stays
    at chance for minutes before it learns to join two facts. Some facts have a filler sentence next to them, as in key
    blocks.
    """
    first, share = 5 * seed, config.unanswerable
    easier = partial(generate, split="train", chains=(2, config.chains), broken=0.5, unanswerable=share)
    few = partial(easier, config.train, seed=first, tokens=None, filler=0.4)
    filled = partial(easier, config.train_long, seed=first + 1, tokens=config.train_tokens, gap=60)
    long = partial(generate, tokens=config.tokens, chains=config.chains)
    corpora = {
        "train": chain(few(), filled()),
        "train-long": filled(),
        "validation": long(config.validation, seed=first + 2, split="train", unanswerable=share),
        "test": chain(
            long(config.held_out, seed=first + 3, split="test"),
            long(config.held_out_unanswerable, seed=first + 4, split="test", unanswerable=1.0),
        ),
    }
    for name, examples in corpora.items():
        if not (output / f"{name}.jsonl").exists():
            write_examples(output / f"{name}.jsonl", examples)


@contextmanager
def _progress(name: str, path: Path, total: int, unit: str) -> Iterator[None]:
    """Print the number of lines of a growing file to standard error at intervals, if no progress bar is visible."""
    started, finished = time.monotonic(), threading.Event()

    def watch() -> None:
        while not finished.wait(_PROGRESS_SECONDS):
            count = path.read_bytes().count(b"\n") if path.exists() else 0
            note(f"  {name}: {count:,} of {total:,} {unit}, {(time.monotonic() - started) / 60:.1f} minutes")

    if not sys.stderr.isatty():
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        finished.set()


def _measure(output: Path, system: str, examples: Sequence[Example]) -> _Row:
    """Evaluate a system; truncation is the sliding window's model with the first window only."""
    name, changes, judge = _SYSTEMS[system]
    path = _predictions(output, system)
    task = make_task("jsonl", {})
    with _progress(system, path, len(examples), "answers"):
        pairs = Predictor(output / name, changes, judge).answer(task, examples, title="evaluate", written=path)
        scores = [task.per_example(example, prediction) for example, prediction in pairs]
    answerable = [score for example, score in zip(examples, scores, strict=True) if example.answers]
    others = [score for example, score in zip(examples, scores, strict=True) if not example.answers]
    return _Row(
        system,
        right=100 * fmean(score["exact_match"] for score in answerable),
        complete=100 * fmean(score["evidence_complete"] for score in answerable) if name == "cogltx" else None,
        refused=100 * fmean(score["exact_match"] for score in others),
    )


def _predictions(output: Path, system: str) -> Path:
    return output / f"{system.lower().replace(',', '').replace(' ', '-')}.predictions.jsonl"


def _table(rows: Sequence[_Row]) -> str:
    lines = [["", "right answers", "both facts found", "no answer where none is"]]
    for row in rows:
        shares = (row.right, row.complete, row.refused)
        lines.append([row.system, *("–" if share is None else f"{share:.1f} %" for share in shares)])
    return f"""{table(lines)}

right answers: exactly the expected words; of the questions that the document answers
both facts found: both are in the key blocks, the blocks that MemRecall chooses for the reasoner to read
no answer where none is: of the questions that the document does not answer"""


def _explain(output: Path, examples: Sequence[Example]) -> str:
    """Explain one test answer, and print commands that ask the model; writes the document that they name."""
    reader = load_reader(output / "cogltx")
    assert isinstance(reader, CogLTX), "the quickstart's own run"
    by_id = {example.id: example for example in examples}
    predictions = list(read_predictions(_predictions(output, "CogLTX")))
    chosen = max(predictions, key=lambda prediction: _instructive(by_id[prediction.id], prediction))
    example = by_id[chosen.id]
    recall = reader.recall(example.document, example.query)
    document = output / "document.txt"
    write_file(document, example.document.text)
    foreign = reader.predict(example.document, _FOREIGN)
    ask = f"cogltx predict {shlex.quote(str(output / 'cogltx'))} --document {shlex.quote(str(document))} --question"
    question = example.query.text if example.query else ""
    return f"""{explain(example, recall, chosen, reader.model.form.capacity)}

5. Ask the model

  {ask} "{question}"
  {ask} "{_FOREIGN}"

The model knows only this generated world: where its people live, their work, favourite animals and languages.
Its answer to the second question is {foreign.answer or "(no answer)"!r}. To read other texts, train it on them:
configs/README.md."""


def _instructive(example: Example, prediction: Prediction) -> tuple[bool, bool, float]:
    """Prefer a right answer, then one in a block that a later step of MemRecall found, then a probable one."""
    start = prediction.start if prediction.start is not None else -1
    late = any(evidence.step > 1 and evidence.start <= start < evidence.end for evidence in prediction.evidence)
    return prediction.answer in (example.answers or ()), late, prediction.score
