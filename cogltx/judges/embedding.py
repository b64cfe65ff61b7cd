"""A judge without training: cosine of mean token vectors of query and block. Scores do not depend on z."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from cogltx.blocks import BUNDLED, Blocks, load_tokenizer
from cogltx.encoding.encoder import BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import NONE, Window
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.judges.base import Judge, Memory

_MAX_TOKENS = 512  # per text, for encoders without a limit


class EmbeddingJudge(Judge):
    """Cosine similarity of the sentence embeddings of the query and of each block with its heading.

    Args:
        encoder: the bundled sentence encoder (``minilm``), a folder, or a name on the Hugging Face hub.

    Attributes:
        runner: device, arithmetic and batch size; None: the best device, small batches.
    """

    def __init__(self, encoder: str = BUNDLED) -> None:
        self._config = EncoderConfig(name=encoder)
        self.runner: BatchRunner | None = None
        self._vectors: WeakKeyDictionary[Blocks, Float[np.ndarray, "blocks width"]] = WeakKeyDictionary()

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """See ``Judge.scores``."""
        if memory.query is None:
            raise ConfigError('judge "embedding" needs a question')
        return self.text_scores(memory.query.text, memory.blocks)[indices]

    def text_scores(self, text: str, blocks: Blocks) -> Float[np.ndarray, " blocks"]:
        """Score the blocks of a document for any text."""
        return np.asarray(self._vectors_of(blocks) @ self._embed([text])[0])

    def _vectors_of(self, blocks: Blocks) -> Float[np.ndarray, "blocks width"]:
        """Return the vectors of a document's blocks, computed once."""
        if blocks not in self._vectors:
            vectors = self._embed(list(map(blocks.text_with_heading, range(len(blocks)))))
            self._vectors[blocks] = vectors.astype(np.float32)
        return self._vectors[blocks]

    def _embed(self, texts: Sequence[str]) -> Float[np.ndarray, "texts width"]:
        """Mean token vector per text, normalized to length 1; uses the tokenizer of this encoder."""
        tokenizer, encoder, runner = self._model
        longest = encoder.positions or _MAX_TOKENS
        tokens = tokenizer(list(texts), truncation=True, max_length=longest, split_special_tokens=True)["input_ids"]
        windows = (Window(ids, none := np.full(len(ids), NONE), none, len(ids)) for ids in map(np.array, tokens))
        vectors = runner.run(windows, encoder, title="embeddings")
        means = np.stack([of_tokens.mean(axis=0, dtype=np.float64) for _, of_tokens in vectors])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))

    @cached_property
    def _model(self) -> tuple[Any, Encoder, BatchRunner]:
        """Tokenizer, encoder and runner."""
        tokenizer, config = load_tokenizer(self._config.name), self._config
        runner = self.runner or BatchRunner(Precision.of(config), config.batch_tokens, padding_id=0)
        runner = replace(runner, padding_id=tokenizer.pad_token_id or 0)
        return tokenizer, load_encoder(config).to(runner.precision.device).eval(), runner
