"""Rows of tables as lines of text: cells, empty ones too, between vertical bars."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

SEPARATOR = " | "
_MOST_SPANNED = 100  # columns in which merged cells keep their place


@dataclass(frozen=True)
class Cell:
    """Text of a cell, and the numbers of columns and rows that it spans."""

    text: str
    columns: int = 1
    rows: int = 1


def row(cells: Iterable[str]) -> str:
    """Join the cells of a row; no text if all are empty."""
    texts = [text.strip() for text in cells]
    return SEPARATOR.join(texts) if any(texts) else ""


def lines(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Yield a line per row. A merged cell comes once, at its first place; its other places are empty cells.

    >>> list(lines([[Cell("Name", rows=2), Cell("Life", columns=2)], [Cell("born"), Cell("died")]]))
    ['Name | Life | ', ' | born | died']
    """
    width = _width(rows)
    below = [0] * width  # rows that a cell above still spans, per column
    for cells in rows:
        texts = list[str]()
        for index, cell in enumerate(cells):
            _fill(texts, below)
            start, room = len(texts), width - len(texts) - (len(cells) - index - 1)
            texts.append(cell.text)
            if len(cells) > 1:
                texts += [""] * (min(cell.columns, room) - 1)
            for column in range(start, min(len(texts), width)):
                below[column] = cell.rows - 1
        _fill(texts, below)
        yield row(texts)


def _width(rows: Sequence[Sequence[Cell]]) -> int:
    """Number of columns: the most cells of a row, with those that span it from above."""
    width, covered, ends = 0, 0, Counter[int]()
    for index, cells in enumerate(rows):
        covered -= ends[index]
        width = max(width, covered + len(cells))
        for cell in cells:
            if cell.rows > 1:
                covered += 1
                ends[index + cell.rows] += 1
    return min(width, _MOST_SPANNED)


def _fill(texts: list[str], below: list[int]) -> None:
    """Add an empty cell for each next column that a cell above spans."""
    while len(texts) < len(below) and below[len(texts)] > 0:
        below[len(texts)] -= 1
        texts.append("")
