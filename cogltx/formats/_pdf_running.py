"""Running heads, footers, page numbers and line numbers of a PDF: what is repeated at the edges of its pages."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import quantiles

from more_itertools import split_when

from cogltx.formats._pdf_lines import Line

_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_NEAR = 3.0  # points between the places of one running head on different pages
_PROSE = re.compile(r"[.,;:]$|.{110}")  # in a row that is not repeated
_SENTENCE = re.compile(r"\w{3}.{20}[.!?。]$")
_MOST = 0.4  # share of the rows at a place that are repeated, if all of them are running heads
_LEAST_PAGES, _MOST_PAGES = 0.15, 0.5  # least share of the pages with a running head, and with its further lines
_LEAST = 0.2  # share of the text that is not repeated
_MOST_ROUNDS = 4  # lines of a running head
_LARGE = 1.2  # least type size of titles of slides, in that of the text
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}

Row = tuple[int, list[Line], str, float]  # page, pieces, text, baseline


def without_running(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Remove what is repeated at the edges of the pages, unless it is most of their text, and line numbers."""
    pages = _without_line_numbers(_without_watermarks(pages))
    kept = _without_edge(_without_edge(pages, 1), -1)
    return kept if sum(map(len, kept)) > _LEAST * sum(map(len, pages)) else pages


def _without_watermarks(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Remove text across the direction of the page's text that is on several pages."""
    counts = Counter(text for page in pages for text in {part.text for part in page if part.frame != page[0].frame})
    return [[part for part in page if part.frame == page[0].frame or counts[part.text] < 2] for page in pages]


def _without_edge(pages: list[list[Line]], edge: int) -> list[list[Line]]:
    sizes = Counter[float]()
    for part in (part for page in pages for part in page):
        sizes[part.size] += len(part.text)
    size = _LARGE * max(sizes, key=sizes.__getitem__, default=0)
    for number in range(_MOST_ROUNDS):
        rows = [_outermost(index, page, edge) for index, page in enumerate(pages) if page]
        removed = {id(part) for row in _running(rows, _MOST_PAGES if number else _LEAST_PAGES, size) for part in row[1]}
        if not removed:
            break
        pages = [[part for part in page if id(part) not in removed] for page in pages]
    return pages


def _outermost(number: int, page: list[Line], edge: int) -> Row:
    """Return the first row of a page, or its last."""
    page = [part for part in page if part.frame == page[0].frame]
    first = min(page, key=lambda part: edge * part.y)
    parts = sorted((part for part in page if abs(part.y - first.y) < 0.5 * first.size), key=lambda part: part.left)
    text = " ".join(part.text for part in parts).lower()
    return number, parts, " ".join(text.split()), first.y


def _running(rows: list[Row], least: float, size: float) -> list[Row]:
    """Find the places where rows are repeated, or count the pages; all rows there are running heads or footers.

    Rows in type above ``size``, most of which differ, are titles of slides.
    """
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
        count = sum(id(other) in repeated for other in near)
        if row[1][0].size > size and len({_NUMBER.sub("#", other[2]) for other in near}) > 0.5 * len(near):
            continue
        if count > _MOST * len(near) and count > least * len(rows):
            found |= {id(other): other for other in near if id(other) in repeated or not _PROSE.search(other[2])}
    return list(found.values())


def _groups(rows: Iterable[Row], keys: Callable[[Row], list[str]]) -> Iterator[list[Row]]:
    """Group rows with one text at one height, within a few points."""
    by_text: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for key in keys(row):
            by_text[key].append(row)
    for same in by_text.values():
        yield from split_when(sorted(same, key=lambda row: row[3]), lambda before, row: row[3] - before[3] > _NEAR)


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


def _without_line_numbers(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Remove the columns of line numbers, on all pages if they are beside prose on one."""
    columns = [_column_of_numbers(page) for page in pages]
    edges = [column[0].right for column, is_beside_prose in columns if is_beside_prose]
    gone = {id(part) for column, _ in columns for part in column if any(abs(part.right - edge) < 9 for edge in edges)}
    return [[part for part in page if id(part) not in gone] for page in pages]


def _column_of_numbers(page: list[Line]) -> tuple[list[Line], bool]:
    """Return the numbers beside the text that grow by a constant step, and whether the text is prose."""
    numbers = [part for part in page if part.text.isdecimal() and len(part.text) < 5]
    others = [part for part in page if not part.text.isdecimal()]
    if len(numbers) < 3 or len(others) < 3:
        return [], False
    left = quantiles([part.left for part in others], n=20)[0]
    right = quantiles([part.right for part in others], n=20)[-1]
    goes_on = sum(part.text[0].islower() for part in others if abs(part.left - left) < part.size)
    for beside in ([part for part in numbers if part.right < left], [part for part in numbers if part.left > right]):
        beside.sort(key=lambda part: part.y)
        steps = [int(after.text) - int(before.text) for before, after in pairwise(beside)]
        if len(steps) > 1 and steps[0] > 0 and len(set(steps)) == 1:
            return beside, goes_on > 0.2 * len(others)
    return [], False
