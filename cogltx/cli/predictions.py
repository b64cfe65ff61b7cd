"""Answers to a stream of examples, optionally written to a JSON Lines file that an interrupted call resumes."""

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from cogltx.baselines import WindowReader, load_reader
from cogltx.cli.options import KeyBlocks
from cogltx.cli.yaml_config import parse_changes, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import changed, check_settings, claimed, fingerprint, read_json, write_file, write_json
from cogltx.folders import model_folder
from cogltx.pipeline import CogLTX, Reader, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.progress import progress
from cogltx.recall import Recall
from cogltx.tasks import Task, make_task
from cogltx.training.config import RunConfig
from cogltx.training.data import run_examples
from cogltx.training.run import CONFIG_FILE
from cogltx.training.trainer import tune
from cogltx.training.windows import gold_blocks

Pair = tuple[Example, Prediction]
_LINE_START = b'{"id": '  # of a prediction


class Predictor:
    """A trained model of any kind (a run, a folder or a name on the hub), with the options of a command.

    Attributes:
        options: the arguments, from which a worker makes the same predictor.
        settings: what predictions depend on besides their texts.

    Raises:
        ConfigError: a change is invalid, or a baseline is given a judge.
        ModelError: there is no such model.
    """

    def __init__(
        self, run: str | Path, changes: Sequence[str] = (), judge: str | None = None, device: str | None = None
    ) -> None:
        self.run, folder = Path(run), model_folder(run)
        self.options = {"run": run, "changes": changes, "judge": judge, "device": device}
        self.settings: dict[str, Any] = {"model": fingerprint(folder), "changes": list(changes), "judge": judge}
        self.reader = load_reader(folder, changes=parse_changes(changes), judge=judge, device=device)
        if judge and not self.reader.uses_judge:
            raise ConfigError(f"--judge: the baseline {self.reader.config.reader} does not use a judge")

    def tune(self) -> None:
        """Choose thresholds, and options of the task, anew on the validation examples of the run.

        Raises:
            ConfigError: the model is no run, or one of words.
        """
        run, reader = self.run, self.reader
        if not (run / CONFIG_FILE).is_file() or not isinstance(reader, WindowReader):
            raise ConfigError(f"--tune: {run}: not the folder of a run, whose validation examples it needs")
        config = validated(RunConfig, changed(read_json(run / CONFIG_FILE), parse_changes(self.settings["changes"])))
        _, validation, _ = run_examples(config)
        reader.model.reasoner.config = reader.config.reasoner.without_thresholds()
        task = make_task(config.task.name, config.task.options)
        predicted = list(progress(reader.predict_many(validation), "tune", total=len(validation), unit="examples"))
        tune(reader, task, validation, predicted, read_json(run / "run.json")["main_metric"])
        self.settings["tuned"] = True

    def answer_all(self, examples: Iterable[Example], key_blocks: KeyBlocks = "recall") -> Iterator[list[Pair]]:
        """Answer examples in order, a batch at a time; raises DataError that names one that cannot be read."""
        for batch in batches_of_examples(examples):
            yield from _answer_batch(self.reader, batch, key_blocks)

    def answer(
        self,
        task: Task,
        examples: Iterable[Example],
        *,
        title: str,
        written: Path | None = None,
        key_blocks: KeyBlocks = "recall",
        settings: Mapping[str, Any] | None = None,
        subset: bool = False,
    ) -> Iterator[Pair]:
        """Answer examples in order, with a progress bar on a terminal.

        Args:
            task: adds its fields to the written lines.
            examples: read lazily.
            title: of the progress bar.
            written: predictions in JSON Lines; those that the file already has are reused, new ones are appended.
            key_blocks: the reasoner reads the blocks that MemRecall finds, or the gold blocks (an upper bound).
            settings: stored next to a new file, with model and options, and compared when a file is resumed.
            subset: accept a file with predictions of more examples, if it has all of these.

        Raises:
            ConfigError: the file was started with other settings.
            DataError: the file is of other examples or texts (it is not changed), or an example cannot be read.
        """

        def pairs() -> Iterator[Pair]:
            pending = iter(examples)
            with nullcontext() if written is None else _claimed(written):
                if written is not None:
                    self._check_settings(written, settings or {})
                    pending = yield from _resume(written, pending, subset)
                for answered in self.answer_all(pending, key_blocks):
                    if written is not None:
                        _append(written, task, answered)
                    yield from answered

        total = len(examples) if isinstance(examples, Sequence) else None
        yield from progress(pairs(), title, total=total, unit="examples", shown=total != 1)

    def seconds(self, examples: Sequence[Example]) -> dict[str, float]:
        """Measure the mean time of the first question about a document, and of a further one."""
        spent: dict[str, list[float]] = {"first": [], "further": []}
        for example, other in zip(examples, [*examples[1:], *examples[:1]], strict=True):
            document = replace(example.document)  # of which nothing is known yet
            for kind, query in (("first", example.query), ("further", other.query)):
                start = time.perf_counter()
                self.reader.predict(document, query)
                spent[kind].append(time.perf_counter() - start)
        return {kind: fmean(values) for kind, values in spent.items()}

    def _check_settings(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Store the settings next to a new file; compare them if the file exists."""
        stored = _settings_of(path)
        now = {**self.settings, **settings}
        if path.is_file() and not path.stat().st_size:
            write_json(stored, now)
        elif path.is_file() and stored.exists():
            check_settings(path, now, read_json(stored), "another file")


def to_record(task: Task, example: Example, prediction: Prediction) -> dict[str, Any]:
    """Fields of a prediction in a file."""
    return {**prediction.to_dict(), **task.describe(example, prediction), "input": _digest(example)}


def task_of(path: Path, default: Task) -> Task:
    """Return the task, with its tuned options, of the model that made a file of predictions.

    Args:
        path: the file, whose settings are next to it unless another program made it.
        default: the task if the file has no settings, or those of another task.
    """
    stored = _settings_of(path)
    task = read_json(stored).get("task", {}) if stored.exists() else {}
    return make_task(task["name"], task["options"]) if task.get("name") == default.name else default


def _settings_of(path: Path) -> Path:
    return path.parent / f"{path.name}.settings.json"


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Read predictions from a JSON Lines file.

    Raises:
        DataError: the file cannot be read, or a line is not a prediction.
    """
    for number, line in enumerate(_lines(path), start=1):
        yield _parse(path, number, line)[0]


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """Keep other processes from appending to a file of predictions. One that stays empty is removed."""
    if path.exists() and not path.is_file():
        yield
        return
    if not path.exists():
        write_file(path, "")
    with claimed(path):
        try:
            yield
        finally:
            if path.is_file() and not path.stat().st_size:
                path.unlink()


def _resume(path: Path, examples: Iterator[Example], subset: bool) -> Generator[Pair, None, Iterator[Example]]:
    """Yield the examples whose predictions the file has, and return an iterator over the others."""
    example, other = next(examples, None), None
    for number, (prediction, digest) in enumerate(_saved(path), start=1):
        if example is not None and example.id == prediction.id:
            if digest != _digest(example):
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
                break
    if other and (example is not None or not subset):
        raise DataError(f"{other}; choose another file")
    return chain(() if example is None else (example,), examples)


def _answer_batch(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> Iterator[list[Pair]]:
    """Answer a batch at once; if an example cannot be read, one by one up to that example."""
    try:
        yield list(zip(batch, _predict(reader, batch, key_blocks), strict=True))
    except DataError as error:
        if len(batch) == 1:
            raise DataError(f"example {batch[0].id!r}: {error}") from error
        for example in batch:
            yield from _answer_batch(reader, [example], key_blocks)


def _predict(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> Iterable[Prediction]:
    if key_blocks == "recall":
        return reader.predict_many(batch)
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"--blocks gold needs a CogLTX model; this one is the baseline {reader.config.reader}")
    predictions = reader.reason_over([_gold_recall(reader, example) for example in batch])
    return (replace(prediction, id=example.id) for example, prediction in zip(batch, predictions, strict=True))


def _gold_recall(reader: CogLTX, example: Example) -> Recall:
    """The relevant blocks in place of those that MemRecall finds; the first block if there are none."""
    layout = reader.model.layout(example.document, example.query)
    labels = layout.blocks.relevance_labels(example)
    if labels is None:
        raise DataError("--blocks gold needs relevance labels, which this example does not have")
    chosen = tuple(sorted(gold_blocks(example, layout, labels))) or (0,)
    return Recall(layout, chosen, (1.0,) * len(chosen), frozenset(chosen), (0,) * len(chosen))


def _digest(example: Example) -> str:
    """Fingerprint of what a prediction is made from."""
    return fingerprint([example.document, example.query])


def _append(path: Path, task: Task, pairs: Sequence[Pair]) -> None:
    records = [to_record(task, *pair) for pair in pairs]
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
        unfinished = not line.endswith(b"\n")
        try:
            parsed = _parse(path, number, line)
        except DataError as error:
            not_json = isinstance(error.__cause__, json.JSONDecodeError | UnicodeDecodeError)
            if not (unfinished and not_json and _LINE_START.startswith(line[: len(_LINE_START)])):
                raise
        if unfinished:
            os.truncate(path, end)
            return
        yield parsed
        end += len(line)


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
