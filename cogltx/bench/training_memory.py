"""The largest batch that an encoder with full attention trains with in a memory budget, per sequence length.

Each measurement is two steps of masked-LM training on random tokens in a new process. Memory grows linearly with the
sequences per batch, so two measurements determine the largest batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cogltx.bench.process import call, peak_bytes
from cogltx.bench.tables import table
from cogltx.blocks import load_tokenizer
from cogltx.encoding.encoder import BatchRunner, Precision, padded_length
from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.progress import progress
from cogltx.training.masked_lm import learn_masked, load_masked
from cogltx.training.optimizer import Optimizer, OptimizerConfig

_GIBIBYTE, _MEBIBYTE = 1 << 30, 1 << 20
_MASKED = 0.15  # share of the tokens to predict
_STEPS = 2  # the optimizer's state is in memory from the second step on


def measure(
    encoder: str,
    lengths: Sequence[int],
    budget: float,
    *,
    batches: Sequence[int] = (2, 6),
    check: bool = False,
    precision: str = "auto",
) -> tuple[list[dict[str, Any]], str]:
    """Measure the largest batch per length, without and with gradient checkpointing.

    Positions of the encoder are extended hierarchically for longer sequences. `budget` is memory in GiB, `batches` are
    the two numbers of sequences to measure. With `check`, train with the largest batch too, and lower it until it fits.

    Returns:
        Measurements in bytes, and their table: the `peaks` of both batches, `row_bytes` per sequence, `fixed_bytes` of
        libraries, weights, gradients and optimizer, the `largest` batch that fits (None if the peaks do not determine
        it) and, if `checked`, its peak.

    Raises:
        ConfigError: `batches` are not two ascending numbers.
        ModelError: a process failed.
    """
    if len(batches) != 2 or batches[0] >= batches[1]:
        raise ConfigError(f"--batches: {', '.join(map(str, batches))} are not two ascending numbers")
    pairs = [(length, checkpointing) for length in lengths for checkpointing in (False, True)]
    results = []
    for length, checkpointing in progress(pairs, "memory", unit="lengths"):
        few, many = (_peak(encoder, length, rows, checkpointing, precision) for rows in batches)
        row_bytes = (many["peak_bytes"] - few["peak_bytes"]) / (batches[1] - batches[0])
        fixed_bytes = few["peak_bytes"] - batches[0] * row_bytes
        available = budget * _GIBIBYTE - fixed_bytes
        largest = max(0, int(available // row_bytes)) if row_bytes > 0 else None
        checked = None
        while check and largest:
            checked = _peak(encoder, length, largest, checkpointing, precision)["peak_bytes"]
            if checked <= budget * _GIBIBYTE:
                break
            largest, checked = largest - 1, None
        results.append({
            "length": length, "checkpointing": checkpointing, "device": few["device"], "batches": list(batches),
            "peaks": [few["peak_bytes"], many["peak_bytes"]], "largest": largest, "checked": checked,
            "row_bytes": row_bytes, "fixed_bytes": fixed_bytes,
        })  # fmt: skip
    return results, _table(results, budget)


def _table(results: Sequence[dict[str, Any]], budget: float) -> str:
    largest = f"largest batch in {budget:g} GiB"
    lines = [["tokens", "checkpointing", "fixed MiB", "MiB per sequence", largest, "peak with it, MiB"]]
    for one in results:
        lines.append([
            f"{one['length']:,}",
            "yes" if one["checkpointing"] else "no",
            f"{one['fixed_bytes'] / _MEBIBYTE:,.0f}",
            f"{one['row_bytes'] / _MEBIBYTE:,.1f}",
            "?" if one["largest"] is None else str(one["largest"]),
            "–" if one["checked"] is None else f"{one['checked'] / _MEBIBYTE:,.0f}",
        ])  # fmt: skip
    return table(lines)


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
    learner = Optimizer("memory", model, optimizer, _STEPS, BatchRunner(arithmetic, pass_tokens, 0))
    rng = np.random.default_rng(0)
    token_ids = rng.integers(len(load_tokenizer(encoder)), size=(rows, length), dtype=np.int32)
    labels = np.where(rng.random(token_ids.shape) < _MASKED, token_ids, -100)
    with suppress(OSError):  # count from the present memory, where the system can (Linux)
        Path("/proc/self/clear_refs").write_text("5")
    for _ in range(_STEPS):
        learn_masked(learner, list(zip(token_ids, labels, strict=True)))
    return {"device": device, "peak_bytes": peak_bytes(device)}
