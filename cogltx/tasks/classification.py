"""Classification of texts: JSON Lines with ``label`` or ``labels``, or a folder of texts per label.

Texts have one label or several. With ``label_queries``, as in the paper, every label name is a separate query with the
answer yes or no, and one model serves all labels. Does not depend on tokens or models.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError, DataError
from cogltx.files import read_text
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.metrics import label_scores

YES, NO = "yes", "no"


class Classification(Task):
    """Texts with labels.

    Attributes:
        label_queries: make every label name a query, and one example of every text and label.
        labels: all label names, for ``label_queries``.
    """

    name: ClassVar[str] = "classification"
    main_metric: ClassVar[str] = "micro_f1"
    label_queries: bool = False
    labels: tuple[str, ...] = ()

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the texts of a JSON Lines file or a folder of label folders.

        Label folders are searched in the folder with the split's name, if there is one. Hidden files are ignored.

        Raises:
            DataError: the file is missing or not in the format, a text is empty, an id is not unique, or a text has a
                label that ``labels`` lacks; names the file and line.
            ConfigError: ``label_queries`` without ``labels``.
        """
        report = report or ReadReport()
        if self.label_queries and not self.labels:
            raise ConfigError("task classification: label_queries needs all label names; set task.options.labels")
        read = self._folder(path, split) if path.is_dir() else JsonLines().read(path, split=split)
        for example in read:
            report.examples += 1
            if example.labels is None:
                report.unmapped.append(Unmapped(example.id, "the text has no labels"))
            yield from self._queries(example) if self.label_queries else (example,)

    def _folder(self, path: Path, split: Split) -> Iterator[Example]:
        root = path / split if (path / split).is_dir() else path
        files = sorted(file for file in root.rglob("*") if file.is_file())
        places = [(file, file.relative_to(root)) for file in files]
        texts = [(file, id) for file, id in places if len(id.parts) > 1 and not _is_hidden(id)]
        if not texts:
            raise DataError(
                f"{root}: has no label folders with texts; put each text into a folder with the name of its label, "
                f"such as {root / 'positive' / '1.txt'} and {root / 'negative' / '2.txt'}"
            )
        for file, id in texts:
            if any("\ud800" <= character <= "\udfff" for character in str(id)):
                raise DataError(f"{str(root)!r}: the file name {str(id)!r} is not UTF-8; rename the file")
            text = read_text(file)
            if not text.strip():
                raise DataError(f"{file}: the file holds no text; delete it or add its text")
            yield Example(id=str(id), document=Document(text, str(id)), labels=(id.parts[0],))

    def _queries(self, example: Example) -> Iterator[Example]:
        gold = set(example.labels or ())
        unknown = sorted(gold - set(self.labels))
        if unknown:
            raise DataError(f"example {example.id!r}: the label {unknown[0]!r} is not in task.options.labels")
        for label in self.labels:
            yield replace(
                example,
                id=f"{example.id}: {label}",
                query=Query(label),
                labels=None if example.labels is None else (YES if label in gold else NO,),
                extra={"text": example.id, "label": label},
            )

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``accuracy``: whether the predicted labels are exactly the gold ones."""
        scores = super().per_example(example, prediction)
        if example.labels is not None:
            scores["accuracy"] = float(set(example.labels) == set(_chosen(prediction)))
        return scores

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Accuracy, micro and macro F1, in percent; with ``label_queries`` over texts and their labels.

        Macro F1 is the mean over the labels that occur in the gold or the predictions.
        """
        every = list(pairs)
        gold, predicted = gold_and_predicted(every)
        scores = super().metrics(every)
        if not gold:
            return scores
        accuracy = sum(set(a) == set(b) for a, b in zip(gold, predicted, strict=True)) / len(gold)
        of_labels = {"accuracy": accuracy} | label_scores(gold, predicted)
        return scores | {key: 100 * score for key, score in of_labels.items()}


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _chosen(prediction: Prediction) -> tuple[str, ...]:
    return tuple(label.name for label in prediction.labels if label.chosen)


def gold_and_predicted(
    pairs: Sequence[tuple[Example, Prediction]],
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Gold and predicted labels of every text with known labels; joins the examples of label queries."""
    gold: dict[str, list[str]] = {}
    predicted: dict[str, list[str]] = {}
    for example, prediction in pairs:
        if example.labels is None:
            continue
        text, label = example.extra.get("text"), example.extra.get("label")
        if isinstance(text, str) and isinstance(label, str):
            gold.setdefault(text, []).extend([label] if YES in example.labels else [])
            predicted.setdefault(text, []).extend([label] if YES in _chosen(prediction) else [])
        else:
            gold[example.id], predicted[example.id] = list(example.labels), list(_chosen(prediction))
    return [tuple(labels) for labels in gold.values()], [tuple(labels) for labels in predicted.values()]
