"""Questions made from texts without labels, to train a reader before it sees real questions.

A sentence with a blank asks for the name, number or phrase that the blank replaces (Lewis et al. 2019, arXiv
1906.04980), which recurs in the document: a passage around another sentence (Splinter: Ram et al. 2021, 2101.00438).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import regex
from more_itertools import constrained_batches, split_when, unique_everseen
from pydantic import Field, ValidationError

from cogltx._progress import progress
from cogltx.blocks._script import WORD, spaced
from cogltx.document import Document, Example, Query, Span
from cogltx.errors import ConfigError, DataError, describe
from cogltx.tasks._texts import read_texts
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.cuad import Cuad
from cogltx.tasks.hotpotqa import HotpotQA
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.newsgroups import Newsgroups
from cogltx.tasks.newsqa import NewsQA
from cogltx.tasks.squad import Squad

_SOURCES: dict[str, type[Task]] = {kind.name: kind for kind in (HotpotQA, Squad, Cuad, NewsQA, JsonLines, Newsgroups)}

_BLANK = "[MASK]"  # the mask of BERT's vocabulary
_WORD = regex.compile(rf"(?V1){WORD}(?:[-'’.]{WORD})*|[^\w\s]")
_SENTENCE_ENDS = ".!?。！？؟।။។"
_SECTION_WORDS = 1000  # an answer recurs within so many words
_PASSAGE_WORDS = 130  # least length of a question's document
_LONGEST_ANSWER = 6  # words
_SHORTEST_QUESTION, _LONGEST_QUESTION = 7, 60  # words
_COMMON_WORDS = 0.3  # share of recurring single words that are asked for although they are neither names nor numbers


class Cloze(Task):
    """Questions made from raw texts: a document, a folder of them, JSON Lines with ``text``, or another task's files.

    Attributes:
        of: the task whose documents are read, for example ``hotpotqa``; None reads documents.
        options: the options of that task.
        questions: questions per section of 1,000 words.
    """

    name: ClassVar[str] = "cloze"
    main_metric: ClassVar[str] = "f1"
    reads_json_lines: ClassVar[bool] = True
    of: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    questions: int = Field(default=14, ge=1)

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the questions of the texts, each text once; raises DataError if nothing recurs in any."""
        report = report or ReadReport()
        texts = enumerate(progress(self._texts(path, split), "make questions", unit="texts", delay=2), start=1)
        for number, text in unique_everseen(texts, key=lambda numbered: hash(numbered[1])):
            for passage, question, spans in _make_questions(text, self.questions, np.random.default_rng([0, number])):
                id = f"{number}-{report.examples + 1}"
                report.count(id, f"{path}: text {number}")
                yield Example(
                    id=id,
                    document=Document(passage, id),
                    query=Query(question),
                    answers=(passage[spans[0].start : spans[0].end],),
                    answer_spans=spans,
                    relevant=spans,
                )
        if not report.examples:
            raise DataError(f"{path}: no name, number or phrase recurs in the texts, so there is nothing to ask")

    def _texts(self, path: Path, split: Split) -> Iterator[str]:
        if self.of is None:
            return read_texts(path)
        if self.of not in _SOURCES:
            raise ConfigError(f"task cloze: of: {self.of!r} has no documents; use {', '.join(_SOURCES)}")
        try:
            source = _SOURCES[self.of].model_validate(self.options)
        except ValidationError as error:
            raise ConfigError(f"task cloze: options: {describe(error, _SOURCES[self.of])}") from None
        return (example.document.text for example in source.read(path, split=split))


