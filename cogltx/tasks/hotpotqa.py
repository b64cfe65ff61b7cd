"""HotpotQA in the distractor setting: its official JSON, supporting facts and joint scores (Yang et al. 2018)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, Field, StrictInt, StrictStr, model_validator

from cogltx.document import Document, Example, Query, Segment, Span
from cogltx.prediction import Prediction
from cogltx.tasks._json_list import read_json_list
from cogltx.tasks.base import Id, ReadReport, Split, Task, errors_at, occurrences
from cogltx.tasks.metrics import Score, answer_score

_Fact: TypeAlias = tuple[str, int]  # a paragraph's title and the number of a sentence in it, from 0
_Sentence: TypeAlias = tuple[str, int, int, int]  # a fact, and the start and end of its sentence
_THRESHOLDS = (None, *(step / 20 for step in range(20, 0, -1)))  # of equally good ones the first is chosen


class _Question(BaseModel):
    id: Id = Field(alias="_id")
    question: StrictStr
    answer: StrictStr | None = None
    supporting_facts: list[tuple[StrictStr, StrictInt]] | None = None
    context: list[tuple[StrictStr, list[StrictStr]]]
    type: object = None
    level: object = None

    @model_validator(mode="before")
    @classmethod
    def _from_columns(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Accept a list per field, as the library ``datasets`` has them."""
        values = {"_id": values["id"]} | values if "id" in values else values
        for name in ("context", "supporting_facts"):
            match values.get(name):
                case {"title": [*titles], "sentences": [*others]} | {"title": [*titles], "sent_id": [*others]}:
                    if len(titles) == len(others):
                        values = values | {name: list(zip(titles, others, strict=True))}
        return values


