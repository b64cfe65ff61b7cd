"""An encoder with its architecture's own masked-LM head, which reads the chosen places alone.

Knows nothing about how places are chosen, or about training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ModelError
from cogltx.training.masking import MaskedRow


class _Given(nn.Module):
    """Stands where a model with a head has its encoder, and gives the vectors that it is given."""

    def forward(self, *_: object, inputs_embeds: Tensor, **__: object) -> Any:
        """What an encoder returns."""
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedModel(nn.Module):
    """Predicts the tokens of chosen places.

    The head costs as much as a small encoder, so it sees the chosen places only; its output layer is tied to the word
    embeddings.

    Args:
        model: of ``AutoModelForMaskedLM``; taken apart.
        new_head: whether the head is not trained yet.
    """

    def __init__(self, model: Any, *, new_head: bool) -> None:
        super().__init__()
        self.new_head = new_head
        self.encoder = Encoder(model.base_model)
        self.head = model
        self._put(_Given())

    def _put(self, base: nn.Module) -> None:
        setattr(self.head, self.head.base_model_prefix, base)

    def forward(self, batch: Batch, chosen: Bool[Tensor, "windows tokens"]) -> Float[Tensor, "chosen vocabulary"]:
        """Logits of the chosen places, window by window."""
        hidden = self.encoder(batch)[chosen]
        logits: Tensor = self.head(inputs_embeds=hidden[None]).logits
        return logits[0]

    def checkpoint_gradients(self) -> None:
        """Lets training compute each layer a second time instead of keeping what it computed.

        Raises:
            ModelError: the encoder cannot.
        """
        base = self.encoder.model
        enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
        try:
            enable({"use_reentrant": False})
        except ValueError as error:
            raise ModelError(f"gradient_checkpointing: expected an encoder that supports it, got: {error}") from error

    def save_pretrained(self, folder: Path) -> None:
        """Writes encoder and head as one checkpoint of ``transformers``; as an encoder, it is read without the head."""
        stand_in = getattr(self.head, self.head.base_model_prefix)
        self._put(self.encoder.model)
        try:
            self.head.save_pretrained(folder)
        finally:
            self._put(stand_in)


def predictions(model: nn.Module, batch: Batch, rows: Sequence[MaskedRow]) -> tuple[Tensor, Tensor]:
    """Logits, shape [masked, vocabulary], and targets, shape [masked], of the masked places of a batch of rows."""
    chosen = np.zeros(batch.input_ids.shape, dtype=bool)
    for number, row in enumerate(rows):
        chosen[number, row.places] = True
    targets = np.concatenate([row.targets for row in rows]).astype(np.int64)
    device = batch.input_ids.device
    logits: Tensor = model(batch, torch.from_numpy(chosen).to(device))
    return logits.float(), torch.from_numpy(targets).to(device)


def summed_loss(model: nn.Module, batch: Batch, rows: Sequence[MaskedRow]) -> Float[Tensor, ""]:
    """The cross-entropy of the masked places of a batch of rows, their sum."""
    return nn.functional.cross_entropy(*predictions(model, batch, rows), reduction="sum")


def load_masked(config: EncoderConfig) -> MaskedModel:
    """A pre-trained encoder with the head that its checkpoint holds, or a new one.

    Raises:
        ModelError: it cannot be loaded, or ``transformers`` has no masked-LM head for it.
    """
    from transformers import AutoModelForMaskedLM

    loaded = load_pretrained(config, AutoModelForMaskedLM)
    masked = MaskedModel(loaded.model, new_head=any("pooler." not in name for name in loaded.missing))
    if config.freeze_embeddings:
        masked.encoder.freeze_embeddings()
    return masked
