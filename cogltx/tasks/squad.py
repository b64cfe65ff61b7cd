"""SQuAD 1.1, 2.0 (Rajpurkar et al. 2016, 2018) and data sets with their schema: CUAD (Hendrycks et al. 2021).

Besides the official JSON, an object whose ``data`` is a list of articles, a file may be a list or JSON Lines, and the
objects may be paragraphs (``context``, ``qas``) or questions (``context``, ``question``), as on the Hugging Face hub.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, StrictBool, StrictInt, StrictStr, field_validator

from cogltx.document import BETWEEN_PARAGRAPHS, Document, Example, Query, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Answer, Prediction
from cogltx.tasks._json_list import read_json_list
from cogltx.tasks.base import Id, ReadReport, Split, Task, errors_at
from cogltx.tasks.metrics import answer_score

_NOTHING = Answer("", None, None, 0.0)
_NO_PLACE = -1  # of an answer that is not in the text, in CMRC 2018


class _Answer(BaseModel):
    text: StrictStr
    answer_start: StrictInt
    start_ambiguous: StrictBool | None = None


class _Question(BaseModel):
    id: Id | None = None
    question: StrictStr
    answers: list[_Answer] | None = None
    is_impossible: StrictBool | None = None

    @field_validator("answers", mode="before")
    @classmethod
    def _from_columns(cls, answers: Any) -> Any:
        """Accept a list per field, as the library ``datasets`` has them, or a single answer."""
        match answers:
            case {"text": [*texts], "answer_start": [*starts]} if len(texts) == len(starts):
                return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
            case {"text": str()}:
                return [answers]
        return answers


class _Paragraph(BaseModel):
    context: StrictStr
    qas: list[_Question]


class _Article(BaseModel):
    title: StrictStr | None = None
    paragraphs: list[_Paragraph]


class Squad(Task):
    """SQuAD 1.1 and 2.0. The answer spans are also the evidence labels (``relevant``).

    Attributes:
        join_paragraphs: make a document of each article, with blank lines between its paragraphs, instead of each
            paragraph.
        headings: use the article's title as heading of each paragraph.
        only: if not empty, read only the questions that contain one of these strings: a selection of CUAD's clauses.
    """

    name: ClassVar[str] = "squad"
    main_metric: ClassVar[str] = "f1"
    join_paragraphs: bool = False
    headings: bool = False
    only: tuple[str, ...] = ()

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the questions of a file; the id of a question without one is its number in the file."""
        report, numbers = report or ReadReport(), count(1)
        for number, (where, values) in enumerate(_read_articles(path)):
            title = str(values.get("title") or f"article {number + 1}")
            where = f"{where}: article {title!r}"
            with errors_at(where):
                article = _Article.model_validate(values)
                documents = list(self._documents(article.paragraphs, title))
            for paragraph, (document, offset) in zip(article.paragraphs, documents, strict=True):
                for asked, question_number in zip(paragraph.qas, numbers, strict=False):
                    if self.only and not any(words in asked.question for words in self.only):
                        continue
                    id = str(question_number) if asked.id is None else asked.id
                    report.count(id, where)
                    with errors_at(f"{where}: question {id!r}"):
                        example = _example(id, asked, paragraph.context, document, offset, report)
                    yield example

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``exact_match`` and ``f1``; ``has_answer_f1`` or ``no_answer_accuracy``; the scores of evidence."""
        scores = super().per_example(example, prediction)
        if example.answers:
            scores["has_answer_f1"] = scores["f1"]
        elif example.answers is not None:
            scores["no_answer_accuracy"] = scores["exact_match"]
        return scores

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Means in percent, and SQuAD 2.0's separate and best scores if some questions have no answer.

        ``best_exact_match`` and ``best_f1`` use the no-answer threshold that is best on this data.
        """
        pairs = list(pairs)
        scores = super().metrics(pairs)
        kinds = ("has_answer_f1", "no_answer_accuracy")
        if not all(kind in scores for kind in kinds):
            return {metric: score for metric, score in scores.items() if metric not in kinds}
        return scores | _best_scores(pairs)

    def _documents(self, paragraphs: list[_Paragraph], title: str) -> Iterator[tuple[Document, int]]:
        """Yield the document of each paragraph, and the offset of the paragraph in it."""
        contexts = [paragraph.context for paragraph in paragraphs]
        groups = [contexts] if self.join_paragraphs and contexts else [[text] for text in contexts]
        for number, group in enumerate(groups):
            starts = list(accumulate((len(text) + len(BETWEEN_PARAGRAPHS) for text in group[:-1]), initial=0))
            segments = tuple(
                Segment(start, start + len(text), title if self.headings else "")
                for start, text in zip(starts, group, strict=True)
                if text.strip()
            )
            id = title if self.join_paragraphs else f"{title}#{number}"
            document = Document(BETWEEN_PARAGRAPHS.join(group), id, segments)
            yield from ((document, start) for start in starts)


