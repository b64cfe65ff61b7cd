"""Answers to a stream of examples, optionally written to a JSON Lines file that an interrupted call resumes."""

import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from cogltx.baselines import load_reader
from cogltx.cli.yaml_config import parse_changes
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import check_settings, fingerprint, read_json, write_json
from cogltx.memrecall import Recall
from cogltx.pipeline import CogLTX, Reader, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.tasks import Task
from cogltx.training.sampling import gold_blocks

Pair = tuple[Example, Prediction]
KeyBlocks = Literal["recall", "gold"]
_LINE_START = b'{"id": '  # of a prediction


def load_model(run: str | Path, changes: Sequence[str], judge: str | None = None, device: str | None = None) -> Reader:
    """Load a trained model of any kind.

    Args:
        run: a run, a model folder, or a name on the Hugging Face hub.
        changes: ``KEY=VALUE`` settings to replace.
        judge: replaces the judge of the model.
        device: where it runs.

    Raises:
        ConfigError: a change is invalid, or a baseline is given a judge.
        ModelError: there is no such model.
    """
    reader = load_reader(run, changes=parse_changes(changes), judge=judge, device=device)
    if judge and not reader.uses_judge:
        raise ConfigError(f"--judge: the baseline {reader.config.reader} does not use a judge")
    return reader


def answer(
    reader: Reader,
    task: Task,
    examples: Iterable[Example],
    *,
    title: str,
    total: int | None = None,
    key_blocks: KeyBlocks = "recall",
    written: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    subset: bool = False,
) -> Iterator[Pair]:
    """Answer examples in order, with a progress bar on a terminal.

    Args:
        reader: the model.
        task: adds its fields to the written lines.
        examples: read lazily.
        title: of the progress bar.
        total: number of examples, if known.
        key_blocks: what the reasoner reads: the blocks that MemRecall finds, or the gold blocks (an upper bound).
        written: a JSON Lines file of predictions. Predictions that it already has are reused; new ones are appended.
        settings: model and options, stored next to a new file and compared when an existing file is resumed.
        subset: accept a file with predictions of more examples, if it has all of these.

    Raises:
        ConfigError: the file was started with other settings.
        DataError: the file has predictions of other examples or texts, or is something else; it is not changed. Or an
            example cannot be read; the predictions before it are kept.
    """
    pairs = _answer(reader, task, examples, key_blocks, written, settings or {}, subset)
    quiet = True if total == 1 else None
    yield from tqdm(pairs, desc=title, total=total, unit=" examples", disable=quiet, leave=False)


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Read predictions from a JSON Lines file.

    Raises:
        DataError: the file cannot be read, or a line is not a prediction.
    """
    for number, line in enumerate(_lines(path), start=1):
        yield _parse(path, number, line)[0]


def _answer(
    reader: Reader,
    task: Task,
    examples: Iterable[Example],
    key_blocks: KeyBlocks,
    written: Path | None,
    settings: Mapping[str, Any],
    subset: bool,
) -> Iterator[Pair]:
    pending = iter(examples)
    if written is not None:
        _check_settings(written, settings)
        pending = yield from _resume(written, pending, subset)
    for batch in batches_of_examples(pending):
        for pairs in _answer_batch(reader, batch, key_blocks):
            if written is not None:
                _append(written, task, pairs)
            yield from pairs


def _resume(path: Path, examples: Iterator[Example], subset: bool) -> Generator[Pair, None, Iterator[Example]]:
    """Yield the examples whose predictions the file has, and return an iterator over the others."""
    example, other = next(examples, None), None
    for number, (prediction, input_digest) in enumerate(_saved(path), start=1):
        if example is not None and example.id == prediction.id:
            if input_digest != _input_digest(example):
                raise DataError(
                    f"{path}:{number}: the prediction for example {prediction.id!r} was made from another text or "
                    "question; choose another file"
                )
            yield example, prediction
            example = next(examples, None)
        else:
            due = "the examples end here" if example is None else f"example {example.id!r} comes next"
            other = other or f"{path}:{number}: a prediction for example {prediction.id!r}, but {due}"
            if not subset:
                raise DataError(f"{other}; choose another file")
    if example is not None and other:
        raise DataError(f"{other}; choose another file")
    return chain(() if example is None else (example,), examples)


def _answer_batch(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> Iterator[list[Pair]]:
    """Answer a batch at once; if an example cannot be read, one by one up to that example."""
    try:
        yield list(zip(batch, _predict(reader, batch, key_blocks), strict=True))
        return
    except DataError as error:
        if len(batch) == 1:
            raise DataError(f"example {batch[0].id!r}: {error}") from error
    for example in batch:
        yield from _answer_batch(reader, [example], key_blocks)


def _predict(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> list[Prediction]:
    if key_blocks == "recall":
        return list(reader.predict_many(batch))
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"--blocks gold needs a CogLTX model; this one is the baseline {reader.config.reader}")
    predictions = reader.reason_over([_gold_recall(reader, example) for example in batch])
    return [replace(prediction, id=example.id) for example, prediction in zip(batch, predictions, strict=True)]


def _gold_recall(reader: CogLTX, example: Example) -> Recall:
    """The relevant blocks in place of those that MemRecall finds; the first block if there are none."""
    layout = reader.model.layout(example.document, example.query)
    labels = layout.blocks.relevance_labels(example)
    if labels is None:
        raise DataError("--blocks gold needs relevance labels, which this example does not have")
    chosen = tuple(sorted(gold_blocks(example, layout, labels))) or (0,)
    return Recall(layout, chosen, (1.0,) * len(chosen), frozenset(chosen), (0,) * len(chosen))


def _input_digest(example: Example) -> str:
    return fingerprint([example.document, example.query])


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Store the settings next to a new file; compare them if the file exists."""
    stored = path.parent / f"{path.name}.settings.json"
    if not path.exists():
        write_json(stored, settings)
    elif path.is_file() and stored.exists():
        check_settings(path, settings, read_json(stored), "another file")


def _append(path: Path, task: Task, pairs: Sequence[Pair]) -> None:
    records = [
        {**prediction.to_dict(), **task.describe(example, prediction), "input": _input_digest(example)}
        for example, prediction in pairs
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    except OSError as error:
        raise DataError(f"{path}: cannot write predictions: {error.strerror}; earlier ones are kept") from error


def _saved(path: Path) -> Iterator[tuple[Prediction, object]]:
    """The predictions of a file. An unfinished last line, left by an interrupted call, is removed."""
    if not path.exists() or path.is_fifo() or path.is_char_device():
        return
    end = 0
    for number, line in enumerate(_lines(path), start=1):
        if not line.endswith(b"\n"):
            if not _is_cut_off(line):
                _parse(path, number, line)
            os.truncate(path, end)
            return
        yield _parse(path, number, line)
        end += len(line)


def _is_cut_off(line: bytes) -> bool:
    """Check whether a line is the start of a prediction, but not a whole JSON value."""
    try:
        json.loads(line)
    except ValueError:
        return _LINE_START.startswith(line[: len(_LINE_START)])
    return False


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise DataError(f"{path}: cannot read predictions: {error.strerror}") from error


def _parse(path: Path, number: int, line: bytes) -> tuple[Prediction, object]:
    """A prediction and the digest of the text and question that it was made from."""
    try:
        fields = json.loads(line)
        return Prediction.from_dict(fields), fields.get("input")
    except ValueError as error:
        start = line.decode(errors="replace").strip()[:60]
        raise DataError(f"{path}:{number}: not a prediction: {start!r}") from error
