"""Plots with matplotlib: relevance per block and epoch, a confusion matrix, curves."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cogltx.errors import ConfigError

_SHOWN = 60  # characters of a block beside its row


def draw_relevance(
    path: Path, texts: Sequence[str], epochs: Sequence[int], scores: Float[np.ndarray, "blocks epochs"],
    labels: Float[np.ndarray, "blocks epochs"],
) -> None:  # fmt: skip
    """Draw the judge's score per block and epoch, with a dot where the block is labelled relevant (figure 4).

    Args:
        path: of the picture; its suffix selects the format.
        texts: of the blocks.
        epochs: their numbers.
        scores: in [0, 1]; NaN where the judge gave no score.
        labels: 1 where a block is relevant.

    Raises:
        ConfigError: matplotlib is not installed, or does not support the format.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(4 + 0.6 * len(epochs), 1 + 0.22 * len(texts)), layout="constrained")
    image = axes.imshow(scores, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    rows, columns = np.nonzero(labels)
    axes.scatter(columns, rows, color="tab:red", s=18, label="relevant")
    axes.set_xticks(range(len(epochs)), [str(epoch) for epoch in epochs])
    axes.set_yticks(range(len(texts)), [" ".join(text.split())[:_SHOWN] for text in texts], fontsize=7)
    axes.set_xlabel("epoch")
    figure.colorbar(image, label="score of the judge")
    _save(plt, figure, path)


def draw_confusion(path: Path, names: Sequence[str], counts: Int[np.ndarray, "gold predicted"]) -> None:
    """Draw a confusion matrix of labels.

    Raises:
        ConfigError: matplotlib is not installed, or does not support the format.
    """
    plt = _pyplot()
    size = 3 + 0.3 * len(names)
    figure, axes = plt.subplots(figsize=(size + 1, size), layout="constrained")
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(counts), strict=True):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=6, color=color)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    figure.colorbar(image, label="share of the gold label's texts")
    _save(plt, figure, path)


def draw_curves(
    path: Path, curves: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str, logarithmic: bool = False
) -> None:  # fmt: skip
    """Draw curves.

    Args:
        path: of the picture; its suffix selects the format.
        curves: the points of each curve, by its name.
        across: label of the horizontal axis.
        up: label of the vertical axis.
        logarithmic: scale both axes by powers of two.

    Raises:
        ConfigError: matplotlib is not installed, or does not support the format.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(alpha=0.3)
    axes.legend()
    _save(plt, figure, path)


def check_picture(path: Path) -> None:
    """Check that a picture of this name can be drawn.

    Raises:
        ConfigError: matplotlib is not installed or does not support the format, or the folder cannot be written.
    """
    known = _pyplot().matplotlib.backend_bases.FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise ConfigError(f"{path}: {path.suffix!r} is not a picture format; use .png or .svg")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot write a picture there: {error.strerror}") from error


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError('matplotlib is not installed, which draws pictures; pip install "cogltx[plots]"') from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(plt: Any, figure: Any, path: Path) -> None:
    check_picture(path)
    temporary = path.with_name(f".part.{path.name}")
    try:
        figure.savefig(temporary, dpi=150)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        plt.close(figure)
