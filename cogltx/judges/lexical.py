"""A judge that needs no training: BM25 of the query against the document's blocks.

Knows nothing about z: the score of a block is the same at every step.
"""

import re
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.document import Query
from cogltx.errors import ConfigError
from cogltx.judges.base import Judge, Memory

# A word, or one character of a script that is written without spaces.
_TERM = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")


def terms(text: str) -> list[str]:
    """The lower-cased terms of a text.

    >>> terms("The cat, 猫咪!")
    ['the', 'cat', '猫', '咪']
    """
    return _TERM.findall(text.lower())


class LexicalJudge(Judge):
    """BM25 (bm25s, Lucene's variant) over heading and text of the blocks of one document."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Blocks, tuple[Query, Float[np.ndarray, " blocks"]]] = WeakKeyDictionary()

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``."""
        results = []
        for memory in memories:
            scores = self._scores(memory).copy()
            scores[list(memory.kept)] = np.nan
            results.append(scores)
        return results

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``: the same scores."""
        return [self._scores(memory)[list(memory.kept)] for memory in memories]

    def _scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        query = memory.query
        if query is None:
            raise ConfigError('judge "bm25": expected a query, got none')
        known = self._known.get(memory.blocks)
        if known is None or known[0] != query:
            known = self._known[memory.blocks] = (query, bm25(query.text, memory.blocks))
        return known[1]


def bm25(query: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
    """The BM25 score of every block; zero where it shares no term with the query.

    Raises:
        ConfigError: bm25s is not installed.
    """
    try:
        import bm25s
    except ImportError as error:
        raise ConfigError(
            'judge "bm25": expected the package bm25s, which is not installed; pip install "cogltx[quickstart]"'
        ) from error
    corpus = [terms(blocks.shown(index)) for index in range(len(blocks))]
    wanted = sorted(set(terms(query)) & {term for words in corpus for term in words})
    if not wanted:
        return np.zeros(len(blocks))
    index = bm25s.BM25(method="lucene")
    index.index(corpus, show_progress=False)
    return np.asarray(index.get_scores(wanted), dtype=np.float64)