def _read_articles(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and object of each article; neighbouring questions of a title make one, as do paragraphs."""
    for _, items in groupby(read_json_list(path, "data", ("paragraphs", "qas", "question")), key=_same_article):
        places, rows = zip(*items, strict=True)
        by_context = (list(same) for _, same in groupby(rows, key=lambda row: row.get("context")))
        paragraphs = list(rows) if "qas" in rows[0] else [same[0] | {"qas": same} for same in by_context]
        is_article = "paragraphs" in rows[0]
        yield places[0], rows[0] if is_article else {"title": rows[0].get("title"), "paragraphs": paragraphs}


def _same_article(item: tuple[str, Mapping[str, Any]]) -> tuple[object, ...]:
    """A value that is equal for the paragraphs or questions of one article."""
    where, values = item
    of_paragraph = values.get("title") or (values.get("context") if "question" in values else None)
    return ("qas" in values, of_paragraph) if of_paragraph and "paragraphs" not in values else (where,)


def _best_scores(pairs: Sequence[tuple[Example, Prediction]]) -> dict[str, float]:
    """SQuAD 2.0's best scores over all no-answer thresholds (find_best_thresh); none for readers without margins."""
    measured = [(example, prediction) for example, prediction in pairs if example.answers is not None]
    steps = []  # margin, and the gain of the scores if this question is answered too
    for example, prediction in measured:
        if prediction.no_answer_confidence is None:
            return {}
        best = next(iter(prediction.candidates), _NOTHING)
        score = answer_score(best.text, example.answers or ())
        loss = 0.0 if example.answers else 1.0
        margin = prediction.no_answer_confidence - best.confidence
        steps.append((margin, score.em - loss, score.f1 - loss))
    gains = np.array([[0.0, 0.0], *(step[1:] for step in sorted(steps))])
    n_without_answer = sum(not example.answers for example, _ in measured)
    best = (n_without_answer + gains.cumsum(axis=0)).max(axis=0) / len(measured)
    return {"best_exact_match": 100 * float(best[0]), "best_f1": 100 * float(best[1])}


def _example(id: str, asked: _Question, context: str, document: Document, offset: int, report: ReadReport) -> Example:
    given = [] if asked.is_impossible else asked.answers or []
    is_known = asked.is_impossible or asked.answers is not None
    spans = _spans(id, given, context, offset, report)
    return Example(
        id=id,
        document=document,
        query=Query(asked.question) if asked.question.strip() else None,
        answers=tuple(dict.fromkeys(answer.text for answer in given)) if is_known else None,
        answer_spans=spans,
        relevant=spans if is_known else None,
    )


def _spans(id: str, answers: list[_Answer], context: str, offset: int, report: ReadReport) -> tuple[Span, ...]:
    """The spans of the answers in the document; ambiguous ones (``start_ambiguous``) only if all are."""
    certain: dict[Span, None] = {}
    ambiguous: dict[Span, None] = {}
    for answer in answers:
        text, start = answer.text, answer.answer_start
        if start == _NO_PLACE:
            report.unmapped.append((id, f"the answer {text!r} has no place in the text (answer_start is -1)"))
            continue
        if not 0 <= start < len(context):
            raise DataError(f"answer_start is {start}, outside the {len(context)} characters of the paragraph")
        bare = text.strip()
        places = (start + len(text) - len(text.lstrip()), start)
        place = next((place for place in places if bare and context.startswith(bare, place)), None)
        if place is None:
            got = context[start : start + len(text)]
            report.unmapped.append((id, f"the text at {start} is {got!r}, not the answer {text!r}"))
            continue
        kind = ambiguous if answer.start_ambiguous else certain
        kind[Span(place + offset, place + offset + len(bare))] = None
    return tuple(certain or ambiguous)
