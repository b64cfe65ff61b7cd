"""Writes that fail: each one once, and disks of every size that are full before the end.

After each, the command has said so in one line, what was there before is there still, and the same command, run again,
ends as if nothing had happened.
"""

import ctypes
import errno
import mmap
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree

from forked import run
from kills import JOBS, Job, differing, results

PRELOADED = "/usr/lib/fiu/fiu_posix_preload.so"
"""libfiu (Debian's package fiu-utils), which lets calls to the operating system fail."""

POINTS = ("io/rw/write", "io/rw/pwrite", "io/rw/writev", "io/sync/fsync", "io/dir/rename", "io/dir/unlink", "mm/msync")

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_uint),
)  # fmt: skip


class _Failing:
    """Counts the calls of the fork that it is enabled in, and lets one of them fail."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)
        self._callback = _Callback(self._call)  # kept: libfiu holds a pointer to it
        self._number, self._error = 0, 0

    @property
    def calls(self) -> int:
        return int.from_bytes(self._shared[:8], "little")

    def enable(self, number: int, error: int) -> None:
        """Let the call of this number fail, 0: none."""
        self._number, self._error = number, error
        self._shared[:8] = bytes(8)
        fiu = ctypes.CDLL("libfiu.so.0")
        fiu.fiu_init(0)
        for point in POINTS:
            code = fiu.fiu_enable_external(f"posix/{point}".encode(), 1, None, 0, self._callback)
            assert code == 0, point

    def _call(self, name: bytes, number: object, info: object, flags: object) -> int:
        calls = self.calls + 1
        self._shared[:8] = calls.to_bytes(8, "little")
        if calls != self._number:
            return 0
        info[0] = self._error  # type: ignore[index]
        return 1


def campaign(house: Path, jobs: Sequence[str], count: int, found: Callable[[str], None]) -> dict[str, str]:
    """Let writes of every job fail, one after another, at most so many of a job."""
    done: dict[str, str] = {}
    if os.environ.get("LD_PRELOAD") != PRELOADED:
        return {"writes": f"skipped: {PRELOADED} is not there"}
    failing = _Failing()
    for job in (job for job in JOBS if job.name in jobs):
        expected = _undisturbed(job, house, lambda: failing.enable(0, 0))
        step = max(1, failing.calls // count)
        numbers = range(1, failing.calls + 1, step)
        for number in numbers:
            error = (errno.ENOSPC, errno.EIO)[number // step % 2]
            _fail(
                job, house, house / "faults", expected, found, f"call {number} of {numbers.stop - 1}",
                before=lambda number=number, error=error: failing.enable(number, error), after=lambda: None,
            )  # fmt: skip
        done[job.name] = f"{len(numbers)} of {numbers.stop - 1}"
    return done


def full_disks(house: Path, jobs: Sequence[str], count: int, found: Callable[[str], None]) -> dict[str, str]:
    """Let every job write to disks of sizes up to what it needs, at most so many."""
    done: dict[str, str] = {}
    disk = house / "disk"
    disk.mkdir()
    for job in (job for job in JOBS if job.name in jobs):
        expected = _undisturbed(job, house, lambda: None)
        written = [path for path in (house / "faults").rglob("*") if path.is_file()]
        pages = sum(-(-path.stat().st_size // 4096) + 1 for path in written) + 8
        sizes = range(1, 2 * pages, max(1, 2 * pages // count))
        for size in sizes:
            mounted = ["mount", "-t", "tmpfs", "-o", f"size={4 * size}k", "tmpfs", str(disk)]
            if (said := subprocess.run(mounted, capture_output=True, text=True)).returncode:
                return {"disks": f"skipped: {said.stderr.strip()}"}
            try:
                _fail(
                    job, house, disk, expected, found, f"disk of {4 * size} KiB", before=lambda: None,
                    after=lambda: subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True),
                )  # fmt: skip
            finally:
                subprocess.run(["umount", str(disk)], check=True)
        done[job.name] = f"{len(sizes)}"
    return done


def little_memory(house: Path, jobs: Sequence[str], count: int, found: Callable[[str], None]) -> dict[str, str]:
    """Give every job less memory than it needs, in so many sizes up to 256 MiB beyond what is imported.

    Native code that does not check its memory may crash; then nothing is said, but the same command still goes on.
    """
    done: dict[str, str] = {}
    for job in (job for job in JOBS if job.name in jobs):
        expected, crashes = _undisturbed(job, house, lambda: None), []

        def crashed(finding: str, crashes: list[str] = crashes) -> None:
            is_crash = any(f"exit code {-number} after" in finding for number in (signal.SIGSEGV, signal.SIGABRT))
            crashes.append(finding) if is_crash else found(finding)

        sizes = range(0, 256, max(1, 256 // count))
        for size in sizes:
            _fail(
                job, house, house / "faults", expected, crashed, f"{size} MiB of memory",
                before=lambda size=size: limit_memory(size << 20), after=lambda: None,
            )  # fmt: skip
        done[job.name] = f"{len(sizes)}, {len(crashes)} crashed in native code"
    return done


def limit_memory(more: int) -> None:
    """Limit the address space of this process to so many bytes beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _undisturbed(job: Job, house: Path, before: Callable[[], object]) -> dict[str, object]:
    folder = house / "faults"
    rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ended = run(*job.arguments(house, folder / "out"), before=before)
    assert ended.code == 0, ended.err
    return results(job, folder / "out")


def _fail(
    job: Job, house: Path, folder: Path, expected: dict[str, object], found: Callable[[str], None], what: str,
    *, before: Callable[[], object], after: Callable[[], object],
) -> None:  # fmt: skip
    where, output = f"{job.name}: {what}", folder / "out"
    for path in folder.iterdir():
        rmtree(path) if path.is_dir() else path.unlink()
    ended = run(*job.arguments(house, output), before=before)
    if ended.problem:
        found(f"{where}: {ended.problem}")
    after()
    again = run(*job.arguments(house, output, again=ended.code != 0))
    if ended.code == 0 and again.code == 2 and "has a run already" in again.err:
        again = run(*job.arguments(house, output, again=True))
    if again.code != 0:
        found(
            f"{where}: ended with {ended.code}: {ended.err[-300:]}; again: exit code {again.code}: {again.err[-2000:]}"
        )
    elif names := differing(expected, results(job, output)):
        found(f"{where}: differs in {', '.join(names)}")
    if left := [path.name for path in folder.glob(".*")]:
        found(f"{where}: left behind {left}")
