"""Retrieval: the shortlist of blocks that the judge scores, and the index, which is made once per document."""

from cogltx.retrieval.block_encoder import BlockEncoder
from cogltx.retrieval.index import Index, splitter_key
from cogltx.retrieval.pairs import PairModel
from cogltx.retrieval.retriever import Retriever, RetrieverName

__all__ = ["BlockEncoder", "Index", "PairModel", "Retriever", "RetrieverName", "splitter_key"]
