"""Progress bars and the log: both go to standard error, and both are quiet above the level INFO."""

import logging
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tqdm.auto import tqdm

logger = logging.getLogger("cogltx")
Item = TypeVar("Item")
_MOST_LISTED = 5


def progress(
    iterable: Iterable[Item],
    title: str = "",
    *,
    unit: str = "it",
    total: float | None = None,
    initial: int = 0,
    delay: float = 0.0,
    shown: bool = True,
    bar_format: str | None = None,
) -> "tqdm[Item]":
    """Show a progress bar on a terminal or in a notebook, unless the log is quiet; the arguments are those of tqdm."""
    seen = False if _in_notebook() else None  # None: hidden unless on a terminal
    hidden = True if not shown or logger.level > logging.INFO else seen
    options: dict[str, Any] = {"desc": title, "unit": f" {unit}", "delay": delay, "disable": hidden, "leave": False}
    return tqdm(iterable, total=total, initial=initial, bar_format=bar_format, **(options | _size()))


def _size() -> dict[str, int]:
    """A size for a terminal that states none, on which tqdm would show nothing."""
    try:
        is_stated = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError, AttributeError):  # no terminal
        return {}
    return {} if is_stated else {"ncols": 80, "nrows": 24}


def _in_notebook() -> bool:
    """Whether the process is the kernel of a notebook, which shows a bar but is no terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


def first_of(head: str, items: Sequence[str], how: str = "") -> list[str]:
    """List the first five items under a line; ``how`` is the command that lists all. No item: the line alone."""
    lines = [f"{head}:" if items else head, *(f"  {item}" for item in items[:_MOST_LISTED])]
    n_more = len(items) - _MOST_LISTED
    return lines + [f"  … and {n_more:,} more" + (f"; {how} lists them all" if how else "")] * (n_more > 0)
