"""``cogltx quickstart``: a generated corpus, three readers trained on it, their table, one answer step by step.

Puts together what other modules do: the corpus, the training and evaluation commands, the story of one recall.
Everything lies in one folder, in the files that a user's own runs have; an interrupted call goes on where it stopped.
Knows nothing about tokens, windows or optimisers.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from cogltx.bench.quickstart.corpus import generate
from cogltx.bench.quickstart.explain import tell
from cogltx.blocks import BUNDLED
from cogltx.cli.commands import train
from cogltx.cli.config import load_reader, load_run
from cogltx.cli.evaluation import evaluate
from cogltx.cli.inference import read_predictions
from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.storage import check_settings, read_object, write_json, write_text
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples


class QuickstartConfig(BaseModel):
    """The sizes of the quickstart.

    Attributes:
        encoder: what judge and reasoners start from.
        train: training documents of hardly more than the facts; they fit one window, so that reading is learned from
            all decoys.
        train_long: training documents with filler between the facts, from which the judge learns to search.
        validation: documents that choose the best epoch.
        held_out: documents that are measured; none of their names and answers is in the training documents.
        chains: pairs of facts in a document, all but one of them decoys; training documents have two of them or more.
        tokens: length of validation and held-out documents, whose two facts lie more than 512 tokens apart.
        train_tokens: length of the training documents with filler.
        train_gap: words, at least, between their two facts.
        capacity: tokens in a window.
        max_block_tokens: most tokens in a block.
        strides: of MemRecall.
        overlap: tokens that neighbouring windows of the sliding window share.
        broken: share of the training documents' decoys that keep only one of their two facts. With complete decoys
            alone, a model stays at chance for minutes before it begins to join two facts.
        filler: share of the facts beside which ``train`` documents have a sentence of filler, as in key blocks.
        epochs: of CogLTX.
        sliding_epochs: for which the sliding window goes on from CogLTX's reasoner, on windows of the documents with
            filler, so that it has seen more.
        judge_passes: of the judge in an epoch.
        batch_size: examples an optimiser step.
        learning_rate: of judge and reasoners.
        head_rate: of the reasoners' heads, as a multiple of that.
        relevance_weight: of the reasoners' second loss, which asks for the relevant tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: str = BUNDLED
    train: int = Field(3700, ge=1)
    train_long: int = Field(300, ge=1)
    validation: int = Field(16, ge=1)
    held_out: int = Field(100, ge=1)
    chains: int = Field(3, ge=2)
    broken: float = Field(0.5, ge=0, le=1)
    filler: float = Field(0.4, ge=0, le=1)
    tokens: int = 1200
    train_tokens: int = 450
    train_gap: int = 60
    capacity: int = 128
    max_block_tokens: int = 24
    strides: tuple[int, ...] = (3, 2)
    overlap: int = 32
    epochs: int = 1
    sliding_epochs: int = 1
    judge_passes: int = 1
    batch_size: int = 8
    learning_rate: float = 1.5e-4
    head_rate: float = 10.0
    relevance_weight: float = 5.0


