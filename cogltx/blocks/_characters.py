"""Fast scans of a long text for characters. Does not depend on tokenizers or blocks."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

_SCAN_TOKENS = 1 << 16


SPACES = np.array([c for c in range(0x3001) if chr(c).isspace()], dtype=np.uint32)


def code_points(text: str, start: int, end: int) -> np.ndarray:
    """Return the code points of ``text[start:end]``."""
    return np.frombuffer(text[start:end].encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def among(characters: np.ndarray, wanted: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Mark the characters that are in ``wanted``, which is sorted."""
    nearest = wanted[np.minimum(np.searchsorted(wanted, characters), len(wanted) - 1)]
    return np.asarray(np.equal(nearest, characters))


def scans(text: str, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of tokens as (first, last, start, end), with the characters up to one past their right neighbours."""
    for first in range(0, len(starts), _SCAN_TOKENS):
        last = min(first + _SCAN_TOKENS, len(starts))
        following = min(last, len(starts) - 1)
        yield first, last, int(starts[first]), min(int(max(ends[last - 1], ends[following])) + 1, len(text))
