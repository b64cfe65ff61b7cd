"""NewsQA: the file combined-newsqa-data-v1.json that its official scripts produce (Trischler et al. 2017)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr, model_validator

from cogltx.document import Document, Example, Query, Span
from cogltx.prediction import Prediction
from cogltx.tasks._json_list import read_json_list
from cogltx.tasks.base import Id, ReadReport, Split, Task, errors_at

_TYPES: dict[Split, str] = {"train": "train", "validation": "dev", "test": "test"}
_TRAILING = re.compile(
    r"(?<![\s.,;:!?\"'”’])[\s.,;:!?\"'”’]+$"
)  # ranges often include these; the scores ignore them anyway


class _Consensus(BaseModel):
    s: StrictInt | None = None
    e: StrictInt | None = None
    no_answer: StrictBool | None = Field(default=None, alias="noAnswer")
    bad_question: StrictBool | None = Field(default=None, alias="badQuestion")

    @model_validator(mode="after")
    def _check(self) -> "_Consensus":
        if not self.no_answer and not self.bad_question and (self.s is None or self.e is None):
            raise ValueError("must have s and e, noAnswer or badQuestion")
        return self


class _Question(BaseModel):
    q: StrictStr
    consensus: _Consensus


class _Story(BaseModel):
    id: Id = Field(alias="storyId")
    text: StrictStr
    type: Literal["train", "dev", "test"]
    questions: list[_Question]


class NewsQA(Task):
    """NewsQA; the span of the workers' consensus is the only gold answer.

    Training leaves out the questions that the consensus calls bad. Evaluation counts them as questions without an
    answer: ``exact_match`` and ``f1`` are over all questions, ``answerable_em`` and ``answerable_f1`` over those with
    an answer, as in MRQA. The ids of questions are ``STORY#NUMBER``.
    """

    name: ClassVar[str] = "newsqa"
    main_metric: ClassVar[str] = "f1"

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the questions of one split; one file holds all three, by each story's ``type``."""
        report = report or ReadReport()
        for where, values in read_json_list(path, "data"):
            where = f"{where}: story {values.get('storyId')!r}"
            with errors_at(where):
                story = _Story.model_validate(values)
                document = Document(story.text, story.id)
            if story.type != _TYPES[split]:
                continue
            for number, asked in enumerate(story.questions):
                is_bad = bool(asked.consensus.bad_question)
                if not is_bad or split != "train":
                    id = f"{story.id}#{number}"
                    report.count(id, where)
                    yield _example(id, asked, document, is_bad, report)

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``exact_match`` and ``f1``, also for answerable questions only, and the scores of evidence."""
        scores = super().per_example(example, prediction)
        if example.answers:
            scores |= {"answerable_em": scores["exact_match"], "answerable_f1": scores["f1"]}
        return scores


def _example(id: str, asked: _Question, document: Document, is_bad: bool, report: ReadReport) -> Example:
    spans = _spans(id, asked.consensus, document.text, report)
    return Example(
        id=id,
        document=document,
        query=Query(asked.q) if asked.q.strip() else None,
        answers=tuple(document.text[span.start : span.end] for span in spans),
        answer_spans=spans,
        relevant=spans,
        extra={"bad_question": True} if is_bad else {},
    )


def _spans(id: str, consensus: _Consensus, text: str, report: ReadReport) -> tuple[Span, ...]:
    """The agreed span, clipped to the text and trimmed; empty if there is no answer or nothing is left."""
    if consensus.no_answer or consensus.bad_question or consensus.s is None or consensus.e is None:
        return ()
    start, end = max(consensus.s, 0), min(consensus.e, len(text))
    bare = text[start : max(start, end)].strip()
    bare = _TRAILING.sub("", bare) or bare
    if not bare:
        report.unmapped.append((id, f"the answer at {start}:{end} is not text"))
        return ()
    start = text.index(bare, start)
    return (Span(start, start + len(bare)),)
