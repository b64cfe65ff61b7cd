"""Find a text in another as a reader would: in any normal form, with or without points, over line breaks."""

import re
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache

import regex

from cogltx.blocks._script import plain

_PIECE = regex.compile(r"[!-~]+(?![^\0-~])|\s+|\X")


def find(text: str, wanted: str, start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """Yield where a text occurs in ``text[start:end]``: first letter by letter, then in plain form.

    >>> list(find("New\\nYork", "New York", 0, 8)), list(find("Cafe\u0301s", "Café", 0, 6))
    ([[(0, 8)]], [[], [(0, 5)]])
    """
    yield [match.span() for match in _pattern(wanted).finditer(text, start, end)]
    if not text.isascii() and (plain_wanted := plain(wanted).strip()):
        plain_text, starts, ends = _plain(text)
        places = (match.span() for match in _pattern(plain_wanted).finditer(plain_text))
        whole = ((starts[a], ends[b - 1]) for a, b in places if not (_is_cut(starts, a) or _is_cut(starts, b)))
        yield [span for span in whole if start <= span[0] and span[1] <= end]


def _is_cut(starts: Sequence[int], place: int) -> bool:
    """Check whether a place in a plain form is inside the form of one piece of the text."""
    return 0 < place < len(starts) and starts[place - 1] == starts[place]


def _pattern(wanted: str) -> re.Pattern[str]:
    """Match a text with any white space between its words."""
    return re.compile(r"\s+".join(map(re.escape, wanted.split())))


@lru_cache(maxsize=1)  # many answers are searched in one document
def _plain(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return the plain form of a text, and where each of its characters begins and ends in the text."""
    pieces, starts, ends = list[str](), array("q"), array("q")
    for match in _PIECE.finditer(text):
        (first, last), piece = match.span(), plain(match[0])
        is_same = len(piece) == last - first
        starts.extend(range(first, last) if is_same else [first] * len(piece))
        ends.extend(range(first + 1, last + 1) if is_same else [last] * len(piece))
        pieces.append(piece)
    return "".join(pieces), starts, ends
