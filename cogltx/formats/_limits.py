"""Limits of time and memory for reading one file."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cogltx.errors import ConfigError

_MEGABYTE = 1_000_000
_LEAST_SECONDS, _SECONDS_PER_MEGABYTE, _MOST_SECONDS = 1.5, 40.0, 600.0
_LEAST_MEGABYTES, _MEGABYTES_PER_MEGABYTE, _MOST_MEGABYTES = 250.0, 50.0, 2000.0
_NEARLY = 0.9
on_more_time: Callable[[float], None] = lambda seconds: None  # noqa: E731
"""Called by ``extend`` with the seconds that it adds."""


@dataclass(frozen=True)
class Limits:
    """Limits of reading one file: seconds of processor time, and megabytes of memory."""

    seconds: float
    megabytes: float

    @classmethod
    def of(cls, size: int, seconds: float | None = None, megabytes: float | None = None) -> Self:
        """Return the given limits; by default, those of a file of ``size`` bytes. Raises ConfigError below zero."""
        for name, limit in (("seconds", seconds), ("megabytes", megabytes)):
            if limit is not None and not limit > 0:
                raise ConfigError(f"{name} is {limit:g}; it must be above 0")
        file = size / _MEGABYTE
        default_seconds = min(max(_LEAST_SECONDS, _SECONDS_PER_MEGABYTE * file), _MOST_SECONDS)
        default_megabytes = min(_LEAST_MEGABYTES + _MEGABYTES_PER_MEGABYTE * file, _MOST_MEGABYTES)
        return cls(seconds or default_seconds, megabytes or default_megabytes)

    @property
    def wall_seconds(self) -> float:
        """Limit of elapsed time: longer, for busy machines and slow disks."""
        return 5 * self.seconds + 5

    @property
    def expanded_bytes(self) -> int:
        """Limit of what a compressed file expands to: a third of the memory."""
        return int(self.megabytes * _MEGABYTE / 3)

    @property
    def too_long(self) -> str:
        """Message about a file that takes too long."""
        return f"reading it takes over {self.seconds:g} s; raise the limit with {_raised('seconds')}"

    @property
    def too_much(self) -> str:
        """Message about a file that needs too much memory."""
        return f"reading it needs over {self.megabytes:,.0f} MB of memory; raise the limit with {_raised('megabytes')}"

    @property
    def too_large(self) -> str:
        """Message about a file that expands to too much."""
        size, memory = f"{self.megabytes / 3:,.0f} MB", f"{self.megabytes:,.0f} MB of memory"
        return f"it expands to over {size}, a third of the limit of {memory}; raise it with {_raised('megabytes')}"

    def crashed(self, cause: str) -> str:
        """Message about a file that ends the process that reads it."""
        return f"reading it ends in a crash ({cause}), maybe for lack of memory; {_raised('megabytes')} allows more"

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let the system end this process after the time, and raise MemoryError beyond the memory, where it can."""
        _set(self.seconds, self.wall_seconds, int(self.megabytes * _MEGABYTE))
        try:
            yield
        finally:
            _set(0.0, 0.0, None)

    def memory_is_used(self) -> bool:
        """Check whether this process has needed about as much memory as it may; False where that is not known."""
        return high_water_mark() > _NEARLY * self.megabytes * _MEGABYTE


def high_water_mark(process: str = "self") -> int:
    """Peak resident memory of a process in bytes, by ``/proc``; 0 on systems without it."""
    status = Path("/proc", process, "status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def extend(seconds: float, megabytes: float) -> None:
    """Raise the limits of the file that is being read, for slow work, such as recognising the text of a picture."""
    if os.name != "posix" or not signal.getitimer(signal.ITIMER_PROF)[0]:
        return
    import resource

    for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
        signal.setitimer(timer, signal.getitimer(timer)[0] + seconds)
    _limit_memory(resource.getrlimit(resource.RLIMIT_DATA)[0] + int(megabytes * _MEGABYTE))
    on_more_time(seconds)


def _raised(option: str) -> str:
    return f"--{option}, or read_document(…, {option}=…)"


def _set(seconds: float, wall_seconds: float, memory: int | None) -> None:
    if os.name == "posix":
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)
        _limit_memory(memory)


def _limit_memory(memory: int | None) -> None:
    """Limit the memory that this process may write to; None: no limit but that of its user."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = hard if memory is None else memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
