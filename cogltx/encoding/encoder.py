"""Encoders, and the only place that runs windows through a model.

Windows of many documents share batches, sorted by length, bounded by tokens and padded to a multiple of 8 or 32. At
inference all windows of a batch have one padded length, so a result does not depend on the rest of the batch.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx import _processes as processes
from cogltx._progress import logger, progress
from cogltx.blocks._tokenizer import load_from_transformers
from cogltx.encoding._turns import TURN
from cogltx.encoding.layout import Window
from cogltx.encoding.positions import n_positions
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ConfigError

_PAD_MULTIPLE, _SHORT_PAD_MULTIPLE, _SHORT = 32, 8, 128  # sentences have so few tokens that padding counts
_LOOKAHEAD = 256
_TOKENS_PER_CORE = 1024  # keep a CPU core busy; more cost memory and bring little speed
_CPU_PADDING, _GPU_PADDING = 128, 16384  # tokens of padding that cost as much as another pass
_PROGRESS_DELAY = 2.0  # seconds before a progress bar appears


@dataclass(frozen=True)
class Batch:
    """Windows as tensors, padded to one length; ``token_type_ids`` is 0 for the query and 1 for blocks."""

    input_ids: Int[Tensor, "windows tokens"]
    attention_mask: Bool[Tensor, "windows tokens"]
    token_type_ids: Int[Tensor, "windows tokens"]

    @classmethod
    def of(cls, windows: Sequence[Window], padding_id: int, device: torch.device) -> Self:
        """Convert windows to tensors, padded to the longest of them."""
        length = padded_length(max(map(len, windows)))
        ids = np.full((len(windows), length), padding_id, dtype=np.int64)
        mask = np.zeros((len(windows), length), dtype=bool)
        types = np.zeros((len(windows), length), dtype=np.int64)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window.token_ids
            mask[row, : len(window)] = True
            types[row, window.n_prefix : len(window)] = 1
        return cls(*(torch.from_numpy(array).to(device) for array in (ids, mask, types)))


class Encoder(nn.Module):
    """A pretrained encoder of ``transformers`` without a head: windows in, one vector per token out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.config.hidden_size)
        arguments = inspect.signature(model.forward).parameters
        self._has_types = "token_type_ids" in arguments and getattr(model.config, "type_vocab_size", 0) > 1

    @property
    def positions(self) -> int | None:
        """Maximum number of tokens per window; None without a limit."""
        n_rows = n_positions(self.model) or getattr(self.model.config, "max_position_embeddings", None)
        return int(n_rows) if n_rows is not None and n_rows > 0 else None

    @property
    def vocabulary(self) -> int:
        """Number of tokens in the embedding table."""
        return len(self.model.get_input_embeddings().weight)

    def freeze_embeddings(self) -> None:
        """Exclude the word embeddings from training."""
        self.model.get_input_embeddings().requires_grad_(False)

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens width"]:
        """Compute contextual vectors; zeros for padding beyond the last position."""
        length = batch.input_ids.shape[1]
        visible = slice(min(length, self.positions or length))
        types = {"token_type_ids": batch.token_type_ids[:, visible]} if self._has_types else {}
        mask = batch.attention_mask[:, visible].long()
        output = self.model(input_ids=batch.input_ids[:, visible], attention_mask=mask, **types)
        hidden: Tensor = output.last_hidden_state
        return nn.functional.pad(hidden, (0, 0, 0, length - hidden.shape[1]))


def load_encoder(config: EncoderConfig, folder: Path | None = None, layers: int | None = None) -> Encoder:
    """Load an encoder without a head; see ``load_pretrained``.

    Raises:
        ModelError: also if the model cannot read a window of text.
    """
    model, _ = load_pretrained(config, folder=folder, layers=layers)
    if getattr(model, "pooler", None) is not None:
        model.pooler = nn.Identity()  # some models call it in any case
    problem = f"encoder {config.name!r}: {type(model).__name__} cannot read a window of text"
    return load_from_transformers(lambda: _tried(model, config), problem)


def _tried(model: Any, config: EncoderConfig) -> Encoder:
    """Make an encoder and read a window of padding, which fails if the model needs more than text, such as boxes."""
    encoder = Encoder(model)
    if config.freeze_embeddings:
        encoder.freeze_embeddings()
    is_training, ids = encoder.training, torch.zeros(1, _PAD_MULTIPLE, dtype=torch.long)
    with torch.no_grad():
        hidden = encoder.eval()(Batch(ids, torch.ones_like(ids, dtype=torch.bool), ids))
    encoder.train(is_training)
    if hidden.shape != (1, _PAD_MULTIPLE, encoder.width):
        raise ValueError(f"vectors have shape {tuple(hidden.shape)}")
    return encoder


def relevance_head(width: int) -> nn.Sequential:
    """Create the MLP from a token vector [..., width] to a relevance logit [..., 1] (CogLTX eq. 3)."""
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))


