"""Predictions of a model for streams of examples, in files that an interrupted command resumes.

Until a file is complete, each batch of its predictions is a file in ``FILE.parts``. So the same command answers the
missing batches only, and the complete file has every example once and in order. All writes are atomic.
"""

import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from cogltx._files import (
    changed,
    check_settings,
    claimed,
    fingerprint,
    open_binary,
    read_json,
    read_lines,
    write_file,
    write_json,
)
from cogltx._folders import model_folder
from cogltx._progress import progress
from cogltx.baselines import WindowReader
from cogltx.cli._options import KeyBlocks, load_model
from cogltx.cli._parquet import check_installed, read_rows, write_rows
from cogltx.cli._yaml_config import parse_changes, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.pipeline import CogLTX, Reader, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.recall import Recall
from cogltx.tasks import Task, make_task
from cogltx.training._data import run_examples
from cogltx.training._run_folder import CONFIG_FILE
from cogltx.training._thresholds import tune
from cogltx.training._windows import gold_blocks
from cogltx.training.config import RunConfig

Pair = tuple[Example, Prediction]
OTHER_INPUT = "the prediction for example {!r} was made from another text or question; choose another file"
_PARTS_PER_FOLDER = 1000


class Predictor:
    """A trained model of any kind (a run, a folder or a name on the hub), with the options of a command.

    Args:
        key_blocks: the reasoner reads the blocks that MemRecall finds, or the gold blocks (an upper bound).

    Attributes:
        options: the arguments, from which a worker makes the same predictor.
        settings: what predictions depend on besides their texts.
    """

    def __init__(
        self,
        run: str | Path,
        changes: Sequence[str] = (),
        judge: str | None = None,
        device: str | None = None,
        key_blocks: KeyBlocks = "recall",
    ) -> None:
        self.run, folder, self._key_blocks = Path(run), model_folder(run), key_blocks
        self.options = {"run": run, "changes": changes, "judge": judge, "device": device}
        self.settings: dict[str, Any] = {"model": fingerprint(folder), "changes": list(changes), "judge": judge}
        self.reader = load_model(str(folder), changes, judge, device)

    def tune(self) -> None:
        """Tune thresholds, and options of the task, on the validation examples of the run; raises ConfigError."""
        run, reader = self.run, self.reader
        if not (run / CONFIG_FILE).is_file() or not isinstance(reader, WindowReader):
            raise ConfigError(f"--tune: {run}: not the folder of a run, whose validation examples it needs")
        config = validated(RunConfig, changed(read_json(run / CONFIG_FILE), parse_changes(self.settings["changes"])))
        _, validation, _ = run_examples(config)
        given = reader.config.reasoner
        reader.model.reasoner.config = given.without_thresholds()
        task = make_task(config.task.name, config.task.options)
        predicted = list(progress(reader.predict_many(validation), "tune", total=len(validation), unit="examples"))
        tune(reader, task, validation, predicted, read_json(run / "run.json")["main_metric"], given)
        self.settings["tuned"] = True

    def answer(
        self,
        task: Task,
        examples: Sequence[Example],
        *,
        title: str,
        written: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        subset: bool = False,
    ) -> list[Pair]:
        """Answer examples in order, with a progress bar under ``title``.

        With ``written``, the predictions are in a ``PredictionFile``, with these settings besides those of the model.
        """
        if written is None:
            answered = (self._answer(batch) for batch in batches_of_examples(examples))
            predictions = progress(chain.from_iterable(answered), title, total=len(examples), unit="examples")
            return list(zip(examples, predictions, strict=True))
        if written.exists() and not written.is_file():
            raise ConfigError(f"{written}: is not a file; name a file for the predictions")
        file = PredictionFile(written, self.settings | dict(settings or {}), subset)
        with file.claimed():
            parts = list(file.missing(examples))
            done = (example for part in self.write_all(parts, task) for example in part.examples)
            total = sum(len(part.examples) for part in parts)
            deque(progress(done, title, total=total, unit="examples"), maxlen=0)
            file.finish()
        return list(file.pairs(examples))

    def write_all(self, parts: Iterable["Part"], task: Task | None = None) -> Iterator["Part"]:
        """Answer parts and write their predictions; yields each part when it is written."""
        task = task or make_task("jsonl", {})
        for part in parts:
            pairs = zip(part.examples, self._answer(part.examples), strict=True)
            write_file(part.path, [to_line(task, *pair) for pair in pairs])
            yield part

    def seconds(self, examples: Sequence[Example]) -> dict[str, float]:
        """Measure the mean time of the first question about a document, and of a further one."""
        spent: dict[str, list[float]] = {"first": [], "further": []}
        for example, other in zip(examples, [*examples[1:], *examples[:1]], strict=True):
            document = replace(example.document)  # a copy, of which nothing is cached
            for kind, query in (("first", example.query), ("further", other.query)):
                start = time.perf_counter()
                self.reader.predict(document, query)
                spent[kind].append(time.perf_counter() - start)
        return {kind: fmean(values) for kind, values in spent.items()}

    def _answer(self, batch: Sequence[Example]) -> list[Prediction]:
        """Answer a batch at once; if that fails, one by one, to name the example that cannot be read."""
        try:
            is_gold = self._key_blocks == "gold"
            return _answer_from_gold(self.reader, batch) if is_gold else list(self.reader.predict_many(batch))
        except DataError as error:
            if len(batch) == 1:
                raise DataError(f"example {batch[0].id!r}: {error}") from error
            return [prediction for example in batch for prediction in self._answer([example])]


