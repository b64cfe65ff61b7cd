"""The retriever: proposes the blocks that the judge scores, by words and by vectors."""

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from cogltx.encoding.encoder import BatchRunner
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.judges import Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge
from cogltx.retrieval.block_encoder import BlockEncoder, BlockVectors
from cogltx.retrieval.index import Index

RetrieverName: TypeAlias = Literal["bm25", "embedding", "both", "trained"]


class Retriever:
    """Proposes blocks to the judge.

    Args:
        name: the best by BM25, by sentence vectors, by ``both`` in turn, or by a ``trained`` encoder with BM25.
        encoder: the trained encoder.
        runner: runs windows through it.

    Raises:
        ConfigError: ``trained`` without an encoder.
    """

    def __init__(
        self,
        name: RetrieverName = "both",
        encoder: BlockEncoder | None = None,
        runner: BatchRunner | None = None,
        capacity: int = 512,
    ) -> None:
        self.bm25, self.embedding = BM25Judge(), EmbeddingJudge()
        self.embedding.runner = runner
        self.trained = BlockVectors(encoder, runner) if encoder is not None and runner is not None else None
        if name == "trained" and self.trained is None:
            raise ConfigError("memrecall.retriever: trained needs a model that was trained with it; use both")
        self.name, self.capacity = name, capacity

    def index(self, layout: Layout) -> Index:
        """Compute what does not depend on a question; BM25 needs no vectors."""
        if self.name == "bm25":
            vectors = np.empty((len(layout.blocks), 0), dtype=np.float32)
        else:
            vectors = self.embedding.vectors(layout.blocks) if self.trained is None else self.trained.of(layout)
        return Index(layout.blocks, vectors, self.encoder)

    @property
    def encoder(self) -> str:
        """Name or fingerprint of what makes the vectors; a trained encoder with the size of its windows."""
        if self.name == "bm25":
            return "bm25"
        return "embedding" if self.trained is None else f"{self.trained.fingerprint}, {self.capacity} tokens"

    def keep(self, index: Index) -> None:
        """Use the vectors of an index."""
        keeper = self.embedding if self.trained is None else self.trained
        if self.name != "bm25":
            keeper.keep(index.blocks, index.vectors)

    def shortlist(self, memory: Memory, count: int) -> tuple[int, ...]:
        """Select blocks for the query together with the blocks in z, in document order.

        Args:
            memory: the query and the state of z, whose blocks are not proposed again.
            count: number of blocks.

        Raises:
            ConfigError: there is no query.
        """
        if len(memory.candidates) <= count and memory.query is not None:
            return tuple(memory.candidates)
        return tuple(np.sort(np.argsort(-self.scores(memory), kind="stable")[:count]).tolist())

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Score the blocks outside z by their best place in a ranking: 1, 1/2, 1/3, …; NaN for all others.

        Raises:
            ConfigError: there is no query.
        """
        if memory.query is None:
            raise ConfigError("give a question, which a retriever needs; for tasks without, memrecall.shortlist: null")
        candidates, scores = list(memory.candidates), np.full(len(memory.blocks), np.nan)
        places = [_places(ranking[candidates]) for ranking in self._rankings(memory)]
        scores[candidates] = 1 / (1 + np.min(places, axis=0))
        return scores

    def _rankings(self, memory: Memory) -> list[Float[np.ndarray, " blocks"]]:
        text, blocks = _text(memory), memory.blocks
        if self.name == "trained":
            assert self.trained is not None, "checked above"
            return [self.trained.scores(memory, self.bm25_shares(memory))]
        rankings = [self.bm25.text_scores(text, blocks)] if self.name != "embedding" else []
        return rankings + ([self.embedding.text_scores(text, blocks)] if self.name != "bm25" else [])

    def bm25_shares(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """BM25 scores of all blocks for the query together with z, as a share of the best."""
        scores = self.bm25.text_scores(_text(memory), memory.blocks)
        best = scores.max(initial=0.0)
        return np.asarray(scores / best) if best > 0 else scores


def _text(memory: Memory) -> str:
    query = memory.query.text if memory.query is not None else ""
    return " ".join([query, *map(memory.blocks.text_with_heading, memory.kept)])


def _places(scores: Float[np.ndarray, " candidates"]) -> Float[np.ndarray, " candidates"]:
    """The place of each candidate in a ranking, from 0; equal scores in document order.

    >>> _places(np.array([0.1, 0.9, 0.1])).tolist()
    [1.0, 0.0, 2.0]
    """
    places = np.empty(len(scores))
    places[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return places
