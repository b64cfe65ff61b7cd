"""Examples from documents and a table of questions with answers: each answer is found in its document.

Where an answer is several times in the document: the places in the evidence of its row, else on its page, else those
whose surroundings share most words with the question.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from cogltx._messages import counted
from cogltx._progress import first_of, progress
from cogltx.document import Document, Example, Query, Span
from cogltx.errors import DataError
from cogltx.formats import find_files, read_documents
from cogltx.tasks._searched import SearchedDocument
from cogltx.tasks._table import GivenAnswer, GivenQuestion, read_questions
from cogltx.tasks.base import ReadReport
from cogltx.tasks.jsonl import write_examples

_CLOSED = ("", "yes", "no")  # answers that need no place
_HINTED_CHARACTERS = 500_000_000  # in which similar texts are searched: about 12 seconds


@dataclass(frozen=True)
class NotFound:
    """An answer of a table without a place, or a question without a document: why, and the most similar text."""

    line: int
    question: str
    answer: str
    reason: str
    most_similar: str = ""

    def __str__(self) -> str:
        hint = f"; most similar: {self.most_similar}" if self.most_similar else ""
        return f"{self.line}: {self.question!r}: {self.reason}{hint}"


@dataclass
class TableReport:
    """Counts of the examples made from a table. A question without an answer counts as one answer."""

    answers: int = 0
    questions: int = 0
    documents: int = 0
    not_found: list[NotFound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def found(self) -> int:
        """Number of answers that were found."""
        return self.answers - len(self.not_found)

    def summary(self) -> str:
        """Describe in words how many answers were found."""
        missing = f"; {len(self.not_found):,} not found" if self.not_found else ""
        documents = counted(self.documents, "document")
        return f"{self.found:,} of {counted(self.answers, 'answer')} found in {documents}{missing}"


def prepare_table(table: Path, documents: Sequence[Path], output: Path) -> TableReport:
    """Find the answers of a table in documents, files or folders, and write the examples as JSON Lines.

    Raises:
        DataError: the table or no document can be read; nothing is written then, and neither if there is no example.
    """
    examples, report = find_answers(table, documents, output)
    if examples:
        write_examples(output, examples)
    return report


def find_answers(
    table: Path, documents: Sequence[Path], output: Path | None = None
) -> tuple[list[Example], TableReport]:
    """Make the examples of a table, by document; the table and the output in a folder are no documents."""
    besides = {path.resolve() for path in (table, output) if path}
    questions, shelf = read_questions(table), _Shelf(documents, besides)
    report, ids = TableReport(sum(len(question.answers) for question in questions)), ReadReport()
    by_document: dict[str, list[Example]] = {name: [] for name in shelf.names.values()}
    for search in _searched(questions, shelf, table):
        search.report_to(report)
        if (placed := search.placed) and placed.is_example:
            ids.count(search.asked.id, f"{table}:{search.asked.line}")
            by_document[placed.document.id].append(_example(search.asked, placed))
    examples = [example for group in by_document.values() for example in group]
    report.questions, report.documents = len(examples), sum(map(bool, by_document.values()))
    return examples, report


def training_table(table: Path, documents: Sequence[Path]) -> tuple[list[Example], list[str]]:
    """Make the examples of a table; also returns lines about answers that were not found.

    Raises:
        DataError: as ``prepare_table``, or no document is named, or no answer is found.
    """
    if not documents:
        raise DataError(f"{table}: a table needs the documents of its answers; name them with --documents")
    examples, report = find_answers(table, documents)
    missing = [f"{table}:{one}" for one in report.not_found]
    if not examples:
        raise DataError(f"{table}: none of its {report.answers:,} answers is in the documents; {missing[0]}")
    named = [word for path in documents for word in ("--documents", str(path))]
    how = shlex.join(["cogltx", "prepare", str(table), *named, "--output", "data.jsonl"])
    return examples, [*(f"{table}:{one}" for one in report.notes), *first_of(report.summary(), missing, how)]


class _Shelf:
    """The documents, by what a table may call them."""

    def __init__(self, given: Sequence[Path], besides: set[Path]) -> None:
        self.files = [file for file in find_files(given) if file.resolve() not in besides]
        self.given = set(given)
        roots = [path for path in given if path.is_dir()]
        short = {  # the path in its folder, or the name
            file: next((file.relative_to(root).as_posix() for root in roots if file.is_relative_to(root)), file.name)
            for file in self.files
        }
        is_clear = len(set(short.values())) == len(short)
        self.names = short if is_clear else {file: file.as_posix() for file in self.files}
        self._called: dict[str, list[Path]] = defaultdict(list)
        for file in self.files:
            parts = file.as_posix().casefold().split("/")
            whole = ["/".join(parts[start:]) for start in range(len(parts))]
            for name in {*whole, *(re.sub(r"(\.[^./]+)(\.gz)?$", "", name) for name in whole)}:
                self._called[name].append(file)

    def file(self, name: str) -> Path:
        """Return the file of a name: its path or the end of it, with or without the file's ending, in any case."""
        key = name.replace("\\", "/").removeprefix("./").casefold()
        files = self._called.get(key, [])
        if len(files) == 1:
            return files[0]
        if files:
            raise DataError(
                f"{len(files)} files are called {name!r}: {', '.join(self.names[file] for file in files[:3])}"
            )
        near = get_close_matches(key, self._called, n=1)
        raise DataError(f"there is no document {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


@dataclass(frozen=True)
class _Placed:
    """The places of a question's answers and evidence in a document, and how well they fit the question."""

    document: Document
    spans: tuple[tuple[Span, ...], ...]  # per answer
    evidence: tuple[tuple[Span, ...], ...]
    is_example: bool
    likeness: float

    @property
    def rank(self) -> tuple[float, ...]:
        """Larger is better; no number above 0 if there is nothing of the question."""
        return sum(map(bool, self.spans)), sum(map(bool, self.evidence)), self.likeness


class _Search:
    """The search for one question: in its document, or in all if it names none."""

    def __init__(self, asked: GivenQuestion, shelf: _Shelf) -> None:
        self.asked, self._problem = asked, ""
        try:
            self.files = [shelf.file(asked.document)] if asked.document else shelf.files
        except DataError as error:
            self.files, self._problem = [], str(error)
        self._best: list[_Placed] = []
        self._hints: dict[str, tuple[float, str]] = {}

    @property
    def placed(self) -> _Placed | None:
        """The places in the document that is meant, if that is clear."""
        return self._best[0] if len(self._best) == 1 else None

    def look_into(self, searched: SearchedDocument, hinted: list[int]) -> None:
        """Search in a document; ``hinted`` are the sizes of the texts in which hints were searched."""
        placed = _place(self.asked, searched)
        for answer, spans in zip(self.asked.answers, placed.spans, strict=True):
            if not spans and answer.text.lower() not in _CLOSED and sum(hinted) < _HINTED_CHARACTERS:
                hinted.append(len(searched.document.text))
                self._hints[answer.text] = max(self._hints.get(answer.text, (0.0, "")), searched.hint(answer.text))
        if len(self.files) > 1 and not any(placed.rank):
            return
        if not self._best or placed.rank > self._best[0].rank:
            self._best = [placed]
        elif placed.rank == self._best[0].rank:
            self._best.append(placed)

    def report_to(self, report: TableReport) -> None:
        """List the answers and evidence that were not found."""
        placed, asked = self.placed, self.asked
        for index, answer in enumerate(asked.answers):
            is_closed = answer.text.lower() in _CLOSED
            if placed and answer.evidence and not placed.evidence[index]:
                report.notes.append(f"{answer.line}: {asked.text!r}: the evidence is not in {placed.document.id}")
            if not placed or not (is_closed or placed.spans[index]):
                hint = self._hints.get(answer.text, (0.0, ""))[1]
                reason = self._reason(answer, is_closed)
                report.not_found.append(NotFound(answer.line, asked.text, answer.text, reason, hint))

    def _reason(self, answer: GivenAnswer, is_closed: bool) -> str:
        if self._problem:
            return self._problem
        if len(self._best) > 1:
            names = ", ".join(placed.document.id for placed in self._best[:3])
            what = "the evidence" if is_closed else repr(answer.text)
            return f"{what} is in {len(self._best)} documents ({names}); name one in the column document"
        if is_closed:
            return "it needs the name of its document" if len(self.files) > 1 else "its document cannot be read"
        if self._best:
            return f"{answer.text!r} is not in {self._best[0].document.id}"
        return f"{answer.text!r} is in no document" if len(self.files) > 1 else "its document cannot be read"


def _searched(questions: Sequence[GivenQuestion], shelf: _Shelf, table: Path) -> list[_Search]:
    """Search for all questions, one document after another."""
    searches = [_Search(question, shelf) for question in questions]
    of_file: dict[Path, list[_Search]] = defaultdict(list)
    for search in searches:
        for file in search.files:
            of_file[file].append(search)
    hinted, n_read = list[int](), 0
    wanted = [file for file in shelf.files if file in of_file]
    for file, document in read_documents(wanted, shelf.given, title="find answers"):
        n_read += 1
        searched = SearchedDocument(replace(document, id=shelf.names[file]))
        for search in progress(of_file[file], shelf.names[file], unit="questions", delay=2.0):
            search.look_into(searched, hinted)
    if of_file and not n_read:
        raise DataError(f"{table}: none of its documents can be read")
    return searches


def _place(asked: GivenQuestion, searched: SearchedDocument) -> _Placed:
    """Find the answers and the evidence of a question in a document."""
    spans, evidence, likeness = list[tuple[Span, ...]](), list[tuple[Span, ...]](), 0.0
    is_example = False
    for answer in asked.answers:
        is_closed = answer.text.lower() in _CLOSED
        around = searched.find(answer.evidence) if answer.evidence else ()
        places = () if is_closed else searched.find(answer.text)
        inside = tuple(span for span in places if _is_within(span, around))
        if places and not inside:
            pages = ((span, searched.document.page(span.start)) for span in places if answer.page)
            on_page = [span for span, page in pages if _is_page(page, answer.page)]
            inside, likeness = searched.nearest(asked.text, on_page or places)
        spans.append(inside)
        evidence.append(around)
        is_example = is_example or is_closed or bool(inside)
    return _Placed(searched.document, tuple(spans), tuple(evidence), is_example, likeness)


def _is_within(span: Span, others: Iterable[Span]) -> bool:
    return any(other.start <= span.start and span.end <= other.end for other in others)


def _is_page(page: int | str | None, wanted: str) -> bool:
    """Compare a page with a cell of a table: by number if it has one, as in "p. 3" or "slide 4"."""
    numbers = [re.findall(r"\d+", str(one)) for one in (page, wanted)]
    return numbers[0][:1] == numbers[1][:1] if all(numbers) else str(page).casefold() == wanted.casefold()


def _example(asked: GivenQuestion, placed: _Placed) -> Example:
    """Make the example of a question; the answers are slices of the document."""
    spans = sorted({span for of_answer in placed.spans for span in of_answer})
    evidence = {span for of_answer in placed.evidence for span in of_answer}
    closed = [answer.text.lower() for answer in asked.answers if answer.text and answer.text.lower() in _CLOSED]
    answers = dict.fromkeys([*closed, *(placed.document.text[span.start : span.end] for span in spans)])
    outside = {span for span in spans if not _is_within(span, evidence)}
    return Example(
        id=asked.id,
        document=placed.document,
        query=Query(asked.text),
        answers=tuple(answers),
        answer_spans=tuple(spans),
        relevant=tuple(sorted(evidence | outside)) if evidence or not answers else None,
    )