@dataclass(frozen=True)
class Part:
    """A batch of examples, and the file of their predictions."""

    path: Path
    examples: tuple[Example, ...]


class PredictionFile:
    """The predictions of a stream of examples: JSON Lines, or Parquet if the name ends in ``.parquet``; or a pipe.

    Args:
        settings: what the predictions depend on besides their texts; they are stored next to the file.
        subset: accept a complete file with predictions of more examples.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], subset: bool = False) -> None:
        if path.is_dir():
            raise ConfigError(f"{path}: is not a file; name a file for the predictions")
        if path.suffix == ".parquet":
            check_installed(path)
        self.path, self._settings, self._subset = path, dict(settings), subset
        self._is_pipe = path.exists() and not path.is_file()
        self._folder = Path(tempfile.mkdtemp()) if self._is_pipe else _beside(path, ".parts")
        self._n_parts: int | None = None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes from writing the file."""
        if self._is_complete:
            yield
            return
        with claimed(self._folder):
            try:
                yield
            finally:
                if self._folder.is_dir() and not any(self._folder.iterdir()):
                    self._folder.rmdir()

    def missing(self, examples: Iterable[Example]) -> Iterator[Part]:
        """Yield the batches without predictions; refuses a file of other settings, examples or texts."""
        self._check_settings()
        if self._is_complete:
            shutil.rmtree(self._folder, ignore_errors=True)  # of a call that was killed after the file was written
            deque(self.pairs(examples), maxlen=0)
            return
        number = 0
        for number, batch in enumerate(batches_of_examples(examples), start=1):
            part = Part(self._part(number), batch)
            if part.path.is_file():
                deque(_matched(part.path, batch), maxlen=0)
            else:
                yield part
        self._n_parts = number

    def finish(self) -> None:
        """Join the parts to the file, if all of them are written."""
        if self._is_complete or self._n_parts is None:
            return
        paths = [self._part(number) for number in range(1, self._n_parts + 1)]
        if not all(path.is_file() for path in paths):
            return
        lines = (f"{line}\n" for path in paths for line in read_lines(path))
        if self.path.suffix == ".parquet":
            write_rows(self._folder / self.path.name, map(json.loads, lines))
            (self._folder / self.path.name).replace(self.path)
        elif self._is_pipe:
            with self.path.open("w", encoding="utf-8") as pipe:
                pipe.writelines(lines)
        else:
            write_file(self.path, lines)
        shutil.rmtree(self._folder, ignore_errors=True)

    def pairs(self, examples: Iterable[Example]) -> Iterator[Pair]:
        """Yield the examples with their predictions, from the complete file."""
        return _matched(self.path, examples, self._subset)

    @property
    def n_written(self) -> int:
        """Number of predictions in the parts of a file that is not complete."""
        return sum(1 for part in self._folder.rglob("*.jsonl") for _ in read_lines(part))

    @property
    def _is_complete(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size > 0

    def _part(self, number: int) -> Path:
        return self._folder / f"{number // _PARTS_PER_FOLDER:06d}" / f"{number:09d}.jsonl"

    def _check_settings(self) -> None:
        """Store the settings of a new file; compare them if it was started."""
        stored = _beside(self.path, ".settings.json")
        if self._is_complete or self._part(1).parent.is_dir():
            if stored.is_file():
                check_settings(self.path, self._settings, read_json(stored), "another file")
        elif not self._is_pipe:
            write_json(stored, self._settings)


def to_line(task: Task, example: Example, prediction: Prediction) -> str:
    """A line of a file of predictions; the task adds its fields."""
    fields = {**prediction.to_dict(), **task.describe(example, prediction), "input": digest(example)}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def task_of(path: Path, default: Task) -> Task:
    """Return the task, with its tuned options, of the model that made a file of predictions, or the default."""
    stored = _beside(path, ".settings.json")
    task = read_json(stored).get("task", {}) if stored.exists() else {}
    return make_task(task["name"], task["options"]) if task.get("name") == default.name else default


def _beside(path: Path, suffix: str) -> Path:
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + suffix)


