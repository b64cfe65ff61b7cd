"""An HTML report: the answer, the passages that were found, and the documents with both marked.

One self-contained page without scripts. Long stretches between passages are folded. Takes plain data, as
``Prediction.to_dict`` gives it, so it depends on no model.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from cogltx.display._templates import template
from cogltx.display._words import Mark, answer_of, best_first, best_mark, candidates, excerpt, headline, place
from cogltx.document import Document

_CONTEXT = 400  # characters that stay visible on each side of a passage
_FOLD = 600  # characters that are worth folding
_SNIPPET = 280
_LEAST_SHADE = 0.3
_LINE, _SPACE = re.compile(r"\n+"), re.compile(r"\s+")
_NOTHING: Mark = {
    "answer": "", "start": None, "confidence": 0.0, "no_answer_confidence": None, "labels": (), "entities": (),
}  # fmt: skip


def report(
    documents: Sequence[Document],
    passages: Sequence[Mark],
    prediction: Mark | None = None,
    *,
    question: str = "",
    links: Mapping[str, str] | None = None,
    whole_page: bool = True,
) -> str:
    """Render a report.

    Args:
        documents: the documents; none for a report of the passages alone.
        passages: the passages, highest score first; ``document`` may be "" if there is one document.
        prediction: the fields of a prediction; None for a report without an answer.
        question: shown as the title.
        links: the address of the file of each document, by id.
        whole_page: a page of its own, or a fragment for a notebook.
    """
    values = prediction or _NOTHING
    best = best_mark(values)
    highest = max((float(passage["score"]) for passage in passages), default=0.0)

    def shown(mark: Mark, anchor: str) -> dict[str, Any]:
        file = _page_address(mark, (links or {}).get(mark["document"] or (documents[0].id if documents else ""), ""))
        return {**mark, "anchor": anchor, "place": place(mark, documents), "file": file}

    found = [
        shown(passage, f"passage-{number}")
        | {
            "rank": number, "shade": _shade(float(passage["score"]), highest),
            "excerpt": excerpt(passage, best, documents, _SNIPPET),
        }
        for number, passage in enumerate(best_first(passages, best), start=1)
    ]  # fmt: skip
    answer = shown(answer_of(values), "answer") if values["answer"] else None
    others = [shown(one, f"candidate-{number}") for number, one in enumerate(candidates(values), start=1)]
    entities = [shown(one, f"entity-{number}") for number, one in enumerate(values["entities"], start=1)]
    marks = [mark for mark in (answer, *others, *entities) if mark is not None and mark["start"] is not None]
    marks.sort(key=itemgetter("start"))

    def within(document: Document, some: Iterable[Mark]) -> list[Mark]:
        return [one for one in some if len(documents) == 1 or one["document"] == document.id]

    shown_documents = [
        _document(one, within(one, found), within(one, marks), (links or {}).get(one.id, "")) for one in documents
    ]
    shown_documents.sort(
        key=lambda one: (not one["answer"], min((mark["rank"] for mark in one["bar"]), default=len(found)))
    )
    return template("report.html").render(
        question=question, headline=headline(values, documents), answer=answer, others=others, entities=entities,
        labels=values["labels"], passages=found, documents=shown_documents, whole_page=whole_page,
    )  # fmt: skip


def _page_address(mark: Mark, address: str) -> str:
    """The address of a mark's page, if its file is a PDF."""
    is_page = mark["start"] is not None and isinstance(mark["page"], int)
    return f"{address}#page={mark['page']}" if is_page and address.lower().endswith(".pdf") else ""


def _shade(score: float, highest: float) -> float:
    """The strength of a passage's shade."""
    return round(_LEAST_SHADE + (1 - _LEAST_SHADE) * max(0.0, score) / highest, 2) if highest > 0 else _LEAST_SHADE


def _document(document: Document, passages: Sequence[Mark], marks: Sequence[Mark], link: str) -> dict[str, Any]:
    """A document as the template shows it: its pieces in order, and the marks of its bar in percent."""
    size = len(document.text)

    def in_bar(mark: Mark) -> dict[str, Any]:
        left, width = 100 * mark["start"] / size, 100 * (mark["end"] - mark["start"]) / size
        return {**mark, "left": round(left, 2), "width": round(width, 2)}

    pieces = list(_pieces(document, sorted(passages, key=itemgetter("start")), marks))
    bar, of_answer = list(map(in_bar, passages)), [in_bar(mark) for mark in marks if mark["anchor"] == "answer"]
    return {"id": document.id, "size": size, "link": link, "bar": bar, "answer": of_answer, "pieces": pieces}


def _pieces(document: Document, passages: Sequence[Mark], marks: Sequence[Mark]) -> Iterator[dict[str, Any]]:
    """Cut a text where passages and marks begin and end; fold what is long and neither. Both are in text order."""
    text = document.text
    edges = {int(mark[side]) for mark in (*passages, *marks) for side in ("start", "end")}
    cuts = sorted({0, len(text), *edges, *(first for first, _ in document.pages)})
    pages, begun = dict(document.pages), set[str]()

    def part(start: int, end: int) -> dict[str, Any]:
        mark = _mark_at(marks, start)
        is_first = mark is not None and mark["anchor"] not in begun
        begun.update([mark["anchor"]] if mark is not None else ())
        return {"text": text[start:end], "page": pages.get(start), "mark": mark, "is_first": is_first}

    def parts(start: int, end: int) -> list[dict[str, Any]]:
        inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        return [part(*span) for span in pairwise([start, *inner, end])]

    spans = [(start, end, _mark_at(passages, start)) for start, end in pairwise(cuts)]
    for _, group in groupby(spans, key=lambda span: span[2]["anchor"] if span[2] else _mark_at(marks, span[0]) is None):
        run = list(group)
        start, end, passage = run[0][0], run[-1][1], run[0][2]
        is_plain = passage is None and _mark_at(marks, start) is None
        if not is_plain or end - start < 2 * _CONTEXT + _FOLD:
            yield {"passage": passage, "parts": parts(start, end), "folded": 0}
            continue
        first = _next_word(text, start + _CONTEXT) if start else start
        last = _next_word(text, end - 3 * _CONTEXT // 2) if end < len(text) else end
        for a, b in ((start, first), (first, last), (last, end)):
            if a < b:
                yield {"passage": None, "parts": parts(a, b), "folded": b - a if (a, b) == (first, last) else 0}


def _mark_at(marks: Sequence[Mark], start: int) -> Mark | None:
    """The mark that a character is in, of marks in text order without overlap."""
    number = bisect_right(marks, start, key=itemgetter("start")) - 1
    return marks[number] if number >= 0 and start < marks[number]["end"] else None


def _next_word(text: str, at: int) -> int:
    """The beginning of the next line, or else of the next word, or the place itself if both are far."""
    match = _LINE.search(text, at, at + _CONTEXT) or _SPACE.search(text, at, at + _CONTEXT // 10)
    return match.end() if match else at
