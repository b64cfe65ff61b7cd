"""The scheduler: batches of short works, turns for all lanes, errors to whom they belong, works that end early."""

import time
from collections.abc import Sequence
from threading import Event

import pytest

from cogltx.encoding._turns import TURN
from cogltx.errors import DataError
from cogltx.server._scheduler import BusyError, Scheduler
from cogltx.server._work import READING, GivenUpError, Lane, Pace, Work


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


def scheduler(read: Doubling, queue_size: int = 100, max_size: int = 1000) -> Scheduler[int, int]:
    return Scheduler(
        read, slots=1, threads=1, queue_size=queue_size, size=lambda item: item, max_size=max_size
    )  # fmt: skip


def test_what_waits_is_read_together() -> None:
    read = Doubling()
    line = scheduler(read)
    futures = [line.submit(Work(), 1)]
    read.begun.wait(10)
    futures += [line.submit(Work(), number) for number in (2, 3, 4)]
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 4, 6, 8]
    assert read.batches == [[1], [2, 3, 4]]


def test_a_batch_has_a_size() -> None:
    read = Doubling()
    line = scheduler(read, max_size=10)
    futures = [line.submit(Work(), 1)]
    read.begun.wait(10)
    futures += [line.submit(Work(), number) for number in (6, 4, 1, 50)]
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 12, 8, 2, 100]
    assert read.batches == [[1], [6, 4], [1], [50]]


def test_an_error_is_that_of_one_item() -> None:
    read = Doubling()
    line = scheduler(read)
    first = line.submit(Work(), 1)
    read.begun.wait(10)
    others = [line.submit(Work(), number) for number in (2, 13, 3)]
    read.released.set()
    assert first.result(10) == 2
    assert others[0].result(10) == 4
    with pytest.raises(DataError, match="13 is refused"):
        others[1].result(10)
    assert others[2].result(10) == 6


def test_a_defect_does_not_end_the_thread() -> None:
    read = Doubling()
    read.released.set()
    line = scheduler(read)
    with pytest.raises(ZeroDivisionError):
        line.submit(Work(), 666).result(10)
    assert line.submit(Work(), 5).result(10) == 10


def test_a_full_queue_refuses_and_no_client_fills_it_alone() -> None:
    read = Doubling()
    line = scheduler(read, queue_size=4)
    futures = [line.submit(Work("a"), 1)]
    read.begun.wait(10)
    futures += [line.submit(Work("a"), 2), line.submit(Work("a"), 3)]
    with pytest.raises(BusyError):
        line.submit(Work("a"), 4)
    futures += [line.submit(Work("b"), 4), line.submit(Work("b"), 5)]
    assert line.waiting == 4
    with pytest.raises(BusyError):
        line.submit(Work("c"), 6)
    read.released.set()
    assert [future.result(10) for future in futures] == [2, 4, 6, 8, 10]


def test_what_is_given_up_is_not_read() -> None:
    read = Doubling()
    line = scheduler(read)
    first, left = line.submit(Work(), 1), Work()
    read.begun.wait(10)
    second = line.submit(left, 2)
    left.give_up()
    third = line.submit(Work(), 3)
    read.released.set()
    assert (first.result(10), third.result(10)) == (2, 6)
    with pytest.raises(GivenUpError):
        second.result(10)
    assert read.batches == [[1], [3]]


def turns(n_turns: int, begun: Event, log: list[str], name: str) -> None:
    """A long work of some batches of 20 ms."""
    begun.set()
    for _ in range(n_turns):
        with TURN.get()(100):
            time.sleep(0.02)
            log.append(name)


def test_a_short_work_waits_for_one_batch_of_a_long_one() -> None:
    log, begun = list[str](), Event()

    def read(items: Sequence[int]) -> Sequence[int]:
        for _ in items:
            with TURN.get()(10):
                log.append("short")
        return items

    line: Scheduler[int, int] = Scheduler(read, slots=1, threads=1, queue_size=9, size=lambda item: 1, max_size=9)
    works = [Work(str(number)) for number in range(3)]
    futures = [line.run(work, lambda: turns(10, begun, log, "long")) for work in works]
    begun.wait(10)
    time.sleep(0.1)
    before = len(log)
    assert line.submit(Work(), 1).result(10) == 1
    assert log.index("short") <= before + 2
    assert all(future.result(10) is None for future in futures)
    assert [work.n_tokens for work in works] == [1000] * 3


def test_long_works_take_turns_and_the_background_waits() -> None:
    log, begun = list[str](), Event()
    line = scheduler(Doubling())
    background = line.run(Work(lane=Lane.BACKGROUND), lambda: turns(4, begun, log, "background"))
    futures = [line.run(Work(name), lambda name=name: turns(4, begun, log, name)) for name in "ab"]
    for future in (*futures, background):
        future.result(10)
    assert abs(log.index("a") - log.index("b")) <= 2
    assert log[-2:] == ["background"] * 2


def test_a_long_work_ends_at_its_next_batch() -> None:
    log, begun, work = list[str](), Event(), Work()
    future = scheduler(Doubling()).run(work, lambda: turns(100, begun, log, "long"))
    begun.wait(10)
    work.give_up()
    with pytest.raises(GivenUpError):
        future.result(10)
    assert len(log) < 10


def test_stopping_gives_up_everything() -> None:
    read = Doubling()
    line = scheduler(read)
    futures = [line.submit(Work(), number) for number in range(3)]
    futures.append(line.run(Work(), lambda: turns(1000, Event(), [], "long")))  # type: ignore[arg-type]
    read.begun.wait(10)
    line.stop()
    for future in futures:
        with pytest.raises(GivenUpError):
            future.result(1)
    read.released.set()
    with pytest.raises(GivenUpError):
        line.submit(Work(), 1)


def test_progress_goes_from_stage_to_stage() -> None:
    work, pace = Work(), Pace()
    work.pace = pace
    assert work.progress().stage == "waiting"
    work.plan(1000)
    work.begin(READING)
    shares = []
    for _ in range(10):
        work.n_tokens += 100
        shares.append(work.progress().share)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    work.begin("searching")
    assert work.progress().stage == "searching"
    assert work.progress().share >= shares[-1]
    assert pace.seconds(pace.plan(1000)) != Pace().seconds(Pace().plan(1000)), "it has learned"


def test_the_time_left_follows_the_pace_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("cogltx.server._work.time.monotonic", lambda: now[0])
    work = Work()
    work.plan(1000, asks=False)
    work.begin(READING)
    for seconds, n_tokens, left in ((30, 300, 21.0), (60, 400, 36.0), (90, 900, 9.0)):
        now[0], work.n_tokens = 100.0 + seconds, n_tokens
        assert work.progress().seconds_left == left


def test_who_waits_for_a_preparation_sees_its_progress() -> None:
    first, second = Work(lane=Lane.BACKGROUND), Work()
    first.plan(1000, asks=False)
    first.begin(READING)
    first.n_tokens = 500
    second.plan(1000)
    second.begin(READING)
    second.follow(first)
    assert second.progress().stage == READING
    assert second.progress().share > 0
    assert first.lane is Lane.LONG
