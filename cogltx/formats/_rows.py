"""Rows of sheets as text: each value with the name of its column, each row with its place."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from cogltx.formats import _tables as tables
from cogltx.formats._sections import Sections

_FIRST_ROWS = 20  # among which the names of columns are
_LEAST_NAMES = 2
_LEAST_WIDTH = 0.75  # of the names, as a share of the widest of the first rows
_MOST_LETTERS = 80  # of the name of a column


def add(sections: Sections, rows: Iterable[tuple[int, Sequence[str]]], sheet: str = "") -> None:
    """Add the rows of a sheet, each with its number; "sheet Prices, row 12" is the place of the twelfth.

    The first row of distinct texts that is about as wide as those after it names the columns: later rows read
    ``Item: Widget | Price: 3.50``. Other rows keep their cells, empty ones too.
    """
    filled = _filled(rows)
    first = list(islice(filled, _FIRST_ROWS))
    width = max((len(cells) for _, cells in first), default=0)
    header = next((number for number, cells in first[:-1] if _are_names(cells, _LEAST_WIDTH * width)), None)
    names = list[str]()
    for number, cells in chain(first, filled):
        sections.page(f"sheet {sheet}, row {number}" if sheet else f"row {number}")
        sections.paragraph(_labelled(names, cells) if names and len(cells) > 1 else tables.row(cells))
        if number == header:
            names = cells


def _filled(rows: Iterable[tuple[int, Sequence[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, without the empty cells at their ends."""
    for number, row in rows:
        cells = [" ".join(cell.split()) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _are_names(cells: Sequence[str], width: float) -> bool:
    """A row of distinct short texts that are no numbers names columns."""
    names = [cell for cell in cells if cell]
    return (
        len(names) >= max(_LEAST_NAMES, width)
        and len(set(names)) == len(names)
        and all(len(name) <= _MOST_LETTERS and any(map(str.isalpha, name)) for name in names)
    )


def _labelled(names: Sequence[str], cells: Sequence[str]) -> str:
    """Values with the names of their columns; empty ones are left out."""
    pairs = [(names[i] if i < len(names) else "", cell) for i, cell in enumerate(cells) if cell]
    return tables.SEPARATOR.join(f"{name}: {cell}" if name else cell for name, cell in pairs)
