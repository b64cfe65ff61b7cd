"""What training an encoder with full attention needs in memory: the largest batch that fits a budget, by length.

Each measurement is masked-LM training, two steps of the optimiser on rows of random tokens, in a process of its own:
``python -m cogltx.bench.training_memory TOKENS ROWS`` is that process, and prints a line of JSON. On a GPU the device's
own count is taken, elsewhere the resident set. Memory grows by the same amount with every row, so two measurements
tell the largest batch. Knows nothing of speed (see ``cost``) or of reading long documents (see ``memory``).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tqdm.auto import tqdm

from cogltx.bench.process import forget_peak, in_new_process, peak_bytes
from cogltx.errors import CogltxError, ConfigError

BATCHES = (2, 6)
_GIGABYTE = 1 << 30
_MEGABYTE = 1 << 20
_STEPS = 2  # the second finds the optimiser's state in memory


@dataclass(frozen=True)
class Room:
    """One row: rows of one length, with or without gradient checkpointing; memory in bytes.

    Attributes:
        length: tokens in a row.
        checkpointing: whether each layer is computed twice.
        device: where.
        batches: the two numbers of rows that were measured.
        peaks: the peak of each.
        largest: the most rows that fit the budget; None where the peaks do not tell.
        checked: the peak with so many rows, if it was measured.
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
        """What one row more takes."""
        return (self.peaks[1] - self.peaks[0]) / (self.batches[1] - self.batches[0])

    @property
    def fixed_bytes(self) -> float:
        """What libraries, weights, gradients and the optimiser take."""
        return self.peaks[0] - self.batches[0] * self.row_bytes

    def within(self, budget: float) -> "Room":
        """With the largest batch that fits so many bytes."""
        if self.row_bytes <= 0:
            return self
        return replace(self, largest=max(0, int((budget - self.fixed_bytes) // self.row_bytes)))

    def to_dict(self) -> dict[str, Any]:
        """All of the above, for JSON."""
        return {**asdict(self), "row_bytes": self.row_bytes, "fixed_bytes": self.fixed_bytes}


def table(rooms: Sequence[Room], budget: float) -> str:
    """The figures as text; MiB, and the largest batch for a budget in GiB."""
    lines = [f"tokens  checkpointing  fixed MiB  MiB a row  largest batch in {budget:g} GiB  peak with it, MiB"]
    for room in rooms:
        sizes = f"{room.fixed_bytes / _MEGABYTE:>9.0f}  {room.row_bytes / _MEGABYTE:>9.1f}"
        largest = "?" if room.largest is None else str(room.largest)
        checked = "" if room.checked is None else f"{room.checked / _MEGABYTE:.0f}"
        most = f"{largest:>{len(f'largest batch in {budget:g} GiB')}}  {checked:>17}"
        lines.append(f"{room.length:>6}  {'yes' if room.checkpointing else 'no':>13}  {sizes}  {most}")
    return "\n".join(lines)


def measure(
    encoder: str,
    lengths: Sequence[int],
    budget: float,
    *,
    batches: Sequence[int] = BATCHES,
    check: bool = False,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
) -> list[Room]:
    """Finds the largest batch of each length, without and with gradient checkpointing.

    Args:
        encoder: as in ``EncoderConfig.name``; its positions go on hierarchically where rows are longer.
        lengths: tokens in a row.
        budget: memory in GiB.
        batches: two numbers of rows, ascending.
        check: train with the largest batch too, and lower it until it fits.
        precision: as in ``EncoderConfig.precision``.

    Raises:
        ConfigError: ``batches`` are not two, ascending.
        ModelError: a process failed; its last words.
    """
    if len(batches) != 2 or batches[0] >= batches[1]:
        raise ConfigError(f"batches: expected two ascending numbers, got {', '.join(map(str, batches))}")
    wanted = [(length, checkpointing) for length in lengths for checkpointing in (False, True)]
    rooms = []
    for length, checkpointing in tqdm(wanted, desc="memory", unit=" rows", disable=None, leave=False):
        found = [_peak(encoder, length, rows, checkpointing, precision) for rows in batches]
        peaks = (found[0]["peak_bytes"], found[1]["peak_bytes"])
        room = Room(length, checkpointing, found[0]["device"], (batches[0], batches[1]), peaks)
        room = room.within(budget * _GIGABYTE)
        rooms.append(_checked(room, budget * _GIGABYTE, encoder, precision) if check else room)
    return rooms


def _checked(room: Room, budget: float, encoder: str, precision: str) -> Room:
    """With the largest batch lowered until it fits, and its peak."""
    for rows in range(room.largest or 0, 0, -1):
        peak = _peak(encoder, room.length, rows, room.checkpointing, precision)["peak_bytes"]
        if peak <= budget:
            return replace(room, largest=rows, checked=peak)
    return room if room.largest is None else replace(room, largest=0)


def _peak(encoder: str, length: int, rows: int, checkpointing: bool, precision: str) -> dict[str, Any]:
    arguments = [str(length), str(rows), "--encoder", encoder, "--precision", precision]
    arguments += ["--checkpointing"] if checkpointing else []
    found = in_new_process(__name__, arguments, f"memory with {rows} rows of {length} tokens: expected a peak")
    assert found is not None, "it may take any time"
    return found


def train(
    length: int,
    rows: int,
    *,
    encoder: str,
    checkpointing: bool,
    precision: Literal["auto", "float32", "bfloat16"],
) -> dict[str, Any]:
    """Trains for two steps in this process; the device and the peak in bytes."""
    import numpy as np
    import torch
    from accelerate import Accelerator
    from torch import Tensor, nn

    from cogltx.blocks import load_tokenizer
    from cogltx.encoding.encoder import Batch, Precision, padded_length
    from cogltx.encoding.positions import PositionsConfig
    from cogltx.encoding.pretrained import EncoderConfig
    from cogltx.training.masked_model import load_masked, summed_loss
    from cogltx.training.masking import Masking
    from cogltx.training.optimizer import Learner, LearnerConfig

    config = EncoderConfig(name=encoder, precision=precision, freeze_embeddings=False)
    own = load_masked(config).encoder.positions
    if own is not None and own < length:
        config = config.model_copy(update={"positions": PositionsConfig(length=length)})
    model, where = load_masked(config), Precision.of(config)
    if checkpointing:
        model.checkpoint_gradients()
    accelerator = Accelerator(cpu=where.device.type == "cpu", mixed_precision="no")
    pass_tokens = rows * padded_length(length)
    learner = Learner("memory", model, LearnerConfig(learning_rate=1e-5), _STEPS, accelerator, where, pass_tokens, 0)
    masking, rng = Masking(load_tokenizer(encoder)), np.random.default_rng(0)
    masked = [masking.apply(rng.choice(masking.ordinary, size=length), rng) for _ in range(rows)]

    def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
        return summed_loss(model, batch, [masked[index] for index in group])

    forget_peak()
    for _ in range(_STEPS):
        learner.learn([row.window for row in masked], loss, sum(len(row.places) for row in masked))
    peak = torch.cuda.max_memory_reserved() if where.device.type == "cuda" else peak_bytes()
    return {"device": where.device.type, "peak_bytes": peak}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures this process; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cogltx.bench.training_memory", description=__doc__)
    parser.add_argument("length", type=int, metavar="TOKENS")
    parser.add_argument("rows", type=int, metavar="ROWS")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--checkpointing", action="store_true")
    options = parser.parse_args(arguments)
    try:
        found = train(
            options.length, options.rows, encoder=options.encoder, checkpointing=options.checkpointing,
            precision=options.precision,
        )  # fmt: skip
    except CogltxError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
