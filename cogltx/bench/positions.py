"""Ways in which positions go on, side by side: masked accuracy over the steps of masked-LM training.

All start from one encoder with its trained masked-LM head. Each curve is a run of ``cogltx mlm`` in a folder of its
own, so a comparison that was interrupted goes on. The curve at the encoder's own length reads as many tokens a step.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cogltx.cli.plots import draw_curves
from cogltx.encoding.positions import PositionsConfig, check_extension
from cogltx.errors import ConfigError
from cogltx.files import read_json, write_file, write_json
from cogltx.training.masked import FIGURES, MaskedConfig, Measured
from cogltx.training.masked_model import load_masked
from cogltx.training.run import check_folder, mlm

ALPHAS = (0.2, 0.4, 0.6)


@dataclass(frozen=True)
class Curve:
    """One way, and what came of it.

    Attributes:
        name: of the way, and of its run's folder.
        length: tokens in a row.
        history: measurements, the first before training.
    """

    name: str
    length: int
    history: tuple[Measured, ...]


@dataclass(frozen=True)
class Comparison:
    """All curves of one encoder."""

    encoder: str
    curves: tuple[Curve, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        return asdict(self)

    def table(self) -> str:
        """Masked accuracy in percent by steps of training, in Markdown."""
        steps = [one.step for one in self.curves[0].history]
        lines = [f"| positions | length | {' | '.join(f'step {step}' for step in steps)} |"]
        lines.append("|---" * (2 + len(steps)) + "|")
        for curve in self.curves:
            shown = " | ".join(f"{one.accuracy:.1f}" for one in curve.history)
            lines.append(f"| {curve.name} | {curve.length} | {shown} |")
        return "\n".join(lines)


def compare(
    config: MaskedConfig, output: Path, alphas: Sequence[float] = ALPHAS, *, report: Callable[[str], None] = print
) -> Comparison:
    """Trains with each way, and writes ``positions.md``, ``positions.json`` and, with matplotlib, ``positions.png``.

    Args:
        config: names the encoder, the texts, the new length and the training; its own ``encoder.positions`` do not
            count.
        output: a folder, new or of the same comparison.
        alphas: of the hierarchical method.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: the encoder's checkpoint has no masked-LM head, ``length`` is not above its own, or the folder
            holds another comparison.
        CogltxError: as ``mlm``.
    """
    runs = ways(config, alphas)
    curves = tuple(_curve(name, run, output / name, report) for name, run in runs.items())
    found = Comparison(config.encoder.name, curves)
    write_json(output / "positions.json", found.to_dict())
    write_file(output / "positions.md", found.table() + "\n")
    points = {curve.name: [(float(one.step), one.accuracy) for one in curve.history] for curve in curves}
    try:
        draw_curves(output / "positions.png", points, across="steps of training", up="masked accuracy, %")
    except ConfigError as error:
        report(str(error))
    return found


def ways(config: MaskedConfig, alphas: Sequence[float]) -> dict[str, MaskedConfig]:
    """The run of each way by its name.

    Raises:
        ConfigError: as ``compare``.
    """
    bare = config.encoder.model_copy(update={"positions": None})
    start = load_masked(bare)
    own = start.encoder.positions
    if start.new_head:
        raise ConfigError(
            f"{bare.name}: expected an encoder with a trained masked-LM head, got one without; "
            "cogltx mlm trains one, at the encoder's own length"
        )
    if own is None or config.length <= own:
        raise ConfigError(f"length: expected more than the encoder's own positions, {own}, got {config.length}")
    chosen = {f"hierarchical-{alpha:g}": PositionsConfig(length=config.length, alpha=alpha) for alpha in alphas}
    chosen["tiled"] = PositionsConfig(length=config.length, method="tiled")
    chosen["random"] = PositionsConfig(length=config.length, method="random")
    for positions in chosen.values():
        check_extension(positions, own)
    runs = {
        name: config.model_copy(update={"encoder": bare.model_copy(update={"positions": positions})})
        for name, positions in chosen.items()
    }
    return runs | {f"own-{own}": _shortened(config.model_copy(update={"encoder": bare}), own)}


def _shortened(config: MaskedConfig, length: int) -> MaskedConfig:
    """The run with shorter rows, and as many more of them."""
    times = config.length / length

    def more(rows: int) -> int:
        return max(1, round(rows * times))

    data, training = config.data, config.training
    limit = None if data.validation_limit is None else more(data.validation_limit)
    data = data.model_copy(update={"validation_limit": limit, "held_out": more(data.held_out)})
    training = training.model_copy(update={"batch_size": more(training.batch_size)})
    return config.model_copy(update={"length": length, "data": data, "training": training})


def _curve(name: str, run: MaskedConfig, folder: Path, report: Callable[[str], None]) -> Curve:
    """The curve of a run, which is done, or gone on with, if it is not."""
    check_folder(run, folder, resume=True)
    if (folder / FIGURES).is_file():
        report(f"{name}: done before")
    else:
        mlm(run, folder, resume=True, report=lambda line: report(f"{name}: {line}"))
    history = read_json(folder / FIGURES)["history"]
    return Curve(name, run.length, tuple(Measured(**one) for one in history))
