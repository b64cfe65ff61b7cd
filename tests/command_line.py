"""What the tests of the command line share: the output of a command, a trained run, and small helpers."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cogltx.__main__ import main

COUNT = 5
QUESTION = "what does anna have?"


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Output]


def invoke(*arguments: object) -> int:
    """Run one command in this process; returns its exit code."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr(sys, "argv", ["cogltx", *map(str, arguments)])
        try:
            main()
        finally:
            signal.signal(signal.SIGINT, before)
    return int(stopped.value.code or 0)


@dataclass(frozen=True)
class Files:
    folder: Path
    config: Path
    data: Path
    run: Path
    document: Path


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def same(written: list[str], expected: list[str]) -> bool:
    """Whether predictions are the same but for rounding, which is another in another batch."""
    pairs = zip(map(json.loads, written), map(json.loads, expected), strict=True)
    return all(
        [found[key] for key in ("id", "answer", "start", "end")] == [wanted[key] for key in ("id", "answer", "start", "end")]
        and found["confidence"] == pytest.approx(wanted["confidence"], abs=1e-5)
        for found, wanted in pairs
    )  # fmt: skip
