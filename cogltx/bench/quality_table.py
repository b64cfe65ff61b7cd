"""What readers were worth, side by side: a row each, with the spread over seeds, as data and as a table in Markdown.

Plain data; knows nothing of how it was measured.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cogltx.tasks.metrics import Interval


@dataclass(frozen=True)
class Measured:
    """One row for one seed.

    Attributes:
        metrics: in percent.
        train_seconds: of the training; None where another row's model is used, or the training was interrupted.
        train_bytes: the most memory that the training held.
        seconds: of the measurement, loading included; None where it was interrupted.
        peak_bytes: the most memory that the measurement held.
    """

    metrics: dict[str, float]
    train_seconds: float | None
    train_bytes: int | None
    seconds: float | None
    peak_bytes: int


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: of the row.
        runs: one a seed.
        difference: to the first row in the compared metric, in points, with its 95 % interval over the examples (paired
            bootstrap; of each example the mean over the seeds); None for the first row.
        commands: that repeat the row with the first seed.
    """

    name: str
    runs: tuple[Measured, ...]
    difference: Interval | None
    commands: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data for JSON."""
        return asdict(self)


def markdown(rows: Sequence[Row], metric: str) -> str:
    """The table in Markdown: means over the seeds, with their spread (half the range) where there are several."""
    metrics = list(dict.fromkeys(key for row in rows for one in row.runs for key in one.metrics))
    heads = ["", *metrics, f"{metric}, to the first [95 %]", "training s", "s", "MiB"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for row in rows:
        cells = [row.name, *(_spread([one.metrics.get(key) for one in row.runs]) for key in metrics)]
        cells.append(_difference(row.difference))
        cells += [
            _spread([one.train_seconds for one in row.runs], digits=0),
            _spread([one.seconds for one in row.runs], digits=0),
            f"{max(one.peak_bytes for one in row.runs) / 2**20:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    commands = [f"    {command}" for row in rows for command in row.commands]
    return "\n".join([*lines, "", "Each row by its commands, with the first seed:", "", *commands]) + "\n"


def _spread(values: Sequence[float | None], digits: int = 1) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.fmean(known):.{digits}f}"
    return f"{mean} ± {(max(known) - min(known)) / 2:.{digits}f}" if len(known) > 1 else mean


def _difference(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    mean, low, high = (100 * value for value in (interval.mean_difference, interval.low, interval.high))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
