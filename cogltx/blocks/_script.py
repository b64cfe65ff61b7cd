r"""The package's one rule of words, and of terms, in every script. Does not depend on tokenizers.

**Words.** A run of letters and digits is a word, together with the marks and joiners on them (accents, vowel signs,
points, soft hyphens, zero-width joiners); ``_``, apostrophes and hyphens end it. In scripts that are written without
spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese and others) each character is a word, together with its marks and
with what is read with it: vowels of Thai and Lao, subscripts of Khmer and Burmese. An answer begins and ends where a
word does, or beside what Arabic, Hebrew and Korean write onto a word: "and", "in", particles.

**Terms**, for search, are words in compatibility form (NFKC) and folded case, without joiners, the points of Arabic and
Hebrew and the accents of Greek; variants of a letter are one. A run of a script without spaces, or of Hangul, gives its
characters and all pairs of neighbours. Arabic words lose their article. Words of more than five letters also give their
first five, except in Latin script. The terms of an ASCII text are its runs of letters and digits.

Unicode's default word segmentation (UAX #29) keeps "Ankara'da" whole and has no words of Thai; BM25 finds less with it
(``data/results/log.md``, 2026-11-27).
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import regex
from jaxtyping import UInt8

LETTER, UNSPACED, MARK, SPACE, LEADING = 1, 2, 4, 8, 16
"""Classes of characters. Marks are letters, too: a word continues after them."""

_LONGEST = 256  # characters; longer runs of letters are no words, and scanning them takes time
_BEGINNING = 5  # letters
_LETTERS = r"[\p{L}\p{N}]"
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"  # Southeast Asia
    r"\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\uffe0-\uffef"
    r"\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
_MARKS = (
    r"\p{M}\u00ad\u200c\u200d\u2060\U0001f3fb-\U0001f3ff"  # soft hyphen, joiners, colours of skin
    r"\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\uff9e\uff9f"  # letters that follow the one they are read with
)
_LEADING = r"\u0e40-\u0e44\u0ec0-\u0ec4\u17d2\u1039\u1a60\u200d"  # letters before the one they are read with
_KINDS = tuple(
    (kind, regex.compile(f"[{characters}]"))
    for kind, characters in (
        (LETTER, rf"\p{{L}}\p{{N}}{_MARKS}"), (UNSPACED, _UNSPACED), (MARK, _MARKS), (LEADING, _LEADING)
    )
)  # fmt: skip


def _spaced(others: str) -> str:
    """The pattern of a word without ``others``, characters of scripts without spaces."""
    return rf"[{_LETTERS}--[{others}{_MARKS}]](?:[{_LETTERS}--[{others}]]|[{_MARKS}])*"


_UNIT = rf"[{_LETTERS}&&[{_UNSPACED}]](?:[{_MARKS}]|(?<=[{_LEADING}])[{_LETTERS}&&[{_UNSPACED}]])*"
_NOT_HANGUL = _spaced(_UNSPACED + r"\p{Hangul}")
WORD = f"(?:{_spaced(_UNSPACED)}|{_UNIT})"
"""Pattern of a word, for ``regex`` with its flag V1."""
UNIT = regex.compile(rf"(?V1){_NOT_HANGUL}|{_UNIT}|\p{{Hangul}}")
"""Matches a word, or one character of Hangul, in which particles are written onto words."""
_BOUND = regex.compile(f"[{_MARKS}{_LEADING}]")
_ALONE = regex.compile(f"(?V1){_UNIT}")
_RUN = regex.compile(rf"(?V1){_NOT_HANGUL}|(?:{_UNIT}|\p{{Hangul}})+")
_IN_PAIRS = regex.compile(rf"[{_UNSPACED}\p{{Hangul}}]")
_WHOLE = regex.compile(r"[\p{Latin}\p{N}]")

# What is written onto a word and is no part of an answer: "and", "in", "to", … in Arabic and Hebrew; Korean particles.
_BEFORE = regex.compile("[وفبلكس]{1,2}|[ושהמבלכ]{1,3}")
_AFTER = regex.compile(
    "(?:은|는|이|가|을|를|의|에|에서|에게|께서|한테|와|과|랑|도|만|로|으로|부터|까지|보다|처럼|나|라|란|고|다|며){1,4}"
    r"|(?<=\d)\p{Hangul}{1,4}"
)
_ARTICLE = regex.compile("^(?:[وفبکل]?[بکل]?ال|لل)(?=..)|^و(?=...)")  # "the", also after "and", "in", "to"

_SIMPLE = re.compile("[\0-\u02ff\u1e00-\u1eff\u2000-\u2bff]*")  # Latin letters without marks
_SIMPLE_TERM = re.compile(r"[^\W_]+")
_JOINERS = regex.compile(
    r"[\u00ad\u200c\u200d\u2060\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
    r"|(?<=[^\0-\u0dff])\u200b+|(?<=[аеиоуыэюяєіїАЕИОУЫЭЮЯЄІЇ])\u0301"  # spaces of no width; stress
)
_HAS_POINTS = re.compile("[\u0370-\u03ff\u0590-\u08ff\u1f00-\u1fff]")
_POINTS = regex.compile(
    r"(?<=[\u0370-\u03ff])\p{M}+"
    r"|[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u08d3-\u08ff]+"
)
_VARIANTS = str.maketrans("ışţёىيكة", "ișțеییکه")
_HAS_VARIANTS = re.compile("[ışţёىيكة]")


def folded(text: str) -> str:
    """Return a text as search compares it: in plain form and folded case.

    >>> folded("STRASSE straße"), folded("\ufb01nd"), folded("Ἀθῆναι")
    ('strasse strasse', 'find', 'αθηναι')
    """
    if text.isascii():
        return text.lower()
    return plain(unicodedata.normalize("NFKC", text).casefold())


def plain(text: str) -> str:
    """Normalize a text to the forms that readers take for equal (NFKC, points, joiners, variants); keep its case."""
    text = unicodedata.normalize("NFKC", _JOINERS.sub("", text)).replace("i\u0307", "i")
    if _HAS_POINTS.search(text):
        text = unicodedata.normalize("NFC", _POINTS.sub("", unicodedata.normalize("NFD", text)))
    return text.translate(_VARIANTS) if _HAS_VARIANTS.search(text) else text


def terms(text: str) -> list[str]:
    """Split a text into terms.

    >>> terms("The café, 猫咪!"), terms("Москвой")
    (['the', 'café', '猫', '咪', '猫咪'], ['москвой', 'москв'])
    """
    text = folded(text)
    return _SIMPLE_TERM.findall(text) if _SIMPLE.fullmatch(text) else list(_terms(text))


def _terms(text: str) -> Iterator[str]:
    for run in _RUN.findall(text):
        if _WHOLE.match(run):
            yield run
        elif _IN_PAIRS.match(run):
            units = UNIT.findall(run) if _BOUND.search(run) else run
            yield from units
            yield from map("".join, pairwise(units))
        else:
            word = _ARTICLE.sub("", run)
            yield word
            if len(word) > _BEGINNING:
                yield word[:_BEGINNING]


def spaced(text: str) -> str:
    """Put spaces around the characters of scripts without spaces.

    >>> spaced("Tokyoの寺")
    'Tokyo の  寺 '
    """
    return text if text.isascii() else _ALONE.sub(r" \g<0> ", text)


@lru_cache(maxsize=1 << 16)
def kind(character: str) -> int:
    """Return what a character is: the sum of ``LETTER``, ``UNSPACED`` and so on."""
    return SPACE * character.isspace() + sum(kind for kind, characters in _KINDS if characters.match(character))


def kinds(characters: np.ndarray) -> UInt8[np.ndarray, " characters"]:
    """Return what each of an array of code points is."""
    distinct, places = np.unique(characters, return_inverse=True)
    return np.asarray(np.array([kind(chr(one)) for one in distinct.tolist()], dtype=np.uint8)[places])


def joined(left: Any, right: Any) -> Any:
    """Check whether two neighbouring characters of these kinds are in one word; also for arrays of kinds."""
    bound = ((left & SPACE) == 0) & ((right & MARK) != 0) | ((left & LEADING) != 0) & ((right & SPACE) == 0)
    return bound | ((left & right & LETTER) != 0) & (((left | right) & UNSPACED) == 0)


def expand_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to the ends of the words that it cuts, by at most 256 characters each way.

    >>> expand_to_words("the Netherlands", 7, 10), expand_to_words("서울은", 0, 2)
    ((4, 15), (0, 2))
    """
    first, last = start, end
    while max(0, start - _LONGEST) < first and joined(kind(text[first - 1]), kind(text[first])):
        first -= 1
    while last < min(len(text), end + _LONGEST) and joined(kind(text[last - 1]), kind(text[last])):
        last += 1
    return start if _BEFORE.fullmatch(text, first, start) else first, end if _AFTER.fullmatch(text, end, last) else last
