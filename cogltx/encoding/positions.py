"""Extended positions: an encoder with learned absolute positions reads texts longer than its table.

Three ways to go on after the n trained rows p_1 … p_n:

    hierarchical   q_((i−1)n + j) = α u_i + (1 − α) u_j, where u_i = (p_i − α p_1) / (1 − α)
                   (Su Jianlin 2020): up to n² positions without a new parameter, the first n exactly the trained ones
    tiled          the n rows again and again
    random         new rows, drawn as the model draws its own

Knows encoders of ``transformers``; nothing about windows or documents.
"""

from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from cogltx.errors import ConfigError, ModelError, wrong_value

Method = Literal["hierarchical", "tiled", "random"]
Form = Literal["computed", "table"]
Model = TypeVar("Model", bound=nn.Module)

NOTE = "cogltx_positions"  # in an encoder's own configuration: how its positions are computed
_TABLE = "position_embeddings"
_BUFFERS = ("position_ids", "token_type_ids")


class PositionsConfig(BaseModel):
    """How an encoder's positions go on after its own.

    Attributes:
        length: how many positions there are then.
        method: how they go on.
        alpha: of ``hierarchical``: in (0, 1), not 0.5; below 0.5 is advised.
        form: ``computed`` from the trained rows, which stay the only parameters, or written out as a ``table``, whose
            rows are all trained and which plain ``transformers`` loads. New rows (``random``) are always a table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    length: int = Field(ge=1)
    method: Method = "hierarchical"
    alpha: float = 0.4
    form: Form = "computed"


class ComputedPositions(nn.Embedding):
    """Positions that are computed from the trained rows, which stay the only parameters.

    Args:
        table: the encoder's own; its rows are taken over, those for padding included.
        config: how the positions go on.
    """

    def __init__(self, table: nn.Embedding, config: PositionsConfig) -> None:
        super().__init__(table.num_embeddings, table.embedding_dim, padding_idx=table.padding_idx, _weight=table.weight)
        self.config = config
        self.offset = first_row(table)

    def forward(self, input: Int[Tensor, "*places"]) -> Float[Tensor, "*places width"]:
        """The vectors of positions, which are counted as the encoder's own table counts them."""
        place = (input - self.offset).clamp(min=0)
        rows = self.weight[self.offset :]
        vectors = going_on(rows, place, self.config)
        return torch.where((input < self.offset)[..., None], self.weight[input.clamp(max=self.offset)], vectors)


def extend_positions(
    encoder: Model, length: int, method: Method = "hierarchical", alpha: float = 0.4, form: Form = "computed"
) -> Model:
    """Lets an encoder read ``length`` tokens.

    Works for encoders with learned absolute positions: BERT, RoBERTa and XLM-R, ELECTRA, DistilBERT, ALBERT, MPNet.

    Args:
        encoder: a model of ``transformers``, with or without a head, or a ``cogltx`` model that holds one; changed in
            place.
        length: positions, at least the encoder's own n, at most n² for ``hierarchical``.
        method: how positions go on after the encoder's own.
        alpha: of ``hierarchical``.
        form: computed from the trained rows, or a table that plain ``transformers`` loads.

    Returns:
        the same encoder.

    Raises:
        ConfigError: an argument is wrong, or ``length`` or ``alpha`` out of range.
        ModelError: the encoder is no model, has no table of learned absolute positions, or one that is extended
            already.

    >>> from transformers import BertConfig, BertModel
    >>> tiny = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=16)
    >>> longer = extend_positions(BertModel(tiny), 64)
    >>> longer(torch.ones(1, 64, dtype=torch.long)).last_hidden_state.shape
    torch.Size([1, 64, 8])
    """
    if not isinstance(encoder, nn.Module):
        raise ModelError(f"positions: expected an encoder, got {type(encoder).__name__}")
    config = _config({"length": length, "method": method, "alpha": alpha, "form": form})
    holder = _holder(encoder)
    table = getattr(holder, _TABLE)
    if isinstance(table, ComputedPositions):
        raise ModelError(f"positions: expected an encoder with its own positions, got {table.config.length} extended")
    check(config, table.num_embeddings - first_row(table))
    if form == "table" or method == "random":
        extended: nn.Embedding = _written_out(table, config, encoder)
    else:
        extended = ComputedPositions(table, config)
    setattr(holder, _TABLE, extended)
    rows = length + first_row(table)
    _lengthen_buffers(holder, rows)
    for own in _configurations(encoder):
        if isinstance(extended, ComputedPositions):
            setattr(own, NOTE, config.model_dump())
        else:
            own.max_position_embeddings = rows
    return encoder


def restore_positions(encoder: Model) -> Model:
    """Extends the positions of an encoder whose configuration says how, after it was loaded."""
    for own in _configurations(encoder):
        note = getattr(own, NOTE, None)
        if note is not None and not isinstance(getattr(_holder(encoder), _TABLE), ComputedPositions):
            config = _config(note)
            return extend_positions(encoder, config.length, config.method, config.alpha, config.form)
    return encoder


