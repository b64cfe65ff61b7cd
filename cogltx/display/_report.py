"""An HTML report: documents with their key blocks shaded by score, the answer marked, and the steps that found them.

One self-contained page without scripts. Long stretches between key blocks are folded. Takes plain data, as
``Prediction.to_dict`` gives it, so it depends on no model.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeAlias

from cogltx.display._templates import template

_CONTEXT = 400  # characters that stay visible on each side of a key block
_FOLD = 600  # characters that are worth folding
_SNIPPET = 280
_SURE = 0.5  # confidence
LOWEST_SHOWN = 0.01
"""Confidence of a candidate that is shown."""

Mark: TypeAlias = Mapping[str, Any]
"""An answer or a key block: ``start``, ``end``, ``text``, ``score``, ``document``; a block also ``step``, ``kept``."""


def sureness(confidence: float) -> str:
    """Say how sure a model is.

    >>> sureness(0.853), sureness(0.31)
    ('85 % sure', 'not sure: 31 %')
    """
    percent = f"{100 * confidence:.0f} %"
    return f"{percent} sure" if confidence >= _SURE else f"not sure: {percent}"


def report(
    texts: Mapping[str, str],
    blocks: Sequence[Mark],
    answer: Mark | None = None,
    *,
    question: str = "",
    whole_page: bool = True,
) -> str:
    """Render a report.

    Args:
        texts: the text of each document by its id; empty for a report of the key blocks alone.
        blocks: the key blocks, highest score first; ``document`` may be "" if there is one document.
        answer: the answer; its ``start`` is None if it is no span; None for a report without an answer.
        question: shown as the title.
        whole_page: a page of its own, or a fragment for a notebook.
    """
    highest = max([float(block["score"]) for block in blocks], default=0.0)
    numbered = [
        {**block, "number": number, "shade": _shade(float(block["score"]), highest), "snippet": _snippet(block)}
        for number, block in enumerate(blocks, start=1)
    ]

    def is_in(mark: Mark, id: str) -> bool:
        return len(texts) == 1 or mark["document"] == id

    documents = []
    for id, text in texts.items():
        shown = answer if answer is not None and answer["start"] is not None and is_in(answer, id) else None
        documents.append(_document(id, text, [block for block in numbered if is_in(block, id)], shown))
    steps = {step: [b for b in numbered if b["step"] == step] for step in sorted({b["step"] for b in blocks})}
    is_asked = answer is not None and answer.get("no_answer_confidence") is not None
    candidates = answer["alternatives"] if answer is not None and is_asked else ()
    return template("report.html").render(
        others=[one for one in candidates if one["confidence"] >= LOWEST_SHOWN],
        sureness=sureness,
        question=question,
        answer=answer,
        documents=documents,
        steps=steps,
        blocks=numbered,
        whole_page=whole_page,
    )


def _shade(score: float, highest: float) -> float:
    """The strength of a block's shade, from 0.15 to 1."""
    return round(0.15 + 0.85 * max(0.0, score) / highest, 2) if highest > 0 else 0.15


def _snippet(block: Mark) -> str:
    text = " ".join(str(block["text"]).split())
    return text if len(text) <= _SNIPPET else text[:_SNIPPET].rsplit(" ", 1)[0] + " …"


def _document(id: str, text: str, blocks: Sequence[Mark], answer: Mark | None) -> dict[str, Any]:
    """A document as the template shows it: its pieces in order, and the marks of its bar in percent."""

    def percent(length: int) -> float:
        return round(100 * length / len(text), 2)

    bar = [
        {**block, "left": percent(block["start"]), "width": percent(block["end"] - block["start"])} for block in blocks
    ]
    place = None if answer is None else percent(answer["start"])
    return {"id": id, "size": len(text), "bar": bar, "place": place, "pieces": list(_pieces(text, blocks, answer))}


def _pieces(text: str, blocks: Sequence[Mark], answer: Mark | None) -> Iterator[dict[str, Any]]:
    """Cut a text where key blocks and the answer begin and end; fold what is long and neither."""
    marks = [*blocks, *([answer] if answer is not None else [])]
    cuts = sorted({0, len(text), *(int(mark[side]) for mark in marks for side in ("start", "end"))})

    def block_at(start: int) -> Mark | None:
        return next((block for block in blocks if block["start"] <= start < block["end"]), None)

    def is_answer(start: int) -> bool:
        return answer is not None and answer["start"] <= start < answer["end"]

    spans = [(start, end, block_at(start)) for start, end in pairwise(cuts)]
    for _, group in groupby(spans, key=lambda span: span[2]["number"] if span[2] else None):
        run = list(group)
        block, parts = run[0][2], [{"text": text[a:b], "answer": is_answer(a)} for a, b, _ in run]
        start, end = run[0][0], run[-1][1]
        if block is not None or any(part["answer"] for part in parts) or end - start < 2 * _CONTEXT + _FOLD:
            yield {"block": block, "parts": parts}
            continue
        first = _word_end(text, start + _CONTEXT) if start else start
        last = _word_end(text, end - _CONTEXT) if end < len(text) else end
        for a, b in ((start, first), (first, last), (last, end)):
            if a < b:
                piece = [{"text": text[a:b], "answer": False}]
                yield {"block": None, "parts": piece, "folded": (a, b) == (first, last)}


def _word_end(text: str, at: int) -> int:
    """The next white space, or the place itself in a long run without any."""
    return next((place for place in range(at, min(at + 40, len(text))) if text[place].isspace()), at)