@dataclass(frozen=True)
class Row:
    """One line of the table, in percent.

    Attributes:
        system: its name.
        exact_match: answers that are right.
        complete: documents with both facts among the key blocks; None for a system without key blocks.
    """

    system: str
    exact_match: float
    complete: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a quickstart came to.

    Attributes:
        rows: the table.
        story: one held-out answer, step by step.
        command: the next command, as it is printed.
        minutes: that this call took.
    """

    rows: tuple[Row, ...]
    story: str
    command: str
    minutes: float


def run(
    output: Path,
    *,
    seed: int = 0,
    config: QuickstartConfig = QuickstartConfig(),  # noqa: B008
    report: Callable[[str], None] = print,
) -> Outcome:
    """Runs the quickstart, or goes on with an interrupted one.

    Args:
        output: its folder.
        seed: of corpus and training.
        config: its sizes.
        report: takes one or several lines at a time.

    Raises:
        ConfigError: the folder holds a finished quickstart, one with another seed or other sizes, or other files.
    """
    started = time.monotonic()
    files = _Files(output)
    _claim(files, seed, config)
    report(
        f"1. A corpus in {output}: {config.train + config.train_long} training and {config.held_out} held-out documents"
    )
    _write_corpus(files, seed, config)
    _write_runs(files, seed, config)
    report("2. Training")
    for name in ("cogltx", "sliding-window"):
        report(f"{name}, by cogltx train {files.run_config(name)} --output {files.run(name)}")
        train(load_run(files.run_config(name)), files.run(name), resume=True, report=lambda line: report(f"  {line}"))
    report(f"3. {config.held_out} held-out documents, with names and answers that training never showed")
    rows = _measure(files)
    report(_table(rows))
    report("4. One of them, step by step")
    story, command = _story(files)
    report(story)
    report(f"5. The model is in {files.run('cogltx')}. Ask it:\n\n  {command}\n")
    minutes = (time.monotonic() - started) / 60
    report(f"{minutes:.1f} minutes; table and story are in {files.results}")
    write_text(files.results, f"{_table(rows)}\n{story}\n\n{command}\n")
    return Outcome(tuple(rows), story, command, minutes)


@dataclass(frozen=True)
class _Files:
    """Where everything lies."""

    output: Path

    @property
    def settings(self) -> Path:
        return self.output / "quickstart.json"

    @property
    def results(self) -> Path:
        return self.output / "results.txt"

    @property
    def document(self) -> Path:
        return self.output / "document.txt"

    def examples(self, split: str) -> Path:
        return self.output / f"{split}.jsonl"

    def run_config(self, name: str) -> Path:
        return self.output / f"{name}.yaml"

    def run(self, name: str) -> Path:
        return self.output / name

    def predictions(self, name: str) -> Path:
        return self.output / f"{name}.predictions.jsonl"


def _claim(files: _Files, seed: int, config: QuickstartConfig) -> None:
    """Notes seed and sizes in the folder, or checks that an interrupted quickstart there has the same."""
    settings = {"seed": seed, **config.model_dump(mode="json")}
    if files.results.exists():
        raise _taken(files, "a new folder", f"a finished quickstart (see {files.results})")
    if files.settings.exists():
        check_settings(files.output, settings, read_object(files.settings))
    elif files.output.exists() and any(files.output.iterdir()):
        raise _taken(files, "a new or empty folder", "one that holds other files")
    else:
        write_json(files.settings, settings)


def _taken(files: _Files, expected: str, got: object) -> ConfigError:
    return ConfigError(f"{files.output}: expected {expected}, got {got}; choose another folder with --output")


def _write_corpus(files: _Files, seed: int, config: QuickstartConfig) -> None:
    """Training and validation documents share names and answers; the held-out ones have their own."""
    easier = partial(generate, chains=(2, config.chains), broken=config.broken)
    few = partial(easier, tokens=None, filler=config.filler)
    filled = partial(easier, config.train_long, seed=4 * seed + 1, tokens=config.train_tokens, gap=config.train_gap)
    long = partial(generate, tokens=config.tokens, chains=config.chains)
    corpora = {
        "train": chain(few(config.train, seed=4 * seed, split="train"), filled(split="train")),
        "train-long": filled(split="train"),
        "validation": long(config.validation, seed=4 * seed + 2, split="train"),
        "test": long(config.held_out, seed=4 * seed + 3, split="test"),
    }
    for split, examples in corpora.items():
        if not files.examples(split).exists():
            write_examples(files.examples(split), examples)


def _write_runs(files: _Files, seed: int, config: QuickstartConfig) -> None:
    """The runs as YAML, so that ``cogltx train`` repeats them."""
    shared: dict[str, Any] = {
        "task": {"name": "jsonl"},
        "encoder": {"name": config.encoder, "hidden_dropout": 0.0},
        "max_block_tokens": config.max_block_tokens,
        "memrecall": {"capacity": config.capacity, "strides": list(config.strides)},
        "data": {"train": str(files.examples("train")), "validation": str(files.examples("validation"))},
        "training": {
            "epochs": config.epochs,
            "batch_size": config.batch_size,
            "judge_passes": config.judge_passes,
            "judge": {"learning_rate": config.learning_rate},
            "reasoner": {"learning_rate": config.learning_rate, "head_rate": config.head_rate},
            "seed": seed,
        },
    }
    reasoner = {"name": "span", "relevance_weight": config.relevance_weight}
    runs = {
        "cogltx": {"reader": "cogltx", **shared, "reasoner": {**reasoner, "init_from": "judge"}},
        "sliding-window": {
            "reader": "sliding_window",
            **shared,
            "data": {**shared["data"], "train": str(files.examples("train-long"))},
            "reasoner": {**reasoner, "init_from": str(files.run("cogltx"))},
            "overlap": config.overlap,
            "training": {**shared["training"], "epochs": config.sliding_epochs},
        },
    }
    for name, values in runs.items():
        comment = f"# Written by cogltx quickstart. Repeat it: cogltx train {files.run_config(name)} --output RUN\n"
        write_text(files.run_config(name), comment + yaml.safe_dump(values, sort_keys=False))


def _measure(files: _Files) -> list[Row]:
    """The table; truncation is the sliding window's model, given the first window alone."""
    systems: dict[str, tuple[str, Sequence[str]]] = {
        "CogLTX": ("cogltx", ()),
        "sliding window": ("sliding-window", ()),
        "truncation": ("sliding-window", ("reader=truncation",)),
    }
    rows = []
    for system, (name, changes) in systems.items():
        written = files.predictions(system.lower().replace(" ", "-"))
        found = evaluate(files.run(name), str(files.examples("test")), changes=changes, predictions=written).metrics
        complete = found["evidence_complete"] if name == "cogltx" else None
        rows.append(Row(system, found["exact_match"], complete))
    return rows


