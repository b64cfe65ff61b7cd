"""HotpotQA in the distractor setting: its official JSON, supporting facts and joint scores.

Yang et al. 2018. Knows nothing about tokens or models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from pydantic import Field

from cogltx.document import Document, Example, Segment, Span
from cogltx.errors import DataError
from cogltx.prediction import Evidence, Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped, evidence_scores, question
from cogltx.tasks.json_list import read_json_list
from cogltx.tasks.metrics import Score, answer_score, facts_score, joint_score
from cogltx.tasks.records import Record, expect, note_id, shorten
from cogltx.tasks.spans import occurrences

Fact = tuple[str, int]  # a paragraph's title and the number of a sentence in it, from 0


@dataclass(frozen=True)
class _Sentence:
    title: str
    index: int
    span: Span


class HotpotQA(Task):
    """HotpotQA, distractor setting.

    A document is the question's paragraphs, one a line, their sentences as given. Each sentence that is not
    blank is a segment headed by its paragraph's title, so every block lies in one sentence. ``extra`` of an
    example holds ``sentences``, a list of [title, index, start, end], ``supporting_facts`` as the file has
    them, ``type`` and ``level``.

    Attributes:
        supporting_facts: how many sentences to predict, those of the blocks that score highest (paper: 2).
        fact_threshold: also predict the sentences of all blocks of at least this score, in [0, 1].
        headings: whether windows show a sentence's title before it.
    """

    name: ClassVar[str] = "hotpotqa"
    main_metric: ClassVar[str] = "joint_f1"
    answer_metric: ClassVar[str | None] = "answer_f1"
    supporting_facts: int = Field(default=2, ge=0)
    fact_threshold: float | None = Field(default=None, ge=0, le=1)
    headings: bool = True

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads the official JSON, a list of questions.

        An answer's spans are its occurrences in the supporting sentences; if it has none there, those in the
        whole document. ``answers`` and ``relevant`` are None in a test file without gold.

        Raises:
            DataError: the file is missing or not in the format; names the file and line.
        """
        report = report if report is not None else ReadReport()
        seen: dict[str, str] = {}
        for record in read_json_list(path):
            report.examples += 1
            id = record.get("_id", str)
            note_id(id, record.where, seen)
            record = record.named(f"question {id!r}")
            with record.named_in_errors():
                example = _example(id, record, report.unmapped, headings=self.headings)
            yield example

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """The official answer, supporting-fact and joint scores, and the evidence's."""
        numbers: dict[str, float] = {}
        answer = None
        if example.answers is not None:
            answer = _best_answer(prediction.answer, example.answers)
            numbers |= {"answer_em": answer.em, "answer_f1": answer.f1}
        if "supporting_facts" in example.extra:
            gold = [tuple(fact) for fact in cast(list[Fact], example.extra["supporting_facts"])]
            facts = facts_score(self.predicted_facts(example, prediction), gold)
            numbers |= _fact_numbers(facts)
            if answer is not None:
                joint = joint_score(answer, facts)
                numbers |= {"joint_em": joint.em, "joint_f1": joint.f1}
        return numbers | evidence_scores(example, prediction)

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """The predicted supporting facts, as the official prediction file has them."""
        return {"supporting_facts": [list(fact) for fact in self.predicted_facts(example, prediction)]}

    def predicted_facts(self, example: Example, prediction: Prediction) -> list[Fact]:
        """The sentences of the highest-scoring key blocks, best first, each once."""
        sentences = [
            _Sentence(title, index, Span(start, end))
            for title, index, start, end in cast(list[tuple[str, int, int, int]], example.extra["sentences"])
        ]
        facts: list[Fact] = []
        for block in sorted(prediction.evidence, key=lambda block: -block.score):
            wanted = len(facts) < self.supporting_facts
            wanted |= self.fact_threshold is not None and block.score >= self.fact_threshold
            fact = _fact_at(sentences, block)
            if wanted and fact is not None and fact not in facts:
                facts.append(fact)
        return facts


