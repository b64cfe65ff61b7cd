"""Pictures by matplotlib: the file, and curves."""

import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from cogltx._files import write_file
from cogltx.errors import ConfigError


class Picture:
    """A picture file and the axes to draw on.

    Args:
        path: its suffix selects the format.

    Raises:
        ConfigError: matplotlib is not installed or does not support the format, or the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError('pictures need matplotlib; pip install "cogltx[plots]"') from error
        self._figure, self._path, self._format = Figure(layout="constrained"), path, path.suffix.lower()[1:]
        if self._format not in self._figure.canvas.get_supported_filetypes():
            raise ConfigError(f"{path}: {path.suffix!r} is not a picture format; use .png or .svg")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise ConfigError(f"{path}: cannot write a picture there: {error.strerror}") from error
        self.axes = self._figure.subplots()

    def draw_curves(
        self, curves: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str, logarithmic: bool = False
    ) -> None:
        """Draw and save curves, the points of each by its name; ``logarithmic`` scales both axes by powers of two."""
        for name, points in curves.items():
            self.axes.plot(*zip(*points, strict=True), marker=".", label=name)
        self.axes.set_xlabel(across)
        self.axes.set_ylabel(up)
        if logarithmic:
            self.axes.loglog(base=2)
            self.axes.xaxis.set_major_formatter("{x:,g}")
            self.axes.yaxis.set_major_formatter("{x:,g}")
        self.axes.grid(alpha=0.3)
        self.axes.legend()
        self.save(7, 4.5)

    def save(self, width: float, height: float) -> None:
        """Write the file atomically; sizes in inches."""
        self._figure.set_size_inches(width, height)
        content = BytesIO()
        self._figure.savefig(content, dpi=150, format=self._format)
        write_file(self._path, content.getvalue())
