"""Load encoders of ``transformers`` with the dropout, attention and positions that a configuration names."""

from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from cogltx._folders import RELEASED, is_released
from cogltx.blocks._tokenizer import BUNDLED, encoder_path, load_from_transformers
from cogltx.encoding._attention import attention
from cogltx.encoding._weights import load_tensors, shared_tensors
from cogltx.encoding.positions import PositionsConfig, extend_positions, restore_positions
from cogltx.errors import ModelError

_ENCODER = "encoder.model."  # prefix of the weights of a reasoner's encoder
_ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout")
_HIDDEN_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "embedding_dropout", "mlp_dropout")


class EncoderConfig(BaseModel):
    """The encoder that judge and reasoner start from, and how it runs.

    Attributes:
        name: ``minilm`` (the bundled all-MiniLM-L6-v2), a released model such as ``qa-multilingual`` for its reasoner's
            encoder, a folder, or ``owner/name`` on the Hugging Face hub, with ``@REVISION`` for a branch, tag or
            commit.
        attention_dropout: in [0, 1); 0 enables the fast path of attention.
        hidden_dropout: in [0, 1).
        freeze_embeddings: exclude the word embeddings from training; saves time and memory.
        precision: arithmetic; ``auto`` is bfloat16 where the processor supports it.
        batch_tokens: maximum number of tokens per batch, padding included; more, such as 32,768, fill a GPU. On a
            CPU, inference uses at most 1,024 tokens per thread.
        positions: extended positions, for windows longer than the encoder was trained on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = BUNDLED
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    hidden_dropout: float = Field(0.1, ge=0, lt=1)
    freeze_embeddings: bool = True
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    batch_tokens: int = Field(4096, ge=64)
    positions: PositionsConfig | None = None


def load_pretrained(
    config: EncoderConfig, auto_class: Any = None, folder: Path | None = None, layers: int | None = None
) -> tuple[Any, frozenset[str]]:
    """Load a pretrained encoder, with or without a head, or create one with random weights to load weights into.

    Args:
        config: names the encoder and its positions.
        auto_class: a class such as ``AutoModelForMaskedLM``; ``AutoModel`` by default.
        folder: has the settings of an encoder to create.
        layers: number of its first layers to load; None: all.

    Returns:
        the model of ``transformers``, and the names of weights that the checkpoint lacks, which are random.

    Raises:
        ModelError: it is not found, cannot be read or is not an encoder, or weights of the encoder are missing.
    """
    from transformers import AutoConfig, AutoModel

    def load() -> Any:
        released = RELEASED / config.name if folder is None and is_released(config.name) else None
        path = folder or (released / "encoder" if released else encoder_path(config.name))
        settings = _set_dropout(AutoConfig.from_pretrained(path, trust_remote_code=False), config)
        if layers is not None:
            settings.num_hidden_layers = min(layers, settings.num_hidden_layers)
        if released is not None:
            return _of_released(released, settings, auto_class or AutoModel)
        if folder is not None:
            return AutoModel.from_config(settings, **_attention_options(settings)), {"missing_keys": ()}
        return (auto_class or AutoModel).from_pretrained(
            path, config=settings, dtype=torch.float32, use_safetensors=True,
            output_loading_info=True, **_attention_options(settings),
        )  # fmt: skip

    problem = f"encoder {config.name!r}: no encoder that transformers can load from safetensors"
    model, report = load_from_transformers(load, f"{folder}: not the settings of an encoder" if folder else problem)
    missing = frozenset(report["missing_keys"])
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    lost = sorted(name for name in missing if name.startswith(prefix) and "pooler." not in name)
    if lost:
        raise ModelError(f"encoder {config.name!r}: the weights of {type(model).__name__} are incomplete; no {lost[0]}")
    restore_positions(model)
    if folder is None and config.positions is not None:
        extend_positions(model, **config.positions.model_dump())
    return model, missing


def _of_released(folder: Path, settings: Any, auto_class: Any) -> tuple[Any, dict[str, Any]]:
    """Create an encoder with the weights of a released model's reasoner; also returns what it lacks, such as a head."""
    model = auto_class.from_config(settings, **_attention_options(settings))
    reasoner = folder / "reasoner.safetensors"
    tensors = shared_tensors(reasoner) | load_tensors(reasoner)
    weights = {name.removeprefix(_ENCODER): one for name, one in tensors.items() if name.startswith(_ENCODER)}
    model.base_model.load_state_dict(weights, strict=False)
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    known = {f"{prefix}{name}" for name in weights}
    return model, {"missing_keys": [name for name in model.state_dict() if name not in known]}


def _set_dropout(settings: Any, config: EncoderConfig) -> Any:
    """Set dropout in an encoder's settings, by whichever names the architecture uses."""
    for names, value in (
        (_ATTENTION_DROPOUTS, config.attention_dropout),
        (_HIDDEN_DROPOUTS, config.hidden_dropout),
    ):
        for name in names:
            if isinstance(getattr(settings, name, None), float | int):
                setattr(settings, name, value)
    return settings


def _attention_options(settings: Any) -> dict[str, str]:
    from transformers import MODEL_MAPPING

    model_class = MODEL_MAPPING.get(type(settings), None)
    if not getattr(model_class, "_supports_sdpa", False):
        return {}
    supports_ours = getattr(model_class, "_supports_attention_backend", False)
    return {"attn_implementation": attention() if supports_ours else "sdpa"}
