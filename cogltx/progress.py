"""Progress bars and the log: both go to standard error, and both are quiet above the level INFO.

The logger is ``cogltx`` of the standard library's ``logging``; ``cogltx --quiet`` and ``--verbose`` set its level.
"""

import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from tqdm.auto import tqdm

logger = logging.getLogger("cogltx")
Item = TypeVar("Item")


def progress(
    iterable: Iterable[Item],
    title: str = "",
    *,
    unit: str = "it",
    total: int | None = None,
    initial: int = 0,
    delay: float = 0.0,
    shown: bool = True,
) -> "tqdm[Item]":
    """Show a progress bar on a terminal, unless the log is quiet.

    Args:
        iterable: the items to count.
        title: stands before the bar.
        unit: what is counted.
        total: number of items, if ``iterable`` has no length.
        initial: number of items that are already done.
        delay: seconds before the bar appears.
        shown: False for work that is too small for a bar.
    """
    hidden = True if not shown or logger.level > logging.INFO else None  # None: hidden unless on a terminal
    options: dict[str, Any] = {"desc": title, "unit": f" {unit}", "delay": delay, "disable": hidden, "leave": False}
    return tqdm(iterable, total=total, initial=initial, **options)
