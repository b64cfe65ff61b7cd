"""Threads that do the works of all requests, and their turns at the model.

A work is cut into batches of windows, and each batch is a turn. Short works that wait at the same time are done in one
batch. Short and long works get turns by turns, each lane in order of arrival; the background gets one where both are
empty, and every eighth.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, Event, Lock, Thread
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from more_itertools import constrained_batches

from cogltx.encoding._turns import TURN
from cogltx.errors import CogltxError
from cogltx.server._work import GivenUpError, Lane, TogetherWork, Work

_MOST = 10  # items in a batch
_LONG_THREADS = 8
_LONG_PER_CLIENT = 4
_BACKGROUND_TURN = 8
Item = TypeVar("Item")
Result = TypeVar("Result")
Done = TypeVar("Done")
_Whole: TypeAlias = "tuple[Work, Callable[[], Any], Future[Any]]"


class BusyError(Exception):
    """Too many works wait, or too many of one client."""


class Turns:
    """Turns at the model: ``slots`` batches run at the same time and share the cores; one alone has them all."""

    def __init__(self, slots: int) -> None:
        self._lock, self._free, self._slots, self._n_cores = Lock(), slots, slots, torch.get_num_threads()
        self._waiting: dict[Lane, deque[Event]] = {lane: deque() for lane in Lane}
        self._n_turns, self._last = 0, Lane.LONG

    @contextmanager
    def turn(self, work: Work, n_tokens: int) -> Iterator[None]:
        """Wait for a turn and count its tokens; raises GivenUpError if nobody waits for the work."""
        work.check()
        gate = Event()
        with self._lock:
            if self._free:
                self._free -= 1
                gate.set()
            else:
                self._waiting[work.lane].append(gate)
        gate.wait()
        try:
            work.check()
            is_alone = self._free == self._slots - 1
            torch.set_num_threads(self._n_cores if is_alone else max(1, self._n_cores // self._slots))  # of this thread
            yield
            work.n_tokens += n_tokens
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to the next batch that waits."""
        with self._lock:
            self._n_turns += 1
            lanes = [Lane.LONG, Lane.SHORT] if self._last is Lane.SHORT else [Lane.SHORT, Lane.LONG]
            lanes.insert(0 if self._n_turns % _BACKGROUND_TURN == 0 else 2, Lane.BACKGROUND)
            for lane in lanes:
                if self._waiting[lane]:
                    self._last = lane if lane is not Lane.BACKGROUND else self._last
                    self._waiting[lane].popleft().set()
                    return
            self._free += 1


