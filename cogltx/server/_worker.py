"""A thread that reads for all requests; items that wait at the same time are read in one batch."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Thread
from typing import Generic, TypeVar

from more_itertools import constrained_batches

from cogltx.errors import CogltxError

_MOST = 32  # items in a batch
Item = TypeVar("Item")
Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full."""


class Worker(Generic[Item, Result]):
    """Runs ``read`` over batches of items in a thread, in the order of their arrival, and observes their lengths.

    The items of a batch have at most ``max_size`` together, unless there is only one.
    """

    def __init__(
        self,
        read: Callable[[Sequence[Item]], Sequence[Result]],
        queue_size: int,
        *,
        size: Callable[[Item], int],
        max_size: int,
        observe: Callable[[int], None] = lambda n_items: None,
    ) -> None:
        self._read, self._size, self._max_size, self._observe = read, size, max_size, observe
        self._queue: Queue[tuple[Item, Future[Result]] | None] = Queue(queue_size)
        self._thread = Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of items in the queue."""
        return self._queue.qsize()

    def submit(self, item: Item) -> "Future[Result]":
        """Queue an item; raises BusyError if the queue is full."""
        future: Future[Result] = Future()
        try:
            self._queue.put_nowait((item, future))
        except Full:
            raise BusyError from None
        return future

    def close(self) -> None:
        """Finish the queue, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[tuple[Item, Future[Result]] | None] = []
        while None not in waiting:
            waiting = [self._queue.get()]
            with suppress(Empty):
                while True:
                    waiting.append(self._queue.get_nowait())
            queued = [one for one in waiting if one is not None and one[1].set_running_or_notify_cancel()]
            for batch in constrained_batches(queued, self._max_size, _MOST, lambda one: self._size(one[0]), False):
                self._observe(len(batch))
                self._finish(batch)

    def _finish(self, batch: Sequence[tuple[Item, "Future[Result]"]]) -> None:
        """Read a batch; if an item of several is wrong, read them one by one."""
        try:
            results = self._read([item for item, _ in batch])
        except CogltxError as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
            else:
                for one in batch:
                    self._finish([one])
        except Exception as error:  # a defect: every request gets it, and the thread lives on
            for _, future in batch:
                future.set_exception(error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)
