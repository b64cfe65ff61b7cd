"""The words of a tokenized text, the units of tagging: runs of letters, digits and combining marks.

Any other character is a word, and so is each character of a script without spaces, if the tokenizer separates them.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Int

from cogltx.blocks._characters import code_points, scans, unspaced

_LONGEST = 256  # characters; longer runs of letters are no words, and scanning them takes time


@dataclass(frozen=True)
class Words:
    """The words of a document: first token, first and end character; and the word that begins per token, or -1."""

    first_tokens: Int[np.ndarray, " words"]
    starts: Int[np.ndarray, " words"]
    ends: Int[np.ndarray, " words"]
    of_token: Int[np.ndarray, " tokens"]

    @classmethod
    def of(cls, text: str, starts: Int[np.ndarray, " tokens"], ends: Int[np.ndarray, " tokens"]) -> Self:
        """Find the words of a text from the spans of its tokens; tokens of white space belong to no word."""
        ends = _with_marks(text, starts, ends)
        first_tokens = np.flatnonzero(_begins(text, starts, ends))
        word_starts, word_ends = starts[first_tokens], np.maximum.reduceat(ends, first_tokens)
        solid = word_starts < word_ends
        first_tokens, word_starts, word_ends = first_tokens[solid], word_starts[solid], word_ends[solid]
        of_token = np.full(len(starts), -1, dtype=np.int64)
        of_token[first_tokens] = np.arange(len(first_tokens))
        return cls(first_tokens, word_starts, word_ends, of_token)

    def __len__(self) -> int:
        return len(self.starts)

    def touching(self, start: int, end: int) -> range:
        """Return the indices of the words that share a character with ``start:end``."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return range(first, max(first, int(np.searchsorted(self.starts, end, side="left"))))


def _with_marks(text: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Move the ends of tokens past the combining marks that follow them, even if the tokenizer dropped the marks."""
    extended = ends.copy()
    for first, last, start, end in scans(text, starts, ends):
        mark = _among_kinds(code_points(text, start, end), _is_mark)
        places = np.arange(len(mark) + 1)
        solid = np.where(np.append(mark, False), len(mark), places)
        extended[first:last] = np.minimum.accumulate(solid[::-1])[::-1][ends[first:last] - start] + start
    while extended[-1] < len(text) and _is_mark(ord(text[extended[-1]])):
        extended[-1] += 1
    return extended


def _begins(text: str, starts: np.ndarray, ends: np.ndarray) -> Bool[np.ndarray, " tokens"]:
    """Mark the tokens that begin a word. ``ends`` already includes combining marks."""
    begins = np.ones(len(starts), dtype=bool)
    for first, last, start, end in scans(text, starts, ends):
        characters = code_points(text, start, end)
        letter = _among_kinds(characters, lambda kind: chr(kind).isalnum() or _is_mark(kind)) & ~unspaced(characters)
        last = min(last, len(starts) - 1)
        after, following = ends[first:last] - start, starts[first + 1 : last + 1] - start
        before, beyond = np.maximum(after - 1, 0), np.minimum(following, len(characters) - 1)
        begins[first + 1 : last + 1] = ~((following < after) | ((following == after) & letter[before] & letter[beyond]))
    return begins


def _among_kinds(characters: np.ndarray, wanted: Callable[[int], bool]) -> Bool[np.ndarray, " characters"]:
    """Mark the wanted characters; ``wanted`` is called once per distinct character."""
    kinds, places = np.unique(characters, return_inverse=True)
    return np.asarray(np.array([wanted(kind) for kind in kinds.tolist()], dtype=bool)[places])


def _is_mark(character: int) -> bool:
    return character >= 0x300 and unicodedata.category(chr(character)).startswith("M")


def expand_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to the ends of the words that it cuts, by at most 256 characters each way.

    >>> expand_to_words("the Netherlands", 7, 10)
    (4, 15)
    """
    first, last = max(0, start - _LONGEST), min(len(text), end + _LONGEST)
    while start > first and _is_joined(text[start - 1], text[start]):
        start -= 1
    while end < last and _is_joined(text[end - 1], text[end]):
        end += 1
    return start, end


def _is_joined(left: str, right: str) -> bool:
    """Check whether two neighbouring characters belong to one word."""
    if _is_mark(ord(right)):
        return not left.isspace()
    letters = (left.isalnum() or _is_mark(ord(left))) and right.isalnum()
    return letters and not unspaced(code_points(left + right, 0, 2)).any()
