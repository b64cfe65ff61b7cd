"""Hyphens at the ends of lines: whether the word was divided there, or has its hyphen everywhere."""

import re
from collections import Counter
from collections.abc import Iterable

HYPHEN = "-\u2010\u00ad\ufffe\x02"  # the last two are pdfium's marks of a hyphen at the end of a line
_WORDS = re.compile(r"[^\W\d_]+(?:[-‐][^\W_]+)*")
_BEGINNING = re.compile(r"[^\W_]+(?:[-‐][^\W_]+)*")
_COMPOUND = re.compile(r"^(?:well|self|non|multi|semi|half|ex|all)$|-(?:to|of|the|in|on|by|and|or|und|et|de|à)$")


class Hyphens:
    """Decides by the other words of the document, and without these by the letters around the hyphen."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._words = Counter[str]()
        divided = False
        for line in lines:
            words = [word.lower().replace("‐", "-") for word in _WORDS.findall(line)]
            first, divided = int(divided), self.ends(line)
            self._words.update(words[first:-1] if divided else words[first:])

    def ends(self, line: str) -> bool:
        """Check whether a line ends in a hyphen after a letter or a figure."""
        return len(line) > 1 and line[-1] in HYPHEN and line[-2].isalnum()

    def joined(self, line: str, following: str) -> str:
        """Return a line that ends in a hyphen as it precedes ``following`` without a space."""
        stem = line[:-1]
        if line[-1] == "\u00ad":
            return stem
        return stem if self._is_division(stem, following) else stem + "-"

    def _is_division(self, line: str, following: str) -> bool:
        tail = line.split()[-1] if line.split() else ""
        found = _BEGINNING.match(following)
        if not found or not following[0].isalpha() or not tail[-1:].isalpha():
            return False  # 1990-1999, a-1
        left = re.search(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*$", tail)
        stem, word = (left[0] if left else tail).lower(), found[0].lower()
        head = word.split("-")[0]
        part = stem.split("-")[-1]
        whole = max(self._words[stem + word], self._words[stem + head], self._words[part + head])
        kept = max(self._words[f"{stem}-{word}"], self._words[f"{stem}-{head}"], self._words[f"{part}-{head}"])
        if whole != kept:
            return whole > kept
        if following[0].isupper():
            return tail.isupper() and found[0].isupper()  # "Debian-Pakete", but a heading in capitals is divided
        if re.search(r"[/.:@]", tail):
            return False  # addresses
        if len(stem) == 1 or _COMPOUND.search(stem):
            return False  # e-mail, well-known, state-of-the-art
        both = self._words[stem] and self._words[head]
        return not (both and len(stem) > 2)
