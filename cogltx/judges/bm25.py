"""A judge without training: BM25 of the query against the blocks of the document. Scores do not depend on z."""

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
    """Split a text into lower-case terms.

    >>> terms("The cat, 猫咪!")
    ['the', 'cat', '猫', '咪']
    """
    return _TERM.findall(text.lower())


class BM25Judge(QueryJudge):
    """BM25 (bm25s, Lucene's variant) over heading and text of the blocks of one document.

    Raises:
        ConfigError: bm25s is not installed.
    """

    def __init__(self) -> None:
        self._indexes: WeakKeyDictionary[Blocks, _BlockIndex] = WeakKeyDictionary()

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """See ``QueryJudge.scores``."""
        if memory.query is None:
            raise ConfigError('judge "bm25" needs a question')
        return self.text_scores(memory.query.text, memory.blocks)

    def text_scores(self, text: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
        """Score the blocks of a document for any text; zero for a block that shares no term with it."""
        index = self._indexes.get(blocks)
        if index is None:
            index = self._indexes[blocks] = _BlockIndex(blocks)
        return index.scores(text)


class _BlockIndex:
    """The BM25 index of a document's blocks."""

    def __init__(self, blocks: Blocks) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise ConfigError(
                'judge "bm25": the package bm25s is not installed; pip install "cogltx[quickstart]"'
            ) from error
        corpus = [terms(blocks.text_with_heading(index)) for index in range(len(blocks))]
        self._vocabulary = {term for document in corpus for term in document}
        self._zeros = np.zeros(len(blocks))
        self._last = ("", self._zeros)
        self._index = bm25s.BM25(method="lucene")
        if self._vocabulary:
            self._index.index(corpus, show_progress=False)

    def scores(self, text: str) -> Float[np.ndarray, " blocks"]:
        """Score every block; the last text's scores are cached, because every step of MemRecall asks for them."""
        if self._last[0] != text:
            known = sorted(set(terms(text)) & self._vocabulary)
            scores = np.asarray(self._index.get_scores(known), dtype=np.float64) if known else self._zeros
            self._last = (text, scores)
        return self._last[1]
