"""The package's own data format: one JSON object a line, for a user's own documents and questions.

Knows nothing about tokens or models. ``data/README.md`` describes the format for users.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from cogltx.document import Document, Entity, Example, Query, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped, answer_scores, evidence_scores
from cogltx.tasks.files import read_json_lines, write_text
from cogltx.tasks.records import Record, expect, note_id, shorten
from cogltx.tasks.spans import words

_KEYS = (
    "id",
    "document",
    "text",
    "question",
    "answers",
    "answer_spans",
    "label",
    "labels",
    "entities",
    "relevant",
    "segments",
    "extra",
)


class JsonLines(Task):
    """The user's own examples, one JSON object a line.

    ``text`` must be there. ``answers`` absent: unknown; empty: the text holds no answer. An answer without an
    offset is looked for in the text at word boundaries. Lines that follow each other with the same
    ``document``, text and segments share one Document object.
    """

    name: ClassVar[str] = "jsonl"
    main_metric: ClassVar[str] = "f1"

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads the file; ``split`` makes no difference.

        Raises:
            DataError: the file is missing or not in the format, an offset does not match, an id comes twice;
                names the file and line.
        """
        report = report if report is not None else ReadReport()
        seen: dict[str, str] = {}
        last: Document | None = None
        for record in read_json_lines(path):
            report.examples += 1
            example = _example(record, last, report.unmapped)
            note_id(example.id, record.where, seen)
            last = example.document
            yield example

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """SQuAD's ``exact_match`` and ``f1``, and the evidence's."""
        return answer_scores(example, prediction) | evidence_scores(example, prediction)


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Writes examples so that reading them gives equal ones; the file comes to be only when all are written.

    Raises:
        DataError: the place cannot be written, or an ``extra`` cannot be written as JSON.
    """
    with write_text(path) as file:
        for example in examples:
            file.write(to_json(example) + "\n")


def to_json(example: Example) -> str:
    """One line of the format, without the line end; fields that have their default are left out.

    Raises:
        DataError: ``extra`` holds what JSON cannot.

    >>> to_json(Example(id="1", document=Document("A cat.", "1"), relevant=(Span(2, 5),)))
    '{"id": "1", "text": "A cat.", "relevant": [[2, 5]]}'
    """
    document = example.document
    fields: dict[str, object] = {"id": example.id}
    if document.id != example.id:
        fields["document"] = document.id
    fields["text"] = document.text
    if example.query is not None:
        fields["question"] = example.query.text
    if example.answers is not None:
        fields["answers"] = list(example.answers)
    if example.answers or example.answer_spans:
        fields["answer_spans"] = [[span.start, span.end] for span in example.answer_spans]
    if example.labels is not None:
        fields["labels"] = list(example.labels)
    if example.entities is not None:
        fields["entities"] = [[entity.start, entity.end, entity.label] for entity in example.entities]
    if example.relevant is not None:
        fields["relevant"] = [[span.start, span.end] for span in example.relevant]
    if document.segments:
        fields["segments"] = [_segment_fields(segment) for segment in document.segments]
    if example.extra:
        fields["extra"] = example.extra
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"example {example.id!r}: expected an extra that JSON can hold, got: {error}") from None


def _example(record: Record, last: Document | None, unmapped: list[Unmapped]) -> Example:
    for key in record.fields:
        if key not in _KEYS:
            raise DataError(f"{record.where}: expected only the fields {', '.join(_KEYS)}, got {key!r}")
    id = _id(record)
    with record.named_in_errors():
        document = Document(record.get("text", str), _document_id(record, id), _segments(record))
        document = last if document == last else document
        answers = _answers(record, document.text)
        spans = _spans(record, "answer_spans")
        if spans is not None:
            _check_places(record, spans, answers or (), document.text)
        else:
            spans = _find_answers(id, record, document.text, unmapped)
        question = record.find("question", str)
        return Example(
            id=id,
            document=document,
            query=None if question is None else Query(question),
            answers=answers,
            answer_spans=spans,
            labels=_labels(record),
            entities=_entities(record, document.text),
            relevant=_spans(record, "relevant"),
            extra=record.find("extra", dict) or {},
        )


def _id(record: Record) -> str:
    """The given id, a string or an integer, or the number of the line."""
    given = record.fields.get("id")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return record.get("id", str) if given is not None else record.where.rpartition(":")[2]


def _document_id(record: Record, id: str) -> str:
    given = record.find("document", str)
    return id if given is None else given


def _segments(record: Record) -> tuple[Segment, ...]:
    if record.find("segments", list) is None:
        return ()
    segments = []
    for number, item in enumerate(record.children("segments")):
        item = item.named(f"segments[{number}]")
        segments.append(Segment(item.get("start", int), item.get("end", int), item.find("heading", str) or ""))
    return tuple(segments)


def _segment_fields(segment: Segment) -> dict[str, object]:
    fields: dict[str, object] = {"start": segment.start, "end": segment.end}
    return fields | {"heading": segment.heading} if segment.heading else fields


def _spans(record: Record, key: str) -> tuple[Span, ...] | None:
    """A field that is a list of [start, end]; None if it is absent."""
    given = record.find(key, list)
    if given is None:
        return None
    spans = []
    for number, pair in enumerate(given):
        match pair:
            case [int(start), int(end)] if not isinstance(start, bool) and not isinstance(end, bool):
                spans.append(Span(start, end))
            case _:
                raise DataError(f"{record.where}: {key}[{number}]: expected [start, end], got {shorten(pair)}")
    return tuple(spans)


def _entities(record: Record, text: str) -> tuple[Entity, ...] | None:
    """A list of [start, end, label], or of objects with these keys; a ``text`` beside them is compared."""
    given = record.find("entities", list)
    if given is None:
        return None
    found = []
    for number, item in enumerate(given):
        where = f"{record.where}: entities[{number}]"
        match item:
            case [int(start), int(end), str(label)] if not isinstance(start, bool) and not isinstance(end, bool):
                found.append(Entity(start, end, label))
            case {"start": _, "end": _, "label": _}:
                own = Record(item, where)
                found.append(Entity(own.get("start", int), own.get("end", int), own.get("label", str)))
                shown = own.find("text", str)
                if shown is not None and shown != text[found[-1].start : found[-1].end]:
                    got = shorten(text[found[-1].start : found[-1].end])
                    raise DataError(f"{where}: expected {shorten(shown)} at {found[-1].start}, got {got}")
            case _:
                raise DataError(f"{where}: expected [start, end, label], got {shorten(item)}")
    return tuple(found)


def _labels(record: Record) -> tuple[str, ...] | None:
    """One ``label``, or any number of ``labels``; None where there is neither."""
    one, several = record.find("label", str), record.find("labels", list)
    if one is not None and several is not None:
        raise DataError(f"{record.where}: expected label or labels, got both")
    if one is not None:
        several = [one]
    if several is None:
        return None
    names = [expect(name, str, f"{record.where}: labels[{number}]") for number, name in enumerate(several)]
    blank = next((name for name in names if not name.strip()), None)
    if blank is not None or len(set(names)) < len(names):
        raise DataError(f"{record.where}: expected different names as labels, got {shorten(names)}")
    return tuple(names)


def _answers(record: Record, text: str) -> tuple[str, ...] | None:
    """The accepted texts; each given offset is compared with the text."""
    given = record.find("answers", list)
    if given is None:
        return None
    texts: list[str] = []
    for number, answer in enumerate(given):
        if not isinstance(answer, dict):
            texts.append(expect(answer, str, f"{record.where}: answers[{number}]"))
            continue
        item = Record(answer, f"{record.where}: answers[{number}]")
        texts.append(item.get("text", str))
        start = item.get("start", int)
        found = text[max(start, 0) : max(start, 0) + len(texts[-1])]
        if start < 0 or found != texts[-1]:
            raise DataError(f"{item.where}: expected {shorten(texts[-1])} at {start}, got {shorten(found)}")
    return tuple(texts)


def _check_places(record: Record, spans: Sequence[Span], answers: Sequence[str], text: str) -> None:
    """The places of the answers hold them, or a part of them; only letters and digits count, of either case."""
    wanted = ["".join(filter(str.isalnum, answer.casefold())) for answer in answers]
    for number, span in enumerate(spans):
        found = "".join(filter(str.isalnum, text[span.start : span.end].casefold()))
        if wanted and not any(found in answer or answer in found for answer in wanted):
            got = shorten(text[span.start : span.end])
            raise DataError(f"{record.where}: answer_spans[{number}]: expected {shorten(answers[0])}, got {got}")


def _find_answers(id: str, record: Record, text: str, unmapped: list[Unmapped]) -> tuple[Span, ...]:
    """The answers' places: the given ones, or all at word boundaries."""
    places: dict[Span, None] = {}
    for answer in record.find("answers", list) or []:
        if isinstance(answer, dict):
            places[Span(answer["start"], answer["start"] + len(answer["text"]))] = None
        elif answer not in ("yes", "no"):
            found = words(text, answer)
            places |= dict.fromkeys(found)
            if not found:
                unmapped.append(Unmapped(id, f"the answer {answer!r} does not occur in the text"))
    return tuple(places)
