"""The worker: batches in the order of arrival, errors to whom they belong, an end without losses."""

from collections.abc import Sequence
from threading import Event

import pytest

from cogltx.errors import DataError
from cogltx.server._worker import BusyError, Worker


class Doubling:
    """Doubles numbers once it is released; refuses 13, and breaks at 666."""

    def __init__(self) -> None:
        self.released, self.begun = Event(), Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.begun.set()
        assert self.released.wait(10)
        self.batches.append(list(items))
        if 13 in items:
            raise DataError("13 is refused")
        if 666 in items:
            raise ZeroDivisionError
        return [2 * item for item in items]


def worker(read: Doubling, queue_size: int = 100, max_size: int = 1000) -> Worker[int, int]:
    return Worker(read, queue_size, size=lambda item: item, max_size=max_size)


def test_what_waits_is_read_together() -> None:
    read = Doubling()
    line = worker(read)
    futures = [line.submit(1)]
    read.begun.wait(10)
    futures += [line.submit(number) for number in (2, 3, 4)]
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 4, 6, 8]
    assert read.batches == [[1], [2, 3, 4]]


def test_a_batch_has_a_size() -> None:
    read = Doubling()
    line = worker(read, max_size=10)
    futures = [line.submit(1)]
    read.begun.wait(10)
    futures += [line.submit(number) for number in (6, 4, 1, 50)]
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 12, 8, 2, 100]
    assert read.batches == [[1], [6, 4], [1], [50]]


def test_an_error_is_that_of_one_item() -> None:
    read = Doubling()
    line = worker(read)
    first = line.submit(1)
    read.begun.wait(10)
    others = [line.submit(number) for number in (2, 13, 3)]
    read.released.set()
    assert first.result(10) == 2
    assert others[0].result(10) == 4
    with pytest.raises(DataError, match="13 is refused"):
        others[1].result(10)
    assert others[2].result(10) == 6


def test_a_defect_does_not_end_the_thread() -> None:
    read = Doubling()
    read.released.set()
    line = worker(read)
    with pytest.raises(ZeroDivisionError):
        line.submit(666).result(10)
    assert line.submit(5).result(10) == 10


def test_a_full_queue_refuses() -> None:
    read = Doubling()
    line = worker(read, queue_size=2)
    futures = [line.submit(1)]
    read.begun.wait(10)
    futures += [line.submit(2), line.submit(3)]
    assert line.waiting == 2
    with pytest.raises(BusyError):
        line.submit(4)
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 4, 6]


def test_closing_finishes_what_waits() -> None:
    read = Doubling()
    line = worker(read)
    futures = [line.submit(number) for number in range(5)]
    read.released.set()
    line.close()
    assert [future.result(0) for future in futures] == [0, 2, 4, 6, 8]
