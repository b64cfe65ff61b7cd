"""Extend the positions of an encoder with learned absolute positions, to read texts longer than its table.

Three methods to extend the n trained rows p_1 … p_n:

    hierarchical   q_((i−1)n + j) = α u_i + (1 − α) u_j, where u_i = (p_i − α p_1) / (1 − α)
                   (Su Jianlin 2020): up to n² positions without a new parameter; the first n are unchanged
    tiled          the n rows, repeated
    random         new rows, initialized as the model initializes its rows
"""

from typing import Any, Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from cogltx.errors import ConfigError, ModelError, describe

Method = Literal["hierarchical", "tiled", "random"]
Form = Literal["computed", "table"]
Model = TypeVar("Model", bound=nn.Module)

_CONFIG_KEY = "cogltx_positions"  # in the encoder's configuration
_TABLE = "position_embeddings"


class PositionsConfig(BaseModel):
    """Extended positions.

    Attributes:
        length: number of positions after the extension.
        method: ``hierarchical``, ``tiled`` or ``random``.
        alpha: parameter of ``hierarchical`` in (0, 1), not 0.5; values below 0.5 are recommended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    length: int = Field(ge=1)
    method: Method = "hierarchical"
    alpha: float = 0.4

    def check(self, n: int) -> None:
        """Check that an encoder of n positions can be extended so."""
        if not 0 < self.alpha < 1 or self.alpha == 0.5:
            raise ConfigError(f"positions.alpha is {self.alpha}; it must be between 0 and 1 and not 0.5")
        if self.length < n:
            raise ConfigError(f"positions.length is {self.length}; the encoder already has {n} positions")
        if self.method == "hierarchical" and self.length > n * n:
            raise ConfigError(
                f"positions.length is {self.length}; hierarchical positions reach {n * n}, the square of {n}"
            )


class _ComputedPositions(nn.Embedding):
    """Position embeddings computed from the trained rows, which remain the only parameters."""

    def __init__(self, table: nn.Embedding, config: PositionsConfig) -> None:
        super().__init__(table.num_embeddings, table.embedding_dim, padding_idx=table.padding_idx, _weight=table.weight)
        self.config = config
        self.offset = _first_row(table)

    def forward(self, input: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape width"]:
        """Compute the vectors of positions, numbered as in the encoder's table."""
        position = (input - self.offset).clamp(min=0)
        rows = self.weight[self.offset :]
        vectors = _extended_rows(rows, position, self.config)
        return torch.where((input < self.offset)[..., None], self.weight[input.clamp(max=self.offset)], vectors)


def extend_positions(
    encoder: Model, length: int, method: Method = "hierarchical", alpha: float = 0.4, form: Form = "computed"
) -> Model:
    """Extend an encoder to windows of ``length`` tokens.

    Works for encoders with learned absolute positions: BERT, RoBERTa and XLM-R, ELECTRA, DistilBERT, ALBERT, MPNet.

    Args:
        encoder: a model of ``transformers``, with or without a head, or a module that contains one; modified in place.
        length: number of positions, at least the encoder's n, at most n² for ``hierarchical``.
        method, alpha: see ``PositionsConfig``.
        form: ``computed`` from the trained rows, which remain the only parameters, or a ``table`` with trainable rows
            that plain ``transformers`` loads. ``random`` is always a table.

    Raises:
        ConfigError: an argument is invalid or out of range.
        ModelError: the encoder has no table of learned absolute positions, or its positions are already extended.

    >>> from transformers import BertConfig, BertModel
    >>> tiny = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=16)
    >>> longer = extend_positions(BertModel(tiny), 64)
    >>> longer(torch.ones(1, 64, dtype=torch.long)).last_hidden_state.shape
    torch.Size([1, 64, 8])
    """
    if not isinstance(encoder, nn.Module):
        raise ModelError(f"positions: {type(encoder).__name__} is not an encoder")
    if form not in get_args(Form):
        raise ConfigError(f"positions.form must be 'computed' or 'table', but is {form!r}")
    config = _config({"length": length, "method": method, "alpha": alpha})
    holder = _holder(encoder)
    table = getattr(holder, _TABLE)
    if isinstance(table, _ComputedPositions):
        raise ModelError(f"positions: the encoder is already extended to {table.config.length} positions")
    config.check(table.num_embeddings - _first_row(table))
    if form == "table" or method == "random":
        extended: nn.Embedding = _as_table(table, config, encoder)
    else:
        extended = _ComputedPositions(table, config)
    setattr(holder, _TABLE, extended)
    rows = length + _first_row(table)
    for name in ("position_ids", "token_type_ids"):  # buffers with one entry per position; token types are zero
        before = getattr(holder, name, None)
        if isinstance(before, Tensor):
            numbers = torch.arange(rows, device=before.device) * (name == "position_ids")
            holder.register_buffer(name, numbers[None], persistent=False)
    for settings in _configurations(encoder):
        if isinstance(extended, _ComputedPositions):
            setattr(settings, _CONFIG_KEY, config.model_dump())
        else:
            settings.max_position_embeddings = rows
    return encoder


