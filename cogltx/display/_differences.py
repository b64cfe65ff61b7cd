"""An HTML page of the results of a model, or of the differences between two, question by question.

One self-contained page without scripts. Takes plain data, as ``Prediction.to_dict`` gives it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from cogltx.display._templates import template
from cogltx.display._words import Mark, begin, headline, place
from cogltx.document import Document
from cogltx.errors import one_line

_SHOWN, _MOST = 20, 300  # cases of a group that are open, and on the page
_CONTEXT, _LONGEST, _TITLE = 160, 600, 120  # characters around a mark, of a mark, of a title
_MOST_ENTITIES = 30  # of a text
_RIGHT = 0.5  # F1 of an answer that counts as right

_Span = tuple[int, int, str]

_CHANGED = {"Now right": True, "Now wrong": True, "Better": True, "Worse": True}
_GROUPS = _CHANGED | {"Wrong": True, "Partly right": True, "Another answer, the same score": False}
_GROUPS |= {"No change": False, "Right": False, "Without a gold answer": False}
"""The groups in their order, and whether they are open."""


def differences(
    names: Sequence[str],
    cases: Sequence[Mapping[str, Any]],
    *,
    data: str,
    verdict: Sequence[str] = (),
    result: str = "",
    metrics: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Render a page.

    Args:
        names: the model, and the one that it is compared with, if any.
        cases: per example ``question``, ``document``, its gold ``answers``, ``spans``, ``labels`` and ``entities``, and
            the ``predictions`` and ``scores`` of the models.
        data: the name of the data.
        verdict: sentences, the first of which is the result.
        result: ``better`` or ``worse``, or a word for neither.
        metrics: ``metric``, ``value`` and, for two models, ``other``, ``difference``, ``low`` and ``high``.
    """
    grouped: dict[str, list[Mapping[str, Any]]] = {name: [] for name in _GROUPS}
    for case in cases:
        grouped[_group(case)].append(case)
    documents = {case["document"].text: case["document"].id for case in cases}
    has_questions = any(case["question"] for case in cases)
    kinds = (kind for kind in ("entities", "labels") if any(case[kind] is not None for case in cases))
    groups = [
        {
            "name": name, "size": len(some), "is_open": _GROUPS[name], "anchor": name.split(",")[0].replace(" ", "-"),
            "cases": [_shown(case, names, len(documents) > 1) for case in sorted(some, key=_order)[:_MOST]],
        }
        for name, some in grouped.items() if some
    ]  # fmt: skip
    return template("differences.html").render(
        names=names, groups=groups, data=data, verdict=verdict, result=result, metrics=metrics, shown_cases=_SHOWN,
        n_cases=len(cases), n_documents=len(documents), document=next(iter(documents.values()), ""),
        noun="question" if has_questions else "text", whole_page=True, gold_name=f"Gold {next(kinds, 'answer')}",
        counts=_counts({name: len(some) for name, some in grouped.items()}),
        marks=[has_questions and any(case["spans"] for case in cases), has_questions],
    )  # fmt: skip


def _counts(sizes: Mapping[str, int]) -> str:
    """The sizes of the groups of two models in one sentence."""
    right, wrong = sizes["Now right"], sizes["Now wrong"]
    same = sizes["Another answer, the same score"] + sizes["No change"]
    better, worse = f"Better: {right + sizes['Better']:,}", f"Worse: {wrong + sizes['Worse']:,}"
    return f"{better} ({right:,} now right). {worse} ({wrong:,} now wrong). The same score: {same:,}."


def _is_right(case: Mapping[str, Any], score: float) -> bool:
    return score >= (1.0 if case["answers"] is None else _RIGHT)


def _group(case: Mapping[str, Any]) -> str:
    ours, *others = case["scores"]
    if ours is None or None in others:
        return "Without a gold answer"
    is_right = _is_right(case, ours)
    if not others:
        return "Right" if ours == 1 else "Partly right" if is_right else "Wrong"
    if is_right != _is_right(case, others[0]):
        return "Now right" if is_right else "Now wrong"
    if abs(ours - others[0]) > 1e-9:
        return "Better" if ours > others[0] else "Worse"
    return "No change" if len({_given(one) for one in case["predictions"]}) == 1 else "Another answer, the same score"


def _given(prediction: Mark) -> tuple[object, ...]:
    """Return the part of a prediction that is compared with another: answer and entities."""
    return prediction["answer"], *((one["start"], one["end"], one["label"]) for one in prediction["entities"])


def _order(case: Mapping[str, Any]) -> tuple[float, ...]:
    """Largest change first; then the lowest score, and the surest answer."""
    scores = [score or 0.0 for score in case["scores"]]
    return -abs(scores[0] - scores[-1]), scores[0], -case["predictions"][0]["confidence"]


