"""A judge without training: BM25 of the query against the blocks of the document. Scores do not depend on z."""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.blocks._script import terms
from cogltx.errors import ConfigError
from cogltx.judges.base import Judge, Memory


class BM25Judge(Judge):
    """BM25 (bm25s, Lucene's variant) over heading and text of the blocks of one document.

    Raises:
        ConfigError: bm25s is not installed.
    """

    def __init__(self) -> None:
        self._scorers: WeakKeyDictionary[Blocks, Callable[[str], Float[np.ndarray, " blocks"]]] = WeakKeyDictionary()

    terms = staticmethod(terms)

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """See ``Judge.scores``."""
        if memory.query is None:
            raise ConfigError('judge "bm25" needs a question')
        return self.text_scores(memory.query.text, memory.blocks)[indices]

    def text_scores(self, text: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
        """Score the blocks of a document for any text; zero for a block that shares no term with it."""
        if blocks not in self._scorers:  # every step of MemRecall asks for the scores of the same text
            self._scorers[blocks] = lru_cache(maxsize=1)(self._index(blocks))
        return self._scorers[blocks](text)

    def _index(self, blocks: Blocks) -> Callable[[str], Float[np.ndarray, " blocks"]]:
        """Index the blocks of a document; returns a function that scores them for a text."""
        vocabulary: dict[str, int] = {}
        corpus = [
            [vocabulary.setdefault(term, len(vocabulary)) for term in self.terms(blocks.text_with_heading(block))]
            for block in range(len(blocks))
        ]
        index, n_blocks = _bm25s().BM25(method="lucene"), len(blocks)
        if vocabulary:
            index.index((corpus, vocabulary), show_progress=False)

        def scores(text: str) -> Float[np.ndarray, " blocks"]:
            known = sorted(vocabulary.keys() & self.terms(text))
            return np.asarray(index.get_scores(known), dtype=np.float64) if known else np.zeros(n_blocks)

        return scores


def _bm25s() -> Any:
    """Import bm25s, but not JAX: bm25s would start it where it is installed, and JAX takes most of a GPU's memory."""
    hides_jax = not {"bm25s", "jax"} & sys.modules.keys()
    if hides_jax:
        sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        import bm25s
    except ImportError as error:
        raise ConfigError(
            'judge "bm25": the package bm25s is not installed; pip install "cogltx[quickstart]"'
        ) from error
    finally:
        if hides_jax:
            del sys.modules["jax"]
    return bm25s