def _table(rows: Sequence[Row]) -> str:
    lines = ["", f"  {'':<16}{'exact match':>12}{'both facts in z':>18}"]
    for row in rows:
        complete = "-" if row.complete is None else f"{row.complete:.1f} %"
        lines.append(f"  {row.system:<16}{f'{row.exact_match:.1f} %':>12}{complete:>18}")
    return "\n".join([*lines, ""])


def _story(files: _Files) -> tuple[str, str]:
    """The story of one held-out answer, and the command that asks for it; writes its document."""
    reader = load_reader(files.run("cogltx"))
    assert isinstance(reader, CogLTX), "the quickstart's own run"
    examples = {example.id: example for example in make_task("jsonl", {}).read(files.examples("test"), split="test")}
    predictions = list(read_predictions(files.predictions("cogltx")))
    chosen = max(predictions, key=lambda prediction: _worth_telling(examples[prediction.id], prediction))
    example = examples[chosen.id]
    recall = reader.recall(example.document, example.query)
    write_text(files.document, example.document.text)
    run, document = shlex.quote(str(files.run("cogltx"))), shlex.quote(str(files.document))
    question = example.query.text if example.query else ""
    command = f'cogltx predict {run} --document {document} --question "{question}"'
    return f"\n{tell(example, recall, chosen, reader.model.form.capacity)}\n", command


def _worth_telling(example: Example, prediction: Prediction) -> tuple[bool, bool, float]:
    """A right answer; and one in a block that a later step of MemRecall brought; and a sure one."""
    start = prediction.start if prediction.start is not None else -1
    late = any(evidence.step > 1 and evidence.start <= start < evidence.end for evidence in prediction.evidence)
    return prediction.answer in (example.answers or ()), late, prediction.score
