"""Rows of tables as lines of text: cells, empty ones too, between vertical bars."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Block = tuple[bool, str]
"""Whether a text is a heading, and the text."""
SEPARATOR = " | "
_DATA_LETTERS = 300  # of a cell of several paragraphs, above which a table only places text
_MOST_SPANNED = 100  # columns in which merged cells keep their place


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
