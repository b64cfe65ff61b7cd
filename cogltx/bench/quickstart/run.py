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
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from statistics import fmean
from string import Template
from typing import NamedTuple

import numpy as np

from cogltx.baselines import load_reader
from cogltx.bench.quickstart.corpus import generate
from cogltx.bench.tables import table
from cogltx.blocks import BUNDLED
from cogltx.cli.options import note
from cogltx.cli.predictions import Predictor, read_predictions
from cogltx.cli.yaml_config import load_yaml
from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.files import check_settings, read_json, write_file, write_json
from cogltx.memrecall import Recall, Step
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples
from cogltx.training.config import RunConfig
from cogltx.training.run import train_run

_FOREIGN = "What is the capital of France?"
_PROGRESS_SECONDS = 20.0
_RUNNERS_UP = 2
_SYSTEMS: dict[str, tuple[str, tuple[str, ...], str | None]] = {  # run, changes of its configuration, judge
    "CogLTX": ("cogltx", (), None),
    "CogLTX, one step": ("cogltx", ("memrecall.strides=[5]",), None),
    "CogLTX, BM25 as judge": ("cogltx", (), "bm25"),
    "sliding window": ("sliding-window", (), None),
    "truncation": ("sliding-window", ("reader=truncation",), None),
}

_LEGEND = """\
right answers: exactly the expected words; of the questions that the document answers
both facts found: both are in the key blocks, the blocks that MemRecall chooses for the reasoner to read
no answer where none is: of the questions that the document does not answer"""


class _Sizes(NamedTuple):
    """Sizes of the quickstart; training documents have at least two pairs of facts."""

    encoder: str = BUNDLED
    train: int = 3700  # training documents of little more than the facts, in one window: the reasoner sees all decoys
    train_long: int = 300  # training documents with filler between the facts, from which the judge learns to search
    validation: int = 16  # documents that choose the best epoch and the threshold for "no answer"
    held_out: int = 100  # test documents whose question has an answer; names and answers are not in the training set
    held_out_unanswerable: int = 20  # test documents whose question has none
    unanswerable: float = 0.17  # share of the training and validation questions without an answer
    chains: int = 3  # pairs of facts per document, all but one of them decoys
    tokens: int = 1200  # of validation and test documents, whose two facts are more than 512 tokens apart
    train_tokens: int = 450  # of the training documents with filler


_SIZES = _Sizes()


def run(output: Path, *, seed: int = 0, config: _Sizes = _SIZES, report: Callable[[str], None] = print) -> str:
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
    rows = [
        ["", "right answers", "both facts found", "no answer where none is"],
        [f"guessing one of {config.chains} answers", f"{100 / config.chains:.1f} %", "–", "–"],
        *(_measure(output, system, examples) for system in _SYSTEMS),
    ]
    results = f"{table(rows)}\n\n{_LEGEND}"
    report(f"\n{results}\n")
    report("4. One answer, step by step")
    explanation = _explain(output, examples)
    report(f"\n{explanation}\n")
    report(f"{(time.monotonic() - started) / 60:.1f} minutes; table and explanation are in {output / 'results.txt'}")
    text = f"{results}\n\n{explanation}\n"
    write_file(output / "results.txt", text)
    return text


def _check_folder(output: Path, seed: int, config: _Sizes) -> None:
    """Write seed and sizes to a new folder, or check that the interrupted quickstart in it has the same."""
    noted, results = output / "quickstart.json", output / "results.txt"
    settings = {"seed": seed, **config._asdict()}
    if results.exists():
        raise ConfigError(f"{output}: this quickstart is finished (see {results}); choose another folder with --output")
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    elif output.exists() and any(output.iterdir()):
        raise ConfigError(f"{output}: the folder holds other files; choose another folder with --output")
    else:
        write_json(noted, settings)


def _write_corpus(output: Path, seed: int, config: _Sizes) -> None:
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