def _make_questions(
    text: str,
    n_questions: int,
    rng: np.random.Generator,
    *,
    section_words: int = _SECTION_WORDS,
    passage_words: int = _PASSAGE_WORDS,
) -> Iterator[tuple[str, str, tuple[Span, ...]]]:
    """Yield questions about a text, of different sentences: passage, question, spans of the answer in the passage."""
    for section in _Section.all_of(text, section_words):
        used = set[int]()
        recurring = section.recurring(rng)
        for index in rng.permutation(len(recurring)).tolist():
            size, starts = recurring[index]
            sentence_of = {start: section.sentence_of(start) for start in starts}
            long_enough = {one for one in sentence_of.values() if len(section.sentences[one]) >= _SHORTEST_QUESTION}
            free = [start for start in starts if sentence_of[start] in long_enough - used]
            if len(used) >= n_questions or not free:
                continue
            sentence = sentence_of[int(rng.choice(free))]
            question = section.with_blanks(sentence, starts, size)
            if len(spaced(question).split()) > _LONGEST_QUESTION:
                continue
            used.add(sentence)
            target = int(rng.choice([sentence_of[start] for start in starts if sentence_of[start] != sentence]))
            passage = section.passage(target, sentence, passage_words, rng)
            whole = section.span(passage)
            spans = [section.span(range(start, start + size)) for start in starts if start in passage]
            answers = tuple(Span(span.start - whole.start, span.end - whole.start) for span in spans)
            yield text[whole.start : whole.end], question, answers


@dataclass(frozen=True)
class _Section:
    """Consecutive sentences of a text: the spans of all its words and marks, and the words of each sentence."""

    text: str
    words: list[Span]
    sentences: list[range]

    @classmethod
    def all_of(cls, text: str, size: int) -> Iterator[Self]:
        """Yield the sections of a text, of at most ``size`` words unless a sentence is longer."""
        words = [Span(*match.span()) for match in _WORD.finditer(text)]

        def ends(word: int, following: int) -> bool:
            last = words[word]
            return text[last.start] in _SENTENCE_ENDS or "\n" in text[last.end : words[following].start]

        sentences = (range(run[0], run[-1] + 1) for run in split_when(range(len(words)), ends))
        for section in constrained_batches(sentences, size, get_len=len, strict=False):
            yield cls(text, words, list(section))

    def sentence_of(self, word: int) -> int:
        """Return the index of a word's sentence."""
        return bisect_right(self.sentences, word, key=lambda sentence: sentence.stop)

    def span(self, words: range) -> Span:
        """Return the span of consecutive words in the text."""
        return Span(self.words[words[0]].start, self.words[words[-1]].end)

    def recurring(self, rng: np.random.Generator) -> list[tuple[int, list[int]]]:
        """Find spans in several sentences, not only inside longer ones: number of words, and their first words."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        word_texts = {i: self.text[self.words[i].start : self.words[i].end] for words in self.sentences for i in words}
        edges = {i for i, word in word_texts.items() if word[0].isalnum() and word.casefold() not in ENGLISH_STOP_WORDS}
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
            is_new = not all((start, start + size) in inside for start in starts)
            if is_new and (is_name or rng.random() < _COMMON_WORDS):
                spans.append((size, starts))
                for start in starts:
                    inside |= {(a, b) for a in range(start, start + size) for b in range(a + 1, start + size + 1)}
        return spans

    def with_blanks(self, sentence: int, starts: list[int], size: int) -> str:
        """Return a sentence with a blank for each recurring span of ``size`` words that starts in it."""
        whole, pieces = self.span(self.sentences[sentence]), list[str]()
        end = whole.start
        for start in starts:
            hidden = self.span(range(start, start + size))
            if start in self.sentences[sentence] and end <= hidden.start:
                pieces += [self.text[end : hidden.start], _BLANK]
                end = hidden.end
        return "".join([*pieces, self.text[end : whole.end]])

    def passage(self, target: int, without: int, size: int, rng: np.random.Generator) -> range:
        """Return the words of sentences around ``target``, excluding one, at least ``size`` words if possible."""
        first = last = target
        while self.sentences[last].stop - self.sentences[first].start < size:
            sides = [side for side in (first - 1, last + 1) if 0 <= side < len(self.sentences) and side != without]
            if not sides:
                break
            side = int(rng.choice(sides))
            first, last = min(first, side), max(last, side)
        return range(self.sentences[first].start, self.sentences[last].stop)
