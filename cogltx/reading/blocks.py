"""The reasoner reads the blocks of z, as in the paper."""

from collections.abc import Sequence

from cogltx.judges.base import Judge
from cogltx.recall import Recall, Search


def read_blocks(searches: Sequence[Search], judge: Judge) -> list[Recall]:
    """Read all of z: the blocks that stay, and those that fill the window."""
    return [search.read(search.z, judge) for search in searches]
