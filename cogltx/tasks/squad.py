"""SQuAD 1.1 and 2.0, and what shares their schema, such as CUAD with several spans an answer.

Rajpurkar et al. 2016 and 2018; Hendrycks et al. 2021. Knows nothing about tokens or models.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cogltx.document import Document, Example, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped, answer_scores, evidence_scores, question
from cogltx.tasks.json_list import read_json_list
from cogltx.tasks.records import Record, note_id
from cogltx.tasks.spans import trim

_BETWEEN_PARAGRAPHS = "\n\n"  # a paragraph may itself hold single line breaks


@dataclass(frozen=True)
class _Paragraph:
    record: Record
    document: Document
    offset: int  # where the paragraph starts in the document
    context: str


class Squad(Task):
    """SQuAD 1.1, 2.0 and CUAD. The answer spans are the labelled evidence (``relevant``).

    Of several gold answers the best match counts, as in the official scripts.

    Attributes:
        join_paragraphs: whether a document is a whole article, a blank line between its paragraphs, rather
            than one paragraph; all questions of a document share one Document object.
        headings: whether the article's title is the heading of each paragraph.
        only: where it is not empty, questions that hold none of these words are left out: a choice of CUAD's clauses.
    """

    name: ClassVar[str] = "squad"
    main_metric: ClassVar[str] = "f1"
    join_paragraphs: bool = False
    headings: bool = False
    only: tuple[str, ...] = ()

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads the official JSON, an object whose ``data`` is a list of articles.

        Raises:
            DataError: the file is missing or not in the format, an answer's offset lies outside its
                paragraph, or an id comes twice; names the file, line and question.
        """
        report = report if report is not None else ReadReport()
        seen: dict[str, str] = {}
        for number, article in enumerate(read_json_list(path, "data")):
            title = article.find("title", str) or f"article {number + 1}"
            article = article.named(f"article {title!r}")
            for paragraph in self._paragraphs(article, title):
                for record in paragraph.record.children("qas"):
                    if self.only and not any(words in record.get("question", str) for words in self.only):
                        continue
                    report.examples += 1
                    note_id(record.get("id", str), record.where, seen)
                    yield _example(record, paragraph, report.unmapped)

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``exact_match`` and ``f1``; ``has_answer_f1`` or ``no_answer_accuracy``; the evidence's."""
        numbers = answer_scores(example, prediction)
        if example.answers:
            numbers["has_answer_f1"] = numbers["f1"]
        elif example.answers is not None:
            numbers["no_answer_accuracy"] = numbers["exact_match"]
        return numbers | evidence_scores(example, prediction)

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """The means in percent; with and without an answer apart only where the data has both kinds."""
        found = super().metrics(pairs)
        kinds = ("has_answer_f1", "no_answer_accuracy")
        return found if all(kind in found for kind in kinds) else {k: v for k, v in found.items() if k not in kinds}

    def _paragraphs(self, article: Record, title: str) -> list[_Paragraph]:
        """The paragraphs of one article, each with the document that holds it."""
        heading = title if self.headings else ""
        records = article.children("paragraphs")
        contexts = [record.get("context", str) for record in records]
        if not self.join_paragraphs:
            return [
                _Paragraph(record, _document([context], f"{title}#{number}", heading, article), 0, context)
                for number, (record, context) in enumerate(zip(records, contexts, strict=True))
            ]
        if not contexts:
            return []
        document = _document(contexts, title, heading, article)
        starts = _starts(contexts)
        return [_Paragraph(*place) for place in zip(records, [document] * len(starts), starts, contexts, strict=True)]


def _document(contexts: list[str], id: str, heading: str, article: Record) -> Document:
    """The paragraphs as one document, each that is not blank a segment."""
    segments = tuple(
        Segment(start, start + len(context), heading)
        for start, context in zip(_starts(contexts), contexts, strict=True)
        if context.strip()
    )
    with article.named_in_errors():
        return Document(_BETWEEN_PARAGRAPHS.join(contexts), id, segments)


def _starts(contexts: list[str]) -> list[int]:
    starts = [0]
    for context in contexts[:-1]:
        starts.append(starts[-1] + len(context) + len(_BETWEEN_PARAGRAPHS))
    return starts


def _example(record: Record, paragraph: _Paragraph, unmapped: list[Unmapped]) -> Example:
    id = record.get("id", str)
    record = record.named(f"question {id!r}")
    impossible = record.find("is_impossible", bool) or False
    given = record.children("answers") if "answers" in record.fields and not impossible else []
    answers: tuple[str, ...] | None = tuple(dict.fromkeys(answer.get("text", str) for answer in given))
    if "answers" not in record.fields and not impossible:
        answers = None
    spans = _spans(id, given, paragraph, unmapped)
    with record.named_in_errors():
        return Example(
            id=id,
            document=paragraph.document,
            query=question(record.get("question", str)),
            answers=answers,
            answer_spans=spans,
            relevant=None if answers is None else spans,
        )


def _spans(id: str, answers: list[Record], paragraph: _Paragraph, unmapped: list[Unmapped]) -> tuple[Span, ...]:
    """The answers' places in the document; a guessed place (``start_ambiguous``) only if all are."""
    sure: dict[Span, None] = {}
    guessed: dict[Span, None] = {}
    for answer in answers:
        text, start = answer.get("text", str), answer.get("answer_start", int)
        span = _locate(paragraph.context, text, start, answer.where)
        if span is None:
            found = paragraph.context[start : start + len(text)]
            unmapped.append(Unmapped(id, f"expected the answer {text!r} at {start}, got {found!r}"))
            continue
        kind = guessed if answer.find("start_ambiguous", bool) else sure
        kind[Span(span.start + paragraph.offset, span.end + paragraph.offset)] = None
    return tuple(sure or guessed)


def _locate(context: str, answer: str, start: int, where: str) -> Span | None:
    """The answer's place without white space around it; None if the text there is another.

    Raises:
        DataError: the offset lies outside the text.
    """
    if not 0 <= start < len(context):
        raise DataError(f"{where}: expected answer_start within the {len(context)} characters of the text, got {start}")
    bare = answer.strip()
    for place in (start + len(answer) - len(answer.lstrip()), start):
        if bare and context.startswith(bare, place):
            return trim(context, place, place + len(bare))
    return None
