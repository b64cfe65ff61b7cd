"""Lines of a PDF page: words on one baseline, joined to the text that a reader sees."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from more_itertools import split_when

from cogltx.formats._pdf_words import Box, Frame, Style, Word

_FAR = 1.2  # type sizes between two pieces of text on one baseline
_TOUCHING = 0.08
_OVERHANG = 0.2  # of an italic f over the space beside it
_NO_SPACE = 0.8  # in scripts without spaces
_RAISED, _SMALL = 0.15, 0.88  # baseline and size of a raised figure, in the sizes of the line
_SAME_ROW = 0.35  # type sizes
_DROP_CAP = 1.8  # least size, in those of the text
_SIGNS, _NORMS = "−-–+", "∥‖"
_UNIT = re.compile(r"(?:^|[^\w])([cdkmµn]?m|s|[kc]?Hz|kg|cd|mol|[A-Za-zα-ω])$")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff01-\uff60\U00020000-\U0003ffff]"
)
LEADER = re.compile(r"\s*(?:[.·…‥]\s?){4,}\s*|(?:\s[.·]){4,}\s+")
LEADER_TO_PAGE = re.compile(rf"(?:{LEADER.pattern})(?=\d+$)")


@dataclass(slots=True, eq=False)
class Line:
    """A piece of a printed line, or all of it; ``first`` is the width of its first word, ``y`` its baseline."""

    text: str
    left: float
    right: float
    y: float
    style: Style
    is_bold: bool
    first: float
    index: int
    frame: Frame
    page: int
    is_alone: bool = False  # a paragraph of its own
    cells: tuple["Line", ...] = ()  # of a row of a table
    before: str = ""  # what separates it from the cell to the left
    after: str = ""

    @property
    def size(self) -> float:
        """Type size of most characters."""
        return self.style.size

    @property
    def top(self) -> float:
        """Upper edge in the frame."""
        return self.y - 0.8 * self.size

    @property
    def bottom(self) -> float:
        """Lower edge in the frame."""
        return self.y + 0.2 * self.size

    @property
    def box(self) -> Box:
        """Place on the page as shown."""
        return self.frame.shown(self.left, self.right, self.y, self.size)


def is_right_to_left(text: str) -> bool:
    """Check whether most words of a text are written from right to left."""
    if text.isascii():
        return False
    directions = Counter(_direction(word) for word in text.split())
    return directions["R"] > directions["L"]


def _direction(word: str) -> str:
    """The direction of the first letter: R or L; empty without one."""
    strong = {"R": "R", "AL": "R", "L": "L"}
    return next((strong[one] for one in map(unicodedata.bidirectional, word) if one in strong), "")


def without_spaces(left: str, right: str) -> bool:
    """Check that the scripts of two neighbouring characters write no space between words."""
    return bool(_NO_SPACES.match(left) and _NO_SPACES.match(right))


def pieces(words: Sequence[Word], frame: Frame, page: int, columns: Sequence[tuple[float, float, float]]) -> list[Line]:
    """Join neighbouring words of the content to pieces of lines, which end at wide gaps and at the rules of tables.

    Args:
        words: all in one frame.
        frame: theirs.
        page: its number.
        columns: the position, top and bottom of each vertical rule of a table.
    """

    def ends(last: Word, word: Word) -> bool:
        return not _continues(last, word) or _is_ruled_off(last, word, columns)

    return [_line(piece, frame, page) for piece in split_when(_with_marks(words), ends)]


def _is_ruled_off(last: Word, word: Word, columns: Sequence[tuple[float, float, float]]) -> bool:
    middle, other = (last.left + last.right) / 2, (word.left + word.right) / 2
    left, right = min(middle, other), max(middle, other)
    return any(left < x < right and top < word.y < bottom + 1 for x, top, bottom in columns)


def _with_marks(words: Sequence[Word]) -> list[Word]:
    """Put small raised figures that are drawn apart from their line after the word at their left."""
    ordered, usual = list(words), median(word.size for word in words)
    marks = [word for before, word in pairwise([None, *words]) if word and _is_mark_apart(before, word)]
    for mark in (mark for mark in marks if mark.size < _SMALL * usual):
        if beside := next((word for word in ordered if word.size > mark.size and _touches(word, mark)), None):
            ordered.remove(mark)
            ordered.insert(ordered.index(beside) + 1, mark)
    return ordered


def _is_mark_apart(before: Word | None, word: Word) -> bool:
    return word.text.isdecimal() and len(word.text) < 4 and (before is None or not -1 < word.left - before.right < 9)


def _touches(word: Word, mark: Word) -> bool:
    raised = (word.y - mark.y) / word.size
    return (
        _RAISED < raised < 0.7 and -0.1 < (mark.left - word.right) / word.size < 0.3 and mark.size < _SMALL * word.size
    )


def _continues(last: Word, word: Word) -> bool:
    size, drop = max(last.size, word.size), abs(word.y - last.y)
    gap = max(word.left - last.right, last.left - word.right)
    if not -0.5 * size < gap < _FAR * size:
        return False
    if min(last.size, word.size) < 0.5 * size:
        return 0.1 * size < drop < 0.6 * size and word.text.isdecimal()
    return drop < (0.25 if last.size == word.size else 0.6) * size


def _from_right_to_left(words: Sequence[Word]) -> list[Word]:
    """Put the words of a line in order, most of whose letters are written from right to left."""
    ordered = sorted(words, key=lambda word: -word.right)
    found = list[Word]()
    for is_other, run in groupby(ordered, key=lambda word: not is_right_to_left(word.text)):
        part = list(run)
        if is_other and any(letter.isascii() and letter.isalpha() for word in part for letter in word.text):
            places = [place for place, word in enumerate(part) if any(map(str.isalnum, word.text))]
            inner = slice(places[0], places[-1] + 1)  # without the signs around them
            part[inner] = part[inner][::-1]
        found += part
    return _with_numbers(found)


def _with_numbers(words: Sequence[Word]) -> list[Word]:
    """Join the parts of a number, which touch; the left one comes first."""
    joined = list[Word]()
    for word in words:
        last = joined[-1] if joined else None
        is_number = any(map(str.isdigit, word.text)) and not any(map(str.isalpha, word.text))
        if last and is_number and abs(last.left - word.right) < _TOUCHING * word.size and last.text[-1].isdigit():
            joined[-1] = last._replace(text=word.text + last.text, left=word.left)
        else:
            joined.append(word)
    return joined


def _line(words: list[Word], frame: Frame, page: int) -> Line:
    if is_right_to_left(" ".join(word.text for word in words)):
        words = _from_right_to_left(words)
    styles = Counter[Style]()
    for word in words:
        styles[word.style] += len(word.text)
    style = styles.most_common(1)[0][0]
    y = next(word.y for word in words if word.style == style)
    left, right = min(word.left for word in words), max(word.right for word in words)
    bold = all(word.style.bold for word in words if any(map(str.isalnum, word.text)))
    first = words[0].right - words[0].left
    return Line(_joined(words, y, style.size), left, right, y, style, bold, first, words[0].position, frame, page)


def _joined(words: Sequence[Word], y: float, size: float) -> str:
    """Join the words of a piece; small raised figures become "10^6" after figures and units, and else "[1]"."""
    text, last = "", None
    for word in _with_signs([(word, word.size < _SMALL * size and y - word.y > _RAISED * size) for word in words]):
        piece, spaced = word.text, last is not None and _is_apart(last, word)
        if word.size < _SMALL * size and y - word.y > _RAISED * size:
            piece, spaced = _raised(text, piece, spaced)
        elif last is not None and text.endswith("]") and last.y < y - _RAISED * size:
            spaced = word.text[0].isalnum()
        text += " " + piece if spaced else piece
        last = word
    return _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def _with_signs(words: Iterable[tuple[Word, bool]]) -> list[Word]:
    """Join raised figures to the sign before them, which formulas draw apart; raised words are marked."""
    joined, was_sign = list[Word](), False
    for word, is_raised in words:
        if was_sign and is_raised and word.text.isdecimal() and word.left - joined[-1].right < 0.25 * word.size:
            joined[-1] = joined[-1]._replace(text=joined[-1].text + word.text, right=word.right)
        else:
            joined.append(word)
        was_sign = is_raised and word.text in _SIGNS
    return joined


def _is_apart(last: Word, word: Word) -> bool:
    if word.position == last.position + len(last.text) and word.left - last.right < word.size:  # pdfium saw no space
        return False
    gap = max(word.left - last.right, last.left - word.right) / max(last.size, word.size)
    if without_spaces(last.text[-1], word.text[0]):
        return gap > _NO_SPACE
    has_space = word.position > last.position + len(last.text)  # as pdfium sees it
    overhang = _OVERHANG * (has_space and (last.text[-1] == "f" or word.text[0] == "f"))
    return gap + overhang > _TOUCHING


def _raised(text: str, piece: str, spaced: bool) -> tuple[str, bool]:
    """Return what a raised piece becomes after ``text``, and whether a space precedes it."""
    if piece.strip(_SIGNS + "0123456789") or not any(map(str.isdigit, piece)):
        return piece, spaced  # an ordinal's letters, a trade mark
    is_power = piece[0] in _SIGNS or text[-1:] in _NORMS or _UNIT.search(text)
    if text[-1:].isdigit() or (text and is_power and not spaced):
        return "^" + piece, False
    return f"[{piece}]", bool(text)


def with_drop_caps(parts: Sequence[Line]) -> list[Line]:
    """Put a large letter before the line at its upper right, and begin the lines beside it at its left edge."""
    if not parts:
        return []
    usual = median(part.size for part in parts)
    caps = [part for part in parts if len(part.text) <= 2 and part.text[0].isalpha() and part.size > _DROP_CAP * usual]
    gone = []
    for cap in caps:
        beside = [
            part for part in parts
            if part not in caps and cap.top < part.y < cap.y + 0.3 * usual and -1 < part.left - cap.right < 1.5 * usual
        ]  # fmt: skip
        if len(beside) > 1:
            first = min(beside, key=lambda part: part.y)
            first.text = cap.text + first.text
            for part in beside:
                part.left = cap.left
            gone.append(cap)
    return [part for part in parts if part not in gone]


def merged(parts: Sequence[Line], separator: str = " ") -> Line:
    """Join pieces on one baseline to a line, in the direction of their script."""
    backwards = is_right_to_left(" ".join(part.text for part in parts))
    ordered = sorted(parts, key=lambda part: -part.right if backwards else part.left)
    text = ordered[0].text
    for before, part in pairwise(ordered):
        gap = max(part.left - before.right, before.left - part.right)
        touching = gap < _TOUCHING * part.size and not (part.is_alone or before.is_alone)
        text += part.text if touching else separator + part.text
    main = max(parts, key=lambda part: len(part.text))
    left, right = min(part.left for part in parts), max(part.right for part in parts)
    bold = all(part.is_bold for part in parts)
    alone = any(part.is_alone for part in parts)
    first, index = ordered[0].first, min(part.index for part in parts)
    return Line(text, left, right, main.y, main.style, bold, first, index, main.frame, main.page, alone)


def lines_of(parts: Sequence[Line]) -> list[Line]:
    """Join the pieces on one baseline to lines, from top to bottom."""

    def ends(before: Line, part: Line) -> bool:
        return abs(part.y - before.y) >= _SAME_ROW * min(part.size, before.size)

    found = split_when(sorted(parts, key=lambda part: part.y), ends)
    return [merged(line) if len(line) > 1 else line[0] for line in found]
