"""The trained retriever: one vector per block, which does not depend on the question, and one per question."""

import hashlib
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from cogltx.blocks import Blocks
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder
from cogltx.encoding.layout import Layout, Window
from cogltx.encoding.weights import to_safetensors
from cogltx.judges import Memory

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


def block_means(window: Window, tokens: Float[Tensor, "tokens width"]) -> Float[Tensor, "blocks width"]:
    """Average the token vectors of each block of a window, in the order of the blocks."""
    in_block = window.block >= 0
    _, places, counts = np.unique(window.block[in_block], return_inverse=True, return_counts=True)
    at = torch.from_numpy(np.flatnonzero(in_block)).to(tokens.device)
    sums = tokens.new_zeros(len(counts), tokens.shape[1]).index_add(
        0, torch.from_numpy(places).to(tokens.device), tokens[at]
    )
    return sums / torch.from_numpy(counts).to(tokens)[:, None]


class BlockVectors:
    """The vectors of the blocks of documents, computed once per document."""

    def __init__(self, encoder: BlockEncoder, runner: BatchRunner) -> None:
        self.encoder, self.runner = encoder, runner
        self._vectors: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks width"]] = WeakKeyDictionary()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder's weights."""
        return hashlib.sha256(to_safetensors(self.encoder.state_dict())).hexdigest()

    def of(self, layout: Layout) -> Float[np.ndarray, "blocks width"]:
        """Return the vectors of a document's blocks."""
        if layout.blocks not in self._vectors:
            vectors = np.empty((len(layout.blocks), self.encoder.encoder.width), dtype=np.float32)
            document = layout.form.layout(None, layout.blocks)
            for window, tokens in self._run(document.windows(), document.n_windows):
                vectors[window.blocks] = block_means(window, torch.from_numpy(tokens))
            self.keep(layout.blocks, vectors)
        return self._vectors[layout.blocks]

    def keep(self, blocks: Blocks, vectors: Float[np.ndarray, "blocks width"]) -> None:
        """Use vectors that were computed before."""
        self._vectors[blocks] = vectors

    def forget(self) -> None:
        """Forget all vectors, because the encoder has changed."""
        self._vectors.clear()

    def scores(self, memory: Memory, bm25: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """Score all blocks of a document for the query next to z."""
        [(window, tokens)] = self._run([memory.layout.window(memory.kept)])
        arrays = tokens[: window.n_prefix].mean(axis=0), self.of(memory.layout), bm25.astype(np.float32)
        with torch.no_grad():
            tensors = (torch.from_numpy(array).to(self.runner.precision.device) for array in arrays)
            return np.asarray(self.encoder.scores(*tensors).cpu().numpy())

    def _run(
        self, windows: Iterable[Window], total: int | None = None
    ) -> Iterator[tuple[Window, Float[np.ndarray, "tokens width"]]]:
        self.encoder.eval()
        return self.runner.run(windows, self.encoder, title="block vectors", lookahead=_LOOKAHEAD, total=total)
