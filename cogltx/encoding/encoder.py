"""Encoders: a pre-trained model that windows are run through.

The one place that turns windows into tensors: windows of many documents share batches, sorted by length, bounded by
tokens and padded to a multiple of 32. At inference, windows of one batch have one padded length, so that no
result depends on what else is in the batch, but for the last bits of its sums.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx.encoding.layout import Window
from cogltx.encoding.positions import n_positions
from cogltx.encoding.pretrained import EncoderConfig, empty_model, load_pretrained
from cogltx.errors import ConfigError

PAD_MULTIPLE = 32
_LOOKAHEAD = 256
_TOKENS_A_CORE = 1024  # that keep a CPU's core busy; more take memory and bring little speed


@dataclass(frozen=True)
class Batch:
    """Windows as tensors.

    Attributes:
        input_ids: shape [windows, tokens].
        attention_mask: True where a window has a token.
        token_type_ids: 0 for the query, 1 for blocks.
    """

    input_ids: Int[Tensor, "windows tokens"]
    attention_mask: Bool[Tensor, "windows tokens"]
    token_type_ids: Int[Tensor, "windows tokens"]


class Encoder(nn.Module):
    """A pre-trained encoder: windows in, one vector a token out.

    Args:
        model: a bare encoder of ``transformers``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.config.hidden_size)
        accepts = inspect.signature(model.forward).parameters
        self._typed = "token_type_ids" in accepts and getattr(model.config, "type_vocab_size", 0) > 1

    @property
    def positions(self) -> int | None:
        """Longest window that the encoder can read; None where its positions have no end."""
        own = n_positions(self.model)
        rows = getattr(self.model.config, "max_position_embeddings", None) if own is None else own
        return int(rows) if rows is not None and rows > 0 else None

    @property
    def vocabulary(self) -> int:
        """How many tokens it has vectors for."""
        return int(self.model.get_input_embeddings().num_embeddings)

    def freeze_embeddings(self) -> None:
        """Excludes the word embeddings from training."""
        self.model.get_input_embeddings().requires_grad_(False)

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens width"]:
        """Contextual vectors; zeros for padding beyond the last position."""
        length = batch.input_ids.shape[1]
        shown = slice(min(length, self.positions or length))
        types = {"token_type_ids": batch.token_type_ids[:, shown]} if self._typed else {}
        mask = batch.attention_mask[:, shown].long()
        output = self.model(input_ids=batch.input_ids[:, shown], attention_mask=mask, **types)
        hidden: Tensor = output.last_hidden_state
        return nn.functional.pad(hidden, (0, 0, 0, length - hidden.shape[1]))


def relevance_head(width: int) -> nn.Sequential:
    """What makes a relevance logit of a token's vector, shape [..., width] to [..., 1]; the judge's, and the reasoner's
    where its training asks for relevance too.
    """
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))


