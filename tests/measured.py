"""A measured command in this process: a new one takes longer to import than to work."""

import io
import time
from collections.abc import Sequence
from contextlib import redirect_stdout

from command_line import invoke

from cogltx.bench._process import high_water_mark


def in_this_process(arguments: Sequence[str]) -> tuple[str, float, int]:
    """Like ``run_command``."""
    printed, started = io.StringIO(), time.perf_counter()
    with redirect_stdout(printed):
        assert invoke(*arguments) == 0, arguments
    return printed.getvalue(), time.perf_counter() - started, high_water_mark()