def _shown(case: Mapping[str, Any], names: Sequence[str], several: bool) -> dict[str, Any]:
    """A case as the template shows it."""
    document: Document = case["document"]
    rows = []
    for name, prediction, score in zip(names, case["predictions"], case["scores"], strict=True):
        if case["entities"] is not None:
            text, sure = f"{len(prediction['entities']):,} entities", ""
        else:
            text, sure = headline(prediction, ())
        is_right = score is not None and _is_right(case, score)
        rows.append({"name": name, "text": begin(text, _LONGEST), "sure": sure, "score": score, "is_right": is_right})
    question, id = case["question"], one_line(document.id)
    return {
        "title": question or id or begin(one_line(" ".join(document.text.split())), _TITLE),
        "document": id if several and question else "", "gold": _gold(case), "rows": rows,
        "excerpts": list(_excerpts(document, _marks(case))) if question else [],
        "entities": _entities(case, names) if case["entities"] is not None else [],
        "beginning": begin(" ".join(document.text[: 2 * _LONGEST].split()), _LONGEST // 2) if not question else "",
    }  # fmt: skip


def _gold(case: Mapping[str, Any]) -> str:
    if case["entities"] is not None:
        return f"{len(case['entities']):,} entities"
    gold = case["labels"] if case["answers"] is None else case["answers"]
    nothing = "No label" if case["answers"] is None else "No answer in the text"
    return "unknown" if gold is None else begin("; ".join(dict.fromkeys(gold)), _LONGEST) or nothing


def _marks(case: Mapping[str, Any]) -> list[_Span]:
    """The answers of the models with a place, and the gold answers at these places, or else the first."""
    kinds = ("ours", "theirs")
    placed = [(one["start"], one["end"], kind) for one, kind in zip(case["predictions"], kinds, strict=False)]
    answers = [(start, end, kind) for start, end, kind in placed if start is not None]
    near = [span for span in case["spans"] if any(span[0] < end and start < span[1] for start, end, _ in answers)]
    return sorted([*((start, end, "gold") for start, end in near or case["spans"][:1]), *answers])


def _excerpts(document: Document, marks: Sequence[_Span]) -> list[dict[str, Any]]:
    """The text around marks, cut where they begin and end; those near each other are in one excerpt."""
    groups: list[list[_Span]] = []
    for mark in marks:
        if groups and mark[0] - max(end for _, end, _ in groups[-1]) < 2 * _CONTEXT:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [_excerpt(document, group) for group in groups]


def _excerpt(document: Document, marks: Sequence[_Span]) -> dict[str, Any]:
    text, first, last = document.text, marks[0][0], max(end for _, end, _ in marks)
    edges = sorted({edge for start, end, _ in marks for edge in (start, end)})
    pieces = [
        (_shortened(text[start:end]), sorted({kind for a, b, kind in marks if a <= start and end <= b}))
        for start, end in pairwise(edges)
    ]
    before = begin(text[max(0, first - 2 * _CONTEXT) : first][::-1], _CONTEXT)[::-1]
    after = begin(text[last : last + 2 * _CONTEXT], _CONTEXT)
    where = place({"start": first, "document": "", "page": document.page(first)}, [document])
    return {"place": where, "pieces": [(before, []), *pieces, (after, [])]}


def _shortened(text: str) -> str:
    """A text without its middle, if it is long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 3 :]}"


def _entities(case: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, str]]:
    """The entities that one has and another has not: two models, or a model and the gold data."""
    gold = {(start, end, label) for start, end, label in case["entities"]}
    found = [{(one["start"], one["end"], one["label"]) for one in made["entities"]} for made in case["predictions"]]
    document: Document = case["document"]
    others = found[1] if len(found) > 1 else gold
    rows = []
    for start, end, label in sorted(found[0] ^ others)[:_MOST_ENTITIES]:
        entity = (start, end, label)
        finders = [name for name, some in zip(names, found, strict=True) if entity in some]
        right = "in the gold data" if entity in gold else "not in the gold data"
        where = place({"start": start, "document": "", "page": document.page(start)}, [document])
        text = begin(" ".join(document.text[start:end].split()), _TITLE)
        by = f"found by {finders[0]} only" if len(found) > 1 else "found" if finders else "not found"
        rows.append({"label": label, "text": text, "what": f"{by}, {right}", "place": where})
    if (left_out := len(found[0] ^ others) - len(rows)) > 0:
        rows.append({"label": "", "text": f"and {left_out:,} more", "what": "", "place": ""})
    return rows
