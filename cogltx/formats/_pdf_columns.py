"""The reading order of a PDF page: pieces of lines to columns, tables and lines."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import median

from cogltx.formats._pdf_lines import LEADER, Line, lines_of, with_drop_caps
from cogltx.formats._pdf_tables import row_of

_GUTTER = 0.7  # least width of the space between columns, in type sizes
_LABEL = re.compile(r"\W{1,3}|[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivxlcIVXLC]{1,5})[.)\]:]{0,2}|[(\[]?\d+(?:\.\d+)+\.?[)\]]?")
Block = list[Line]  # of a column from top to bottom; some may be rows of a table
Gaps = list[tuple[float, float]]
_LEAST_DRAWN = 8  # pieces of a column that is drawn apart from the next one
_REACH = 0.5  # type sizes that its lines reach into the next one
_NOTE_SIZE = 0.9  # most type size of notes in the margin, in that of the text
_PROSE = 18  # least characters of most lines of a column of prose


def blocks(parts: Sequence[Line]) -> list[Block]:
    """Put the pieces of a page in reading order."""
    return [block for block in _ordered(with_drop_caps(parts), 0) if block]


def _ordered(parts: list[Line], depth: int) -> Iterator[Block]:
    """Divide a region into columns that are drawn apart, or runs of rows that share a space, and rows that do not."""
    if depth < 4 and len(columns := _drawn_apart(parts)) > 1:
        for column in columns:
            yield from _ordered(column, depth + 1)
        return
    rows = _rows(parts)
    size = median(part.size for part in parts) if parts else 0
    start, single = 0, list[Line]()
    while start < len(rows):
        end, gutters = _columns(rows, start, _GUTTER * size) if depth < 4 else (start, [])
        kind = _kind(rows[start:end], gutters) if gutters else ""
        if not kind:
            single += rows[start]
            start += 1
            continue
        yield lines_of(single)
        single = []
        inside = [part for row in rows[start:end] for part in row]
        columns = _divided(inside, gutters) if kind == "columns" else _drawn_apart(inside)
        if len(columns) > 1:
            for column in columns:
                yield from _ordered(column, depth + 1)
        else:
            yield from _table(rows[start:end], gutters)
        start = end
    yield lines_of(single)


def _rows(parts: list[Line]) -> list[list[Line]]:
    """Group pieces that overlap vertically, from top to bottom."""
    rows: list[list[Line]] = []
    bottom = float("-inf")
    for part in sorted(parts, key=lambda part: part.top):
        if part.top + 0.25 * part.size >= bottom:
            rows.append([])
        rows[-1].append(part)
        bottom = max(bottom, part.bottom - 0.05 * part.size) if len(rows[-1]) > 1 else part.bottom - 0.05 * part.size
    return rows


def _free(row: list[Line], width: float) -> Gaps:
    """Return the spaces between the pieces of a row, with those outside it."""
    edge, free = float("-inf"), []
    for part in sorted(row, key=lambda part: part.left):
        if part.left - edge >= width:
            free.append((edge, part.left))
        edge = max(edge, part.right)
    return [*free, (edge, float("inf"))]


def _columns(rows: list[list[Line]], start: int, width: float) -> tuple[int, Gaps]:
    """Return the end of the longest run of rows that share a space with text on both sides, and all such spaces."""
    free, best = [(float("-inf"), float("inf"))], (start, Gaps())
    left, right = float("inf"), float("-inf")
    for end in range(start, len(rows)):
        row = rows[end]
        free = _common(free, _free(row, width), width)
        left, right = min(left, *(part.left for part in row)), max(right, *(part.right for part in row))
        inner = [gap for gap in free if left <= gap[0] and gap[1] <= right]
        if not inner or _begins_anew(rows, start, end, inner):
            break
        best = (end + 1, inner)
    return best


def _begins_anew(rows: list[list[Line]], start: int, end: int, gutters: Gaps) -> bool:
    """Check for a row on one side only that is set apart from the columns above it, as a heading below them is."""
    row = rows[end]
    if len(_divided(row, gutters)) > 1 or end == start:
        return False
    above = max(part.bottom for part in rows[end - 1])
    top = min(part.top for part in row)
    return top - above > 1.2 * max(part.size for part in row)


def _common(one: Gaps, other: Gaps, width: float) -> Gaps:
    shared = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
    return [(a, b) for a, b in shared if b - a >= width]


def _divided(parts: list[Line], gutters: Gaps) -> list[list[Line]]:
    """Divide pieces at gutters; without the columns that are empty."""
    return [column for column in _cells(parts, gutters) if column]


def _cells(parts: list[Line], gutters: Gaps) -> list[list[Line]]:
    cells: list[list[Line]] = [[] for _ in range(len(gutters) + 1)]
    for part in parts:
        cells[sum(part.left >= gutter[1] - 0.01 for gutter in gutters)].append(part)
    return cells


def _kind(rows: list[list[Line]], gutters: Gaps) -> str:
    """Return "columns" or "table", or nothing for labels of lists and code."""
    parts = [part for row in rows for part in row]
    columns = _divided(parts, gutters)
    if len(columns) < 2 or all(median(part.style.fixed for part in column) for column in columns):
        return ""
    if all(_LABEL.fullmatch(part.text) for part in columns[0]) and len(columns) == 2:
        return ""
    if all(part.text.isalnum() for part in columns[-1]) and any(LEADER.search(part.text) for part in parts):
        return ""  # a table of contents
    both = sum(len(_divided(row, gutters)) > 1 for row in rows)
    order = sorted((part.index, number) for number, column in enumerate(columns) for part in column)
    switches = sum(a != b for (_, a), (_, b) in pairwise(order))
    prose = all(_is_prose(column) for column in columns)
    if switches < len(columns) * 1.5 and min(map(len, columns)) >= 2:
        return "columns"
    if both >= 2 and (prose or _has_margin_notes(columns)):
        return "columns"
    return "table" if both >= 2 else ""


def _has_margin_notes(columns: list[list[Line]]) -> bool:
    """Check for a column of prose with smaller type beside it, which is no code."""
    if len(columns) != 2 or not _is_prose(columns[0]) or median(part.style.fixed for part in columns[1]):
        return False
    left, right = (median(part.size for part in column) for column in columns)
    return right < _NOTE_SIZE * left


def _drawn_apart(parts: list[Line]) -> list[list[Line]]:
    """Divide two columns that are drawn one after the other, even if a line of the left one touches the right one."""
    ordered = sorted(parts, key=lambda part: part.index)
    rights = list(accumulate((part.right for part in ordered), max))
    lefts = list(accumulate((part.left for part in reversed(ordered)), min))[::-1]
    for number in range(_LEAST_DRAWN, len(ordered) - _LEAST_DRAWN + 1):
        last, following = ordered[number - 1], ordered[number]
        if rights[number - 1] < lefts[number] + _REACH * last.size and following.y < last.y:
            return [ordered[:number], ordered[number:]]
    return [ordered]


def _is_prose(column: list[Line]) -> bool:
    """Check for a column of prose: long lines that fill its width."""
    width = max(part.right for part in column) - min(part.left for part in column)
    full = median((part.right - part.left) / max(width, 1) for part in column)
    text = median(len(part.text) for part in column)
    return len(column) >= 3 and full > 0.7 and text >= _PROSE


def _table(rows: list[list[Line]], gutters: Gaps) -> Iterator[Block]:
    """Join the cells of each row, empty ones included.

    A row continues while its cells, drawn one by one, do, and where only the right one of two columns has text.
    """
    whole: list[list[Line]] = []
    for row in rows:
        goes_on = len(gutters) == 1 and all(part.left >= gutters[0][1] - 0.01 for part in row)
        if whole and (goes_on or min(part.index for part in row) < max(part.index for part in whole[-1])):
            whole[-1] += row
        else:
            whole.append(list(row))
    yield [row_of([lines_of(cell) for cell in _cells(row, gutters)]) for row in whole]
