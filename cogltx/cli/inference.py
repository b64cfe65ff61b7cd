"""Files in, files out: a stream of examples answered, measured and written, a line each; an interrupted call goes on.

Knows nothing about the command line.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from cogltx.blocks import relevance_labels
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import check_settings, fingerprint, read_json, write_json
from cogltx.memrecall import Recall
from cogltx.pipeline import CogLTX, Reader, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.tasks import Task
from cogltx.training.sampling import gold_blocks

KeyBlocks = Literal["recall", "gold"]

_BEGINNING = b'{"id": '  # of a line that holds a prediction


def answer(
    reader: Reader,
    task: Task,
    examples: Iterable[Example],
    *,
    key_blocks: KeyBlocks = "recall",
    written: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    selected: bool = False,
) -> Iterator[tuple[Example, Prediction]]:
    """Answers examples, in order.

    Args:
        reader: answers.
        task: adds its own fields to a written line.
        examples: read as they are needed.
        key_blocks: what the reasoner sees: the reader's own choice, or the gold blocks alone (an upper bound).
        written: a JSON Lines file to which every prediction is added. Those that it holds already, from an earlier
            call with the same examples, are taken from it.
        settings: which model reads, and how, as plain data: noted beside a file that is begun, so that no other model's
            predictions are taken for its own.
        selected: whether that file may hold predictions of more examples, if it holds all that are asked for.

    Raises:
        ConfigError: the file was begun with other settings.
        DataError: the file holds predictions of other examples or texts, or something else; it is as it was.
    """
    stream = iter(examples)
    if written is not None:
        _check_begun(written, settings or {})
        example, other = next(stream, None), None
        for number, line in enumerate(_resumed(written), start=1):
            prediction = line.prediction
            if example is not None and example.id == prediction.id:
                if line.input != _input(example):
                    got = "one of another text or question; choose another file"
                    raise DataError(
                        f"{written}:{number}: expected a prediction for {prediction.id!r} as it is, got {got}"
                    )
                yield example, prediction
                example = next(stream, None)
                continue
            expected = "the end" if example is None else repr(example.id)
            other = other or f"{written}:{number}: expected a prediction for {expected}, got one for {prediction.id!r}"
            if not selected:
                raise DataError(other)
        if example is not None:
            if other:
                raise DataError(other)
            stream = chain([example], stream)
    for batch in batches_of_examples(stream):
        for pairs in _answered(reader, batch, key_blocks):
            if written is not None:
                _append(written, [_line(task, *pair) for pair in pairs])
            yield from pairs


def known_labels(reader: Reader, examples: Iterable[Example]) -> Iterator[Example]:
    """The same examples, each checked for labels that a classification model does not know.

    Raises:
        DataError: there is one.
    """
    for example in examples:
        reader.config.reasoner.check_labels(example)
        yield example


def with_progress(
    pairs: Iterable[tuple[Example, Prediction]], title: str, total: int | None = None
) -> Iterator[tuple[Example, Prediction]]:
    """The same pairs, with a progress bar where the output is a terminal."""
    yield from tqdm(pairs, desc=title, total=total, unit=" examples", disable=None, leave=False)


def _answered(
    reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks
) -> Iterator[list[tuple[Example, Prediction]]]:
    """A batch at once; if an example in it cannot be read, those before it one by one, and then the error names it."""
    try:
        yield list(zip(batch, _predictions(reader, batch, key_blocks), strict=True))
        return
    except DataError as error:
        if len(batch) == 1:
            raise DataError(f"example {batch[0].id!r}: {error}") from error
    for example in batch:
        yield from _answered(reader, [example], key_blocks)


def _predictions(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> list[Prediction]:
    if key_blocks == "recall":
        return list(reader.predict_many(batch))
    if not isinstance(reader, CogLTX):
        raise ConfigError("key blocks: expected a model of CogLTX for gold blocks, got a baseline")
    predictions = reader.reason_over([_gold(reader, example) for example in batch])
    return [replace(prediction, id=example.id) for example, prediction in zip(batch, predictions, strict=True)]


def _gold(reader: CogLTX, example: Example) -> Recall:
    """The relevant blocks in place of those that MemRecall would find; the first block where there are none."""
    layout = reader.model.layout(example.document, example.query)
    labels = relevance_labels(example, layout.blocks)
    if labels is None:
        raise DataError("expected relevance labels for gold blocks, got none")
    chosen = tuple(sorted(gold_blocks(example, layout, labels))) or (0,)
    return Recall(layout, chosen, (1.0,) * len(chosen), frozenset(chosen), (0,) * len(chosen))


@dataclass(frozen=True)
class _Line:
    """A prediction, and what tells the text and question that it was made for."""

    prediction: Prediction
    input: object


def _line(task: Task, example: Example, prediction: Prediction) -> str:
    fields = {**prediction.to_dict(), **task.describe(example, prediction), "input": _input(example)}
    return json.dumps(fields, ensure_ascii=False)


def _input(example: Example) -> str:
    return fingerprint([example.document, example.query])


def _check_begun(written: Path, settings: Mapping[str, Any]) -> None:
    noted = written.parent / f"{written.name}.settings.json"
    if not written.exists():
        write_json(noted, settings)
    elif written.is_file() and noted.exists():
        check_settings(written, settings, read_json(noted), "another file")


def _append(path: Path, lines: Sequence[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise DataError(f"{path}: expected to add predictions, got: {error.strerror}; those before are kept") from error


def _resumed(path: Path) -> Iterator[_Line]:
    """The predictions that a file holds; at its end a last line without its end is removed, to be made again."""
    if not path.exists() or path.is_fifo() or path.is_char_device():
        return
    end = 0
    for number, line in enumerate(_lines(path), start=1):
        if not line.endswith(b"\n"):
            if not _was_cut_off(line):
                _read(path, number, line)  # or it is something else, which stays
            os.truncate(path, end)
            return
        yield _read(path, number, line)
        end += len(line)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise DataError(f"{path}: expected a file of predictions, got: {error.strerror}") from error


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Predictions from a JSON Lines file.

    Raises:
        DataError: a line is no prediction.
    """
    for number, line in enumerate(_lines(path), start=1):
        yield _read(path, number, line).prediction


def _was_cut_off(line: bytes) -> bool:
    """Whether a line is the beginning of a prediction, and no whole one."""
    try:
        json.loads(line)
    except ValueError:
        return _BEGINNING.startswith(line[: len(_BEGINNING)])
    return False


def _read(path: Path, number: int, line: bytes) -> _Line:
    try:
        fields = json.loads(line)
        return _Line(Prediction.from_dict(fields), fields.get("input"))
    except (ValueError, RecursionError) as error:
        raise _no_prediction(path, number, line) from error


def _no_prediction(path: Path, number: int, line: bytes) -> DataError:
    return DataError(f"{path}:{number}: expected a prediction, got {line.decode(errors='replace').strip()[:60]!r}")
