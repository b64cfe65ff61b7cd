"""The competition of blocks for z (paper §3.2): what counts beside the judge's scores, and who fits the window.

The paper's competition knows the judge alone; neighbours and words are ours.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Asked, Blocks
from cogltx.errors import ConfigError
from cogltx.judges.base import Memory
from cogltx.judges.bm25 import LexicalJudge


class Competition:
    """How blocks outside z compete for it.

    Args:
        neighbour_bonus: share of its better neighbour's score that a block gains.
        lexical_bonus: share of its BM25 score, the document's best counting as 1, that a block gains.
    """

    def __init__(self, neighbour_bonus: float = 0.0, lexical_bonus: float = 0.0) -> None:
        self.neighbour_bonus = neighbour_bonus
        self.lexical_bonus = lexical_bonus
        self._lexical = LexicalJudge()

    def standing(
        self,
        scores: Float[np.ndarray, " blocks"],
        kept: Mapping[int, float],
        words: Float[np.ndarray, " blocks"],
    ) -> Float[np.ndarray, " blocks"]:
        """What blocks outside z compete with: their coarse scores, and what neighbours and words add.

        Args:
            scores: coarse; NaN for blocks in z.
            kept: the fine scores of the blocks in z.
            words: what each block gains by them, the same at every step.
        """
        return np.asarray(beside_neighbours(scores, kept, self.neighbour_bonus) + words)

    def words(self, query: Asked, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
        """What each block gains by the words that it shares with the query.

        Raises:
            ConfigError: there is no query.
        """
        if not self.lexical_bonus:
            return np.zeros(len(blocks))
        if query is None:
            raise ConfigError("memrecall.lexical_bonus: expected a query whose words count, got a task without")
        memory = Memory(query, blocks, ())
        found = self._lexical.scores(memory)
        best = found[memory.candidates].max(initial=0.0)
        return np.asarray(self.lexical_bonus * found / best) if best > 0 else np.zeros(len(blocks))


def beside_neighbours(
    scores: Float[np.ndarray, " blocks"], kept: Mapping[int, float], bonus: float
) -> Float[np.ndarray, " blocks"]:
    """The scores with a share of the better neighbour's added; a neighbour in z counts with its fine score.

    >>> beside_neighbours(np.array([0.1, np.nan, 0.2, 0.0, 0.5]), {1: 0.9}, bonus=0.5).tolist()
    [0.55, nan, 0.65, 0.25, 0.5]
    """
    if not bonus:
        return scores
    known = np.full(len(scores) + 2, np.nan)
    known[1:-1] = scores
    for block, fine in kept.items():
        known[block + 1] = fine
    better = np.fmax(known[:-2], known[2:])
    return np.asarray(scores + bonus * np.nan_to_num(better))


def fill(scores: Float[np.ndarray, " blocks"], blocks: Blocks, room: int, most: int | None = None) -> list[int]:
    """The best-scoring blocks (NaN: not a candidate) that fit ``room`` tokens, best first; earlier ones win ties."""
    chosen: list[int] = []
    smallest = int(blocks.sizes.min())
    for block in np.argsort(-scores, kind="stable"):
        if room < smallest or np.isnan(scores[block]) or len(chosen) == most:
            break
        if blocks.sizes[block] <= room:
            chosen.append(int(block))
            room -= int(blocks.sizes[block])
    return chosen
