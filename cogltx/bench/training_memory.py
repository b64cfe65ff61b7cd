"""The largest batch that an encoder with full attention trains with in a memory budget, per sequence length.

Each measurement is two steps of masked-LM training on random tokens in a new process. Memory grows linearly with the
sequences per batch, so two measurements determine the largest batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.bench.process import call, peak_bytes
from cogltx.bench.tables import table
from cogltx.blocks import load_tokenizer
from cogltx.encoding.encoder import Batch, Precision, padded_length
from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.training.masked_lm import Masking, load_masked, summed_loss
from cogltx.training.optimizer import Optimizer, OptimizerConfig

_GIBIBYTE, _MEBIBYTE = 1 << 30, 1 << 20
_STEPS = 2  # the optimizer's state is in memory from the second step on


@dataclass(frozen=True)
class Room:
    """Memory in bytes for sequences of one length, with or without gradient checkpointing.

    Attributes:
        length: tokens per sequence.
        checkpointing: whether gradients are checkpointed.
        device: type of the device.
        batches: the two measured numbers of sequences.
        peaks: the peak of each.
        largest: most sequences that fit the budget; None if the peaks do not determine it.
        checked: the measured peak with `largest` sequences.
    """

    length: int
    checkpointing: bool
    device: str
    batches: tuple[int, int]
    peaks: tuple[int, int]
    largest: int | None = None
    checked: int | None = None

    @property
    def row_bytes(self) -> float:
        """Memory per sequence."""
        return (self.peaks[1] - self.peaks[0]) / (self.batches[1] - self.batches[0])

    @property
    def fixed_bytes(self) -> float:
        """Memory of libraries, weights, gradients and the optimizer."""
        return self.peaks[0] - self.batches[0] * self.row_bytes

    def within(self, budget: float) -> "Room":
        """Set the largest batch for a budget in bytes."""
        if self.row_bytes <= 0:
            return self
        return replace(self, largest=max(0, int((budget - self.fixed_bytes) // self.row_bytes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "row_bytes": self.row_bytes, "fixed_bytes": self.fixed_bytes}

    @staticmethod
    def table(rooms: Sequence["Room"], budget: float) -> str:
        """Format measurements for a budget in GiB as text."""
        largest = f"largest batch in {budget:g} GiB"
        lines = [["tokens", "checkpointing", "fixed MiB", "MiB per sequence", largest, "peak with it, MiB"]]
        for room in rooms:
            lines.append([
                f"{room.length:,}",
                "yes" if room.checkpointing else "no",
                f"{room.fixed_bytes / _MEBIBYTE:,.0f}",
                f"{room.row_bytes / _MEBIBYTE:,.1f}",
                "?" if room.largest is None else str(room.largest),
                "–" if room.checked is None else f"{room.checked / _MEBIBYTE:,.0f}",
            ])  # fmt: skip
        return table(lines)


def measure(
    encoder: str,
    lengths: Sequence[int],
    budget: float,
    *,
    batches: Sequence[int] = (2, 6),
    check: bool = False,
    precision: str = "auto",
) -> list[Room]:
    """Measure the largest batch per length, without and with gradient checkpointing.

    Positions of the encoder are extended hierarchically for longer sequences. `budget` is memory in GiB, `batches` are
    the two numbers of sequences to measure. With `check`, train with the largest batch too, and lower it until it fits.

    Raises:
        ConfigError: `batches` are not two ascending numbers.
        ModelError: a process failed.
    """
    if len(batches) != 2 or batches[0] >= batches[1]:
        raise ConfigError(f"--batches: {', '.join(map(str, batches))} are not two ascending numbers")
    pairs = [(length, checkpointing) for length in lengths for checkpointing in (False, True)]
    rooms = []
    for length, checkpointing in tqdm(pairs, desc="memory", unit=" lengths", disable=None, leave=False):
        peaks = [_peak(encoder, length, rows, checkpointing, precision) for rows in batches]
        room = Room(
            length, checkpointing, peaks[0]["device"], (batches[0], batches[1]),
            (peaks[0]["peak_bytes"], peaks[1]["peak_bytes"]),
        ).within(budget * _GIBIBYTE)  # fmt: skip
        rooms.append(_checked(room, budget * _GIBIBYTE, encoder, precision) if check else room)
    return rooms


def _checked(room: Room, budget: float, encoder: str, precision: str) -> Room:
    """Lower the largest batch until its measured peak fits."""
    for rows in range(room.largest or 0, 0, -1):
        peak = _peak(encoder, room.length, rows, room.checkpointing, precision)["peak_bytes"]
        if peak <= budget:
            return replace(room, largest=rows, checked=peak)
    return room if room.largest is None else replace(room, largest=0)


def _peak(encoder: str, length: int, rows: int, checkpointing: bool, precision: str) -> dict[str, Any]:
    arguments = {"encoder": encoder, "length": length, "rows": rows, "checkpointing": checkpointing}
    what = f"memory with {rows} sequences of {length} tokens"
    result = call("cogltx.bench.training_memory:_train", arguments | {"precision": precision}, what)
    assert result is not None, "there is no timeout"
    return result


def _train(encoder: str, length: int, rows: int, checkpointing: bool, precision: Any) -> dict[str, Any]:
    """Train two steps in this process, and return the device and the peak in bytes."""
    config = EncoderConfig(name=encoder, precision=precision, freeze_embeddings=False)
    positions = load_masked(config).encoder.positions
    if positions is not None and positions < length:
        config = config.model_copy(update={"positions": PositionsConfig(length=length)})
    model, arithmetic = load_masked(config), Precision.of(config)
    if checkpointing:
        model.checkpoint_gradients()
    device = arithmetic.device.type
    pass_tokens = rows * padded_length(length)
    optimizer = OptimizerConfig(learning_rate=1e-5)
    learner = Optimizer("memory", model, optimizer, _STEPS, arithmetic, pass_tokens, 0)
    tokenizer, rng = load_tokenizer(encoder), np.random.default_rng(0)
    masking = Masking(tokenizer)
    masked = [masking.apply(rng.integers(len(tokenizer), size=length), rng) for _ in range(rows)]

    def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
        return summed_loss(model, batch, [masked[index] for index in group])

    with suppress(OSError):  # count from the present memory, where the system can (Linux)
        Path("/proc/self/clear_refs").write_text("5")
    for _ in range(_STEPS):
        learner.learn([row.window for row in masked], loss, sum(len(row.places) for row in masked))
    return {"device": device, "peak_bytes": peak_bytes(device)}
