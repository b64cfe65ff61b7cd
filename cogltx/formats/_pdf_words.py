"""Words of a PDF page with their places, by pdfium; in a frame where text runs to the right and lines go down."""

import ctypes
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import atan2, hypot, pi
from statistics import median
from string import ascii_letters, digits
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from cogltx.formats import _symbols as symbols

Box = tuple[float, float, float, float]

_MOST_CHARACTERS, _MOST_OBJECTS = 200_000, 200_000  # of a page
_ASCENT, _DESCENT = 0.8, 0.2  # of the type size: upper and lower edge of a line's box around its baseline
_WORD = re.compile("[^\\s\ufffe\x02]*[\ufffe\x02]|\\S+")  # a word ends at pdfium's mark of a hyphen at a line's end
_MOST_RULES, _LEAST_RULE, _THIN = 4000, 6.0, 3.0  # count, length and breadth in points
_OBJECTS = [pdfium.FPDF_PAGEOBJ_TEXT, pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_FORM]
_WHOLE = 0.97  # share of the page
_STROKE, _UNDER = 1.5, 3.0  # length of a stroke at least; how far an underscore is below the baseline at most
_GAP, _SPREAD = 0.22, 0.06  # type sizes between words; between the letters of a word that is set wide
_BEGINNINGS = frozenset(f"({ascii_letters}{digits}")
_NO_WIDTH = 0.01
_BACKWARDS = re.compile("[\u0590-\u065f\u066d-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")  # letters
_SIGNS_BEFORE = re.compile(rf"[^\w\s]+(?={_BACKWARDS.pattern})")
_FORWARDS = re.compile(rf"(?:(?!{_BACKWARDS.pattern})\w)(?:(?!{_BACKWARDS.pattern})\S)*(?:(?!{_BACKWARDS.pattern})\w)")
_CONTROLS = re.compile("[\0-\x01\x03-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb\uffff]")
_LIGATURES = dict(zip("\x1b\x1c\x1d\x1e\x1f\x0b\x0c\x0e\x0f", "ﬀﬁﬂﬃﬄﬀﬁﬃﬄ", strict=True))  # codes of old fonts of TeX
_LIGATURE = re.compile("(?:(?<=[a-z]{2})[{0}]|[{0}](?=[a-z]{2}))".replace("{0}", "".join(_LIGATURES)))
_CODE = re.compile(f"[{''.join(_LIGATURES)}]")
_FIXED_PITCH, _FORCE_BOLD = 1, 1 << 18
_BOLD = 600  # weight
_BOLD_NAME = re.compile("bold|black|heavy|demi(?!t)|-bd|cmbx")
_PLAIN_NAME = re.compile(r"regu|roman|(?:^|\+)(?:sf|ec|cm)(?:rm|r|ti|sl|tt|st|it|ss|csc|cc)\d")  # whatever its weight
_FIXED_NAME = re.compile(
    r"mono|monaco|nimbusmon|courier|typewriter|consol|cm(?:sl|i|v)?tt|(?:sf|ec)(?:tt|st|it)\d|t1?xb?tt"
)
_SLANT = 0.1  # quarters of a turn
_ACCENTS = dict(zip("¨´ˆ˜ˇ˘˚˙˝¯¸", "\u0308\u0301\u0302\u0303\u030c\u0306\u030a\u0307\u030b\u0304\u0327", strict=True))
_GRAVE = "\u0300"  # pdfium's reading of a spacing grave accent, an opening quote of TeX, after the words around it
_ACCENTS |= {"`": _GRAVE, _GRAVE: _GRAVE}
_ACCENT = re.compile(f"[{''.join(_ACCENTS)}]")
_NEAR_ACCENT = 150  # characters of the content between an accent and its letter at most
_GONE = "\x01"  # in place of a character that joined another
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
    """The page as shown, turned by ``turns`` quarters so that its text runs to the right, or about so."""

    turns: int
    width: float
    height: float
    is_slanted: bool = False

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


class TooMuchError(Exception):
    """The page has more characters, or more objects, than a page that people read."""