def _example(id: str, record: Record, unmapped: list[Unmapped], *, headings: bool) -> Example:
    text, sentences = _read_context(record)
    segments = tuple(Segment(item.span.start, item.span.end, item.title if headings else "") for item in sentences)
    extra: dict[str, object] = {"sentences": [[s.title, s.index, s.span.start, s.span.end] for s in sentences]}
    extra |= {key: record.fields[key] for key in ("type", "level") if key in record.fields}
    facts = _read_facts(record)
    relevant = None
    if facts is not None:
        extra["supporting_facts"] = [list(fact) for fact in facts]
        relevant = _place_facts(id, facts, sentences, unmapped)
    answer = record.find("answer", str)
    return Example(
        id=id,
        document=Document(text, id, segments),
        query=question(record.get("question", str)),
        answers=None if answer is None else (answer,),
        answer_spans=() if answer is None else _place_answer(id, answer, text, relevant or (), unmapped),
        relevant=relevant,
        extra=extra,
    )


def _read_context(record: Record) -> tuple[str, list[_Sentence]]:
    """The document's text and its sentences that are not blank."""
    text, sentences = "", []
    for number, paragraph in enumerate(record.get("context", list)):
        where = f"context[{number}]"
        title, given = _pair(paragraph, where)
        text += "\n" if number else ""
        for index, sentence in enumerate(expect(given, list, where)):
            start = len(text)
            text += expect(sentence, str, f"{where}: sentence {index}")
            if text[start:].strip():
                sentences.append(_Sentence(title, index, Span(start, len(text))))
    return text, sentences


def _read_facts(record: Record) -> list[Fact] | None:
    given = record.find("supporting_facts", list)
    if given is None:
        return None
    facts = []
    for number, fact in enumerate(given):
        title, index = _pair(fact, f"supporting_facts[{number}]")
        facts.append((title, expect(index, int, f"supporting_facts[{number}]")))
    return facts


def _pair(value: object, where: str) -> tuple[str, object]:
    """A list of a title and one thing more."""
    match value:
        case [str(title), other]:
            return title, other
        case _:
            raise DataError(f"{where}: expected a list of a title and one thing more, got {shorten(value)}")


def _place_facts(id: str, facts: list[Fact], sentences: list[_Sentence], unmapped: list[Unmapped]) -> tuple[Span, ...]:
    """The spans of the supporting sentences; of two paragraphs with one title, the first."""
    places = {(item.title, item.index): item.span for item in reversed(sentences)}
    for title, index in facts:
        if (title, index) not in places:
            unmapped.append(Unmapped(id, f"no sentence {index} in a paragraph {title!r} for a supporting fact"))
    return tuple(sorted({places[fact] for fact in facts if fact in places}))


def _place_answer(
    id: str, answer: str, text: str, relevant: tuple[Span, ...], unmapped: list[Unmapped]
) -> tuple[Span, ...]:
    if answer in ("yes", "no"):
        return ()
    inside = tuple(place for span in relevant for place in occurrences(text, answer, span))
    places = inside or occurrences(text, answer)
    if not places:
        unmapped.append(Unmapped(id, f"the answer {answer!r} does not occur in the document"))
    return places


def _fact_at(sentences: list[_Sentence], block: Evidence) -> Fact | None:
    """The sentence that shares most characters with the block; None if no sentence shares any."""
    shared = [min(item.span.end, block.end) - max(item.span.start, block.start) for item in sentences]
    most = max(range(len(shared)), key=shared.__getitem__, default=-1)
    return (sentences[most].title, sentences[most].index) if most >= 0 and shared[most] > 0 else None


def _best_answer(said: str, answers: tuple[str, ...]) -> Score:
    return max((answer_score(said, gold) for gold in answers or ("",)), key=lambda score: score.f1)


def _fact_numbers(score: Score) -> dict[str, float]:
    return {
        "sup_em": score.em,
        "sup_f1": score.f1,
        "sup_precision": score.precision,
        "sup_recall": score.recall,
    }
