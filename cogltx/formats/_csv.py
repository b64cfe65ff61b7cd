"""Tables in text files, separated by commas, semicolons, tabs or bars."""

import csv
import io
import re

from cogltx.formats import _tables as tables
from cogltx.formats._encoding import decode
from cogltx.formats._sections import Sections

_DELIMITERS = "\t,;|"
_SAMPLE = 65_536  # characters that decide the delimiter
_MOST_LETTERS = 10_000_000  # of a cell
_STATED = re.compile(r"sep=(.)\r?\n")  # the first line of files that Excel writes
_QUOTED = re.compile(r'"[^"]*"')


def read(content: bytes) -> Sections:
    """Read a CSV or TSV file."""
    sections = Sections()
    text, note = decode(content)
    sections.note(note)
    csv.field_size_limit(_MOST_LETTERS)
    stated = _STATED.match(text)
    delimiter = stated[1] if stated else _delimiter(text[:_SAMPLE])
    text = text[stated.end() if stated else 0 :].replace("\0", "\ufffd")
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    tables.add_sheet(sections, enumerate(lines, start=1))
    return sections


def _delimiter(sample: str) -> str:
    """The delimiter that divides most lines into the same number of cells."""
    lines = [line for line in _QUOTED.sub("", sample).splitlines() if line.strip()][:100]
    counts = {one: sorted(line.count(one) for line in lines) for one in _DELIMITERS}
    medians = {one: count[len(count) // 2] if count else 0 for one, count in counts.items()}
    regular = {one: sum(line.count(one) == medians[one] for line in lines) for one in _DELIMITERS if medians[one]}
    return max(regular, key=lambda one: regular[one]) if regular else ","
