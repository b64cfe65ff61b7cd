"""Words of a PDF page with their places, by pdfium; in a frame where text runs to the right and lines go down."""

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import atan2, hypot, pi
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

Box = tuple[float, float, float, float]

MOST_CHARACTERS = 200_000  # of a page; more is no page that a person reads
_ASCENT, _DESCENT = 0.8, 0.2  # of the type size: upper and lower edge of a line's box around its baseline
_WORD = re.compile("[^\\s\ufffe\x02]*[\ufffe\x02]|\\S+")  # a word ends at pdfium's mark of a hyphen at a line's end
_NO_WIDTH = 0.01
_CONTROLS = re.compile("[\0-\x01\x03-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb\uffff]")
_FIXED_PITCH, _FORCE_BOLD = 1, 1 << 18
_BOLD = 600  # weight
_GRAVE = "\u0300"  # pdfium's reading of a spacing grave accent, an opening quote of TeX, after the words around it
_text_object = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
    ctypes.cast(pdfium.FPDFText_GetTextObject, ctypes.c_void_p).value or 0
)


class Style(NamedTuple):
    """Effective type size in points, and how the letters look."""

    size: float
    bold: bool
    fixed: bool


class Word(NamedTuple):
    """Text without a space and its place; ``y`` is the baseline. ``position`` is its position in the page's content."""

    text: str
    left: float
    right: float
    y: float
    style: Style
    position: int

    @property
    def size(self) -> float:
        """Type size in points."""
        return self.style.size