@dataclass(frozen=True)
class Precision:
    """Where and in which arithmetic models run."""

    device: torch.device
    bfloat16: bool

    @classmethod
    def of(cls, config: EncoderConfig, device: str | torch.device | None = None) -> "Precision":
        """Resolves ``auto``.

        Raises:
            ConfigError: there is no such device, or bfloat16 is asked for on one without it.
        """
        chosen = _device(device) if device is not None else _best_device()
        available = has_bfloat16(chosen)
        if config.precision == "bfloat16" and not available:
            raise ConfigError(f"encoder.precision: expected a device with bfloat16, got {chosen.type} without it")
        return cls(chosen, available and config.precision != "float32")

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which forward passes run."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self.bfloat16 else nullcontext()


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is fast on a device."""
    if device.type == "cpu":
        check = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
        return bool(check())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def _device(name: str | torch.device) -> torch.device:
    try:
        torch.zeros(1, device=name)
    except Exception as error:
        raise ConfigError(f"device: expected one that this machine has, got {str(name)!r}") from error
    return torch.device(name)


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def load_encoder(config: EncoderConfig) -> Encoder:
    """A pre-trained encoder.

    Raises:
        ModelError: it cannot be found or read, or is not an encoder.
    """
    from transformers import AutoModel

    return _prepared(load_pretrained(config, AutoModel).model, config)


def empty_encoder(folder: Path, config: EncoderConfig) -> Encoder:
    """An encoder of the form that a folder's settings give, with random weights, for weights that are loaded next.

    Raises:
        ModelError: the settings cannot be read, or are not those of an encoder.
    """
    return _prepared(empty_model(folder, config), config)


def _prepared(model: Any, config: EncoderConfig) -> Encoder:
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    encoder = Encoder(model)
    if config.freeze_embeddings:
        encoder.freeze_embeddings()
    return encoder


def padded_length(length: int) -> int:
    """The next multiple of 32."""
    return -(-length // PAD_MULTIPLE) * PAD_MULTIPLE


def batches(windows: Sequence[Window], batch_tokens: int, padding: int = 0) -> list[list[int]]:
    """Indices of windows that go through the encoder together, in the order of their lengths.

    Args:
        windows: of any lengths.
        batch_tokens: most tokens in a batch, padding included.
        padding: most tokens of padding with which the shorter windows of a batch may make room for a longer one; 0:
            all have one padded length.
    """
    groups: list[list[int]] = []
    length = 0
    for index in sorted(range(len(windows)), key=lambda i: padded_length(len(windows[i]))):
        own = padded_length(len(windows[index]))
        if not groups or (own - length) * len(groups[-1]) > padding or own * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(index)
        length = own
    return groups


def at_once(batch_tokens: int, device: torch.device) -> int:
    """Most tokens in a batch of inference: ``batch_tokens``, on a CPU no more than keep its cores busy."""
    return min(batch_tokens, _TOKENS_A_CORE * torch.get_num_threads()) if device.type == "cpu" else batch_tokens


def to_batch(windows: Sequence[Window], padding_id: int, device: torch.device) -> Batch:
    """Windows as tensors, padded to the longest of them."""
    length = padded_length(max(map(len, windows)))
    ids = np.full((len(windows), length), padding_id, dtype=np.int64)
    mask = np.zeros((len(windows), length), dtype=bool)
    types = np.zeros((len(windows), length), dtype=np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window)] = window.token_ids
        mask[row, : len(window)] = True
        types[row, window.n_prefix : len(window)] = 1
    return Batch(*(torch.from_numpy(array).to(device) for array in (ids, mask, types)))


def run_windows(
    windows: Iterable[Window],
    model: Callable[[Batch], Tensor],
    *,
    padding_id: int,
    precision: Precision,
    batch_tokens: int,
) -> Iterator[tuple[Window, Float[np.ndarray, "tokens *outputs"]]]:
    """Runs windows through a model, in bounded memory, and yields each with its outputs, in order.

    Args:
        windows: of any documents; read a few hundred at a time.
        model: gives a value or vector for every token of a batch.
        padding_id: vocabulary index of padding.
        precision: device and arithmetic.
        batch_tokens: most tokens in a batch; see ``at_once``.
    """
    stream = iter(windows)
    most = at_once(batch_tokens, precision.device)
    while chunk := list(islice(stream, _LOOKAHEAD)):
        outputs: list[np.ndarray] = [np.empty(0)] * len(chunk)
        with torch.no_grad(), precision.autocast():  # in inference_mode, autocast casts all weights anew for each batch
            for group in batches(chunk, most):
                members = [chunk[index] for index in group]
                values = model(to_batch(members, padding_id, precision.device)).float().cpu().numpy()
                for index, window, rows in zip(group, members, values, strict=True):
                    outputs[index] = rows[: len(window)].copy()  # a view would hold the whole batch, padding too
        yield from zip(chunk, outputs, strict=True)
