"""The package's own format: one JSON object per line, or Python dicts; ``data/README.md`` describes it."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import ijson
from pydantic import BaseModel, ConfigDict, PlainValidator, StrictInt, StrictStr, model_validator

from cogltx._files import open_binary, read_json_lines, write_file
from cogltx.blocks._script import folded
from cogltx.document import Document, Entity, Example, Query, Segment, Span
from cogltx.errors import DataError, shorten
from cogltx.tasks.base import Id, ReadReport, Split, Task, errors_at, occurrences


class JsonLines(Task):
    """Your own examples, one JSON object per line, of which only ``text`` is required.

    Without ``answers`` the answer is unknown. An answer without an offset is searched in the text at word boundaries.
    """

    name: ClassVar[str] = "jsonl"
    main_metric: ClassVar[str] = "f1"
    reads_json_lines: ClassVar[bool] = True

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the examples; ``split`` makes no difference."""
        return parse_examples(read_json_lines(path), report)

    @staticmethod
    def is_form_of(path: Path) -> bool:
        """Check whether a file begins with an object that has ``text``.

        Reads no further than this key, or the first list of another format.
        """
        if not path.is_file():
            return False
        try:
            with open_binary(path) as file:
                if file.peek(3)[:3] == BOM_UTF8:  # type: ignore[attr-defined]
                    file.read(3)
                for prefix, event, value in ijson.parse(file, multiple_values=True):
                    if (prefix, event) == ("", "map_key"):
                        if value == "text":
                            return True
                    elif event.startswith("start") and (prefix or event == "start_array"):
                        if prefix.partition(".")[0] not in _Line.model_fields:
                            return False
                    elif not prefix and event != "start_map":
                        return False
        except (DataError, ijson.JSONError, UnicodeDecodeError):
            pass
        return False


def parse_examples(
    records: Iterable[tuple[str, Example | Mapping[str, Any]]], report: ReadReport | None = None
) -> Iterator[Example]:
    """Yield the examples of objects, each after its place, whose number is the id of an object without one.

    Objects in a row with the same document share one Document object, and may leave out its text after the first.
    Raises DataError for a wrong object.
    """
    report = report or ReadReport()
    last: Document | None = None
    for where, values in records:
        if isinstance(values, Example):
            example = values
        elif isinstance(values, Mapping):
            with errors_at(where, _Line):
                example = _example(values, re.split("[: ]", where)[-1], report, last)
                report.count(example.id, where)
            if last == example.document:
                example = replace(example, document=last)
        else:
            kind = type(values).__name__
            raise DataError(f"{where}: must be an Example or a dict with the field text, but is {kind}")
        last = example.document
        yield example


def as_examples(data: Iterable[Example | Mapping[str, Any]]) -> list[Example]:
    """Convert Example objects, dicts in the JSON Lines form or the rows of a ``datasets.Dataset`` to Examples.

    Numbers in a column of ``ClassLabel`` become the names of the labels; −1 is a text without a known label.
    """
    names = {
        column: feature_names
        for column, feature in (getattr(data, "features", None) or {}).items()
        if (feature_names := getattr(getattr(feature, "feature", feature), "names", None))
    }
    return list(parse_examples((f"example {number}", _named(item, names)) for number, item in enumerate(data)))