@dataclass(frozen=True)
class Frame:
    """The page as shown, turned by ``turns`` quarters so that its text runs to the right."""

    turns: int
    width: float
    height: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Turn a point of the page as shown into this frame."""
        return ((x, y), (y, self.width - x), (self.width - x, self.height - y), (self.height - y, x))[self.turns]

    def shown(self, left: float, right: float, y: float, size: float) -> Box:
        """Return the box on the page as shown of a line with this baseline."""
        corners = [self._back(left, y - _ASCENT * size), self._back(right, y + _DESCENT * size)]
        (x0, x1), (y0, y1) = (sorted(values) for values in zip(*corners, strict=True))
        return (round(x0, 2), round(y0, 2), round(x1, 2), round(y1, 2))

    def _back(self, u: float, v: float) -> tuple[float, float]:
        return ((u, v), (self.width - v, u), (self.width - u, self.height - v), (v, self.height - u))[self.turns]


class TooManyCharactersError(Exception):
    """The page has more characters than ``MOST_CHARACTERS``."""


def to_shown(page: pypdfium2.PdfPage) -> Callable[[float, float], tuple[float, float]]:
    """Return the function from pdfium's coordinates to points from the upper left corner of the page as shown."""
    left, bottom, right, top = page.get_bbox()
    return (
        lambda x, y: (x - left, top - y),
        lambda x, y: (y - bottom, x - left),
        lambda x, y: (right - x, y - bottom),
        lambda x, y: (top - y, right - x),
    )[page.get_rotation() // 90 % 4]


def page_words(page: pypdfium2.PdfPage) -> dict[Frame, list[Word]]:
    """Read the words of a page by the direction of their text, in the order of the page's content."""
    _widen(page)
    textpage = page.get_textpage()
    try:
        return _Reader(page, textpage).words()
    finally:
        textpage.close()


def _widen(page: pypdfium2.PdfPage) -> None:
    """Give a width to text objects without one, which pdfium skips: single characters of an absent font."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    for item in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT], max_depth=4):
        pdfium.FPDFPageObj_GetBounds(item.raw, left, bottom, right, top)
        if right.value - left.value < _NO_WIDTH:
            pdfium.FPDFTextObj_SetTextRenderMode(item.raw, pdfium.FPDF_TEXTRENDERMODE_STROKE)
            pdfium.FPDFPageObj_SetStrokeWidth(item.raw, 1.0)
            pdfium.FPDFPageObj_Transform(item.raw, 1, 0, 0, 1, 0, 0)


class _Reader:
    """Reads words: for each, the places of its first and last character, and the style of its text object."""

    def __init__(self, page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage) -> None:
        self._page = textpage.raw
        self._size = page.get_size()
        self._shown = to_shown(page)
        self._objects: dict[int, tuple[Style, int]] = {}
        self._fonts: dict[int, tuple[bool, bool]] = {}
        self._box = pdfium.FS_RECTF()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._count = pdfium.FPDFText_CountChars(self._page)

    def words(self) -> dict[Frame, list[Word]]:
        """Read all words."""
        if self._count > MOST_CHARACTERS:
            raise TooManyCharactersError
        text = self._text()
        found: dict[Frame, list[Word]] = {}
        for match in _WORD.finditer(text):
            for start, end in self._runs(match.start(), match.end()):
                if piece := _CONTROLS.sub("", text[start:end]):
                    frame, word = self._word(piece, start, end)
                    words = found.setdefault(frame, [])
                    if piece == _GRAVE:
                        _open_quote(words, word)
                    else:
                        words.append(word)
        return found

    def _text(self) -> str:
        """Return the characters, one for each of pdfium's."""
        buffer = ctypes.create_string_buffer(4 * (self._count + 1))
        pdfium.FPDFText_GetText(self._page, 0, self._count, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)))
        text = buffer.raw.decode("utf-16-le", "surrogatepass").rstrip("\0")
        if len(text) == self._count:
            return text
        return "".join(chr(pdfium.FPDFText_GetUnicode(self._page, index) or 32) for index in range(self._count))

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Divide a word where its text object changes, as at a superscript."""
        if self._object(start) == self._object(end - 1):
            yield start, end
        else:
            for _, run in groupby(range(start, end), key=self._object):
                indices = list(run)
                yield indices[0], indices[-1] + 1

    def _object(self, index: int) -> int:
        return _text_object(self._page, index) or 0

    def _word(self, text: str, start: int, end: int) -> tuple[Frame, Word]:
        style, turns = self._style(start)
        corners, last = self._corners(start), self._corners(end - 1) if end - start > 1 else ()
        if last and not turns and abs(last[0][0] - corners[0][0]) < 0.3 * style.size * (end - start - 1):
            turns = 1 if abs(last[0][1] - corners[0][1]) > 0.5 * style.size * (end - start - 1) else turns
        frame = Frame(turns, *self._size)
        places = [frame.point(x, y) for x, y in (*corners, *last)]
        pdfium.FPDFText_GetCharOrigin(self._page, start, self._x, self._y)
        y = frame.point(*self._shown(self._x.value, self._y.value))[1]
        lefts = [u for u, _ in places]
        return frame, Word(text, min(lefts), max(lefts), y, style, start)

    def _corners(self, index: int) -> tuple[tuple[float, float], tuple[float, float]]:
        box = self._box
        pdfium.FPDFText_GetLooseCharBox(self._page, index, box)
        return self._shown(box.left, box.top), self._shown(box.right, box.bottom)

    def _style(self, index: int) -> tuple[Style, int]:
        """Return the style of a character, and the quarters by which its text is turned."""
        key = self._object(index)
        if key not in self._objects:
            matrix = pdfium.FS_MATRIX()
            pdfium.FPDFText_GetMatrix(self._page, index, matrix)
            scale = hypot(matrix.c, matrix.d) or 1.0
            size = self._plausible(pdfium.FPDFText_GetFontSize(self._page, index) * scale, index)
            x0, y0 = self._shown(0, 0)
            x1, y1 = self._shown(matrix.a, matrix.b)
            turns = round(atan2(y1 - y0, x1 - x0) / (pi / 2)) % 4
            self._objects[key] = Style(round(size, 1), *self._font(key, index)), turns
        return self._objects[key]

    def _plausible(self, size: float, index: int) -> float:
        """Correct a type size, which may be anything in a Type 3 font, by the box of the character."""
        (x0, y0), (x1, y1) = self._corners(index)
        height = max(abs(y1 - y0), 0.1)
        return size if 0.4 * height < size < 4 * max(height, abs(x1 - x0)) else height / 1.2

    def _font(self, key: int, index: int) -> tuple[bool, bool]:
        """Return whether a character's font is bold, and of fixed pitch."""
        item: Any = pdfium.FPDFText_GetTextObject(self._page, index)
        font: Any = pdfium.FPDFTextObj_GetFont(item) if item else None
        address = ctypes.cast(font, ctypes.c_void_p).value or 0 if font else 0
        if address not in self._fonts:
            name = ctypes.create_string_buffer(200)
            flags = ctypes.c_int()
            pdfium.FPDFText_GetFontInfo(self._page, index, name, 200, flags)
            letters = name.value.decode("latin-1").lower()
            bold = bool(re.search("bold|black|heavy|demi(?!t)|-bd|cmbx|semibold", letters))
            fixed = bool(re.search("mono|courier|typewriter|consol|cmtt|sftt|ectt|txtt", letters))
            weight = pdfium.FPDFText_GetFontWeight(self._page, index)
            self._fonts[address] = (
                bold or weight >= _BOLD or bool(flags.value & _FORCE_BOLD),
                fixed or bool(flags.value & _FIXED_PITCH and "sans" not in letters),
            )
        return self._fonts[address]


def _open_quote(words: list[Word], grave: Word) -> None:
    """Put an opening quote before the word at its place."""
    for number in range(len(words) - 1, max(len(words) - 60, -1), -1):
        word = words[number]
        if abs(word.y - grave.y) < 0.4 * word.size and abs(word.left - grave.left) < 0.5 * word.size:
            words[number] = word._replace(text="`" + word.text, left=min(word.left, grave.left))
            return
    words.append(grave._replace(text="`"))