def _measure(output: Path, system: str, examples: Sequence[Example]) -> list[str]:
    """Evaluate a system and return its row; truncation is the sliding window's model with the first window only."""
    name, changes, judge = _SYSTEMS[system]
    path = _predictions(output, system)
    task = make_task("jsonl", {})
    with _progress(system, path, len(examples), "answers"):
        pairs = Predictor(output / name, changes, judge).answer(task, examples, title="evaluate", written=path)
        scores = [(bool(example.answers), task.per_example(example, prediction)) for example, prediction in pairs]

    def share(metric: str, answerable: bool) -> str:
        return f"{100 * fmean(score[metric] for has_answer, score in scores if has_answer is answerable):.1f} %"

    both_found = share("evidence_complete", True) if name == "cogltx" else "–"
    return [system, share("exact_match", True), both_found, share("exact_match", False)]


def _predictions(output: Path, system: str) -> Path:
    return output / f"{system.lower().replace(',', '').replace(' ', '-')}.predictions.jsonl"


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
    return f"""{_explanation(example, recall, chosen, reader.model.form.capacity)}

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


def _explanation(example: Example, recall: Recall, prediction: Prediction, capacity: int) -> str:
    """Explain a reader's answer by the trace of MemRecall's steps; `*` marks the blocks that hold a gold fact."""
    labels = recall.blocks.relevance_labels(example)
    gold = frozenset[int]() if labels is None else frozenset(np.flatnonzero(labels).tolist())
    question = example.query.text if example.query else "(none)"
    lines = [
        f"question  {question}",
        f"document  {recall.blocks.n_tokens:,} tokens in {len(recall.blocks)} blocks; a window holds {capacity} tokens",
        "          * marks a gold fact",
    ]
    kept: Sequence[int] = ()
    for number, step in enumerate(recall.trace, start=1):
        lines += ["", *_step_lines(recall, gold, number, step, kept)]
        kept = step.kept
    if not recall.trace:
        lines += ["", "The document fits one window and is read whole."]
    return "\n".join([*lines, "", *_answer_lines(example, recall, gold, prediction)])


def _step_lines(
    recall: Recall, gold: frozenset[int], number: int, step: Step, kept_before: Sequence[int]
) -> Iterator[str]:
    last = number == len(recall.trace)
    beside = f"the question and the {_n_blocks(len(kept_before))} kept so far" if kept_before else "the question alone"

    def line(score: float, block: int) -> str:
        return f"    {score:5.3f} {'*' if block in gold else ' '} [{block}] {_text(recall, block)}"

    lost = [block for block in range(len(step.coarse)) if block not in step.fine]
    lost.sort(key=lambda block: -step.coarse[block])
    yield f"Step {number}: the judge scores all blocks, each next to {beside}."
    yield f"  retrieved: the best coarse scores, until the window is full ({len(step.retrieved)})"
    yield from (line(float(step.coarse[block]), block) for block in step.retrieved)
    yield "  not retrieved: the next best"
    yield from (line(float(step.coarse[block]), block) for block in lost[:_RUNNERS_UP])
    yield f"  kept {'' if last else 'for the next step '}after rehearsal: the best fine scores ({len(step.kept)})"
    yield from (line(step.fine[block], block) for block in step.kept)
    fate = "these only fill the rest of the window" if last else "these leave the window"
    yield f"  decayed: {fate} ({len(step.decayed)})"
    yield from (line(step.fine[block], block) for block in step.decayed)


def _answer_lines(example: Example, recall: Recall, gold: frozenset[int], prediction: Prediction) -> Iterator[str]:
    for block in sorted(gold - set(recall.key_blocks)):
        yield f"Missed: a gold fact that is not in the window: [{block}] {_text(recall, block)}"
    answer = prediction.answer or "(no answer)"
    yield f"The reasoner reads these {_n_blocks(len(recall.key_blocks))}: {answer!r} ({prediction.score:.0%})"
    if prediction.start is not None and prediction.end is not None:
        block = recall.blocks.overlapping(prediction.start, prediction.end)[0]
        yield f"  characters {prediction.start:,}-{prediction.end:,} of the document, in block [{block}]"
    if example.answers:
        right = prediction.answer.lower() in {answer.lower() for answer in example.answers}
        yield f"  gold answer: {example.answers[0]!r}, so this is {'right' if right else 'wrong'}"


def _text(recall: Recall, block: int) -> str:
    return " ".join(recall.blocks.text(block).split())


def _n_blocks(count: int) -> str:
    return f"{count} block" if count == 1 else f"{count} blocks"
