"""The shortlist: the blocks of a document that the judge scores, proposed by a retriever that is cheap per question.

The retriever ranks blocks by BM25 and by the cosine of sentence vectors. The vectors do not depend on the question, so
they are computed once per document.
"""

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from cogltx.errors import ConfigError
from cogltx.judges import Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge

RetrieverName: TypeAlias = Literal["bm25", "embedding", "both"]


class Retriever:
    """Proposes blocks to the judge: the best by BM25, by sentence vectors, or by both in turn."""

    def __init__(self, name: RetrieverName = "both") -> None:
        self.bm25, self.embedding = BM25Judge(), EmbeddingJudge()
        self._rankings: list[BM25Judge | EmbeddingJudge] = []
        self._rankings += [self.bm25] if name != "embedding" else []
        self._rankings += [self.embedding] if name != "bm25" else []

    def shortlist(self, memory: Memory, count: int) -> tuple[int, ...]:
        """Select blocks for the query together with the blocks in z, in document order.

        Args:
            memory: the query and the state of z, whose blocks are not proposed again.
            count: number of blocks.

        Raises:
            ConfigError: there is no query.
        """
        if memory.query is None:
            raise ConfigError("memrecall.shortlist needs a question; set it to null for tasks without one")
        candidates = np.array(memory.candidates)
        if len(candidates) <= count:
            return tuple(candidates.tolist())
        text = " ".join([memory.query.text, *map(memory.blocks.text_with_heading, memory.kept)])
        places = [_places(ranking.text_scores(text, memory.blocks)[candidates]) for ranking in self._rankings]
        best = np.argsort(np.min(places, axis=0), kind="stable")[:count]
        return tuple(np.sort(candidates[best]).tolist())


def _places(scores: Float[np.ndarray, " candidates"]) -> Float[np.ndarray, " candidates"]:
    """The place of each candidate in a ranking, from 0; equal scores in document order.

    >>> _places(np.array([0.1, 0.9, 0.1])).tolist()
    [1.0, 0.0, 2.0]
    """
    places = np.empty(len(scores))
    places[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return places
