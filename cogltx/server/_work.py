"""The work of one request: its client and lane, how far it is, what it has found, and whether it was given up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock

from cogltx.prediction import Evidence

READING, SEARCHING, ANSWERING = "reading", "searching", "answering"
_WEIGHT = 0.2  # of the newest measurement
_NEARLY = 0.98


class GivenUpError(Exception):
    """The client has left, or the server stops."""


class Lane(Enum):
    """The lanes in which works wait for the model.

    Attributes:
        SHORT: little work, such as ten sentences to rank.
        LONG: the others that a client waits for.
        BACKGROUND: nobody waits for it.
    """

    SHORT = 0
    LONG = 1
    BACKGROUND = 2


class Pace:
    """Measured seconds and tokens of each stage of a question, to estimate the next one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._per_token = {READING: 2e-5, SEARCHING: 1e-4, ANSWERING: 1e-4}  # seconds
        self._tokens = {SEARCHING: 3000.0, ANSWERING: 1000.0}

    def plan(self, n_tokens: float) -> dict[str, float]:
        """Estimate the tokens of each stage of a question, given those of the text that must be prepared first."""
        with self._lock:
            return ({READING: n_tokens} if n_tokens else {}) | self._tokens

    def seconds(self, plan: Mapping[str, float]) -> dict[str, float]:
        """Estimate the seconds of each stage of a plan."""
        with self._lock:
            return {stage: self._per_token[stage] * n_tokens for stage, n_tokens in plan.items()}

    def observe(self, stage: str, seconds: float, n_tokens: int) -> None:
        """Learn from a finished stage; one without tokens says nothing."""
        if not n_tokens:
            return
        with self._lock:
            self._per_token[stage] += _WEIGHT * (seconds / n_tokens - self._per_token[stage])
            if stage in self._tokens:
                self._tokens[stage] += _WEIGHT * (n_tokens - self._tokens[stage])


@dataclass(frozen=True)
class Progress:
    """Progress of a work: its stage, the share that is done, and the estimated seconds left, if known."""

    stage: str
    share: float
    seconds_left: float | None


@dataclass(eq=False)
class Work:
    """The work of one request, which a thread does and others watch.

    Attributes:
        client: who asked, for fairness among clients.
        lane: where its batches wait.
        pace: measured speeds.
        found: the passages found so far, and whether they are preliminary; None: none yet.
        n_tokens: tokens that went through the model.
    """

    client: str = ""
    lane: Lane = Lane.LONG
    pace: Pace = field(default_factory=Pace)
    found: tuple[tuple[Evidence, ...], bool] | None = None
    n_tokens: int = 0
    _given_up: bool = False
    _stage: str = "waiting"
    _plan: Mapping[str, float] = field(default_factory=dict)  # tokens by stage
    _at: tuple[float, int] = (0.0, 0)  # seconds and tokens at which the stage began
    _share: float = 0.0  # reported last
    _ahead: "Work | None" = None  # the work that this one waits for

    def give_up(self) -> None:
        """End the work at its next batch."""
        self._given_up = True

    def is_given_up(self) -> bool:
        """Whether nobody waits for the work."""
        return self._given_up

    def check(self) -> None:
        """Raise GivenUpError if nobody waits for the work."""
        if self.is_given_up():
            raise GivenUpError

    def plan(self, n_tokens: float, *, asks: bool = True) -> None:
        """Plan the stages: prepare a text of so many tokens, and answer a question."""
        self._plan = self.pace.plan(n_tokens) if asks else {READING: n_tokens}

    def correct(self, n_tokens: float) -> None:
        """Add to the estimated tokens that must be prepared."""
        self._plan = {**self._plan, READING: self._plan.get(READING, 0.0) + n_tokens}

    def begin(self, stage: str) -> None:
        """Begin a stage of the plan."""
        self.finish()
        self._stage, self._at, self._ahead = stage, (time.monotonic(), self.n_tokens), None

    def finish(self) -> None:
        """End the current stage, and learn how long it took."""
        if self._stage in self._plan:
            seconds, n_tokens = self._at
            self.pace.observe(self._stage, time.monotonic() - seconds, self.n_tokens - n_tokens)

    def follow(self, other: "Work") -> None:
        """Let the progress be that of a work that prepares the same text, which now has somebody who waits."""
        other.lane, self._ahead = self.lane, other

    def progress(self) -> Progress:
        """Describe how far the work is."""
        seconds = self.pace.seconds(self._plan)
        total = sum(seconds.values())
        of = self._ahead if self._ahead is not None and self._ahead._stage in self._plan else self
        stage, part = of._stage, of._part()
        if stage not in seconds or not total:
            return Progress("waiting", 0.0, None)
        stages = list(seconds)
        before, after = stages[: stages.index(stage)], stages[stages.index(stage) + 1 :]
        done = sum(seconds[one] for one in before) + seconds[stage] * part
        self._share = max(self._share, round(done / total, 3))  # estimates change, but nobody likes to go back
        elapsed = time.monotonic() - of._at[0]  # the pace of this work says more, the longer it lasts
        left = (1 - part) * ((1 - part) * seconds[stage] + elapsed)
        return Progress(stage, self._share, round(left + sum(seconds[one] for one in after), 1))

    def _part(self) -> float:
        """The share of the current stage that is done."""
        planned = self._plan.get(self._stage, 0.0)
        return min((self.n_tokens - self._at[1]) / planned, _NEARLY) if planned else 0.0


class TogetherWork(Work):
    """Short works that are done in one batch: given up when all of them are."""

    def __init__(self, works: "list[Work]") -> None:
        super().__init__(lane=Lane.SHORT)
        self._works = works

    def is_given_up(self) -> bool:
        """Whether nobody waits for any of the works."""
        return all(work.is_given_up() for work in self._works)
