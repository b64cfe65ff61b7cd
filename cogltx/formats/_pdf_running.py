"""Running heads, footers, page numbers and line numbers of a PDF: what is repeated at the edges of its pages."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import quantiles

from cogltx.formats._pdf_lines import Line

_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_NEAR = 3.0  # points between the places of one running head on different pages
_SENTENCE = re.compile(r"\w{3}.{20}[.!?。]$")
_MOST = 0.4  # share of the rows at a place that are repeated, if all of them are running heads
_LEAST = 0.2  # share of the text that is not repeated
_MOST_ROUNDS = 4  # lines of a running head
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}

Row = tuple[int, list[Line], str, float]  # page, pieces, text, baseline


def without_running(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Remove what is repeated at the edges of the pages, unless it is most of their text, and line numbers."""
    pages = [_without_line_numbers(page) for page in pages]
    kept = _without_edge(_without_edge(pages, 1), -1)
    return kept if sum(map(len, kept)) > _LEAST * sum(map(len, pages)) else pages


def _without_edge(pages: list[list[Line]], edge: int) -> list[list[Line]]:
    for _ in range(_MOST_ROUNDS):
        rows = [_outermost(number, page, edge) for number, page in enumerate(pages) if page]
        removed = {id(part) for row in _running(rows) for part in row[1]}
        if not removed:
            break
        pages = [[part for part in page if id(part) not in removed] for page in pages]
    return pages


def _outermost(number: int, page: list[Line], edge: int) -> Row:
    """Return the first row of a page, or its last."""
    first = min(page, key=lambda part: edge * part.y)
    parts = sorted((part for part in page if abs(part.y - first.y) < 0.5 * first.size), key=lambda part: part.left)
    text = " ".join(part.text for part in parts).lower()
    return number, parts, " ".join(text.split()), first.y


def _running(rows: list[Row]) -> list[Row]:
    """Find the places where rows are repeated, or count the pages; all rows there are running heads or footers."""
    repeated: set[int] = set()
    for group in _groups(rows, lambda row: [part.text.lower() for part in row[1] if len(part.text) > 1]):
        if len(group) >= min(3, max(2, len(rows))):
            repeated |= set(map(id, group))
    for group in _groups(rows, lambda row: [_NUMBER.sub("#", row[2])]):
        if (
            len(group) > 1
            and _NUMBER.search(group[0][2])
            and not _SENTENCE.search(group[0][2])
            and _counts_pages(group)
        ):
            repeated |= set(map(id, group))
    found: dict[int, Row] = {}
    for row in (row for row in rows if id(row) in repeated):
        near = [other for other in rows if abs(other[3] - row[3]) < _NEAR]
        if sum(id(other) in repeated for other in near) > _MOST * len(near):
            found |= {id(other): other for other in near}
    return list(found.values())


def _groups(rows: Iterable[Row], keys: Callable[[Row], list[str]]) -> Iterator[list[Row]]:
    """Group rows with one text at one height, within a few points."""
    by_text: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for key in keys(row):
            by_text[key].append(row)
    for same in by_text.values():
        same.sort(key=lambda row: row[3])
        group = same[:1]
        for before, row in pairwise(same):
            if row[3] - before[3] > _NEAR:
                yield group
                group = []
            group.append(row)
        yield group


def _counts_pages(group: list[Row]) -> bool:
    """Check whether a number of the rows grows as the pages do."""
    rows = sorted(group, key=lambda row: row[0])
    values = [[_value(text) for text in _NUMBER.findall(row[2])] for row in rows]
    steps = [
        [b - a - (later[0] - earlier[0]) for a, b in zip(one, other, strict=True)]
        for (earlier, one), (later, other) in pairwise(zip(rows, values, strict=True))
    ]
    return any(column.count(0) > 0.6 * len(column) for column in zip(*steps, strict=True))


def _value(text: str) -> int:
    """Return the value of a number in digits or Roman numerals."""
    if text.isdigit():
        return int(text)
    values = [_ROMAN[letter] for letter in text]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


def _without_line_numbers(page: list[Line]) -> list[Line]:
    """Remove a column of numbers beside the lines of a text, which grow by a constant step."""
    numbers = [part for part in page if part.text.isdecimal() and len(part.text) < 5]
    others = [part for part in page if not part.text.isdecimal()]
    if len(numbers) < 3 or len(others) < 3:
        return page
    left = quantiles([part.left for part in others], n=20)[0]
    right = quantiles([part.right for part in others], n=20)[-1]
    goes_on = sum(part.text[0].islower() for part in others if abs(part.left - left) < part.size)
    for beside in ([part for part in numbers if part.right < left], [part for part in numbers if part.left > right]):
        beside.sort(key=lambda part: part.y)
        steps = [int(after.text) - int(before.text) for before, after in pairwise(beside)]
        if len(steps) > 1 and steps[0] > 0 and len(set(steps)) == 1 and goes_on > 0.2 * len(others):
            gone = set(map(id, beside))
            return [part for part in page if id(part) not in gone]
    return page
