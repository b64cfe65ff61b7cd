"""NewsQA: the file combined-newsqa-data-v1.json that its own scripts make (Trischler et al. 2017).

Knows nothing about tokens or models.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from cogltx.document import Document, Example, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks.base import (
    ReadReport,
    Split,
    Task,
    Unmapped,
    answer_scores,
    evidence_scores,
    question,
)
from cogltx.tasks.json_list import read_json_list
from cogltx.tasks.records import Record, shorten
from cogltx.tasks.spans import trim

_TYPES: dict[Split, str] = {"train": "train", "validation": "dev", "test": "test"}
_TRAILING = frozenset(".,;:!?\"'”’")  # what ranges often include too much of; the scores ignore it anyway


class NewsQA(Task):
    """NewsQA. Each line of a story that is not blank is a segment.

    As in practice, the span of the workers' consensus is the only gold answer. ``exact_match`` and ``f1``
    count all questions, those without an answer ("noAnswer") and bad ones included, whose right answer is
    the empty one (the authors of CogLTX leave bad ones out). ``answerable_em`` and ``answerable_f1`` count
    the questions with an answer only, as MRQA does. No question is left out for evaluation. The original has
    no identifiers for questions: they are ``STORY#NUMBER``.

    Attributes:
        keep_bad_questions: whether to train on the questions that the consensus calls bad, as questions
            without an answer; ``extra["bad_question"]`` marks them.
    """

    name: ClassVar[str] = "newsqa"
    main_metric: ClassVar[str] = "f1"
    keep_bad_questions: bool = False

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads the questions of one split; all three lie in one file, told apart by each story's ``type``.

        Raises:
            DataError: the file is missing or not in the format; names the file, line and question.
        """
        report = report if report is not None else ReadReport()
        for story in read_json_list(path, "data"):
            type = story.get("type", str)
            if type not in _TYPES.values():
                raise DataError(f"{story.where}: field 'type': expected train, dev or test, got {shorten(type)}")
            if type == _TYPES[split]:
                yield from self._read_story(story, split, report)

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``exact_match`` and ``f1``, again for answerable questions only, and the evidence's."""
        numbers = answer_scores(example, prediction)
        if example.answers:
            numbers |= {"answerable_em": numbers["exact_match"], "answerable_f1": numbers["f1"]}
        return numbers | evidence_scores(example, prediction)

    def _read_story(self, story: Record, split: Split, report: ReadReport) -> Iterator[Example]:
        id = story.get("storyId", str)
        with story.named(f"story {id!r}").named_in_errors():
            document = _document(id, story.get("text", str))
        for number, record in enumerate(story.children("questions")):
            record = record.named(f"question '{id}#{number}'")
            bad = Record(record.get("consensus", dict), record.where).find("badQuestion", bool) or False
            if bad and split == "train" and not self.keep_bad_questions:
                continue
            report.examples += 1
            yield _example(f"{id}#{number}", record, document, bad, report.unmapped)


def _document(id: str, text: str) -> Document:
    segments = []
    start = 0
    for line in text.split("\n"):
        if line.strip():
            segments.append(Segment(start, start + len(line)))
        start += len(line) + 1
    return Document(text, id, tuple(segments))


def _example(id: str, record: Record, document: Document, bad: bool, unmapped: list[Unmapped]) -> Example:
    span = _consensus(id, record, document.text, unmapped)
    spans = () if span is None else (span,)
    return Example(
        id=id,
        document=document,
        query=question(record.get("q", str)),
        answers=tuple(document.text[span.start : span.end] for span in spans),
        answer_spans=spans,
        relevant=spans,
        extra={"bad_question": True} if bad else {},
    )


def _consensus(id: str, record: Record, text: str, unmapped: list[Unmapped]) -> Span | None:
    """The agreed span, clipped to the text and trimmed; None where there is no answer or nothing is left."""
    consensus = Record(record.get("consensus", dict), f"{record.where}: consensus")
    if consensus.find("noAnswer", bool) or consensus.find("badQuestion", bool):
        return None
    start, end = consensus.get("s", int), consensus.get("e", int)
    start, end = max(start, 0), min(end, len(text))
    span = trim(text, start, end, _TRAILING) or trim(text, start, end)
    if span is None:
        unmapped.append(Unmapped(id, f"expected an answer at {start}:{end}, got no text"))
    return span
