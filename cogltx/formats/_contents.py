"""Tables of contents of plain text: they repeat the words of a question, and answer none.

A table of contents is a run of lines that begin with the numbers of sections, in order, of which most come again, in
order and with the same words, where the sections begin.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

_NUMBER = re.compile(r"\s*((?:\d{1,3}|[A-Z](?=\.))(?:\.\d{1,3})*)\.?\s+(\S.*)")
_APPENDIX = 1000  # appendix A comes after section 999
_DOTS, _FEWEST_DOTS = " \t.·…_", 3
_FEWEST = 5  # entries
_FEWEST_NESTED = 3  # of them with a number such as 1.2; others may be a list of steps
_LEAST_SHARE = 0.8  # of the nested ones that come again; the text may count some in another way
_MOST_OTHER = 3  # other lines between two entries: the rest of a long title, or the end of a page
_TITLE = 12  # letters of a title; the text may break it elsewhere
_LINE = 200  # characters of a line that are looked at


@dataclass(frozen=True)
class _Section:
    number: tuple[int, ...]
    title: str


def without_contents(text: str) -> str:
    """Replace tables of contents by spaces, so that offsets and lines stay.

    >>> book = "1.1. Oak\\n1.2. Elm\\n1.3. Ash\\n2. Stone\\n2.1. Slate\\n\\n1.1. Oak\\nIt is hard.\\n"
    >>> book += "1.2. Elm\\nIt is tough.\\n1.3. Ash\\n2.1. Slate\\nIt splits."
    >>> without_contents(book).strip().splitlines()[:3]
    ['1.1. Oak', 'It is hard.', '1.2. Elm']
    """
    lines = text.splitlines(keepends=True)
    sections = {number: section for number, line in enumerate(lines) if (section := _section(line))}
    places: defaultdict[_Section, list[int]] = defaultdict(list)
    for number, section in sections.items():
        places[section].append(number)
    end = 0
    for first in sections:
        if first < end:
            continue
        entries = _run(first, lines, sections)
        end = entries[-1] + 1
        if _come_again([sections[entry] for entry in entries], end, places):
            lines[first:end] = [re.sub(r"\S", " ", line) for line in lines[first:end]]
    return "".join(lines)


def _section(line: str) -> _Section | None:
    """The number and the title at the beginning of a line."""
    match = _NUMBER.match(line[:_LINE])
    if match is None:
        return None
    title = match[2].rstrip()
    dotted = title.rstrip("0123456789")
    before = dotted.rstrip(_DOTS)
    if len(dotted) - len(before) >= _FEWEST_DOTS:  # before the number of a page
        title = before
    title = "".join(letter for letter in title.casefold() if letter.isalnum())
    parts = match[1].split(".")
    number = (int(part) if part.isdigit() else _APPENDIX + ord(part) for part in parts)
    return _Section(tuple(number), title[:_TITLE])


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


def _come_again(entries: list[_Section], end: int, places: dict[_Section, list[int]]) -> bool:
    """Whether a run is a table of contents: most of its nested sections come again after it, in their order."""
    nested = [section for section in entries if len(section.number) > 1]
    if len(entries) < _FEWEST or len(nested) < _FEWEST_NESTED:
        return False
    n_found = 0
    for section in nested:
        at = bisect_left(places[section], end)
        if at < len(places[section]):
            n_found, end = n_found + 1, places[section][at] + 1
    return n_found >= _LEAST_SHARE * len(nested)
