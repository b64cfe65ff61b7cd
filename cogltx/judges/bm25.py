"""A judge that needs no training: BM25 of the query against the document's blocks.

Knows nothing about z: the score of a block is the same at every step.
"""

import re
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.errors import ConfigError
from cogltx.judges.base import Memory, QueryJudge

# A word, or one character of a script that is written without spaces.
_TERM = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")


def terms(text: str) -> list[str]:
    """The lower-cased terms of a text.

    >>> terms("The cat, 猫咪!")
    ['the', 'cat', '猫', '咪']
    """
    return _TERM.findall(text.lower())


class LexicalJudge(QueryJudge):
    """BM25 (bm25s, Lucene's variant) over heading and text of the blocks of one document."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Blocks, BlockIndex] = WeakKeyDictionary()

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """See ``QueryJudge.scores``."""
        query = memory.query
        if query is None:
            raise ConfigError('judge "bm25": expected a query, got none')
        index = self._known.get(memory.blocks)
        if index is None:
            index = self._known[memory.blocks] = BlockIndex(memory.blocks)
        return index.scores(query.text)


def bm25(query: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
    """The BM25 score of every block; zero where it shares no term with the query.

    Raises:
        ConfigError: bm25s is not installed.
    """
    return BlockIndex(blocks).scores(query)


class BlockIndex:
    """The terms of a document's blocks, for any number of queries.

    Args:
        blocks: of the document.

    Raises:
        ConfigError: bm25s is not installed.
    """

    def __init__(self, blocks: Blocks) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise ConfigError(
                'judge "bm25": expected the package bm25s, which is not installed; pip install "cogltx[quickstart]"'
            ) from error
        corpus = [terms(blocks.shown(index)) for index in range(len(blocks))]
        self._vocabulary = {term for words in corpus for term in words}
        self._nothing = np.zeros(len(blocks))
        self._last = ("", self._nothing)
        self._index = bm25s.BM25(method="lucene")
        if self._vocabulary:
            self._index.index(corpus, show_progress=False)

    def scores(self, query: str) -> Float[np.ndarray, " blocks"]:
        """The BM25 score of every block; zero where it shares no term with the query."""
        if self._last[0] != query:
            wanted = sorted(set(terms(query)) & self._vocabulary)
            found = np.asarray(self._index.get_scores(wanted), dtype=np.float64) if wanted else self._nothing
            self._last = (query, found)
        return self._last[1]
