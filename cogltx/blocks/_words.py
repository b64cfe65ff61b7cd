"""The words of a tokenized text, the units of tagging: those of ``_script``, if the tokenizer separates them.

Any other character is a word of its own.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Int

from cogltx.blocks._characters import code_points, scans
from cogltx.blocks._script import MARK, joined, kind, kinds


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
        mark = (kinds(code_points(text, start, end)) & MARK) != 0
        places = np.arange(len(mark) + 1)
        solid = np.where(np.append(mark, False), len(mark), places)
        extended[first:last] = np.minimum.accumulate(solid[::-1])[::-1][ends[first:last] - start] + start
    while extended[-1] < len(text) and kind(text[extended[-1]]) & MARK:
        extended[-1] += 1
    return extended


def _begins(text: str, starts: np.ndarray, ends: np.ndarray) -> Bool[np.ndarray, " tokens"]:
    """Mark the tokens that begin a word. ``ends`` already includes combining marks."""
    begins = np.ones(len(starts), dtype=bool)
    for first, last, start, end in scans(text, starts, ends):
        of_character = kinds(code_points(text, start, end))
        last = min(last, len(starts) - 1)
        after, following = ends[first:last] - start, starts[first + 1 : last + 1] - start
        before, beyond = np.maximum(after - 1, 0), np.minimum(following, len(of_character) - 1)
        goes_on = joined(of_character[before], of_character[beyond])
        begins[first + 1 : last + 1] = ~((following < after) | ((following == after) & goes_on))
    return begins
