"""What a task is: a reader of files into Examples, and the measure of their predictions.

Knows nothing about any one data set, about tokens or about models.
"""

import abc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from cogltx.document import Example, Query
from cogltx.prediction import Prediction
from cogltx.tasks import metrics as scores

Split = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Unmapped:
    """Gold that has no place in the text.

    Attributes:
        id: the example's.
        reason: what could not be placed.
    """

    id: str
    reason: str


@dataclass
class ReadReport:
    """What reading a file counted.

    Attributes:
        examples: how many were read.
        unmapped: gold without a place in the text; the examples themselves are kept.
        entities: how many distinct entities the file has.
        left_out: those that overlap others or stand in several pieces, which the examples do not have.
    """

    examples: int = 0
    unmapped: list[Unmapped] = field(default_factory=list)
    entities: int = 0
    left_out: int = 0

    def notes(self) -> list[str]:
        """What a user should know of gold that is not in the examples, beside ``unmapped``."""
        if not self.left_out:
            return []
        return [
            f"{self.left_out} of {self.entities} entities overlap others or stand in several pieces and are left out"
        ]  # fmt: skip


class Task(BaseModel, abc.ABC):
    """A data set's format and its official measure. The fields of a subclass are the task's options.

    Attributes:
        name: what configurations call the task.
        main_metric: the key of ``metrics`` that chooses the best checkpoint; higher is better.
        answer_metric: the same for readers that show no evidence, where ``main_metric`` asks for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: ClassVar[str]
    main_metric: ClassVar[str]
    answer_metric: ClassVar[str | None] = None

    @abc.abstractmethod
    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads a file's examples one after another, in the order of the file.

        Args:
            path: a file in the data set's own format, plain or gzipped.
            split: what the examples are for. No example is ever left out for evaluation because its gold has
                no place in the text.
            report: counts what is read, if given.

        Raises:
            DataError: the file is missing or not in the format; names the file and line.
        """

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """The numbers of one example that ``metrics`` averages, each in [0, 1]; compare two systems by them.

        A number that has no meaning for the example (unknown answer, no evidence labels) is left out.
        """
        return evidence_scores(example, prediction)

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """The task's measures in percent: for each number, its mean over the examples that have it.

        Args:
            pairs: every example of the split with its prediction.

        Returns:
            Percentages in [0, 100]; a measure that no example has is left out.
        """
        values: dict[str, list[float]] = defaultdict(list)
        for example, prediction in pairs:
            for key, value in self.per_example(example, prediction).items():
                values[key].append(value)
        return {key: 100 * sum(numbers) / len(numbers) for key, numbers in values.items()}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """What the task adds to a prediction's JSON line."""
        return {}


def question(text: str) -> Query | None:
    """The question, or None for a blank one: data sets have a few, and none may stop an evaluation.

    >>> question(" "), question("Who?")
    (None, Query(text='Who?'))
    """
    return Query(text) if text.strip() else None


def evidence_scores(example: Example, prediction: Prediction) -> dict[str, float]:
    """How much of the labelled evidence the key blocks touch; empty for an example without such labels.

    Returns:
        ``evidence_recall``, the share of the relevant spans that some key block overlaps, and
        ``evidence_complete``, whether all do.
    """
    if not example.relevant:
        return {}
    touched = [
        any(span.start < block.end and block.start < span.end for block in prediction.evidence)
        for span in example.relevant
    ]
    return {"evidence_recall": sum(touched) / len(touched), "evidence_complete": float(all(touched))}


def answer_scores(example: Example, prediction: Prediction) -> dict[str, float]:
    """SQuAD's ``exact_match`` and ``f1`` against the best accepted answer; empty where none is known."""
    if example.answers is None:
        return {}
    return {
        "exact_match": scores.best(scores.exact_match, prediction.answer, example.answers),
        "f1": scores.best(scores.f1, prediction.answer, example.answers),
    }
