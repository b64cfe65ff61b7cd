"""Classification of texts: JSON Lines with ``label`` or ``labels``, or a folder with one folder of texts a label.

One label of several, or any number of them; the latter also the paper's way (``label_queries``): every label name is a
query of its own, answered by yes or no, and one model serves all. Knows nothing about tokens or models.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped, evidence_scores
from cogltx.tasks.files import read_text
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.metrics import label_scores

YES, NO = "yes", "no"


class Classification(Task):
    """Texts with labels.

    Attributes:
        label_queries: whether every label name is a query; a text then becomes one example a label.
        labels: the names for ``label_queries``, all of them.
    """

    name: ClassVar[str] = "classification"
    main_metric: ClassVar[str] = "micro_f1"
    label_queries: bool = False
    labels: tuple[str, ...] = ()

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads a JSON Lines file, or a folder of folders; in the latter, one named as the split comes first.

        Raises:
            DataError: the file is missing or not in the format, a text is empty, an id comes twice, or a text has a
                label that ``labels`` does not hold; names the file and line.
            ConfigError: ``label_queries`` without ``labels``.
        """
        report = report if report is not None else ReadReport()
        if self.label_queries and not self.labels:
            raise ConfigError("task classification: expected labels beside label_queries, got none")
        read = self._folder(path, split) if path.is_dir() else JsonLines().read(path, split=split)
        for example in read:
            report.examples += 1
            if example.labels is None:
                report.unmapped.append(Unmapped(example.id, "the text has no labels"))
            yield from self._queries(example) if self.label_queries else (example,)

    def _folder(self, path: Path, split: Split) -> Iterator[Example]:
        root = path / split if (path / split).is_dir() else path
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
        if not folders:
            raise DataError(f"{root}: expected a folder for each label, found none")
        for folder in folders:
            for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                id = str(file.relative_to(root))
                if any("\ud800" <= character <= "\udfff" for character in id):
                    raise DataError(f"{str(root)!r}: expected names of files in UTF-8, got {id!r}")
                text = read_text(file)
                if not text.strip():
                    raise DataError(f"{file}: expected text, got none")
                yield Example(id=id, document=Document(text, id), labels=(folder.name,))

    def _queries(self, example: Example) -> Iterator[Example]:
        own = set(example.labels or ())
        unknown = sorted(own - set(self.labels))
        if unknown:
            raise DataError(f"example {example.id!r}: expected labels among those of the task, got {unknown[0]!r}")
        for label in self.labels:
            yield replace(
                example,
                id=f"{example.id}: {label}",
                query=Query(label),
                labels=None if example.labels is None else (YES if label in own else NO,),
                extra={"text": example.id, "label": label},
            )

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``accuracy``: whether the predicted labels are exactly the gold ones."""
        scores = evidence_scores(example, prediction)
        if example.labels is not None:
            scores["accuracy"] = float(set(example.labels) == set(chosen(prediction)))
        return scores

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Accuracy, micro and macro F1, in percent; with ``label_queries`` over texts and their labels.

        Macro F1 is the mean over the labels that occur in the gold or the predictions.
        """
        known = [(example, prediction) for example, prediction in pairs]
        gold, said = gold_and_predicted(known)
        exact = super().metrics(known)
        if not gold:
            return exact
        accuracy = 100 * sum(set(own) == set(found) for own, found in zip(gold, said, strict=True)) / len(gold)
        return exact | {"accuracy": accuracy} | {key: 100 * value for key, value in label_scores(gold, said).items()}


def chosen(prediction: Prediction) -> tuple[str, ...]:
    """The labels that a prediction gives."""
    return tuple(label.name for label in prediction.labels if label.chosen)


def gold_and_predicted(
    pairs: Sequence[tuple[Example, Prediction]],
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Gold and predicted labels of every text with known labels; examples of label queries are put together again."""
    gold: dict[str, list[str]] = {}
    said: dict[str, list[str]] = {}
    for example, prediction in pairs:
        if example.labels is None:
            continue
        text, label = example.extra.get("text"), example.extra.get("label")
        if isinstance(text, str) and isinstance(label, str):
            gold.setdefault(text, []).extend([label] if YES in example.labels else [])
            said.setdefault(text, []).extend([label] if YES in chosen(prediction) else [])
        else:
            gold[example.id], said[example.id] = list(example.labels), list(chosen(prediction))
    return [tuple(own) for own in gold.values()], [tuple(found) for found in said.values()]
