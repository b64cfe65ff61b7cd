"""A table of questions and answers: CSV as spreadsheets save it, with any separator."""

import csv
import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from cogltx._files import open_binary
from cogltx._progress import logger
from cogltx.errors import DataError
from cogltx.formats._encoding import decode
from cogltx.tasks.base import errors_at

_COLUMNS = {  # names of each column, without case, digits, spaces and signs
    "question": ("question", "questions", "query"),
    "answer": ("answer", "answers"),
    "document": ("document", "documents", "doc", "file", "filename", "path"),
    "evidence": ("evidence", "context", "passage"),
    "page": ("page", "pages", "pagenumber"),
    "id": ("id", "questionid"),
}
_COLUMN_OF = {name: column for column, names in _COLUMNS.items() for name in names}
_SEPARATORS = "\t;,|"
_LONGEST_CELL = 10_000_000
_OTHER_TABLES = (".xls", ".xlsx", ".ods")


def is_table(source: object) -> bool:
    """Check whether something is the name of a table."""
    return isinstance(source, str | Path) and bool(re.search(r"\.[ct]sv(\.gz)?$", str(source), re.IGNORECASE))


@dataclass(frozen=True)
class GivenAnswer:
    """An answer as the table has it, with the evidence and page of its row; ``line`` is the row's line in the file."""

    line: int
    text: str
    evidence: str
    page: str


@dataclass(frozen=True)
class GivenQuestion:
    """A question, all its answers, and the name of its document, which may be empty."""

    id: str
    line: int
    text: str
    document: str
    answers: tuple[GivenAnswer, ...]


def read_questions(path: Path) -> list[GivenQuestion]:
    """Read the questions of a table. Rows with the same question and document are one question with several answers.

    Raises:
        DataError: the table has no column for questions or answers, or a row does not fit its header.
    """
    questions: dict[tuple[str, str, str], list[GivenAnswer]] = {}
    ids: dict[str, tuple[str, str, str]] = {}
    for line, cells in _rows(path):
        text = " ".join(cells["question"][0].split())
        if not text:
            raise DataError(f"{path}:{line}: the row has no question")
        id, document, evidence, page = (cells.get(name, [""])[0] for name in ("id", "document", "evidence", "page"))
        key = (text, document, id)
        if id and ids.setdefault(id, key) != key:
            raise DataError(f"{path}:{line}: the id {id!r} is already used for another question")
        answers = [GivenAnswer(line, answer, evidence, page) for answer in cells["answer"] if answer]
        before = questions.setdefault(key, [])
        if before and bool(answers) != bool(before[0].text):
            raise DataError(
                f"{path}:{line}: the question has an answer in only one of the lines {before[0].line} and {line}"
            )
        before += answers or [GivenAnswer(line, "", evidence, page)]
    if not questions:
        raise DataError(f"{path}: the table has no questions")
    return [
        GivenQuestion(id or _unused(str(answers[0].line), ids), answers[0].line, text, document, tuple(answers))
        for (text, document, id), answers in questions.items()
    ]


def _unused(line: str, ids: Container[str]) -> str:
    """Return the number of a line as an id, marked if the table gives it to another question."""
    return f"line {line}" if line in ids else line


def _rows(path: Path) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yield the line and the cells by column of each row that is not blank."""
    rows = _cells(path)
    header = next(rows, (1, []))[1]
    columns = [_column(name) for name in header]
    for needed in ("question", "answer"):
        if needed not in columns:
            raise DataError(
                f"{path}: no column {needed!r} in the first row; its cells are {', '.join(map(repr, header))}"
            )
    if twice := [name for name, count in Counter(columns).items() if count > 1 and name not in ("", "answer")]:
        raise DataError(f"{path}: two columns for {twice[0]!r} in the first row")
    if unused := [name for name, column in zip(header, columns, strict=True) if name and not column]:
        logger.info(f"{path}: columns that are not used: {', '.join(unused)}")
    for line, row in rows:
        if not any(row):
            continue
        if any(row[len(columns) :]):
            more = f"{len(row)} cells, but the first row has {len(columns)}; put cells with the separator in quotes"
            raise DataError(f"{path}:{line}: {more}")
        cells: dict[str, list[str]] = {}
        for column, cell in zip(columns, [*row, *[""] * len(columns)], strict=False):
            cells.setdefault(column, []).append(cell)
        yield line, cells


def _column(name: str) -> str:
    """The column that a cell of the first row names; empty if none."""
    return _COLUMN_OF.get(re.sub(r"[\W\d_]+", "", name.casefold()), "")


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row; to add a kind of table, add its reader here."""
    if path.suffix.lower() in _OTHER_TABLES:
        raise DataError(f"{path}: save the table as CSV (UTF-8)")
    with open_binary(path) as file:
        content = file.read()
    with errors_at(str(path)):
        text, note = decode(content)
    if note:
        logger.warning(f"{path}: {note}")
    return _csv(text, path)


def _csv(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of CSV; the separator is the one that gives the first row most known columns."""
    csv.field_size_limit(_LONGEST_CELL)
    lines = list(StringIO(text, newline=""))
    stated = re.fullmatch(r"sep=(.)", lines[0].strip("\ufeff\r\n")) if lines else None
    n_before = 1 if stated else 0

    def parse(separator: str) -> Iterator[tuple[int, list[str]]]:
        reader, line = csv.reader(lines[n_before:], delimiter=separator, strict=True), 1 + n_before
        try:
            for row in reader:
                yield line, [cell.strip() for cell in row]
                line = 1 + n_before + reader.line_num
        except csv.Error as error:
            raise DataError(f"{path}:{line}: not a row of CSV ({error}); check its quotes") from None

    def n_known(separator: str) -> tuple[int, int]:
        try:
            header = next(parse(separator), (1, []))[1]
        except DataError:
            return -1, 0
        return len({_column(name) for name in header} - {""}), len(header)

    return parse(stated[1] if stated else max(_SEPARATORS, key=n_known))
