"""Questions made from texts without labels, so that a reader learns to find places before it sees real questions.

A question is a sentence with a blank; the answer is what stood there: a name, number or phrase that occurs again in
another sentence. Its document is a passage around that other sentence. Recurring spans are those of Splinter (Ram et
al. 2021, arXiv 2101.00438); a sentence asks for them as in Lewis et al. 2019 (arXiv 1906.04980).
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field

from cogltx.document import Document, Example, Query, Span
from cogltx.errors import DataError
from cogltx.progress import progress
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.texts import read_texts

_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_LONGEST_ANSWER = 6  # words
_SHORTEST_QUESTION, _LONGEST_QUESTION = 7, 60  # words
_COMMON_WORDS = 0.3  # share of recurring single words that are asked for although they are neither names nor numbers


class Cloze(Task):
    """Questions made from raw texts: a text file, a folder of them, JSON Lines with ``text``, or another task's files.

    Attributes:
        of: the task whose documents are read, for example ``hotpotqa``; None reads plain texts.
        options: the options of that task.
        section_words: an answer recurs within so many words.
        questions: questions per section.
        passage_words: length of a question's document, at least; whole sentences.
        blank: stands for the missing words; best the encoder's own mask.
        seed: draws answers, sentences and passages.
    """

    name: ClassVar[str] = "cloze"
    main_metric: ClassVar[str] = "f1"
    of: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    section_words: int = Field(default=1000, ge=20)
    questions: int = Field(default=14, ge=1)
    passage_words: int = Field(default=130, ge=10)
    blank: str = Field(default="[MASK]", min_length=1)
    seed: int = 0

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the questions of the texts, each text once.

        Raises:
            DataError: there is no text, or nothing recurs in any.
        """
        report, known = report or ReadReport(), set[int]()
        texts = progress(self._texts(path, split), "make questions", unit="texts", delay=2)
        for number, text in enumerate(texts, start=1):
            if hash(text) in known:
                continue
            known.add(hash(text))
            rng = np.random.default_rng([self.seed, number])
            for section in _Section.all_of(text, self.section_words):
                for passage, question, spans in self._questions(section, rng):
                    id = f"{number}-{report.examples + 1}"
                    report.count(id, f"{path}: text {number}")
                    document, answers = Document(passage, id), (passage[spans[0].start : spans[0].end],)
                    yield Example(
                        id=id,
                        document=document,
                        query=Query(question),
                        answers=answers,
                        answer_spans=spans,
                        relevant=spans,
                    )
        if not report.examples:
            raise DataError(f"{path}: no name, number or phrase recurs in the texts, so there is nothing to ask")

    def _texts(self, path: Path, split: Split) -> Iterator[str]:
        if self.of is None:
            return read_texts(path)
        from cogltx.tasks import make_task

        return (example.document.text for example in make_task(self.of, self.options).read(path, split=split))

    def _questions(self, section: "_Section", rng: np.random.Generator) -> Iterator[tuple[str, str, tuple[Span, ...]]]:
        """Yield the questions of a section, of different sentences: passage, question, places of the answer in it."""
        asked = set[int]()
        recurring = section.recurring(rng)
        for index in rng.permutation(len(recurring)).tolist():
            size, places = recurring[index]
            sentence_of = {place: section.sentence_of(place) for place in places}
            long_enough = {one for one in sentence_of.values() if len(section.sentences[one]) >= _SHORTEST_QUESTION}
            free = [place for place in places if sentence_of[place] in long_enough - asked]
            if len(asked) >= self.questions or not free:
                continue
            hidden = int(rng.choice(free))
            sentence = sentence_of[hidden]
            question = section.with_blank(sentence, places, size, self.blank)
            if len(question.split()) > _LONGEST_QUESTION:
                continue
            asked.add(sentence)
            target = int(rng.choice([sentence_of[place] for place in places if sentence_of[place] != sentence]))
            passage = section.passage(target, sentence, self.passage_words, rng)
            whole = section.span(passage)
            spans = [section.span(range(place, place + size)) for place in places if place in passage]
            answers = tuple(Span(span.start - whole.start, span.end - whole.start) for span in spans)
            yield section.text[whole.start : whole.end], question, answers


