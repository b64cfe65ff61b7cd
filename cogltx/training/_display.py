"""Progress of a training: a bar with loss and time left, or one line per minute, and the table at the end."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import numpy as np

from cogltx._progress import progress

_FIRST_ESTIMATE = 10  # steps, or seconds, before the first estimate
_LINE_SECONDS, _TICK_SECONDS = 60.0, 1.0  # between lines where there is no terminal; between redrawings of the bar
_SHORT = 30.0  # seconds; a shorter training is not announced
_N_AVERAGED = 20  # recent losses that are shown
_FORMAT, _WITHOUT_SHARE = "{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}", "{desc} … {elapsed}"


class Estimate:
    """Time left, from the work that is left and the pace of what was done.

    Args:
        work: for each kind of work, how many units there are and a guess of the cost of each, in any unit.

    >>> estimate = Estimate({"steps": (10, 3.0), "validation": (5, 1.0)})
    >>> estimate.seconds_left is None
    True
    >>> estimate.add("steps", 2, seconds=6.0)
    >>> estimate.seconds_left, estimate.share
    (29.0, 0.17...)
    """

    def __init__(self, work: Mapping[str, tuple[int, float]]) -> None:
        self.left = {kind: count for kind, (count, _) in work.items()}
        self.costs = {kind: cost for kind, (_, cost) in work.items()}
        self.total = sum(count * cost for count, cost in work.values()) or 1.0
        self.measured: dict[str, tuple[int, float]] = {}  # units and seconds

    def add(self, kind: str, count: int, seconds: float) -> None:
        """Note that some units took so many seconds."""
        self.left[kind] = max(0, self.left.get(kind, 0) - count)
        before = self.measured.get(kind, (0, 0.0))
        self.measured[kind] = before[0] + count, before[1] + seconds

    @property
    def share(self) -> float:
        """Share of the guessed cost that is done."""
        return 1 - sum(count * self.costs.get(kind, 0.0) for kind, count in self.left.items()) / self.total

    @property
    def n_done(self) -> int:
        """Units that were done."""
        return sum(count for count, _ in self.measured.values())

    @property
    def seconds(self) -> float:
        """Seconds that were measured."""
        return sum(seconds for _, seconds in self.measured.values())

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes; None before anything was measured."""
        cost = sum(count * self.costs.get(kind, 0.0) for kind, (count, _) in self.measured.items())
        if not cost:
            return None
        pace = {kind: self.seconds / cost * one for kind, one in self.costs.items()}
        pace |= {kind: seconds / count for kind, (count, seconds) in self.measured.items() if count}
        return sum(count * pace.get(kind, 0.0) for kind, count in self.left.items())


class Display:
    """Shows a training as it runs: on a terminal or in a notebook a bar, elsewhere a line a minute.

    Args:
        report: receives lines.
        estimate: the work that is left; without any, the bar shows the title and the time that passed.
        title: what is done first.
        shown: False shows nothing.
    """

    def __init__(
        self, report: Callable[[str], None], estimate: Estimate, title: str = "", *, shown: bool = True
    ) -> None:
        self.estimate, self._report, self._title, self._losses = estimate, report, title, list[float]()
        self._since = self._said = monotonic()
        self._announced = False
        form = _FORMAT if estimate.left else _WITHOUT_SHARE
        self._bar: Any = progress((), title, total=1.0, bar_format=form, shown=shown)
        self._ended = threading.Event()
        if not self._bar.disable:
            threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            self._bar.refresh()

    def begin(self, title: str) -> None:
        """Begin a phase; the time since the last one does not count for its pace."""
        self._title, self._since, self._losses = title, monotonic(), []
        self._bar.set_description_str(title)

    def advance(self, kind: str, count: int = 1, loss: float | None = None) -> None:
        """Show that some units of a kind of work are done."""
        now, estimate = monotonic(), self.estimate
        estimate.add(kind, count, now - self._since)
        self._since = now
        if loss is not None:
            self._losses.append(loss)
        left = estimate.seconds_left
        is_known = left is not None and (estimate.n_done >= _FIRST_ESTIMATE or estimate.seconds >= _FIRST_ESTIMATE)
        words = [f"loss {np.mean(self._losses[-_N_AVERAGED:]):.3f}"] if self._losses else []
        words += [f"{duration(left)} left"] if left is not None and is_known else []
        self._bar.n = estimate.share
        self._bar.set_postfix_str(", ".join(words))
        if left is not None and is_known and not self._announced:
            self._announced = True
            if left >= _SHORT:
                self.report(f"{duration(left)} on this machine ({os.cpu_count()} cores)")
        if self._bar.disable and now - self._said >= _LINE_SECONDS:
            self.report(", ".join([f"{self._title}: {estimate.share:.0%} of the training", *words]))

    def report(self, line: str) -> None:
        """Show a line above the bar."""
        self._said = monotonic()
        self._bar.clear()
        self._report(line)
        self._bar.refresh()

    def close(self) -> None:
        """Remove the bar."""
        self._ended.set()
        self._bar.close()


def duration(seconds: float) -> str:
    """Write a duration as people say it.

    >>> duration(40), duration(100), duration(840), duration(9000)
    ('about 40 s', 'about 2 minutes', 'about 14 minutes', 'about 2.5 hours')
    """
    if seconds < 60:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s'[: minutes != 1]}"
    return f"about {seconds / 3600:.1f} hours"


def spoken(name: str) -> str:
    """Write the name of a metric as words.

    >>> spoken("exact_match")
    'exact match'
    """
    return name.replace("_", " ")


def table(rows: Sequence[tuple[str, Mapping[str, float]]], first: str) -> str:
    """Format figures as a table, with the metric ``first`` in the first column of numbers."""
    names = [first, *dict.fromkeys(name for _, figures in rows for name in figures if name != first)]
    cells = [["", *map(spoken, names)]]
    digits = {name: 3 if name.endswith("loss") else 1 for name in names}
    cells += [
        [title, *(f"{row[name]:.{digits[name]}f}" if name in row else "–" for name in names)] for title, row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells
    )