class Scheduler(Generic[Item, Result]):
    """Does works in threads; fair among clients.

    Args:
        read: does several short works together.
        slots: number of batches that run at the same time.
        threads: number of threads that do short works, each several at a time.
        queue_size: number of works that wait; one client may have half of them.
        size: the size of a short work.
        max_size: size of short works that are done together.
        observe: is called with the number of short works in a batch.
    """

    def __init__(
        self,
        read: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        slots: int,
        threads: int,
        queue_size: int,
        size: Callable[[Item], int],
        max_size: int,
        observe: Callable[[int], None] = lambda n_items: None,
    ) -> None:
        self._read, self._size, self._max_size, self._observe = read, size, max_size, observe
        self._queue_size, self._turns = queue_size, Turns(slots)
        self._short: deque[tuple[Work, Item, Future[Result]]] = deque()
        self._long: deque[_Whole] = deque()
        self._background: deque[_Whole] = deque()
        self._changed, self._stopped = Condition(), False
        self._running: dict[Work, Future[Any]] = {}
        loops: list[tuple[str, int, Callable[[], None]]] = [
            ("short", threads, self._run_short),
            ("long", _LONG_THREADS, partial(self._run_whole, self._long, self._next_long)),
            ("background", 1, partial(self._run_whole, self._background, lambda: 0 if self._background else None)),
        ]
        for name, n_threads, loop in loops:
            for number in range(n_threads):
                Thread(target=loop, name=f"{name} works {number}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Number of works that wait."""
        return len(self._short) + len(self._long)

    def submit(self, work: Work, item: Item) -> "Future[Result]":
        """Queue a short work, to be read with others; raises BusyError."""
        return self._queued(self._short, work, item)

    def run(self, work: Work, do: Callable[[], Done]) -> "Future[Done]":
        """Queue a long work, or one in the background; raises BusyError."""
        return self._queued(self._background if work.lane is Lane.BACKGROUND else self._long, work, do)

    def stop(self) -> None:
        """Give up all works, those that run at their next batch; later ones are refused."""
        with self._changed:
            self._stopped = True
            queued = [(work, future) for work, _, future in (*self._short, *self._long, *self._background)]
            for work, future in [*self._running.items(), *queued]:
                work.give_up()
                _settle(future.set_exception, GivenUpError())
            for queue in (self._short, self._long, self._background):
                queue.clear()
            self._changed.notify_all()

    def _queued(self, queue: deque[Any], work: Work, task: Any) -> "Future[Any]":
        """Add a work to the end of a queue, if there is room."""
        future: Future[Any] = Future()
        with self._changed:
            if queue is not self._background:
                if self._stopped:
                    raise GivenUpError
                of_client = sum(one.client == work.client for of in (self._short, self._long) for one, _, _ in of)
                if self.waiting >= self._queue_size or of_client >= max(1, self._queue_size // 2):
                    raise BusyError
            queue.append((work, task, future))
            self._changed.notify_all()
        return future

    def _run_short(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._short or self._stopped)
                if self._stopped:
                    return
                queued = [self._short.popleft() for _ in range(min(len(self._short), _MOST))]
                self._running |= {work: future for work, _, future in queued}
            wanted = [one for one in queued if not one[0].is_given_up()]
            for batch in constrained_batches(wanted, self._max_size, _MOST, lambda one: self._size(one[1]), False):
                self._observe(len(batch))
                self._finish(batch)
            for work, _, future in queued:
                if work.is_given_up():
                    _settle(future.set_exception, GivenUpError())
            self._end([work for work, _, _ in queued])

    def _finish(self, batch: Sequence[tuple[Work, Item, "Future[Result]"]]) -> None:
        """Read a batch; if an item of several is wrong, read them one by one."""
        TURN.set(partial(self._turns.turn, TogetherWork([work for work, _, _ in batch])))
        try:
            results = self._read([item for _, item, _ in batch])
        except CogltxError as error:
            if len(batch) == 1:
                _settle(batch[0][2].set_exception, error)
            else:
                for one in batch:
                    self._finish([one])
        except Exception as error:  # a defect: every request gets it, and the thread lives on
            for _, _, future in batch:
                _settle(future.set_exception, error)
        else:
            for (_, _, future), result in zip(batch, results, strict=True):
                _settle(future.set_result, result)

    def _run_whole(self, queue: deque[_Whole], choose: Callable[[], int | None]) -> None:
        """Do the works of a queue one by one; ``choose`` gives the number of the next one, or None."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: choose() is not None or self._stopped)
                number = choose()
                if self._stopped or number is None:
                    return
                work, do, future = queue[number]
                del queue[number]
                self._running[work] = future
            TURN.set(partial(self._turns.turn, work))
            try:
                work.check()
                _settle(future.set_result, do())
            except Exception as error:
                _settle(future.set_exception, error)
            finally:
                self._end([work])

    def _next_long(self) -> int | None:
        """Choose the oldest work of the clients with the fewest that run; None if all have enough."""
        running = Counter(work.client for work in self._running if work.lane is Lane.LONG)
        numbers = range(len(self._long))
        best = min(numbers, key=lambda number: running[self._long[number][0].client], default=None)
        return None if best is None or running[self._long[best][0].client] >= _LONG_PER_CLIENT else best

    def _end(self, works: Sequence[Work]) -> None:
        with self._changed:
            for work in works:
                del self._running[work]
            self._changed.notify_all()


def _settle(give: Callable[[Any], None], outcome: Any) -> None:
    """Give the result or the error of a work to whoever still waits."""
    with suppress(InvalidStateError):
        give(outcome)
