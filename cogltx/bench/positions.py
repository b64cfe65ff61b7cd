"""Compare methods of extending positions: masked accuracy over the steps of masked-LM training.

All methods start from one encoder with its trained masked-LM head. Each curve is a run of `cogltx mlm` in a folder of
its own; run the same command to resume. A last curve trains at the encoder's original length, on as many tokens per
step.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cogltx.bench.tables import table
from cogltx.cli.plots import Picture
from cogltx.encoding.positions import PositionsConfig
from cogltx.errors import ConfigError
from cogltx.files import read_json, write_file, write_json
from cogltx.training.masked_lm import FIGURES, MaskedConfig, load_masked, mlm
from cogltx.training.run import check_folder


def compare(
    config: MaskedConfig, output: Path, alphas: Sequence[float], *, report: Callable[[str], None] = print
) -> tuple[dict[str, Any], str]:
    """Train with each method; write `positions.md`, `positions.json` and, with matplotlib, `positions.png`.

    `config` has encoder, texts, new length and training; its `encoder.positions` are ignored. `alphas` are those of the
    hierarchical method. If `output` holds the same comparison, it is resumed. Returns the name, length (tokens per row)
    and history of each method's curve, and their table.

    Raises:
        ConfigError: the checkpoint has no masked-LM head, `length` is not above the encoder's positions, or the folder
            holds another comparison.
        CogltxError: see `mlm`.
    """
    curves = []
    for name, run in _runs(config, alphas).items():
        folder = output / name
        check_folder(run, folder, resume=True)
        if (folder / FIGURES).is_file():
            report(f"{name}: finished before")
        else:
            mlm(run, folder, resume=True, report=lambda line, name=name: report(f"{name}: {line}"))  # type: ignore[misc]
        curves.append({"name": name, "length": run.length, "history": read_json(folder / FIGURES)["history"]})
    comparison = {"encoder": config.encoder.name, "curves": curves}
    text = _table(curves)
    write_json(output / "positions.json", comparison)
    write_file(output / "positions.md", text + "\n")
    points = {curve["name"]: [(one["step"], one["accuracy"]) for one in curve["history"]] for curve in curves}
    try:
        Picture(output / "positions.png").draw_curves(points, across="steps of training", up="masked accuracy, %")
    except ConfigError as error:
        report(str(error))
    return comparison, text


def _table(curves: Sequence[dict[str, Any]]) -> str:
    """Masked accuracy in percent by training step, in Markdown."""
    rows = [["positions", "length", *(f"step {one['step']:,}" for one in curves[0]["history"])]]
    for curve in curves:
        accuracies = (f"{one['accuracy']:.1f}" for one in curve["history"])
        rows.append([curve["name"], f"{curve['length']:,}", *accuracies])
    return table(rows, markdown=True)


def _runs(config: MaskedConfig, alphas: Sequence[float]) -> dict[str, MaskedConfig]:
    """Configure the run of each method, by name."""
    original = config.encoder.model_copy(update={"positions": None})
    masked = load_masked(original)
    n_positions = masked.encoder.positions
    if masked.new_head:
        raise ConfigError(
            f"{original.name}: the encoder has no trained masked-LM head; train one with cogltx mlm, at the encoder's "
            "original length"
        )
    if n_positions is None or config.length <= n_positions:
        raise ConfigError(f"length: {config.length} is not above the {n_positions} positions of the encoder")
    methods = {f"hierarchical-{alpha:g}": PositionsConfig(length=config.length, alpha=alpha) for alpha in alphas}
    methods["tiled"] = PositionsConfig(length=config.length, method="tiled")
    methods["random"] = PositionsConfig(length=config.length, method="random")
    runs = {}
    for name, positions in methods.items():
        positions.check(n_positions)
        encoder = original.model_copy(update={"positions": positions})
        runs[name] = config.model_copy(update={"encoder": encoder})
    return runs | {f"own-{n_positions}": _shortened(config.model_copy(update={"encoder": original}), n_positions)}


def _shortened(config: MaskedConfig, length: int) -> MaskedConfig:
    """Shorten the rows of a run, and take as many more of them."""

    def more(rows: int) -> int:
        return max(1, round(rows * config.length / length))

    data, training = config.data, config.training
    limit = None if data.validation_limit is None else more(data.validation_limit)
    data = data.model_copy(update={"validation_limit": limit, "held_out": more(data.held_out)})
    training = training.model_copy(update={"batch_size": more(training.batch_size)})
    return config.model_copy(update={"length": length, "data": data, "training": training})