class HotpotQA(Task):
    """HotpotQA, distractor setting.

    A document consists of the question's paragraphs, one per line. Each sentence that is not blank is a segment with
    its paragraph's title as heading. ``extra`` of an example holds ``sentences`` as [title, index, start, end], and
    ``supporting_facts``, ``type`` and ``level`` as in the file.

    Attributes:
        supporting_facts: number of sentences to predict, those of the blocks with the highest scores (paper: 2).
        paragraphs: number of paragraphs from which sentences are predicted, at least one of each; None: sentences of
            any paragraph, as in the paper.
        fact_threshold: also predict all sentences with at least this score, in [0, 1]; ``tuned``: training chooses it
            by the F1 of supporting facts on the validation questions.
    """

    name: ClassVar[str] = "hotpotqa"
    main_metric: ClassVar[str] = "joint_f1"
    answer_metric: ClassVar[str | None] = "answer_f1"
    supporting_facts: int = Field(default=2, ge=0)
    paragraphs: int | None = Field(default=None, ge=1)
    fact_threshold: Annotated[float, Field(ge=0, le=1)] | Literal["tuned"] | None = None

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the questions of the official JSON, a list, or of JSON Lines.

        An answer's spans are its occurrences in the supporting sentences; without any, those in the whole document.
        """
        report = report or ReadReport()
        for where, values in read_json_list(path, of_objects=("question",)):
            where = f"{where}: question {values.get('_id', values.get('id'))!r}"
            with errors_at(where):
                record = _Question.model_validate(values)
                example = _example(record, report)
            report.count(example.id, where)
            yield example

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """The official answer, supporting-fact and joint scores, and the scores of evidence."""
        numbers: dict[str, float] = {}
        answer = None
        if example.answers is not None:
            answer = answer_score(prediction.answer, example.answers, closed=True)
            numbers = {"answer_em": answer.em, "answer_f1": answer.f1}
        if "supporting_facts" in example.extra:
            gold = [tuple(fact) for fact in cast(list[_Fact], example.extra["supporting_facts"])]
            facts = Score.of_sets(self._predicted_facts(example, prediction), gold)
            numbers |= {f"sup_{name}": score for name, score in asdict(facts).items()}
            if answer is not None:
                joint = answer.joint(facts)
                numbers |= {"joint_em": joint.em, "joint_f1": joint.f1}
        return numbers | super().per_example(replace(example, answers=None), prediction)

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """The predicted supporting facts, as in the official prediction file; none for data without sentences."""
        if "sentences" not in example.extra:
            return {}
        return {"supporting_facts": [list(fact) for fact in self._predicted_facts(example, prediction)]}

    def tuned(self, pairs: Sequence[tuple[Example, Prediction]]) -> Self:
        """See ``Task.tuned``."""
        if self.fact_threshold != "tuned":
            return self
        candidates = [self.model_copy(update={"fact_threshold": threshold}) for threshold in _THRESHOLDS]
        return max(candidates, key=lambda task: task.metrics(pairs).get("sup_f1", 0.0))

    def _predicted_facts(self, example: Example, prediction: Prediction) -> list[_Fact]:
        """The sentences that share most characters with the highest-scoring key blocks, best first, each once."""
        sentences = cast(list[_Sentence], example.extra["sentences"])
        score_of: dict[_Fact, float] = {}
        for block in sorted(prediction.evidence, key=lambda block: -block.score):
            shared = [min(end, block.end) - max(start, block.start) for _, _, start, end in sentences]
            if max(shared, default=0) > 0:
                title, index, *_ = sentences[shared.index(max(shared))]
                score_of.setdefault((title, index), block.score)
        certain = list(score_of)[: self.supporting_facts]
        if self.paragraphs is not None:
            best_of = {fact[0]: fact for fact in reversed(score_of)}
            certain = [fact for fact in score_of if fact in best_of.values()][: self.paragraphs]
            titles = {title for title, _ in certain}
            score_of = {fact: score for fact, score in score_of.items() if fact[0] in titles}
        threshold = self.fact_threshold if isinstance(self.fact_threshold, float) else math.inf
        return [fact for fact, score in score_of.items() if fact in certain or score >= threshold]


def _example(record: _Question, report: ReadReport) -> Example:
    text, sentences = _join(record.context)
    segments = tuple(Segment(start, end, title) for title, _, start, end in sentences)
    extra: dict[str, object] = {"sentences": [list(sentence) for sentence in sentences]}
    extra |= {key: getattr(record, key) for key in ("type", "level") if key in record.model_fields_set}
    relevant = None
    if record.supporting_facts is not None:
        extra["supporting_facts"] = [list(fact) for fact in record.supporting_facts]
        relevant = _place_facts(record.id, record.supporting_facts, sentences, report)
    spans: tuple[Span, ...] = ()
    if record.answer is not None and record.answer not in ("yes", "no"):
        inside = tuple(place for span in relevant or () for place in occurrences(text, record.answer, span))
        spans = inside or occurrences(text, record.answer)
        if not spans:
            report.unmapped.append((record.id, f"the answer {record.answer!r} does not occur in the document"))
    return Example(
        id=record.id,
        document=Document(text, record.id, segments),
        query=Query(record.question) if record.question.strip() else None,
        answers=None if record.answer is None else (record.answer,),
        answer_spans=spans,
        relevant=relevant,
        extra=extra,
    )


def _join(context: list[tuple[str, list[str]]]) -> tuple[str, list[_Sentence]]:
    """The document's text and its sentences that are not blank."""
    text, sentences = "", []
    for number, (title, given) in enumerate(context):
        text += "\n" if number else ""
        for index, sentence in enumerate(given):
            start = len(text)
            text += sentence
            if sentence.strip():
                sentences.append((title, index, start, len(text)))
    return text, sentences


def _place_facts(id: str, facts: list[_Fact], sentences: list[_Sentence], report: ReadReport) -> tuple[Span, ...]:
    """The spans of the supporting sentences; of paragraphs with the same title, the first counts."""
    places = {(title, index): Span(start, end) for title, index, start, end in reversed(sentences)}
    missing = [fact for fact in facts if fact not in places]
    report.unmapped += [(id, f"no sentence {n} in a paragraph {title!r} for a supporting fact") for title, n in missing]
    return tuple(sorted({places[fact] for fact in facts if fact in places}))
