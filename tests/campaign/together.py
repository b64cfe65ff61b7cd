"""The same command several times at once, on the same output: at least one succeeds, and its result is whole."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from shutil import rmtree

from forked import Command, run
from kills import JOBS, differing, results

AT_ONCE = 3


def campaign(house: Path, jobs: Sequence[str], count: int, seed: int, found: Callable[[str], None]) -> dict[str, str]:
    """Start every job several times at once, so many times; return how many succeeded and how many were turned away."""
    random, folder, done = Random(seed), house / "together", {}
    folder.mkdir()
    for job in (job for job in JOBS if job.name in jobs):
        output, turned_away = folder / "out", 0
        undisturbed = run(*job.arguments(house, output))
        expected = results(job, output)
        for number in range(count):
            _clear(folder)
            commands = []
            for _ in range(AT_ONCE):
                commands.append(Command(job.arguments(house, output)))
                time.sleep(random.uniform(0, undisturbed.seconds / AT_ONCE))
            ended = [command.end(within=120) for command in commands]
            where = f"{job.name}: {AT_ONCE} at once, {number}"
            turned_away += sum(one.code == 2 for one in ended)
            for problem in filter(None, (one.problem for one in ended)):
                found(f"{where}: {problem}")
            if all(one.code for one in ended):
                found(f"{where}: none succeeded: {[one.err[-300:] for one in ended]}")
            elif names := differing(expected, results(job, output)):
                found(f"{where}: differs in {', '.join(names)}")
            if left := [path.name for path in folder.glob(".*")]:
                found(f"{where}: left behind {left}")
        _clear(folder)
        done[job.name] = f"{count} times, {turned_away} of {count * AT_ONCE} turned away"
    return done


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        rmtree(path) if path.is_dir() else path.unlink()
