"""Character classes, and fast scans of a long text for them. Does not depend on tokenizers or blocks."""

import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

_SCAN_TOKENS = 1 << 16


SPACES = np.array([c for c in range(0x3001) if chr(c).isspace()], dtype=np.uint32)
# Scripts written without spaces between words: every character counts as a word.
_UNSPACED = (
    (0x2E80, 0x33FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF),
)  # fmt: skip
# A run of letters and digits, or one character of such a script.
WORD = re.compile(rf"[^\W_{''.join(f'{chr(low)}-{chr(high)}' for low, high in _UNSPACED)}]+|[^\W_]")


def code_points(text: str, start: int, end: int) -> np.ndarray:
    """Return the code points of ``text[start:end]``."""
    return np.frombuffer(text[start:end].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def among(characters: np.ndarray, wanted: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Mark the characters that are in ``wanted``, which is sorted."""
    nearest = wanted[np.minimum(np.searchsorted(wanted, characters), len(wanted) - 1)]
    return np.asarray(np.equal(nearest, characters))


def unspaced(characters: np.ndarray) -> np.ndarray:
    """Mark the characters of scripts written without spaces, such as Chinese and Japanese."""
    return np.asarray(np.logical_or.reduce([(characters >= low) & (characters <= high) for low, high in _UNSPACED]))


def scans(text: str, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of tokens as (first, last, start, end), with the characters up to one past their right neighbours."""
    for first in range(0, len(starts), _SCAN_TOKENS):
        last = min(first + _SCAN_TOKENS, len(starts))
        following = min(last, len(starts) - 1)
        yield first, last, int(starts[first]), min(int(max(ends[last - 1], ends[following])) + 1, len(text))