@dataclass(frozen=True)
class Precision:
    """Device and arithmetic of a model."""

    device: torch.device
    bfloat16: bool

    @classmethod
    def of(cls, config: EncoderConfig, device: str | torch.device | None = None) -> "Precision":
        """Resolve ``auto`` for a device; the best available device by default.

        Raises:
            ConfigError: the device does not exist, or has no bfloat16 although the configuration asks for it.
        """
        device = _best_device() if device is None else device
        try:
            torch.zeros(1, device=device)
        except Exception as error:
            raise ConfigError(f"device {str(device)!r} is not available on this machine") from error
        device = torch.device(device)
        available = _has_bfloat16(device)
        if config.precision == "bfloat16" and not available:
            raise ConfigError(f"encoder.precision is bfloat16, which {device.type} does not support; use auto")
        return cls(device, available and config.precision != "float32")

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of forward passes."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self.bfloat16 else nullcontext()


def _has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is fast on a device."""
    if device.type == "cpu":
        return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@dataclass(frozen=True)
class BatchRunner:
    """Runs windows through models in batches of at most ``batch_tokens`` tokens, padding included."""

    precision: Precision
    batch_tokens: int
    padding_id: int

    @property
    def inference_tokens(self) -> int:
        """Maximum number of tokens per batch of inference; on a CPU at most 1,024 per core."""
        return min(self.batch_tokens, _TOKENS_PER_CORE * torch.get_num_threads()) if self._on_cpu else self.batch_tokens

    @property
    def training_padding(self) -> int:
        """Maximum number of padding tokens that save a forward and backward pass; see ``batches``."""
        return _CPU_PADDING if self._on_cpu else _GPU_PADDING

    @property
    def _on_cpu(self) -> bool:
        return self.precision.device.type == "cpu"

    def tensors(self, windows: Sequence[Window]) -> Batch:
        """Convert windows to tensors on the device; see ``Batch.of``."""
        return Batch.of(windows, self.padding_id, self.precision.device)

    def run(
        self,
        windows: Iterable[Window],
        model: Callable[[Batch], Tensor],
        title: str = "windows",
        lookahead: int = _LOOKAHEAD,
        total: int | None = None,
    ) -> Iterator[tuple[Window, Float[np.ndarray, "tokens *outputs"]]]:
        """Run windows through a model in bounded memory; yield each with its outputs, in order.

        Args:
            windows: windows of any lengths.
            model: computes the outputs of a batch.
            title: labels the progress bar that appears on a terminal after two seconds.
            lookahead: number of windows that are grouped into batches, and whose outputs are in memory, together.
            total: number of windows, for the progress bar, if ``windows`` has no length.
        """
        stream = iter(progress(windows, title, unit="windows", total=total, delay=_PROGRESS_DELAY))
        n_windows, start = 0, time.perf_counter()
        while chunk := list(islice(stream, lookahead)):
            n_windows += len(chunk)
            yield from zip(chunk, self._outputs(chunk, model), strict=True)
        logger.debug("%s: %d windows in %.2f s", title, n_windows, time.perf_counter() - start)

    def _outputs(self, windows: Sequence[Window], model: Callable[[Batch], Tensor]) -> list[np.ndarray]:
        """The outputs of each window; several processes share the batches."""
        groups = batches(windows, self.inference_tokens)
        shares = processes.share([len(group) * padded_length(len(windows[group[0]])) for group in groups])
        outputs: dict[int, np.ndarray] = {}
        with torch.no_grad(), self.precision.autocast():  # inference_mode would cast all weights again per batch
            for group in (groups[number] for number in processes.local_share(shares)):
                members = [windows[index] for index in group]
                with TURN.get()(len(members) * padded_length(len(members[-1]))):
                    batch_outputs = model(self.tensors(members)).float().cpu().numpy()
                for index, window, rows in zip(group, members, batch_outputs, strict=True):
                    outputs[index] = rows[: len(window)].copy()  # a view would keep the whole batch in memory
        of_windows = [[index for number in share for index in groups[number]] for share in shares]
        return processes.gather(outputs, [len(window) for window in windows], of_windows)


def padded_length(length: int) -> int:
    """Round a length up to a multiple of 32, of 8 for at most 128 tokens."""
    multiple = _SHORT_PAD_MULTIPLE if length <= _SHORT else _PAD_MULTIPLE
    return -(-length // multiple) * multiple


def batches(windows: Sequence[Window], batch_tokens: int, padding: int = 0) -> list[list[int]]:
    """Group windows into batches, in the order of their lengths; returns window indices per batch.

    Args:
        windows: windows of any lengths.
        batch_tokens: maximum number of tokens per batch, padding included.
        padding: maximum number of padding tokens that a batch gets to include a longer window; 0: all have one length.
    """
    groups: list[list[int]] = []
    length = 0
    for index in sorted(range(len(windows)), key=lambda i: padded_length(len(windows[i]))):
        next_length = padded_length(len(windows[index]))
        if (
            not groups
            or (next_length - length) * len(groups[-1]) > padding
            or next_length * (len(groups[-1]) + 1) > batch_tokens
        ):
            groups.append([])
        groups[-1].append(index)
        length = next_length
    return groups
