"""A judge that needs no training: cosine of the mean token vectors of an encoder, of query and block.

Knows nothing about z: the score of a block is the same at every step.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import Blocks
from cogltx.document import Query
from cogltx.encoder import Encoder, Precision, load_encoder, run_windows
from cogltx.errors import ConfigError
from cogltx.judges.base import Memory, QueryJudge
from cogltx.pretrained import BUNDLED, EncoderConfig, tokenizer_of
from cogltx.window import NONE, Window, WindowFormat


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
            prefix = self._form.prefix(None, int(blocks.sizes.max()))
            windows = [self._form.window(prefix, blocks, [index]) for index in range(len(blocks))]
            self._known[blocks] = self._embedded(windows)
        ids = self._form.prefix(Query(memory.query.text), 0)
        (query,) = self._embedded([Window(ids, np.full(len(ids), NONE), np.full(len(ids), NONE), len(ids))])
        return np.asarray(self._known[blocks] @ query)

    def _embedded(self, windows: Sequence[Window]) -> Float[np.ndarray, "windows width"]:
        """The mean token vector of each window, of length 1; blocks are read as queries are, as the first text."""
        first = [replace(window, n_prefix=len(window)) for window in windows]
        vectors = run_windows(
            first, self._encoder, padding_id=self._form.padding_id, precision=self._precision,
            batch_tokens=self._config.batch_tokens,
        )  # fmt: skip
        means = np.stack([own.mean(axis=0, dtype=np.float64) for _, own in vectors])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))

    @cached_property
    def _encoder(self) -> Encoder:
        return load_encoder(self._config).to(self._precision.device).eval()

    @cached_property
    def _precision(self) -> Precision:
        return Precision.of(self._config)

    @cached_property
    def _form(self) -> WindowFormat:
        tokenizer: Any = tokenizer_of(self._config.name)
        return WindowFormat(tokenizer, self._encoder.positions or 512)