def restore_positions(encoder: Model) -> Model:
    """Restore the computed positions of a loaded encoder from its configuration."""
    for settings in _configurations(encoder):
        saved = getattr(settings, _CONFIG_KEY, None)
        if saved is not None and not isinstance(getattr(_holder(encoder), _TABLE), _ComputedPositions):
            config = _config({name: value for name, value in saved.items() if name != "form"})  # of earlier versions
            return extend_positions(encoder, config.length, config.method, config.alpha)
    return encoder


def _config(values: object) -> PositionsConfig:
    try:
        return PositionsConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error, PositionsConfig, within="positions")) from error


def n_positions(encoder: nn.Module) -> int | None:
    """Count the positions of an encoder; None without a table."""
    table = _table(encoder)
    if isinstance(table, _ComputedPositions):
        return table.config.length
    return None if table is None else table.num_embeddings - _first_row(table)


def _first_row(table: nn.Embedding) -> int:
    """Return the row of the first position: after the row for padding, if there is one (RoBERTa)."""
    return 0 if table.padding_idx is None else table.padding_idx + 1


def _extended_rows(
    rows: Float[Tensor, "n width"], position: Int[Tensor, "*shape"], config: PositionsConfig
) -> Float[Tensor, "*shape width"]:
    """Compute the vectors of positions, from 0, beyond the n trained rows; the first n are the trained rows."""
    n = len(rows)
    if config.method == "tiled":
        return rows[position % n]
    outer, inner = position // n, position % n
    alpha = config.alpha
    base = (rows - alpha * rows[0]) / (1 - alpha)
    composed = alpha * base[outer.clamp(max=n - 1)] + (1 - alpha) * base[inner]
    return torch.where((outer == 0)[..., None], rows[inner], composed)


def _as_table(table: nn.Embedding, config: PositionsConfig, encoder: nn.Module) -> nn.Embedding:
    offset, n = _first_row(table), table.num_embeddings - _first_row(table)
    extended = nn.Embedding(
        config.length + offset, table.embedding_dim, padding_idx=table.padding_idx,
        device=table.weight.device, dtype=table.weight.dtype,
    )  # fmt: skip
    with torch.no_grad():
        if config.method == "random":
            spread = next((getattr(settings, "initializer_range", 0.02) for settings in _configurations(encoder)), 0.02)
            extended.weight.normal_(0.0, spread)
        else:
            positions = torch.arange(config.length, device=table.weight.device)
            extended.weight[offset:] = _extended_rows(table.weight[offset:], positions, config)
        extended.weight[: offset + n] = table.weight
    extended.weight.requires_grad_(table.weight.requires_grad)
    return extended


def _table(encoder: nn.Module) -> nn.Embedding | None:
    """The table of learned absolute positions, if the encoder uses one and no other kind of position."""
    for settings in _configurations(encoder):
        if getattr(settings, "position_embedding_type", "absolute") != "absolute":
            return None
    for module in encoder.modules():
        table = getattr(module, _TABLE, None)
        if isinstance(table, nn.Embedding):
            return None if getattr(module, "position_biased_input", True) is False else table
    return None


def _holder(encoder: nn.Module) -> nn.Module:
    """The module that has the table as an attribute; DeBERTa has one that its attention uses relatively."""
    table = _table(encoder)
    if table is None or any(getattr(settings, "relative_attention", False) for settings in _configurations(encoder)):
        kind = next((str(settings.model_type) for settings in _configurations(encoder)), type(encoder).__name__)
        raise ModelError(f"positions: {kind} has no table of learned absolute positions; BERT and RoBERTa have one")
    return next(module for module in encoder.modules() if getattr(module, _TABLE, None) is table)


def _configurations(encoder: nn.Module) -> list[Any]:
    """The distinct configurations of the ``transformers`` models inside."""
    configurations = [getattr(module, "config", None) for module in encoder.modules()]
    return list({id(config): config for config in configurations if hasattr(config, "model_type")}.values())
