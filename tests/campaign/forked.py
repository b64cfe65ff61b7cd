"""Commands in forks of a process that has imported everything, so that one starts in milliseconds."""

import importlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

from cogltx.__main__ import main
from cogltx.training import _loop as loop

WARM = (
    "cogltx.bench.cli", "cogltx.cli._predictions", "cogltx.pipeline", "cogltx.server.app", "cogltx.training.run",
    "cogltx.training.masked_lm", "cogltx.formats._pdf", "cogltx.formats._docx", "cogltx.formats._epub",
    "cogltx.formats._markdown", "transformers.models.bert.modeling_bert", "torch.utils.tensorboard", "uvicorn",
)  # fmt: skip
"""What the commands import when they run."""


@dataclass(frozen=True)
class Ended:
    """The end of a command; a negative code is the signal that killed it."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def problem(self) -> str | None:
        """What is wrong with this end, apart from the result: no success, no clear line, or a traceback."""
        if self.code == 0:
            return None
        last = self.err.rstrip().rpartition("\n")[2]
        if self.code != 2 or not last.startswith("cogltx: ") or "Traceback" in self.err:
            return f"exit code {self.code} after {self.seconds:.1f} s: {self.err.strip()[-2000:]}"
        return None


def warm() -> None:
    """Import what the commands need, and let a training write a checkpoint after every step."""
    for name in WARM:
        importlib.import_module(name)
    loop.CHECKPOINT_SECONDS = 0.0


class Command:
    """A command that runs in a fork.

    Args:
        arguments: of ``cogltx``.
        before: called in the fork, before the command.
    """

    def __init__(self, arguments: Iterable[object], *, before: Callable[[], object] = lambda: None) -> None:
        self._start = time.monotonic()
        self._files = [TemporaryFile(), TemporaryFile()]  # noqa: SIM115 - closed when the command has ended
        self._pid = os.fork()
        if self._pid == 0:
            self._run([str(argument) for argument in arguments], before)

    def said(self) -> str:
        """Return what is on standard error so far."""
        return os.pread(self._files[1].fileno(), 1 << 20, 0).decode(errors="replace")

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)

    def end(self, *, within: float) -> Ended:
        """Wait until the command ends, and kill it when the time is over."""
        with open(os.pidfd_open(self._pid), "rb", buffering=0, closefd=True) as ended:
            if not select.select([ended], [], [], max(0.0, self._start + within - time.monotonic()))[0]:
                self.kill()
            _, status = os.waitpid(self._pid, 0)
        seconds = time.monotonic() - self._start
        out, err = (os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace") for file in self._files)
        for file in self._files:
            file.close()
        return Ended(os.waitstatus_to_exitcode(status), out, err, seconds)

    def _run(self, arguments: list[str], before: Callable[[], object]) -> NoReturn:
        code = 70
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in enumerate(self._files, 1):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            sys.argv = ["cogltx", *arguments]
            before()
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)


def run(*arguments: object, within: float = 120, before: Callable[[], object] = lambda: None) -> Ended:
    """Run a command to its end."""
    return Command(arguments, before=before).end(within=within)


def content(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder, or the one file."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
