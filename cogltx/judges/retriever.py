"""Retrievers rank the blocks of a document cheaply: by BM25, or by trained vectors together with BM25.

A trained vector of a block does not depend on the question, so it is computed once per document.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from cogltx.blocks import Blocks
from cogltx.encoding._weights import to_safetensors
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder
from cogltx.encoding.layout import Layout, Window, pack
from cogltx.errors import ConfigError
from cogltx.judges.base import Memory
from cogltx.judges.bm25 import BM25Judge

_LOOKAHEAD = 32  # windows; bounds the memory of token vectors
_SHORTEST = 1e-12  # length of a vector


class BlockEncoder(nn.Module):
    """Encodes blocks and questions, with the first layers of an encoder.

    A block's vector is the mean of its token vectors in a full window of consecutive blocks, so it knows its context
    ("late chunking", Günther et al. 2024). A question's vector is the mean of its tokens in a window with z.

    Attributes:
        scale: factor of the cosine of two vectors.
        bm25_weight: weight of the BM25 score, relative to the best block of the document, as a share of ``scale``.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.scale = nn.Parameter(torch.tensor(20.0))
        self.bm25_weight = nn.Parameter(torch.tensor(0.2))

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens width"]:
        """Compute a vector per token."""
        vectors: Tensor = self.encoder(batch)
        return vectors

    def scores(
        self,
        question: Float[Tensor, " width"],
        blocks: Float[Tensor, "blocks width"],
        bm25: Float[Tensor, " blocks"],
    ) -> Float[Tensor, " blocks"]:
        """Score blocks for a question: logits whose softmax is the probability that a block is relevant."""
        lengths = torch.linalg.vector_norm(blocks, dim=-1)  # normalizing the vectors would copy them all
        cosines = blocks @ nn.functional.normalize(question, dim=-1) / lengths.clamp_min(_SHORTEST)
        scores: Tensor = self.scale * (cosines + self.bm25_weight * bm25)
        return scores


def _runs(layout: Layout) -> list[list[int]]:
    """The blocks of the fewest windows that show all documents of a joined one, each by itself."""
    blocks = layout.blocks
    part_of = np.searchsorted([first for _, first in blocks.document.parts], blocks.starts, side="right")
    groups = np.split(np.arange(len(blocks)), np.flatnonzero(np.diff(part_of)) + 1)
    packed = ((group, pack(blocks.sizes[group].tolist(), layout.room)) for group in groups)
    return [group[run].tolist() for group, runs in packed for run in runs]


def block_vectors(window: Window, tokens: Float[Tensor, "tokens width"]) -> Float[Tensor, "blocks width"]:
    """Average the token vectors of each block of a window, in the order of the blocks."""
    in_block = window.block >= 0
    _, places, counts = np.unique(window.block[in_block], return_inverse=True, return_counts=True)
    at = torch.from_numpy(np.flatnonzero(in_block)).to(tokens.device)
    sums = tokens.new_zeros(len(counts), tokens.shape[1]).index_add(
        0, torch.from_numpy(places).to(tokens.device), tokens[at]
    )
    return sums / torch.from_numpy(counts).to(tokens)[:, None]


class Retriever(ABC):
    """Ranks the blocks of a document for a question together with the blocks in z."""

    index_key = ""

    @abstractmethod
    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Score all blocks of a document, for a memory with a question."""

    def vectors(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """Compute the vectors of a document's blocks; width 0 if the retriever has none."""
        return np.empty((len(layout.blocks), 0), dtype=np.float32)

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """Use vectors that ``vectors`` computed before."""
        return

    def ranking(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Score the candidates by their place: 1 for the best, 1/2, 1/3, …; NaN for all other blocks.

        Raises:
            ConfigError: there is no question.
        """
        if memory.query is None:
            raise ConfigError(
                "give a question, which the shortlist needs; for tasks without, memrecall.shortlist: null"
            )
        candidates, places = memory.candidates, np.full(len(memory.blocks), np.nan)
        best_first = np.argsort(-self.scores(memory)[candidates], kind="stable")
        places[np.array(candidates, dtype=np.int64)[best_first]] = 1 / np.arange(1, len(candidates) + 1)
        return places


class BM25Retriever(Retriever):
    """Ranks by BM25 of the question and the blocks in z."""

    def __init__(self) -> None:
        self._bm25 = BM25Judge()

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """See ``Retriever.scores``."""
        question = memory.query.text if memory.query is not None else ""
        text = " ".join([question, *map(memory.blocks.text_with_heading, memory.kept)])
        return self._bm25.text_scores(text, memory.blocks)

    def shares(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Return the scores as shares of the best one."""
        scores = self.scores(memory)
        best = scores.max(initial=0.0)
        return np.asarray(scores / best) if best > 0 else scores


class TrainedRetriever(Retriever):
    """Ranks by the vectors of a trained encoder, computed once per document, together with BM25."""

    def __init__(self, encoder: BlockEncoder, runner: BatchRunner, capacity: int) -> None:
        self.encoder, self.runner, self.capacity, self.bm25 = encoder, runner, capacity, BM25Retriever()
        self._vectors: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks width"]] = WeakKeyDictionary()
        self._scores: WeakKeyDictionary[Layout, Float[np.ndarray, " blocks"]] = WeakKeyDictionary()  # without z

    @property
    def index_key(self) -> str:  # type: ignore[override]
        """Fingerprint of the encoder's weights, with the size of its windows."""
        return f"{hashlib.sha256(to_safetensors(self.encoder.state_dict())).hexdigest()}, {self.capacity} tokens"

    def vectors(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """See ``Retriever.vectors``."""
        if layout.blocks not in self._vectors:
            vectors = np.empty((len(layout.blocks), self.encoder.encoder.width), dtype=np.float32)
            document = layout.form.layout(None, layout.blocks)
            runs = _runs(document)
            for window, tokens in self._run(map(document.window, runs), len(runs)):
                vectors[window.blocks] = block_vectors(window, torch.from_numpy(tokens))
            self.use_vectors(layout.blocks, vectors)
        return self._vectors[layout.blocks]

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """See ``Retriever.use_vectors``."""
        self._vectors[blocks] = vectors

    def forget(self) -> None:
        """Forget all vectors and scores, because the encoder has changed."""
        self._vectors.clear()
        self._scores.clear()

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """See ``Retriever.scores``; those for the question alone are computed once per layout."""
        if memory.kept:
            return self._computed(memory)
        if memory.layout not in self._scores:
            self._scores[memory.layout] = self._computed(memory)
        return self._scores[memory.layout]

    def _computed(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        [(window, tokens)] = self._run([memory.layout.window(memory.kept)])
        bm25 = self.bm25.shares(memory).astype(np.float32)
        arrays = tokens[: window.n_prefix].mean(axis=0), self.vectors(memory.layout), bm25
        with torch.no_grad():
            tensors = (torch.from_numpy(array).to(self.runner.precision.device) for array in arrays)
            return np.asarray(self.encoder.scores(*tensors).cpu().numpy())

    def log_probabilities(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """Log-probability that each block is the relevant one of its document."""
        scores = self.scores(memory).astype(np.float64)
        return np.asarray(scores - np.logaddexp.reduce(scores))

    def _run(
        self, windows: Iterable[Window], total: int | None = None
    ) -> Iterator[tuple[Window, Float[np.ndarray, "tokens width"]]]:
        self.encoder.eval()
        return self.runner.run(windows, self.encoder, title="block vectors", lookahead=_LOOKAHEAD, total=total)