@dataclass(frozen=True)
class _Section:
    """Some sentences of a text.

    Attributes:
        text: the text.
        words: where its words and marks are in the text.
        sentences: the words of each sentence.
    """

    text: str
    words: list[Span]
    sentences: list[range]

    @classmethod
    def all_of(cls, text: str, size: int) -> Iterator[Self]:
        """Yield the sections of a text, of at most so many words if its sentences are not longer."""
        words = [Span(*match.span()) for match in _WORD.finditer(text)]
        sentences: list[range] = []
        start = 0
        for end in range(1, len(words) + 1):
            last = words[end - 1]
            following = words[end].start if end < len(words) else len(text)
            if text[last.start] in ".!?。！？" or "\n" in text[last.end : following] or end == len(words):
                if sentences and end - sentences[0].start > size:
                    yield cls(text, words, sentences)
                    sentences = []
                sentences.append(range(start, end))
                start = end
        if sentences:
            yield cls(text, words, sentences)

    def sentence_of(self, word: int) -> int:
        """Return the index of a word's sentence."""
        return bisect_right(self.sentences, word, key=lambda sentence: sentence.stop)

    def span(self, words: range) -> Span:
        """Return where some consecutive words are in the text."""
        return Span(self.words[words[0]].start, self.words[words[-1]].end)

    def recurring(self, rng: np.random.Generator) -> list[tuple[int, list[int]]]:
        """Find the spans that occur in several sentences, not inside longer ones only: words, and where they start."""
        word_texts = {i: self.text[self.words[i].start : self.words[i].end] for words in self.sentences for i in words}
        edges = {i for i, word in word_texts.items() if word[0].isalnum() and word.casefold() not in _function_words()}
        places: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for sentence in self.sentences:
            for first in filter(edges.__contains__, sentence):
                for end in range(first + 1, min(first + _LONGEST_ANSWER, sentence.stop) + 1):
                    if end - 1 in edges:
                        places[tuple(word_texts[i] for i in range(first, end))].append(first)
        spans, inside = [], set[tuple[int, int]]()
        for words in sorted(places, key=len, reverse=True):
            starts, size = sorted(places[words]), len(words)
            if len({self.sentence_of(start) for start in starts}) < 2:
                continue
            is_name = size > 1 or words[0][0].isupper() or words[0][0].isdigit()
            if all((start, start + size) in inside for start in starts) or not (
                is_name or rng.random() < _COMMON_WORDS
            ):
                continue
            spans.append((size, starts))
            for start in starts:
                inside |= {(a, b) for a in range(start, start + size) for b in range(a + 1, start + size + 1)}
        return spans

    def with_blank(self, sentence: int, places: Sequence[int], size: int, blank: str) -> str:
        """Return a sentence with a blank wherever a recurring span is in it; ``places`` are as in ``recurring``."""
        whole, pieces = self.span(self.sentences[sentence]), list[str]()
        start = whole.start
        for place in places:
            hidden = self.span(range(place, place + size))
            if place in self.sentences[sentence] and start <= hidden.start:
                pieces += [self.text[start : hidden.start], blank]
                start = hidden.end
        return "".join([*pieces, self.text[start : whole.end]])

    def passage(self, target: int, without: int, size: int, rng: np.random.Generator) -> range:
        """Return the words of consecutive sentences around one and without another, at least ``size`` if possible."""
        first = last = target
        while self.sentences[last].stop - self.sentences[first].start < size:
            sides = [side for side in (first - 1, last + 1) if 0 <= side < len(self.sentences) and side != without]
            if not sides:
                break
            side = int(rng.choice(sides))
            first, last = min(first, side), max(last, side)
        return range(self.sentences[first].start, self.sentences[last].stop)


@cache
def _function_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
