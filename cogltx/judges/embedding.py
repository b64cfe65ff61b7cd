"""A judge without training: cosine of mean token vectors of query and block. Scores do not depend on z."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import BUNDLED, Blocks, load_tokenizer
from cogltx.encoding.encoder import BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import NONE, Window
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges.base import QueryJudge

_MAX_TOKENS = 512  # per text, for encoders without a limit


class EmbeddingJudge(QueryJudge):
    """Cosine similarity of the sentence embeddings of the query and of each block with its heading.

    Args:
        encoder: the bundled sentence encoder (``minilm``), a folder, or a name on the Hugging Face hub.
        batch_tokens: maximum number of tokens per batch.
    """

    name = "embedding"

    def __init__(self, encoder: str = BUNDLED, batch_tokens: int = 4096) -> None:
        self._config = EncoderConfig(name=encoder, batch_tokens=batch_tokens)
        self._block_vectors: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks width"]] = WeakKeyDictionary()

    def text_scores(self, text: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
        """See ``QueryJudge.text_scores``."""
        if blocks not in self._block_vectors:
            self._block_vectors[blocks] = self._embed(list(map(blocks.text_with_heading, range(len(blocks)))))
        (query_vector,) = self._embed([text])
        return np.asarray(self._block_vectors[blocks] @ query_vector)

    def _embed(self, texts: Sequence[str]) -> Float[np.ndarray, "texts width"]:
        """Mean token vector per text, normalized to length 1; uses the tokenizer of this encoder."""
        runs = self._runner.run(map(self._window, texts), self._encoder, title="embeddings")
        means = np.stack([vectors.mean(axis=0, dtype=np.float64) for _, vectors in runs])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))

    def _window(self, text: str) -> Window:
        max_tokens = self._encoder.positions or _MAX_TOKENS
        ids = np.array(self._tokenizer(text, truncation=True, max_length=max_tokens)["input_ids"])
        return Window(ids, np.full(len(ids), NONE), np.full(len(ids), NONE), len(ids))

    @cached_property
    def _encoder(self) -> Encoder:
        return load_encoder(self._config).to(self._runner.precision.device).eval()

    @cached_property
    def _runner(self) -> BatchRunner:
        return BatchRunner(Precision.of(self._config), self._config.batch_tokens, self._tokenizer.pad_token_id or 0)

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._config.name)
