"""A judge that needs no training: cosine of the mean token vectors of an encoder, of query and block.

Knows nothing about z: the score of a block is the same at every step.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.encoding.encoder import Encoder, Precision, load_encoder, run_windows
from cogltx.encoding.layout import NONE, Window
from cogltx.encoding.pretrained import BUNDLED, EncoderConfig, tokenizer_of
from cogltx.errors import ConfigError
from cogltx.judges.base import Memory, QueryJudge

_MOST_TOKENS = 512  # of a text, where the encoder has no limit


class EmbeddingJudge(QueryJudge):
    """Cosine similarity of sentence embeddings: of the query, and of each block with its heading.

    Args:
        encoder: the bundled one (``minilm``, trained for this), a folder, or a name on the Hugging Face hub.
        batch_tokens: most tokens in a batch.
    """

    def __init__(self, encoder: str = BUNDLED, batch_tokens: int = 4096) -> None:
        self._config = EncoderConfig(name=encoder, batch_tokens=batch_tokens)
        self._known: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks width"]] = WeakKeyDictionary()

    def scores(self, memory: Memory) -> Float[np.ndarray, " blocks"]:
        """See ``QueryJudge.scores``."""
        if memory.query is None:
            raise ConfigError('judge "embedding": expected a query, got none')
        blocks = memory.blocks
        if blocks not in self._known:
            self._known[blocks] = self._embedded([blocks.shown(index) for index in range(len(blocks))])
        (query,) = self._embedded([memory.query.text])
        return np.asarray(self._known[blocks] @ query)

    def _embedded(self, texts: Sequence[str]) -> Float[np.ndarray, "texts width"]:
        """The mean token vector of each text, of length 1; by the encoder's own tokenizer, whatever the run's."""
        vectors = run_windows(
            map(self._window, texts), self._encoder, padding_id=self._tokenizer.pad_token_id or 0,
            precision=self._precision, batch_tokens=self._config.batch_tokens,
        )  # fmt: skip
        means = np.stack([own.mean(axis=0, dtype=np.float64) for _, own in vectors])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))

    def _window(self, text: str) -> Window:
        most = self._encoder.positions or _MOST_TOKENS
        ids = np.array(self._tokenizer(text, truncation=True, max_length=most)["input_ids"])
        return Window(ids, np.full(len(ids), NONE), np.full(len(ids), NONE), len(ids))

    @cached_property
    def _encoder(self) -> Encoder:
        return load_encoder(self._config).to(self._precision.device).eval()

    @cached_property
    def _precision(self) -> Precision:
        return Precision.of(self._config)

    @cached_property
    def _tokenizer(self) -> Any:
        return tokenizer_of(self._config.name)