def _config(values: object) -> PositionsConfig:
    try:
        return PositionsConfig.model_validate(values)
    except ValidationError as errors:
        error = errors.errors()[0]
        key = ".".join(("positions", *map(str, error["loc"])))
        raise ConfigError(f"{key}: {wrong_value(error)}") from errors


def n_positions(encoder: nn.Module) -> int | None:
    """How many positions an encoder has; None where they have no end or no table."""
    table = _table(encoder)
    if table is None:
        return None
    if isinstance(table, ComputedPositions):
        return table.config.length
    return table.num_embeddings - first_row(table)


def first_row(table: nn.Embedding) -> int:
    """The row of the first position: behind the one for padding, where there is one (RoBERTa's layout)."""
    return 0 if table.padding_idx is None else table.padding_idx + 1


def going_on(
    rows: Float[Tensor, "n width"], place: Int[Tensor, "*places"], config: PositionsConfig
) -> Float[Tensor, "*places width"]:
    """The vectors of places, counted from 0, beyond the n trained rows; the first n are the trained ones exactly."""
    n = len(rows)
    if config.method == "tiled":
        return rows[place % n]
    outer, inner = place // n, place % n
    alpha = config.alpha
    base = (rows - alpha * rows[0]) / (1 - alpha)
    composed = alpha * base[outer.clamp(max=n - 1)] + (1 - alpha) * base[inner]
    return torch.where((outer == 0)[..., None], rows[inner], composed)


def check(config: PositionsConfig, n: int) -> None:
    """Whether an encoder with n positions can be extended so.

    Raises:
        ConfigError: ``length`` or ``alpha`` is out of range.
    """
    if not 0 < config.alpha < 1 or config.alpha == 0.5:
        raise ConfigError(f"positions.alpha: expected a number between 0 and 1 other than 0.5, got {config.alpha}")
    if config.length < n:
        raise ConfigError(f"positions.length: expected at least {n}, the encoder's own positions, got {config.length}")
    if config.method == "hierarchical" and config.length > n * n:
        raise ConfigError(f"positions.length: expected at most {n * n}, the square of {n}, got {config.length}")


def _written_out(table: nn.Embedding, config: PositionsConfig, encoder: nn.Module) -> nn.Embedding:
    offset, n = first_row(table), table.num_embeddings - first_row(table)
    extended = nn.Embedding(
        config.length + offset, table.embedding_dim, padding_idx=table.padding_idx,
        device=table.weight.device, dtype=table.weight.dtype,
    )  # fmt: skip
    with torch.no_grad():
        if config.method == "random":
            spread = next((getattr(own, "initializer_range", 0.02) for own in _configurations(encoder)), 0.02)
            extended.weight.normal_(0.0, spread)
        else:
            places = torch.arange(config.length, device=table.weight.device)
            extended.weight[offset:] = going_on(table.weight[offset:], places, config)
        extended.weight[: offset + n] = table.weight
    extended.weight.requires_grad_(table.weight.requires_grad)
    return extended


def _table(encoder: nn.Module) -> nn.Embedding | None:
    """The table of learned absolute positions, if the encoder has one and counts on nothing else."""
    for own in _configurations(encoder):
        if getattr(own, "position_embedding_type", "absolute") != "absolute":
            return None
    for module in encoder.modules():
        table = getattr(module, _TABLE, None)
        if isinstance(table, nn.Embedding):
            return None if getattr(module, "position_biased_input", True) is False else table
    return None


def _holder(encoder: nn.Module) -> nn.Module:
    """The module whose attribute the table is."""
    table = _table(encoder)
    if table is None or _counts_relatively(encoder):
        kind = next((str(own.model_type) for own in _configurations(encoder)), type(encoder).__name__)
        raise ModelError(
            f"positions: expected an encoder with a table of learned absolute positions, such as BERT or RoBERTa, "
            f"got {kind}"
        )
    return next(module for module in encoder.modules() if getattr(module, _TABLE, None) is table)


def _counts_relatively(encoder: nn.Module) -> bool:
    """DeBERTa has a table that its attention reads relatively."""
    return any(bool(getattr(own, "relative_attention", False)) for own in _configurations(encoder))


def _configurations(encoder: nn.Module) -> list[Any]:
    """The configurations of the ``transformers`` models inside, each once."""
    found: dict[int, Any] = {}
    for module in encoder.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "model_type"):
            found[id(config)] = config
    return list(found.values())


def _lengthen_buffers(holder: nn.Module, rows: int) -> None:
    """Buffers with an entry a position: the numbers of positions, and types of all zeros."""
    for name in _BUFFERS:
        before = getattr(holder, name, None)
        if isinstance(before, Tensor):
            made = (
                torch.arange(rows, device=before.device)[None] if name == "position_ids" else before.new_zeros(1, rows)
            )
            holder.register_buffer(name, made, persistent=False)
