"""Classification of texts: JSON Lines with ``label`` or ``labels``, or a folder of documents per label."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cogltx._files import is_hidden
from cogltx._progress import logger
from cogltx.document import Example, Query, has_surrogate
from cogltx.errors import ConfigError, DataError
from cogltx.formats import read_documents
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.metrics import Fractions, Score, count_labels, gold_and_predicted


class Classification(Task):
    """Texts with one label or several.

    Attributes:
        label_queries: make every label name a query with the answer yes or no, as in the paper: one example per text
            and label.
        labels: all label names, for ``label_queries``.
    """

    name: ClassVar[str] = "classification"
    main_metric: ClassVar[str] = "micro_f1"
    reads_json_lines: ClassVar[bool] = True
    label_queries: bool = False
    labels: tuple[str, ...] = ()

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the texts of a JSON Lines file or a folder (with a folder per split, or without) of label folders.

        The log names the files of folders that cannot be read; raises DataError if none can.
        """
        report = report or ReadReport()
        if self.label_queries and not self.labels:
            raise ConfigError("task classification: label_queries needs all label names; set task.options.labels")
        for example in _read_folders(path, split) if path.is_dir() else JsonLines().read(path, split=split):
            report.examples += 1
            if example.labels is None:
                report.unmapped.append((example.id, "the text has no labels"))
            yield from _queries(example, self.labels) if self.label_queries else (example,)

    def fractions(self, pairs: Iterable[tuple[Example, Prediction]]) -> Iterator[tuple[str, Fractions]]:
        """See ``Task.fractions``; accuracy (of all labels) and micro F1 are over texts, also with ``label_queries``."""
        pairs = list(pairs)
        yield from super().fractions(pairs)
        for document, gold, predicted in gold_and_predicted(pairs):
            hits, n_labels = 2.0 * len(gold & predicted), float(len(gold) + len(predicted))
            yield document, {"accuracy": (float(gold == predicted), 1.0), "micro_f1": (hits, n_labels)}

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Accuracy, micro F1, and macro F1 over the labels in the gold or the predictions, in percent."""
        pairs = list(pairs)
        scores, texts = super().metrics(pairs), gold_and_predicted(pairs)
        if not texts:
            return scores
        f1 = [Score.of_counts(*numbers).f1 for numbers in count_labels(texts).values()]
        return scores | ({"macro_f1": 100 * sum(f1) / len(f1)} if f1 else {"micro_f1": 100.0, "macro_f1": 100.0})


def _read_folders(path: Path, split: Split) -> Iterator[Example]:
    root = path / split if (path / split).is_dir() else path
    ids = {file: file.relative_to(root) for file in sorted(root.rglob("*")) if file.is_file()}
    ids = {file: id for file, id in ids.items() if len(id.parts) > 1 and not is_hidden(id)}
    if not ids:
        raise DataError(
            f"{root}: has no label folders with texts; put each text into a folder with the name of its label, "
            f"such as {root / 'positive' / '1.txt'} and {root / 'negative' / '2.txt'}"
        )
    is_empty = True
    for file, document in read_documents([file for file, id in ids.items() if not has_surrogate(str(id))]):
        is_empty, id = False, ids[file]
        yield Example(id=str(id), document=replace(document, id=str(id)), labels=(id.parts[0],))
    for name in filter(has_surrogate, map(str, ids.values())):
        logger.warning(f"left out: {str(root)!r}: the file name {name!r} is not UTF-8; rename the file")
    if is_empty:
        raise DataError(f"{root}: no file in the label folders can be read")


def _queries(example: Example, labels: tuple[str, ...]) -> Iterator[Example]:
    gold = set(example.labels or ())
    if unknown := sorted(gold.difference(labels)):
        raise DataError(f"example {example.id!r}: the label {unknown[0]!r} is not in task.options.labels")
    for label in labels:
        yield replace(
            example,
            id=f"{example.id}: {label}",
            query=Query(label),
            labels=None if example.labels is None else ("yes" if label in gold else "no",),
            extra={"text": example.id, "label": label},
        )
