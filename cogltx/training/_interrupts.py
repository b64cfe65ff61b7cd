"""Interrupts of a training (SIGINT, SIGTERM): the first ends it after the step in progress, a second at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from cogltx.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Notes an interrupt for the end of a step, which would leave a model that is neither old nor new.

    Attributes:
        wanted: number of its signal; 0 if there was none.
    """

    def __init__(self) -> None:
        self.wanted = 0

    @contextmanager
    def deferred(self, report: Callable[[str], None]) -> Iterator[None]:
        """Only note the first interrupt; outside the main thread, which receives the signals, nothing changes."""
        self.wanted = 0
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.wanted:
                raise Interrupted(signal=number)
            self.wanted = number
            with suppress(RuntimeError):  # the interrupted code may be writing to the same stream
                report("stopping after this step; interrupt again to stop at once")

        before = {number: signal.signal(number, note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