def _named(item: Any, names: Mapping[str, Sequence[str]]) -> Any:
    """Replace the numbers of labels by their names."""
    if not names or not isinstance(item, Mapping):
        return item

    def name(column: str, value: Any) -> Any:
        if isinstance(value, list):
            return [name(column, one) for one in value]
        if not isinstance(value, int):
            return value
        return names[column][value] if value >= 0 else None

    return {column: name(column, value) if column in names else value for column, value in item.items()}


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write examples atomically in the JSON Lines form; raises DataError if an ``extra`` cannot be written as JSON."""
    write_file(path, _to_lines(examples))


def _to_lines(examples: Iterable[Example]) -> Iterator[str]:
    """Format examples as lines, of which those in a row about one document have its text once."""
    last: Document | None = None
    for example in examples:
        yield _to_json(example, is_same=example.document == last) + "\n"
        last = example.document


def _to_json(example: Example, is_same: bool) -> str:
    """Format an example as one line, without fields that have their default or are of the same document."""
    document = example.document
    of_document = {
        "text": document.text,
        "segments": [{k: v for k, v in asdict(segment).items() if v != ""} for segment in document.segments] or None,
        "pages": document.pages or None,
    }
    fields = {
        "id": example.id,
        "document": None if document.id == example.id and not is_same else document.id,
        **({} if is_same else of_document),
        "question": None if example.query is None else example.query.text,
        "answers": example.answers,
        "answer_spans": _tuples(example.answer_spans) if example.answers or example.answer_spans else None,
        "labels": example.labels,
        "entities": _tuples(example.entities),
        "relevant": _tuples(example.relevant),
        "extra": example.extra or None,
    }
    fields = {key: value for key, value in fields.items() if value is not None}
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"example {example.id!r}: extra cannot be written as JSON: {error}") from None


def _tuples(spans: Iterable[Span | Entity] | None) -> list[tuple[object, ...]] | None:
    return None if spans is None else [astuple(span) for span in spans]


def _span(value: object) -> Span:
    match value:
        case [int(start), int(end)] if not isinstance(start, bool) and not isinstance(end, bool):
            return Span(start, end)
    raise ValueError(f"must be [start, end], but is {shorten(value)}")


_Span = Annotated[Span, PlainValidator(_span)]


class _Answer(BaseModel):
    text: StrictStr
    start: StrictInt | None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"text": value, "start": None}
        if not isinstance(value, dict):
            raise ValueError(f"must be a string or an object with text and start, but is {shorten(value)}")
        return value


class _Entity(BaseModel):
    start: StrictInt
    end: StrictInt
    label: StrictStr
    text: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 3:
            return dict(zip(("start", "end", "label"), value, strict=True))
        if not isinstance(value, dict):
            raise ValueError(f"must be [start, end, label], but is {shorten(value)}")
        return value


class _Segment(BaseModel):
    start: StrictInt
    end: StrictInt
    heading: StrictStr | None = None


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: Id | None = None
    document: StrictStr | None = None
    text: StrictStr
    question: StrictStr | None = None
    answers: list[_Answer] | None = None
    answer_spans: list[_Span] | None = None
    label: Id | None = None
    labels: list[Id] | None = None
    entities: list[_Entity] | None = None
    relevant: list[_Span] | None = None
    segments: list[_Segment] | None = None
    pages: list[tuple[StrictInt, StrictInt | StrictStr]] | None = None
    extra: dict[str, object] | None = None

    @model_validator(mode="after")
    def _check(self) -> "_Line":
        problems = []
        labels = self.labels or []
        if self.label is not None and self.labels is not None:
            problems.append("has both label and labels; keep one")
        if len(set(labels)) < len(labels) or any(not name.strip() for name in [*labels, self.label or "x"]):
            problems.append(f"labels must be different names, but are {shorten(labels or self.label)}")
        for number, answer in enumerate(self.answers or []):
            if answer.start is not None:
                problems += self._compare(f"answers[{number}]", answer.start, answer.text)
        for number, entity in enumerate(self.entities or []):
            if entity.text is not None:
                problems += self._compare(f"entities[{number}]", entity.start, entity.text, entity.end)
        accepted = [_bare(answer.text) for answer in self.answers or []]
        for number, span in enumerate(self.answer_spans or []):
            text = self.text[span.start : span.end]
            if accepted and not any(_bare(text) in answer or answer in _bare(text) for answer in accepted):
                wanted = shorten((self.answers or [])[0].text)
                problems.append(f"answer_spans[{number}]: the text there is {shorten(text)}, not {wanted}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _compare(self, name: str, start: int, wanted: str, end: int | None = None) -> list[str]:
        text = self.text[max(start, 0) : start + len(wanted) if end is None else end]
        same = start >= 0 and text == wanted
        return [] if same else [f"{name}: the text at {start} is {shorten(text)}, not {shorten(wanted)}"]


def _bare(text: str) -> str:
    """Letters and digits in folded case."""
    return "".join(filter(str.isalnum, folded(text)))


def _shared(values: Mapping[str, Any], last: Document | None) -> Document | None:
    """Return the document of the object before if this one names it and leaves out its text; else None."""
    if values.get("text") is not None or values.get("document") is None:
        return None
    if last is None or last.id != values["document"] or values.get("segments") or values.get("pages"):
        raise DataError("text is missing; only a line after another of the same document may leave it out")
    return last


def _example(values: Mapping[str, Any], id: str, report: ReadReport, last: Document | None) -> Example:
    shared = _shared(values, last)
    line = _Line.model_validate(dict(values) if shared is None else {**values, "text": shared.text})
    id = id if line.id is None else line.id
    labels = [line.label] if line.label is not None else line.labels
    segments = tuple(Segment(one.start, one.end, one.heading or "") for one in line.segments or [])
    name, pages = id if line.document is None else line.document, tuple(line.pages or ())
    return Example(
        id=id,
        document=shared or Document(line.text, name, segments, pages=pages),
        query=None if line.question is None else Query(line.question),
        answers=None if line.answers is None else tuple(answer.text for answer in line.answers),
        answer_spans=_places(id, line, report) if line.answer_spans is None else tuple(line.answer_spans),
        labels=None if labels is None else tuple(labels),
        entities=None if line.entities is None else tuple(Entity(e.start, e.end, e.label) for e in line.entities),
        relevant=None if line.relevant is None else tuple(line.relevant),
        extra=line.extra or {},
    )


def _places(id: str, line: _Line, report: ReadReport) -> tuple[Span, ...]:
    """The spans of the answers: the given ones, or all occurrences at word boundaries."""
    places: dict[Span, None] = {}
    for answer in line.answers or []:
        if answer.start is not None:
            places[Span(answer.start, answer.start + len(answer.text))] = None
        elif answer.text.strip().lower() not in ("yes", "no"):
            spans = occurrences(line.text, answer.text, whole_words=True)
            places |= dict.fromkeys(spans)
            if not spans:
                inside = occurrences(line.text, answer.text)
                problem = "occurs only inside words; give its start" if inside else "does not occur in the text"
                report.unmapped.append((id, f"the answer {answer.text!r} {problem}"))
    return tuple(places)