def to_shown(page: pypdfium2.PdfPage) -> Callable[[float, float], tuple[float, float]]:
    """Return the function from pdfium's coordinates to points from the upper left corner of the page as shown."""
    left, bottom, right, top = page.get_bbox()
    return (
        lambda x, y: (x - left, top - y),
        lambda x, y: (y - bottom, x - left),
        lambda x, y: (right - x, y - bottom),
        lambda x, y: (top - y, right - x),
    )[page.get_rotation() // 90 % 4]


class Rule(NamedTuple):
    """A straight line that is drawn, from point to point of the page as shown."""

    x0: float
    y0: float
    x1: float
    y1: float


def page_words(page: pypdfium2.PdfPage) -> tuple[dict[Frame, list[Word]], list[Rule]]:
    """Read the words of a page by the direction of their text, in the order of the page's content, and its rules."""
    if pdfium.FPDFPage_CountObjects(page) > _MOST_OBJECTS:
        raise TooMuchError
    rules, strokes = _look_at_objects(page)
    textpage = page.get_textpage()
    try:
        words = _Reader(page, textpage).words()
    finally:
        textpage.close()
    return {frame: _with_underscores(found, frame, strokes) for frame, found in words.items()}, rules


def _look_at_objects(page: pypdfium2.PdfPage) -> tuple[list[Rule], list[Rule]]:
    """Return the rules and the short strokes, and give a width to text objects without one, as of absent fonts.

    pdfium skips text without a width.
    """
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    shown, rules, strokes = to_shown(page), list[Rule](), list[Rule]()
    (x0, y0, x1, y1), forms = page.get_bbox(), [pypdfium2.PdfMatrix()]
    for item in page.get_objects(filter=_OBJECTS, max_depth=4):
        del forms[item.level + 1 :]
        if item.type == pdfium.FPDF_PAGEOBJ_FORM:
            forms.append(item.get_matrix().multiply(forms[-1]))
            continue
        pdfium.FPDFPageObj_GetBounds(item.raw, left, bottom, right, top)
        bounds = forms[-1].on_rect(left.value, bottom.value, right.value, top.value)
        width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
        if item.type == pdfium.FPDF_PAGEOBJ_PATH:
            if width > _WHOLE * (x1 - x0) and height > _WHOLE * (y1 - y0):
                continue  # the background
            edges = *shown(*bounds[:2]), *shown(*bounds[2:])
            if len(rules) < _MOST_RULES and max(width, height) > _LEAST_RULE:
                rules += _edges(*edges)
            elif len(strokes) < _MOST_RULES and min(width, height) < _STROKE < max(width, height):
                strokes.append(Rule(*edges))
        elif width < _NO_WIDTH:
            pdfium.FPDFTextObj_SetTextRenderMode(item.raw, pdfium.FPDF_TEXTRENDERMODE_STROKE)
            pdfium.FPDFPageObj_SetStrokeWidth(item.raw, 1.0)
            pdfium.FPDFPageObj_Transform(item.raw, 1, 0, 0, 1, 0, 0)
    return rules, strokes


def _with_underscores(words: list[Word], frame: Frame, strokes: Sequence[Rule]) -> list[Word]:
    """Join words between which a stroke is drawn on the baseline, as TeX draws underscores."""
    if not strokes:
        return words
    beginning, ending = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for number, word in enumerate(words):
        beginning[round(word.left)].append(number)
        ending[round(word.right)].append(number)

    def beside(edges: dict[int, list[int]], x: float, y: float, end: int) -> int:
        """The word with an edge at x and its baseline just above y, if a name can end or begin so; -1 if none has."""
        near = (number for more in (0, -1, 1) for number in edges.get(round(x) + more, ()))
        fits = (one for one in near if -0.5 < y - words[one].y < _UNDER and words[one].text[end].isalnum())
        return next(fits, -1)

    following, seconds = dict[int, int](), set[int]()
    for stroke in strokes:
        (x0, y0), (x1, y1) = sorted((frame.point(stroke.x0, stroke.y0), frame.point(stroke.x1, stroke.y1)))
        first, second = beside(ending, x0, max(y0, y1), -1), beside(beginning, x1, max(y0, y1), 0)
        if 0 <= first < second and first not in following and second not in seconds:
            following[first] = second
            seconds.add(second)
    joined = list[Word]()
    for number in (number for number in range(len(words)) if number not in seconds):
        word, last = words[number], number
        while (last := following.get(last, -1)) >= 0:
            word = word._replace(text=f"{word.text}_{words[last].text}", right=words[last].right)
        joined.append(word)
    return joined


def _edges(x0: float, y0: float, x1: float, y1: float) -> list[Rule]:
    """Return a thin path as one rule, and another as the four edges of its box."""
    if abs(x1 - x0) < _THIN or abs(y1 - y0) < _THIN:
        return [Rule(x0, y0, x1, y1)]
    return [Rule(x0, y0, x1, y0), Rule(x0, y1, x1, y1), Rule(x0, y0, x0, y1), Rule(x1, y0, x1, y1)]


class _Source(NamedTuple):
    """Style, frame and baseline of the characters of a text object."""

    style: Style
    frame: Frame
    y: float  # baseline
    runs_along_x: bool  # whether its text runs along the x axis of pdfium
    scale: float  # 1 or -1, from pdfium's coordinate along the text to the frame's
    offset: float


class _Reader:
    """Reads words: for each, the places of its first and last character, and the style of its text object."""

    def __init__(self, page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage) -> None:
        self._page = textpage.raw
        self._width, self._height = page.get_size()
        self._shown = to_shown(page)
        self._sources: dict[int, _Source] = {}
        self._fonts: dict[int, tuple[bool, bool]] = {}
        self._box = pdfium.FS_RECTF()
        self._count = pdfium.FPDFText_CountChars(self._page)
        self._has_gaps = page.pdf.get_metadata_value("Creator").startswith("groff")  # through Ghostscript

    def words(self) -> dict[Frame, list[Word]]:
        """Read all words."""
        if self._count > _MOST_CHARACTERS:
            raise TooMuchError
        text = symbols.one_by_one(self._text())
        has_backwards = _BACKWARDS.search(text) is not None
        found: dict[Frame, list[Word]] = defaultdict(list)
        for match in _WORD.finditer(text):
            for key, start, end in self._runs(*match.span()):
                if piece := _CONTROLS.sub("", text[start:end]):
                    source = self._sources.get(key) or self._source(key, start)
                    word = self._word(source, piece, start, end)
                    if has_backwards and len(piece) == end - start:
                        word = self._as_printed(source, word, start)
                    if piece == _GRAVE:
                        _open_quote(found[source.frame], word)
                    elif self._has_gaps:  # parts of one position are apart if their places are
                        word = word._replace(position=match.start())
                        found[source.frame] += (
                            self._divided(source, word, start) if len(piece) == end - start else [word]
                        )
                    else:
                        found[source.frame].append(word)
        return found

    def _divided(self, source: _Source, word: Word, start: int) -> Iterator[Word]:
        """Divide a word at wide gaps, where pdfium sees no space."""
        edges = [self._extent(source, start + index) for index in range(len(word.text))]
        gaps = [following[0] - before[1] for before, following in pairwise(edges)]
        is_spread = len(gaps) > 2 and median(gaps) > _SPREAD * word.size
        wide = [
            index for index, gap in enumerate(gaps, 1) if gap > _GAP * word.size and word.text[index] in _BEGINNINGS
        ]
        cuts = [0, *([] if is_spread else wide), len(word.text)]
        for first, end in pairwise(cuts):
            yield word._replace(text=word.text[first:end], left=edges[first][0], right=edges[end - 1][1])

    def _as_printed(self, source: _Source, word: Word, start: int) -> Word:
        """Put addresses and numbers in order, whose parts pdfium turns round at signs among text from right to left."""
        runs, signs = [match.span() for match in _FORWARDS.finditer(word.text)], _SIGNS_BEFORE.match(word.text)
        if not runs and not signs:
            return word
        edges = [self._extent(source, start + index) for index in range(len(word.text))]
        order = list(range(len(word.text)))
        for first, end in runs:
            order[first:end] = sorted(order[first:end], key=edges.__getitem__)
        if signs and edges[0] < edges[signs.end()]:  # printed at the left end of a word from right to left: after it
            order = order[signs.end() :] + order[: signs.end()]
        text = "".join(word.text[index] for index in order)
        return word._replace(text=text, left=min(edges)[0], right=max(edge for _, edge in edges))

    def _with_accents(self, text: str) -> str:
        """Join the accents that old fonts of TeX draw above or below a letter, wherever pdfium puts them."""
        characters = list(text)
        for match in _ACCENT.finditer(text):
            place, (x, y) = match.start(), self._middle(match.start())
            near = range(max(0, place - _NEAR_ACCENT), min(len(text), place + _NEAR_ACCENT))
            for index in sorted(near, key=lambda index: abs(index - place - 0.5)):
                letter = characters[index]
                accented = unicodedata.normalize("NFC", letter.replace("ı", "i") + _ACCENTS[match[0]])
                if letter.isalpha() and len(accented) == 1 and self._is_inside(x, y, index):
                    characters[index], characters[place] = accented, _GONE
                    break
        return "".join(characters)

    def _middle(self, index: int) -> tuple[float, float]:
        """Return the middle of a character's box."""
        pdfium.FPDFText_GetLooseCharBox(self._page, index, self._box)
        return (self._box.left + self._box.right) / 2, (self._box.bottom + self._box.top) / 2

    def _is_inside(self, x: float, y: float, index: int) -> bool:
        """Check whether a place is in a character's box."""
        pdfium.FPDFText_GetLooseCharBox(self._page, index, self._box)
        return bool(self._box.left < x < self._box.right and self._box.bottom < y < self._box.top)

    def _text(self) -> str:
        """Return the characters, one for each of pdfium's."""
        buffer = ctypes.create_string_buffer(4 * (self._count + 1))
        pdfium.FPDFText_GetText(self._page, 0, self._count, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)))
        text = buffer.raw.decode("utf-16-le", "surrogatepass").rstrip("\0")
        if len(text) != self._count:
            text = "".join(chr(pdfium.FPDFText_GetUnicode(self._page, index) or 32) for index in range(self._count))
        return self._with_accents(self._with_ligatures(text))

    def _with_ligatures(self, text: str) -> str:
        """Replace the codes of old fonts of TeX that are ligatures: those of a font that once are between letters."""
        sure = {(self._font_of(match.start()), match[0]) for match in _LIGATURE.finditer(text)}
        if not sure:
            return text
        return _CODE.sub(
            lambda match: _LIGATURES[match[0]] if (self._font_of(match.start()), match[0]) in sure else match[0], text
        )

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Divide a word where its text object changes, as at a superscript."""
        first = _text_object(self._page, start) or 0
        if end - start == 1 or first == (_text_object(self._page, end - 1) or 0):
            yield first, start, end
        else:
            for key, run in groupby(range(start, end), key=lambda index: _text_object(self._page, index) or 0):
                indices = list(run)
                yield key, indices[0], indices[-1] + 1

    def _word(self, source: _Source, text: str, start: int, end: int) -> Word:
        left, right = self._extent(source, start)
        if end - start > 1:
            other_left, other_right = self._extent(source, end - 1)
            left, right = min(left, other_left), max(right, other_right)
        return Word(text, left, right, source.y, source.style, start)

    def _extent(self, source: _Source, index: int) -> tuple[float, float]:
        """Return left and right edge of a character in its frame."""
        box = self._box
        pdfium.FPDFText_GetLooseCharBox(self._page, index, box)
        first, last = (box.left, box.right) if source.runs_along_x else (box.bottom, box.top)
        first, last = source.scale * first + source.offset, source.scale * last + source.offset
        return (first, last) if first < last else (last, first)

    def _source(self, key: int, index: int) -> _Source:
        """Look at the text object of a character."""
        matrix, x, y = pdfium.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetMatrix(self._page, index, matrix)
        size = pdfium.FPDFText_GetFontSize(self._page, index) * (hypot(matrix.c, matrix.d) or 1.0)
        size = round(self._plausible(size, index), 1)
        (x0, y0), (x1, y1) = self._shown(0, 0), self._shown(matrix.a, matrix.b)
        quarters = atan2(y1 - y0, x1 - x0) / (pi / 2)
        is_vertical = abs(quarters) < _SLANT and self._is_vertical(key, index, size)
        turns = 1 if is_vertical else round(quarters) % 4
        frame = Frame(turns, self._width, self._height, abs(quarters - round(quarters)) > _SLANT)
        (u0, _), (ux, _), (uy, _) = (frame.point(*self._shown(*point)) for point in ((0, 0), (1, 0), (0, 1)))
        pdfium.FPDFText_GetCharOrigin(self._page, index, x, y)
        baseline = frame.point(*self._shown(x.value, y.value))[1] - is_vertical * _DESCENT * size
        along_x = abs(ux - u0) > abs(uy - u0)
        style = Style(size, *self._font(index))
        self._sources[key] = _Source(style, frame, baseline, along_x, ux - u0 if along_x else uy - u0, u0)
        return self._sources[key]

    def _is_vertical(self, key: int, index: int, size: float) -> bool:
        """Check for the vertical writing of East Asia: the next character of the text object is below."""
        if index + 1 >= self._count or _text_object(self._page, index + 1) != key:
            return False
        places = []
        for number in (index, index + 1):
            pdfium.FPDFText_GetLooseCharBox(self._page, number, self._box)
            places.append(self._shown(self._box.left, self._box.bottom))
        (x0, y0), (x1, y1) = places
        return y1 - y0 > 0.5 * size and abs(x1 - x0) < 0.5 * (y1 - y0)

    def _plausible(self, size: float, index: int) -> float:
        """Correct a type size, which may be anything in a Type 3 font, by the box of the character."""
        box = self._box
        pdfium.FPDFText_GetLooseCharBox(self._page, index, box)
        edges = sorted((abs(box.top - box.bottom), abs(box.right - box.left)))
        return size if 0.4 * edges[0] < size < 4 * max(edges[1], 0.1) else max(edges[1], 1.0) / 1.2

    def _font(self, index: int) -> tuple[bool, bool]:
        """Return whether a character's font is bold, and of fixed pitch."""
        font = self._font_of(index)
        if font not in self._fonts:
            name, flags = ctypes.create_string_buffer(200), ctypes.c_int()
            pdfium.FPDFText_GetFontInfo(self._page, index, name, 200, flags)
            letters = name.value.decode("latin-1").lower()
            bold = _BOLD_NAME.search(letters) or flags.value & _FORCE_BOLD
            fixed = _FIXED_NAME.search(letters) or (flags.value & _FIXED_PITCH and "sans" not in letters)
            heavy = pdfium.FPDFText_GetFontWeight(self._page, index) >= _BOLD and not _PLAIN_NAME.search(letters)
            self._fonts[font] = bool(bold or heavy), bool(fixed)
        return self._fonts[font]

    def _font_of(self, index: int) -> int:
        """Return the address of a character's font; 0 if it has none."""
        item: Any = pdfium.FPDFText_GetTextObject(self._page, index)
        font: Any = pdfium.FPDFTextObj_GetFont(item) if item else None
        return ctypes.cast(font, ctypes.c_void_p).value or 0 if font else 0


def _open_quote(words: list[Word], grave: Word) -> None:
    """Put an opening quote before the word at its place."""
    for number in range(len(words) - 1, max(len(words) - 60, -1), -1):
        word = words[number]
        if abs(word.y - grave.y) < 0.4 * word.size and abs(word.left - grave.left) < 0.5 * word.size:
            words[number] = word._replace(text="`" + word.text, left=min(word.left, grave.left))
            return
    words.append(grave._replace(text="`"))
