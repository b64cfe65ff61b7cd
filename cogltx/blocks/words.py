"""The words of a tokenized text, as units that are labelled whole.

A word is a run of letters and digits with whatever marks they carry; any other character is a word of its own, and so
is every character of a script written without spaces, as far as the tokenizer parts them. Knows token spans; no
tokenizer and no document.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from cogltx.blocks.characters import code_points, scans, unspaced


@dataclass(frozen=True)
class Words:
    """A document's words.

    Attributes:
        first_tokens: the first token of each word, shape [words].
        starts: first character of each word; words share no character.
        ends: one past the last.
        of_token: the word that each token begins, shape [tokens]; -1 for tokens that begin none.
    """

    first_tokens: Int[np.ndarray, " words"]
    starts: Int[np.ndarray, " words"]
    ends: Int[np.ndarray, " words"]
    of_token: Int[np.ndarray, " tokens"]

    def __len__(self) -> int:
        return len(self.starts)

    def touching(self, start: int, end: int) -> range:
        """The words that share a character with ``start:end``."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return range(first, max(first, int(np.searchsorted(self.starts, end, side="left"))))


def words_of(text: str, starts: Int[np.ndarray, " tokens"], ends: Int[np.ndarray, " tokens"]) -> Words:
    """The words that a text's tokens make; tokens of white space alone belong to none.

    Args:
        text: the document's.
        starts: first character of every token.
        ends: one past each token's last character.
    """
    ends = _with_marks(text, starts, ends)
    first_tokens = np.flatnonzero(_begins(text, starts, ends))
    word_starts, word_ends = starts[first_tokens], np.maximum.reduceat(ends, first_tokens)
    solid = word_starts < word_ends
    first_tokens, word_starts, word_ends = first_tokens[solid], word_starts[solid], word_ends[solid]
    of_token = np.full(len(starts), -1, dtype=np.int64)
    of_token[first_tokens] = np.arange(len(first_tokens))
    return Words(first_tokens, word_starts, word_ends, of_token)


def _with_marks(text: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The tokens' ends behind the marks that follow them: of their own, or dropped by the tokenizer."""
    found = ends.copy()
    for first, last, start, end in scans(text, starts, ends):
        mark = _among_kinds(code_points(text, start, end), _is_mark)
        places = np.arange(len(mark) + 1)
        solid = np.where(np.append(mark, False), len(mark), places)
        found[first:last] = np.minimum.accumulate(solid[::-1])[::-1][ends[first:last] - start] + start
    while found[-1] < len(text) and _is_mark(ord(text[found[-1]])):
        found[-1] += 1
    return found


def _begins(text: str, starts: np.ndarray, ends: np.ndarray) -> Bool[np.ndarray, " tokens"]:
    """Which tokens go on with no word of the token before; the ends are behind the marks."""
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
    """Which characters are wanted; each kind of character is asked about once."""
    kinds, places = np.unique(characters, return_inverse=True)
    return np.asarray(np.array([wanted(kind) for kind in kinds.tolist()], dtype=bool)[places])


def _is_mark(character: int) -> bool:
    return character >= 0x300 and unicodedata.category(chr(character)).startswith("M")
