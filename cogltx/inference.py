"""Files in, files out: a stream of examples answered, measured and written, a line each; an interrupted call goes on.

Knows nothing about the command line.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from tqdm.auto import tqdm

from cogltx.blocks import relevance_labels
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.memrecall import Recall
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.reader import Reader, batched
from cogltx.reasoners import ClassificationConfig
from cogltx.tasks import Task
from cogltx.training.sampling import gold_blocks

KeyBlocks = Literal["recall", "gold"]


def answer(
    reader: Reader,
    task: Task,
    examples: Iterable[Example],
    *,
    key_blocks: KeyBlocks = "recall",
    written: Path | None = None,
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
        selected: whether that file may hold predictions of more examples, if it holds all that are asked for.

    Raises:
        DataError: the file holds predictions of other examples.
    """
    stream = iter(examples)
    if written is not None:
        example, other = next(stream, None), None
        for number, prediction in enumerate(_resumed(written), start=1):
            if example is not None and example.id == prediction.id:
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
    for batch in batched(stream):
        predictions = _predictions(reader, batch, key_blocks)
        if written is not None:
            _append(written, [_line(task, *pair) for pair in zip(batch, predictions, strict=True)])
        yield from zip(batch, predictions, strict=True)


def known_labels(reader: Reader, examples: Iterable[Example]) -> Iterator[Example]:
    """The same examples, each checked for labels that a classification model does not know.

    Raises:
        DataError: there is one.
    """
    config = reader.config.reasoner
    known = set(config.labels) if isinstance(config, ClassificationConfig) else None
    for example in examples:
        unknown = sorted(set(example.labels or ()) - known) if known is not None else []
        if unknown:
            raise DataError(
                f"example {example.id!r}: expected labels that the model was trained on, got {unknown[0]!r}"
            )
        yield example


def with_progress(
    pairs: Iterable[tuple[Example, Prediction]], title: str, total: int | None = None
) -> Iterator[tuple[Example, Prediction]]:
    """The same pairs, with a progress bar where the output is a terminal."""
    yield from tqdm(pairs, desc=title, total=total, unit=" examples", disable=None, leave=False)


def _predictions(reader: Reader, batch: Sequence[Example], key_blocks: KeyBlocks) -> list[Prediction]:
    if key_blocks == "recall":
        results = reader.read(batch)
    else:
        if not isinstance(reader, CogLTX):
            raise ConfigError("key blocks: expected a model of CogLTX for gold blocks, got a baseline")
        results = reader.reason_over([_gold(reader, example) for example in batch])
    return [reader.prediction(example, result) for example, result in zip(batch, results, strict=True)]


def _gold(reader: CogLTX, example: Example) -> Recall:
    """The relevant blocks in place of those that MemRecall would find; the first block where there are none."""
    blocks = reader.split(example.document)
    labels = relevance_labels(example, blocks)
    if labels is None:
        raise DataError(f"example {example.id!r}: expected relevance labels for gold blocks, got none")
    room = reader.form.room(reader.form.prefix(example.query, int(blocks.sizes.max())))
    chosen = tuple(sorted(gold_blocks(example, blocks, labels, room))) or (0,)
    return Recall(example.query, blocks, chosen, (1.0,) * len(chosen), frozenset(chosen), (0,) * len(chosen), ())


def _line(task: Task, example: Example, prediction: Prediction) -> str:
    return json.dumps({**prediction.to_dict(), **task.describe(example, prediction)}, ensure_ascii=False)


def _append(path: Path, lines: Sequence[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise DataError(f"{path}: expected to add predictions, got: {error.strerror}; those before are kept") from error


def _resumed(path: Path) -> Iterator[Prediction]:
    """The predictions that a file holds; a last line that was cut off is removed."""
    if not path.exists():
        return
    _cut_unfinished_line(path)
    yield from read_predictions(path)


def _cut_unfinished_line(path: Path) -> None:
    with path.open("rb+") as file:
        size = file.seek(0, 2)
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Predictions from a JSON Lines file.

    Raises:
        DataError: a line is no prediction.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield Prediction.from_dict(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"{path}:{number}: expected a prediction, got {line.strip()[:60]!r}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: expected a file of predictions, got: {error}") from error
