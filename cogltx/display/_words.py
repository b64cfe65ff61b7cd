"""The words for results, which the command line, reports and notebooks share: how sure, where, and not found.

Takes plain data, as ``Prediction.to_dict`` gives it, so it depends on no model.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from cogltx.document import Document, page_name
from cogltx.errors import one_line

LOWEST_SHOWN = 0.01
"""Confidence of a candidate that is shown."""

Mark: TypeAlias = Mapping[str, Any]
"""An answer, an entity or a passage: ``start``, ``end``, ``text``, ``document``, ``page``; a passage also ``score``."""

Style: TypeAlias = Callable[[str], str]

_SURE, _PROBABLE = 0.8, 0.5  # confidence
_PASSAGES = 3  # of a text
_PASSAGE, _ANSWER, _PLACE = 160, 80, 60  # characters
_LABELS = 10


def sureness(confidence: float) -> str:
    """Say how sure a model is.

    >>> sureness(0.853), sureness(0.61), sureness(0.31)
    ('sure, 85 %', 'probably, 61 %', 'not sure, 31 %')
    """
    degree = "sure" if confidence >= _SURE else "probably" if confidence >= _PROBABLE else "not sure"
    return f"{degree}, {100 * confidence:.0f} %"


def place(mark: Mark, documents: Sequence[Document]) -> str:
    """Name the document, if there are several, and the page and heading, or the line, of a mark; empty without one."""
    if mark["start"] is None:
        return ""
    document = document_of(mark, documents)
    if document is None:
        return one_line(", ".join(filter(None, (mark["document"], page_name(mark["page"]) if mark["page"] else ""))))
    where = begin(one_line(document.place(mark["start"])), _PLACE)
    return ", ".join(filter(None, (one_line(document.id) if len(documents) > 1 else "", where)))


def document_of(mark: Mark, documents: Sequence[Document]) -> Document | None:
    """Find the document of a mark."""
    if len(documents) == 1:
        return documents[0]
    return next((document for document in documents if document.id == mark["document"]), None)


def answer_of(prediction: Mark) -> Mark:
    """Return the answer of a prediction as a mark."""
    return {**prediction, "text": prediction["answer"]}


def candidates(prediction: Mark) -> list[Mark]:
    """Return the less probable answers that are shown: those of a question, of at least 1 %."""
    if prediction["no_answer_confidence"] is None:
        return []
    return [one for one in prediction["alternatives"] if one["confidence"] >= LOWEST_SHOWN]


def best_mark(prediction: Mark) -> Mark | None:
    """Return the answer, or else the nearest candidate, if it has a place."""
    marks = [answer_of(prediction)] if prediction["answer"] else candidates(prediction)
    return next((mark for mark in marks if mark["start"] is not None), None)


def holds(passage: Mark, mark: Mark | None) -> bool:
    """Check whether a mark begins in a passage."""
    if mark is None or mark["document"] != passage["document"]:
        return False
    return bool(passage["start"] <= mark["start"] < passage["end"])


def best_first(passages: Sequence[Mark], mark: Mark | None) -> list[Mark]:
    """Move the passage with a mark to the first place."""
    return sorted(passages, key=lambda passage: not holds(passage, mark))


def headline(prediction: Mark, documents: Sequence[Document]) -> tuple[str, str]:
    """Return the answer, or that there is none, and its sureness; both are empty without a question and an answer."""
    text, confidence = _joined(prediction["answer"]).strip(), prediction["confidence"]
    if not text and prediction["labels"]:
        text = "No label"
    elif not text and prediction["no_answer_confidence"] is not None:
        name = one_line(documents[0].id) if len(documents) == 1 else f"{len(documents)} documents" * bool(documents)
        text = f"{'Not found' if confidence else 'No sure answer'} in {name or 'the text'}"
    return text, sureness(confidence) if text and confidence else ""


def excerpt(passage: Mark, mark: Mark | None, documents: Sequence[Document], size: int) -> tuple[str, str, str]:
    """Return the text of a passage on one line, in three parts: before a mark, the mark, and after it.

    The parts are ``size`` characters long at most, except for the mark. A heading that is part of the place is left
    out. Without a mark in the passage, the first two parts are empty.
    """
    text, start = passage["text"], passage["start"]
    first, last = (mark["start"] - start, mark["end"] - start) if mark is not None and holds(passage, mark) else (0, 0)
    document = document_of(passage, documents)
    heading = document.heading(start) if document is not None else ""
    n_heading = len(heading) if heading and text.startswith(heading) and text[len(heading) :].strip() else 0
    if last and first < n_heading:
        n_heading = 0
    pieces = (text[n_heading:first], text[first:last], text[last:]) if last else ("", "", text[n_heading:])
    before, marked, after = (_joined(piece) for piece in pieces)
    if not marked:
        return "", "", begin(after.strip(), size)
    before = begin(before.lstrip()[::-1], size // 2)[::-1]
    return before, marked, begin(after.rstrip(), max(size // 2, size - len(before) - len(marked)))


def text_of(prediction: Mark, documents: Sequence[Document] = (), bold: Style = str) -> str:
    """Format a prediction as text: the answer with its place or the nearest candidates, labels, passages."""
    text, sure = headline(prediction, documents)
    sections = []
    if text:
        first = ", ".join(filter(None, (bold(text) + f" ({sure})" * bool(sure), place(prediction, documents))))
        others = [] if prediction["answer"] else candidates(prediction)
        starts = ("The nearest is", *("Then",) * len(others))
        sections.append([first, *(_nearest(start, one, documents) for start, one in zip(starts, others, strict=False))])
    if prediction["labels"]:
        labels = (
            f"  {'*' if one['chosen'] else ' '} {100 * one['score']:3.0f} %  {one['name']}"
            for one in prediction["labels"]
        )
        sections.append(["Labels, * is chosen:", *islice(labels, _LABELS)])
    if prediction["evidence"]:
        mark = best_mark(prediction)
        sections.append([passages_text(best_first(prediction["evidence"], mark)[:_PASSAGES], documents, mark, bold)])
    return "\n\n".join(map("\n".join, sections))


def passages_text(
    passages: Sequence[Mark], documents: Sequence[Document], mark: Mark | None = None, bold: Style = str,
    size: int = _PASSAGE,
) -> str:  # fmt: skip
    """Format passages as text, each with its place, or that of a mark in it, which is bold."""
    lines = ["Passages that were found:"]
    for passage in passages:
        before, marked, after = excerpt(passage, mark, documents, size)
        text = before + (bold(marked) if marked else "") + after
        where = place(mark if mark is not None and marked else passage, documents)
        lines.append(f"  {': '.join(filter(None, (where, text)))}")
    return "\n".join(lines)


def entities_text(prediction: Mark, documents: Sequence[Document] = ()) -> str:
    """Format the entities of a prediction as text, one per line, with aligned labels."""
    entities = prediction["entities"]
    first = f"{len(entities):,} {'entity' if len(entities) == 1 else 'entities'}"
    if prediction["n_unread"]:
        first += f"; the last {prediction['n_unread']:,} tokens of the text were not read"
    width = max((len(entity["label"]) for entity in entities), default=0)
    lines = [
        f"  {entity['label']:{width}}  {_joined(entity['text'])} ({sureness(entity['score'])})"
        + "".join(f", {where}" for where in [place(entity, documents)] if where)
        for entity in entities
    ]
    return "\n".join([first + ":" * bool(entities), *lines])


def _nearest(start: str, mark: Mark, documents: Sequence[Document]) -> str:
    """A candidate with its confidence and place."""
    text = f"{start} “{begin(_joined(mark['text']), _ANSWER)}” ({sureness(mark['confidence'])})"
    return ", ".join(filter(None, (text, place(mark, documents))))


def _joined(text: str) -> str:
    """A text on one line; white space at its ends becomes one space."""
    words = one_line(" ".join(text.split()))
    if not words:
        return " " * bool(text)
    return " " * text[0].isspace() + words + " " * text[-1].isspace()


def begin(text: str, size: int) -> str:
    """The first words of a text."""
    return text if len(text) <= size else text[:size].rsplit(" ", 1)[0] + " …"
