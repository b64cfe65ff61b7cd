"""Tables of contents of plain text: they repeat the words of a question, and answer none.

A table of contents is a run of lines that begin with the numbers of sections, in order, with few lines between them.
Most come again in the same order and with the same words, with more lines between them: there the sections begin.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_NUMBER = re.compile(r"\s*(?:[*•-]\s+)?((?:\d{1,3}|[A-Z](?=\.))(?:\.\d{1,3})*)\.?\s+(\S.*)")
_APPENDIX = 1000  # appendix A comes after section 999
_DOTS, _FEWEST_DOTS = " \t.·…_", 3
_FEWEST = 5  # entries
_FEWEST_NESTED = 3  # of them with a number such as 1.2; others may be a list of steps
_LEAST_SHARE = 0.8  # of the nested ones that come again; the text may count some in another way
_MOST_OTHER = 3  # other lines between two entries: the rest of a long title, or the end of a page
_MOST_OTHERS = 0.5  # other lines per entry; more are a text of its own
_FEWEST_LINES = 3  # from one beginning of a section to the next; fewer are a list that comes twice
_LEVELS = 3  # the contents of a book repeat those of its chapters, which are cleared first
_TITLE = 24  # letters of a title; the text may break it elsewhere


@dataclass(frozen=True)
class _Section:
    number: tuple[int, ...]
    title: str


def without_contents(text: str) -> str:
    """Replace tables of contents by spaces, so that offsets and lines stay.

    >>> titles = ["1. Wood", "1.1. Oak", "1.2. Elm", "2. Stone", "2.1. Slate"]
    >>> book = "".join(f"{title}\\n\\nIt is hard.\\nIt is old.\\n\\n" for title in titles)
    >>> without_contents("\\n".join(titles) + "\\n\\n" + book).strip() == book.strip()
    True
    """
    lines = text.splitlines(keepends=True)
    for _ in range(_LEVELS):
        if not _clear(lines):
            break
    return "".join(lines)


def _clear(lines: list[str]) -> bool:
    """Replace tables of contents by spaces, and return whether there are any."""
    sections = {number: section for number, line in enumerate(lines) if (section := _section(line))}
    places: defaultdict[_Section, list[int]] = defaultdict(list)
    for number, section in sections.items():
        places[section].append(number)
    end, found = 0, list[int]()
    for first in sections:
        if first >= end:
            entries = _run(first, lines, sections)
            end = entries[-1] + 1
            found += _contents(entries, lines, sections, places)
    for line in found:
        lines[line] = re.sub(r"\S", " ", lines[line])
    return bool(found)


def _section(line: str) -> _Section | None:
    """The number and the title at the beginning of a line."""
    match = _NUMBER.match(line)
    if match is None:
        return None
    parts = match[1].split(".")
    number = (int(part) if part.isdigit() else _APPENDIX + ord(part) for part in parts)
    return _Section(tuple(number), _letters(match[2])[:_TITLE])


def _letters(line: str) -> str:
    """The letters and digits of a line, without dots and the number of a page behind them."""
    line = line.rstrip()
    dotted = line.rstrip("0123456789")
    before = dotted.rstrip(_DOTS)
    if len(dotted) - len(before) >= _FEWEST_DOTS:
        line = before
    return "".join(letter for letter in line.casefold() if letter.isalnum())


def _run(first: int, lines: list[str], sections: dict[int, _Section]) -> list[int]:
    """The lines of a run of numbers in order, with few other lines between them."""
    entries, others = [first], 0
    for number in range(first + 1, len(lines)):
        if number in sections and sections[number].number > sections[entries[-1]].number:
            entries.append(number)
            others = 0
        elif lines[number].strip():
            others += 1
        if others > _MOST_OTHER:
            break
    return entries


def _contents(
    entries: list[int], lines: list[str], sections: dict[int, _Section], places: dict[_Section, list[int]]
) -> range:
    """The lines of a run from the first entry that comes again to the last, if it is a table of contents."""
    again: dict[int, int] = {}  # where an entry comes again
    end = entries[-1] + 1
    for entry in entries:
        at = bisect_left(places[sections[entry]], end)
        if sections[entry].title and at < len(places[sections[entry]]):
            again[entry] = places[sections[entry]][at]
            end = again[entry] + 1
    nested = [entry for entry in entries if len(sections[entry].number) > 1]
    n_found = sum(entry in again for entry in nested)
    if len(again) < _FEWEST or n_found < max(_FEWEST_NESTED, _LEAST_SHARE * len(nested)):
        return range(0)
    rests = {
        entry: _n_rest(lines[entry:later], lines[again[entry] : again[entry] + _MOST_OTHER + 1])
        for entry, later in pairwise([*entries, len(lines)])
        if entry in again
    }
    found = range(min(again), max(again) + rests[max(again)] + 1)
    n_others = sum(bool(lines[line].strip()) for line in found) - sum(entry in found for entry in entries)
    n_others -= sum(rests.values())
    beginnings = [sum(bool(line.strip()) for line in lines[one:later]) for one, later in pairwise(again.values())]
    is_contents = n_others <= _MOST_OTHERS * len(again) and median(beginnings) >= _FEWEST_LINES
    return found if is_contents else range(0)


def _n_rest(lines: list[str], section: list[str]) -> int:
    """Number of lines after that of an entry that continue its title, as the beginning of its section has it."""
    text = "".join(map(_letters, section))
    title = _letters(lines[0])
    for number, line in enumerate(lines[1:]):
        title += _letters(line)
        if not _letters(line) or not text.startswith(title):
            return number
    return len(lines) - 1