def digest(example: Example) -> str:
    """Fingerprint of what a prediction is made from."""
    return fingerprint([example.document, example.query])


def _matched(path: Path, examples: Iterable[Example], subset: bool = False) -> Iterator[Pair]:
    """Yield examples with their saved predictions; raises DataError if a file has others, or too few."""
    pending = iter(examples)
    example = next(pending, None)
    for number, (prediction, made_from) in enumerate(saved_predictions(path), start=1):
        if example is not None and example.id == prediction.id:
            if made_from != digest(example):
                raise DataError(f"{path}:{number}: {OTHER_INPUT.format(prediction.id)}")
            yield example, prediction
            example = next(pending, None)
        elif not subset:
            due = "the examples end here" if example is None else f"example {example.id!r} comes next"
            other = f"a prediction for example {prediction.id!r}, but {due}; choose another file"
            raise DataError(f"{path}:{number}: {other}")
    if example is not None:
        raise DataError(f"{path}: no prediction for example {example.id!r}; choose another file")


def saved_predictions(path: Path) -> Iterator[tuple[Prediction, object]]:
    """The predictions of a file, each with the digest of the text and question that it was made from."""
    for number, row in enumerate(_rows(path), start=1):
        try:
            fields = json.loads(row) if isinstance(row, bytes) else row
            yield Prediction.from_dict(fields), fields.get("input")
        except ValueError as error:
            start = row.decode(errors="replace") if isinstance(row, bytes) else str(row)
            raise DataError(f"{path}:{number}: not a prediction: {start.strip()[:60]!r}") from error


def _rows(path: Path) -> Iterator[bytes | dict[str, Any]]:
    """The lines of a file of JSON Lines, or the rows of a Parquet file."""
    if path.suffix == ".parquet":
        yield from (row for _, row in read_rows(path))
        return
    with open_binary(path) as file:
        yield from file


def _answer_from_gold(reader: Reader, batch: Sequence[Example]) -> list[Prediction]:
    """Answer from the relevant blocks in place of those that MemRecall finds; from the first if there are none."""
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"--blocks gold needs a CogLTX model; this one is the baseline {reader.config.reader}")
    recalls = []
    for example in batch:
        layout = reader.model.layout(example.document, example.query)
        labels = layout.blocks.relevance_labels(example)
        if labels is None:
            raise DataError("--blocks gold needs relevance labels, which this example does not have")
        chosen = tuple(sorted(gold_blocks(example, layout, labels))) or (0,)
        recalls.append(Recall(layout, chosen, (1.0,) * len(chosen), frozenset(chosen), (0,) * len(chosen)))
    return [replace(one, id=example.id) for example, one in zip(batch, reader.reason_over(recalls), strict=True)]
