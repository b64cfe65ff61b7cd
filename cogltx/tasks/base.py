"""The base class of tasks: reads files into Examples and measures predictions."""

import abc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError

from cogltx.blocks._script import expand_to_words
from cogltx.blocks._search import find
from cogltx.document import Example, Span
from cogltx.errors import DataError, describe, shorten
from cogltx.prediction import Prediction
from cogltx.tasks.metrics import Fractions, answer_score, sums_by_document

Split = Literal["train", "validation", "test"]


def _id(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"must be a string or an integer, but is {shorten(value)}")
    return str(value)


Id = Annotated[str, PlainValidator(_id)]
"""The id of an object in a file: a string, or an integer, which becomes a string."""


@dataclass
class ReadReport:
    """Counts of one reading."""

    examples: int = 0
    unmapped: list[tuple[str, str]] = field(default_factory=list)  # id and reason per gold annotation without a place
    entities: int = 0  # distinct
    left_out: int = 0  # entities that overlap others or have several pieces
    inside_words: int = 0  # entities that begin or end inside a word
    remarks: list[str] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict, repr=False)

    def count(self, id: str, where: str) -> None:
        """Count an example; raises DataError if its id is not new."""
        if id in self._places:
            raise DataError(f"{where}: the id {id!r} is already used at {self._places[id]}; every id must be unique")
        self._places[id] = where
        self.examples += 1

    def add(self, other: "ReadReport") -> None:
        """Add the counts of another reading."""
        self.examples += other.examples
        self.unmapped += other.unmapped
        self.entities += other.entities
        self.left_out += other.left_out
        self.inside_words += other.inside_words
        self.remarks += other.remarks

    def notes(self) -> list[str]:
        """Remarks, also on gold entities that are left out, or that no prediction can equal."""
        notes = {
            "overlap others or have several pieces; left out": self.left_out,
            "begin or end inside a word, which predicted ones never do; offsets count characters": self.inside_words,
        }
        lines = [f"{count:,} of {self.entities:,} entities {note}" for note, count in notes.items() if count]
        return self.remarks + lines


class Task(BaseModel, abc.ABC):
    """A data set's format and its official measure. The fields of a subclass are the task's options.

    Attributes:
        name: the name in configurations.
        main_metric: the key of ``metrics`` that selects the best checkpoint; higher is better.
        answer_metric: the same for readers without evidence, if ``main_metric`` needs evidence.
        reads_json_lines: ``read`` takes the package's own JSON Lines, too; otherwise the task ``jsonl`` reads them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: ClassVar[str]
    main_metric: ClassVar[str]
    answer_metric: ClassVar[str | None] = None
    reads_json_lines: ClassVar[bool] = False

    @abc.abstractmethod
    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the examples of a file, plain or gzipped, in its order; count them in ``report``.

        Raises:
            DataError: the file is missing or not in the format; names the file and the line or item.
        """

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """Scores of one example in [0, 1], which ``metrics`` averages.

        By default SQuAD's ``exact_match`` and ``f1``; ``evidence_recall``, the share of relevant spans that a key block
        overlaps; ``evidence_complete``: all of them. Scores without gold are left out.
        """
        scores: dict[str, float] = {}
        if example.answers is not None:
            answer = answer_score(prediction.answer, example.answers)
            scores = {"exact_match": answer.em, "f1": answer.f1}
        if example.relevant:
            touched = [
                any(span.start < block.end and block.start < span.end for block in prediction.evidence)
                for span in example.relevant
            ]
            scores["evidence_recall"] = sum(touched) / len(touched)
            scores["evidence_complete"] = float(all(touched))
        return scores

    def fractions(self, pairs: Iterable[tuple[Example, Prediction]]) -> Iterator[tuple[str, Fractions]]:
        """Yield the document of each example with its numerator and denominator in each metric."""
        for example, prediction in pairs:
            scores = self.per_example(example, prediction)
            yield example.document.text, {metric: (score, 1.0) for metric, score in scores.items()}

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Compute the metrics in percent, each over the examples that have it: the ratios of summed ``fractions``."""
        sums = sums_by_document(self.fractions(pairs))
        totals = {metric: [sum(column) for column in zip(*of.values(), strict=True)] for metric, of in sums.items()}
        return {metric: 100 * numerator / (denominator or 1.0) for metric, (numerator, denominator) in totals.items()}

    def tuned(self, pairs: Sequence[tuple[Example, Prediction]]) -> Self:
        """Return the task with the options that training chooses on validation predictions; by default itself."""
        return self

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Additional fields of a prediction's JSON line."""
        return {}


@contextmanager
def errors_at(where: str, model: type[BaseModel] | None = None) -> Iterator[None]:
    """Prefix a DataError with ``where``, and translate a ValidationError of ``model`` into one."""
    try:
        yield
    except ValidationError as error:
        raise DataError(f"{where}: {describe(error, model, noun='field')}") from None
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(where) else f"{where}: {text}") from None


def occurrences(text: str, needle: str, within: Span | None = None, *, whole_words: bool = False) -> tuple[Span, ...]:
    """Spans of ``needle`` in the text, in order, without overlap; none for a blank needle.

    Occurrences of whole words come first; without any, and unless ``whole_words`` is set, all others are returned.
    Other normal forms, and forms with or without points, are searched if ``needle`` is nowhere letter by letter.

    >>> occurrences("can a cat concatenate a cat", "cat")
    (Span(start=6, end=9), Span(start=24, end=27))
    >>> occurrences("concatenate", "cat"), occurrences("concatenate", "cat", whole_words=True)
    ((Span(start=3, end=6),), ())
    """
    within, needle = within or Span(0, len(text) or 1), needle.strip()
    inside: tuple[Span, ...] = ()
    for spans in find(text, needle, within.start, within.end) if needle else ():
        at_words = tuple(Span(*span) for span in spans if expand_to_words(text, *span) == span)
        if at_words:
            return at_words
        inside = inside or tuple(Span(*span) for span in spans)
    return () if whole_words else inside
