"""Inline marks as plain text: powers, marks of notes, readings of characters, numbers of lists.

Readers put the markers of this module around such letters; ``plain`` replaces the markers when the line is complete.
"""

import re
from collections.abc import Callable

BREAK = "\ufdd0"  # a line break within a paragraph
RAISED, NOTE, END = "\ufdd1", "\ufdd2", "\ufdd3"  # around superscript letters, or the mark of a note
BASE, READING, READ = "\ufdd4", "\ufdd5", "\ufdd6"  # around characters, then their reading
_MARKERS = re.compile("[\ufdd0-\ufdd6]")
_RAISED_TEXT = re.compile(f"([{RAISED}{NOTE}])([^{RAISED}{NOTE}{END}]*){END}")
_RUBIES = re.compile(f"(?:{BASE}[^{BASE}{READING}{READ}]*{READING}[^{BASE}{READING}{READ}]*{READ})+")
_RUBY = re.compile(f"{BASE}(.*?){READING}(.*?){READ}", re.DOTALL)
_PLAIN = {0xAD: None, 0xA0: " ", 0x202F: " ", 0x2007: " ", 0x2011: "-"}  # soft hyphens, fixed spaces and hyphens
_FILE_NAME = re.compile(r"\S+\.(png|jpe?g|gif|svg|webp|bmp|tiff?|[ew]mf|ico)", re.IGNORECASE)
_BEFORE = 40  # characters that decide what a raised text is
_EXPONENT = re.compile(r"[-+−–]?(?:\d+(?:[.,/]\d+)?|[a-zA-Zα-ω]|∞)")
_NUMBER, _YEAR = re.compile(r"\d[\d.,]*\Z"), re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d\Z")
_WORD = re.compile(r"[^\W\d_]+\Z")
_SHORT = re.compile(r"(?:[a-zA-Zµμα-ωΑ-Ω]{1,2}|a?r?c?(?:sin|cos|tan|cot)h?|log|mol|rad|min)")  # units, variables
_BRACKET = re.compile(r"[(\[{|](?![^()\[\]]*[^\W\d_]{3})[^()\[\]]*[)\]}|]\Z")  # of a formula
_ORDINAL = re.compile(r"[a-zA-Zªºäèé.]{2,}|[eoarstdhªº°™®′″']")
_DIGITS = "〇一二三四五六七八九"
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
          (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


def raised(text: str) -> str:
    """Mark superscript letters: a power, an ordinal or the mark of a note, as the text before it decides."""
    return f"{RAISED}{text}{END}"


def note_mark(text: str) -> str:
    """Mark the number or sign of a note."""
    return f"{NOTE}{text}{END}"


def with_reading(base: str, reading: str) -> str:
    """Mark characters with their reading (ruby)."""
    return f"{BASE}{base}{READING}{reading}{READ}"


def plain(text: str, line_break: str = "\n") -> str:
    """Replace the markers: powers as ``10^6``, marks as ``word [1]``; readings follow their characters in parentheses.

    >>> plain("10" + raised("6") + " people" + note_mark("2") + ", 1" + raised("st") + " of 2" + raised("n+1"))
    '10^6 people [2], 1st of 2^(n+1)'
    >>> plain(with_reading("東", "とう") + with_reading("京", "きょう") + "で")
    '東京(とうきょう)で'
    """
    text = text.translate(_PLAIN)
    if _MARKERS.search(text):
        text = text.replace(END + RAISED, "")
        while _RAISED_TEXT.search(text):
            text = _RAISED_TEXT.sub(_resolve, text)
        text = _RUBIES.sub(_rubies, text).replace(BREAK, line_break)
        text = _MARKERS.sub("", text)
    return text


def picture(description: str) -> str:
    """Return the description of a picture; empty if it is the name of a file."""
    return "" if _FILE_NAME.fullmatch(description.strip()) else description


def _resolve(match: re.Match[str]) -> str:
    text, whole = match[2].strip(), match.string
    before, after = whole[max(0, match.start() - _BEFORE) : match.start()], whole[match.end() : match.end() + 3]
    if not text:
        return match[2]
    if match[1] == NOTE or text[0] in "[(":
        return _mark(text.strip("[]() "), before, after)
    if not before.strip() or before[-1].isspace():  # an isotope, or the number of a verse or of a note
        return text if re.match(r"[A-Z][a-z]?(?![a-z])", after) else f"{text} "
    number, word = _NUMBER.search(before), _WORD.search(before)
    is_year = _YEAR.search(before) and re.fullmatch(r"\d{1,2}", text)
    if (number and not is_year) or _SHORT.fullmatch(word[0] if word else "") or _BRACKET.search(before):
        return text if _ORDINAL.fullmatch(text) else f"^{text}" if _EXPONENT.fullmatch(text) else f"^({text})"
    is_sign = len(text) > 1 or not text.isalpha()
    if word and is_sign and not text[0].isdigit() and (_ORDINAL.fullmatch(text) or text[0] in "-+−–"):
        return text if text[0] not in "-+−–" else f"^{text}"
    return _mark(text, before, after)


def _mark(text: str, before: str, after: str) -> str:
    space = "" if not before or before[-1].isspace() else " "
    return f"{space}[{text}]" + (" " if after[:1].isalnum() else "")


def _rubies(match: re.Match[str]) -> str:
    bases, readings = zip(*_RUBY.findall(match[0]), strict=True)
    reading = "".join(readings).strip()
    return "".join(bases) + (f"({reading})" if reading else "")


def _roman(value: int) -> str:
    letters = ""
    for worth, numeral in _ROMAN:
        letters += numeral * (value // worth)
        value %= worth
    return letters


def _letters(value: int) -> str:
    """Letters as the columns of a sheet: a, …, z, aa, ab."""
    letters = ""
    while value > 0:
        value, rest = divmod(value - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def _chinese(value: int) -> str:
    """Chinese and Japanese numerals below 100."""
    if value >= 100:
        return str(value)
    tens, ones = divmod(value, 10)
    return (_DIGITS[tens] if tens > 1 else "") + ("十" if tens else "") + (_DIGITS[ones] if ones else "")


def _ordinal(value: int) -> str:
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"


_STYLES: dict[str, Callable[[int], str]] = {
    "a": _letters,
    "A": lambda value: _letters(value).upper(),
    "i": _roman,
    "I": lambda value: _roman(value).upper(),
    "01": lambda value: f"{value:02}",
    "1st": _ordinal,
    "一": _chinese,
    "aa": lambda value: chr(ord("a") + (value - 1) % 26) * (1 + (value - 1) // 26),
    "AA": lambda value: chr(ord("A") + (value - 1) % 26) * (1 + (value - 1) // 26),
}


def number(value: int, style: str = "1") -> str:
    """Write the number of a list item in the style of HTML (1, a, A, i, I), or in that of 01, 1st, 一, aa or AA.

    >>> number(4), number(28, "a"), number(28, "aa"), number(1999, "I"), number(0, "i"), number(21, "一")
    ('4', 'ab', 'bb', 'MCMXCIX', '0', '二十一')
    """
    return _STYLES.get(style, str)(value) if 0 < value < 4000 else str(value)
