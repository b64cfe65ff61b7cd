"""Rows of tables as lines of text: cells, empty ones too, between vertical bars.

Rows of sheets have the name of the column at each value, and are pages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from more_itertools import rstrip, spy

from cogltx.formats._sections import Sections

Block = tuple[bool, str]
"""Whether a text is a heading, and the text."""
SEPARATOR = " | "
_DATA_LETTERS = 300  # of a cell of several paragraphs, above which a table only places text
_MOST_SPANNED = 100  # columns in which merged cells keep their place
_FIRST_ROWS = 20  # of a sheet, among which the names of columns are
_LEAST_NAMES = 2
_LEAST_WIDTH = 0.66  # of the names, as a share of the widest of the first rows
_MOST_LETTERS = 80  # of the name of a column
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:[/–-]\d{2,4})?")


@dataclass(frozen=True)
class Cell:
    """A cell: its headings and paragraphs, and the numbers of columns and rows that it spans."""

    blocks: Sequence[Block]
    columns: int = 1
    rows: int = 1
    has_table: bool = False

    @property
    def text(self) -> str:
        """The text in one line."""
        return " ".join(text for _, text in self.blocks)

    @property
    def is_layout(self) -> bool:
        """Check whether the cell holds more than data, so that its table only places text."""
        n_letters = sum(len(text) for _, text in self.blocks)
        has_heading = any(is_heading for is_heading, _ in self.blocks)
        return self.has_table or has_heading or (len(self.blocks) > 1 and n_letters > _DATA_LETTERS)


def blocks(rows: Sequence[Sequence[Cell]]) -> list[Block]:
    """The rows as lines, or the blocks one by one if the table only places text on the page."""
    cells = [cell for row in rows for cell in row]
    if any(cell.is_layout for cell in cells):
        return [block for cell in cells for block in cell.blocks]
    return [(False, line) for line in lines([[(cell.text, cell.columns, cell.rows) for cell in row] for row in rows])]


def row(cells: Iterable[str]) -> str:
    """Join the cells of a row; no text if all are empty."""
    texts = [text.strip() for text in cells]
    return SEPARATOR.join(texts) if any(texts) else ""


def lines(rows: Sequence[Sequence[tuple[str, int, int]]]) -> Iterator[str]:
    """Yield a line per row of cells: texts, and the numbers of columns and rows that they span.

    A merged cell comes once, at its first place; its other places are empty cells.

    >>> list(lines([[("Name", 1, 2), ("Life", 2, 1)], [("born", 1, 1), ("died", 1, 1)]]))
    ['Name | Life | ', ' | born | died']
    """
    width = _width(rows)
    below = [0] * width  # rows that a cell above still spans, per column
    for cells in rows:
        texts = list[str]()
        for index, (text, n_columns, n_rows) in enumerate(cells):
            _fill(texts, below)
            start, room = len(texts), width - len(texts) - (len(cells) - index - 1)
            texts.append(text)
            if len(cells) > 1:
                texts += [""] * (min(n_columns, room) - 1)
            for column in range(start, min(len(texts), width)):
                below[column] = n_rows - 1
        _fill(texts, below)
        yield row(texts)


def _width(rows: Sequence[Sequence[tuple[str, int, int]]]) -> int:
    """Number of columns: the most cells of a row, with those that span it from above."""
    width, covered, ends = 0, 0, Counter[int]()
    for index, cells in enumerate(rows):
        covered -= ends[index]
        width = max(width, covered + len(cells))
        for _, _, n_rows in cells:
            if n_rows > 1:
                covered += 1
                ends[index + n_rows] += 1
    return min(width, _MOST_SPANNED)


def _fill(texts: list[str], below: list[int]) -> None:
    """Add an empty cell for each next column that a cell above spans."""
    while len(texts) < len(below) and below[len(texts)] > 0:
        below[len(texts)] -= 1
        texts.append("")


def add_sheet(sections: Sections, rows: Iterable[tuple[int, Sequence[str]]], sheet: str = "") -> None:
    """Add the rows of a sheet, each with its number; "sheet Prices, row 12" is the place of the twelfth.

    The first row of short texts or years that is about as wide as those after it names the columns, or a later one if
    only that names all of them: later rows read ``Item: Widget | Price: 3.50``. Other rows keep their cells, empty ones
    too.
    """
    first, filled = spy(_filled(rows), _FIRST_ROWS)
    header = _header([cells for _, cells in first])
    names = list[str]()
    for number, cells in filled:
        sections.page(f"sheet {sheet}, row {number}" if sheet else f"row {number}")
        sections.paragraph(_labelled(names, cells) if names and len(cells) > 1 else row(cells))
        if header is not None and number == first[header][0]:
            names = cells


def _filled(rows: Iterable[tuple[int, Sequence[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, without the empty cells at their ends."""
    for number, row in rows:
        if cells := list(rstrip((" ".join(cell.split()) for cell in row), lambda cell: not cell)):
            yield number, cells


def _header(rows: Sequence[Sequence[str]]) -> int | None:
    """Index of the row that names the columns: the first one, or else the first that names all, some of numbers."""
    header, width = None, max(map(len, rows), default=0)
    for index, cells in enumerate(rows[:-1]):
        if _are_names(cells, rows[index + 1 :], width):
            columns = [list(filter(None, column)) for column in zip_longest(*rows[index + 1 :], fillvalue="")]
            names_all = all(name for name, column in zip_longest(cells, columns, fillvalue="") if column)
            if names_all and (header is None or any(map(_are_numbers, columns))):
                return index
            header = index if header is None else header
    return header


def _are_numbers(cells: Sequence[str]) -> bool:
    """More than half of the cells have no letters."""
    return 2 * sum(any(map(str.isalpha, cell)) for cell in cells) < len(cells)


def _are_names(cells: Sequence[str], below: Sequence[Sequence[str]], width: int) -> bool:
    """A row of short texts that are no numbers names columns; so do years, where no years are below them."""
    names, years = list(filter(None, cells)), [column for column, cell in enumerate(cells) if _YEAR.fullmatch(cell)]
    texts = [name for name in names if not _YEAR.fullmatch(name)]
    are_values = any(_YEAR.fullmatch(row[column]) for row in below for column in years if column < len(row))
    return (
        len(names) >= max(_LEAST_NAMES, _LEAST_WIDTH * width)
        and len(set(names)) >= _LEAST_NAMES
        and all(len(text) <= _MOST_LETTERS and any(map(str.isalpha, text)) for text in texts)
        and bool(texts or not cells[0])
        and not are_values
    )


def _labelled(names: Sequence[str], cells: Sequence[str]) -> str:
    """Values with the names of their columns; empty ones are left out."""
    pairs = [(names[i] if i < len(names) else "", cell) for i, cell in enumerate(cells) if cell]
    return SEPARATOR.join(f"{name}: {cell}" if name else cell for name, cell in pairs)
