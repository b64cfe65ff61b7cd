"""Tables of PDF pages: the grids of ruled ones, and rows with their cells."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from cogltx.formats._pdf_lines import Line, lines_of
from cogltx.formats._pdf_words import Frame, Rule

_NEAR = 3.0  # points between rules that meet
_MOST_SEGMENTS = 300  # of a page with tables; a drawing has more
_MOST_LINES = 12  # of a cell; a box with more is no cell

Segment = tuple[float, float, float]  # position, and the interval along the rule


@dataclass(frozen=True)
class Grid:
    """The positions of the vertical and horizontal rules of a table."""

    columns: list[float]
    rows: list[float]

    def is_around(self, line: Line) -> bool:
        """Check that the middle of a line is inside."""
        middle, y = (line.left + line.right) / 2, line.y - 0.3 * line.size
        return self.columns[0] < middle < self.columns[-1] and self.rows[0] < y < self.rows[-1]

    def lines(self, parts: Iterable[Line]) -> list[Line]:
        """Return a line per row that holds its cells; none if there is no table but a drawing or boxes of text."""
        cells: dict[tuple[int, int], list[Line]] = defaultdict(list)
        for part in parts:
            middle, y = (part.left + part.right) / 2, part.y - 0.3 * part.size
            cells[sum(row < y for row in self.rows) - 1, sum(x < middle for x in self.columns) - 1].append(part)
        n_rows, n_columns = len(self.rows) - 1, len(self.columns) - 1
        texts = {place: lines_of(cell) for place, cell in cells.items()}
        if len(texts) < max(3, 0.3 * n_rows * n_columns) or max(map(len, texts.values())) > _MOST_LINES:
            return []
        used = sorted({column for _, column in texts})
        if len(used) < 2 or median(line.style.fixed for cell in texts.values() for line in cell):
            return []
        rows = [[texts.get((row, column), []) for column in used] for row in range(n_rows)]
        return [row_of(row) for row in rows if any(row)]


def row_of(cells: Sequence[Sequence[Line]]) -> Line:
    """Join the lines of a row's cells into one line."""
    found: list[Line] = []
    separator = ""
    for number, cell in enumerate(cells):
        separator += " | " if number else ""
        for line in cell:
            found.append(replace(line, before=separator if found else separator.lstrip()) if separator else line)
            separator = ""
    found[-1] = replace(found[-1], after=separator.rstrip() + " " if separator else "")
    first = min(found, key=lambda line: line.y)
    left, right = min(line.left for line in found), max(line.right for line in found)
    text = " ".join(line.text for line in found)
    return replace(first, text=text, left=left, right=right, is_alone=True, cells=tuple(found), before="", after="")


def grids(rules: Sequence[Rule], frame: Frame) -> list[Grid]:
    """Find the grids among the rules of a page."""
    upright, level = list[Segment](), list[Segment]()
    for rule in rules:
        (u0, v0), (u1, v1) = frame.point(rule.x0, rule.y0), frame.point(rule.x1, rule.y1)
        if abs(u1 - u0) < abs(v1 - v0):
            upright.append(((u0 + u1) / 2, min(v0, v1), max(v0, v1)))
        else:
            level.append(((v0 + v1) / 2, min(u0, u1), max(u0, u1)))
    upright, level = _joined(upright), _joined(level)
    if not upright or not level or len(upright) + len(level) > _MOST_SEGMENTS:
        return []
    found = []
    for ups, levels in _meeting(upright, level):
        columns = _distinct([x for x, _, _ in ups], [left for _, left, _ in levels], [right for _, _, right in levels])
        rows = _distinct([y for y, _, _ in levels], [top for _, top, _ in ups], [bottom for _, _, bottom in ups])
        if len(columns) > 2 and len(rows) > 2:
            found.append(Grid(columns, rows))
    return found


def _joined(segments: list[Segment]) -> list[Segment]:
    """Join segments of one straight line that touch."""
    found: list[Segment] = []
    for position, start, end in sorted((round(position), start, end) for position, start, end in segments):
        if found and position - found[-1][0] < _NEAR and start < found[-1][2] + _NEAR and found[-1][1] < end + _NEAR:
            found[-1] = (found[-1][0], min(found[-1][1], start), max(found[-1][2], end))
        else:
            found.append((position, start, end))
    return found


def _meeting(upright: list[Segment], level: list[Segment]) -> list[tuple[list[Segment], list[Segment]]]:
    """Group rules that meet or cross."""
    groups: list[tuple[list[Segment], list[Segment]]] = [([], [one]) for one in level]
    for one in upright:
        x, top, bottom = one[0], one[1] - _NEAR, one[2] + _NEAR
        joined: tuple[list[Segment], list[Segment]] = ([one], [])
        apart = []
        for group in groups:
            if any(
                top - _NEAR < y < bottom + _NEAR and left - _NEAR < x < right + _NEAR for y, left, right in group[1]
            ):
                joined = (joined[0] + group[0], joined[1] + group[1])
            else:
                apart.append(group)
        groups = [*apart, joined]
    return [group for group in groups if group[0] and group[1]]


def _distinct(values: Sequence[float], starts: Sequence[float], ends: Sequence[float]) -> list[float]:
    """Return the different positions of rules, and the ends of the rules across."""
    ordered = sorted([*values, min(starts), max(ends)])
    return ordered[:1] + [after for before, after in pairwise(ordered) if after - before > _NEAR]
