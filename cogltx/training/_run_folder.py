"""The folder of a run: who may use it, what an interrupted run has left there, and how to continue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time

from pydantic import BaseModel

from cogltx import _processes as processes
from cogltx._files import check_settings, claimed, read_json, write_json
from cogltx.errors import ConfigError, Interrupted

CONFIG_FILE = "run-config.json"
_PROGRESS = "progress.json"


@contextmanager
def interruptible(output: Path) -> Iterator[None]:
    """Let an interrupt of a run say what is saved and how to continue; raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        known = interrupt if isinstance(interrupt, Interrupted) else Interrupted()
        text = _left_by_interrupt(output, is_all=known.is_saved) if processes.is_first() else ""
        raise Interrupted(text, known.signal) from interrupt


def _left_by_interrupt(output: Path, *, is_all: bool) -> str:
    checkpoint = _last_checkpoint(output)
    if checkpoint is None:
        return f"interrupted before the first checkpoint; nothing is saved in {output}; run the same command again"
    age, how = time() - checkpoint.stat().st_mtime, "continue with --resume (in Python resume=True)"
    saved = "everything is saved" if is_all else f"the state of {age:.0f} seconds ago is saved"
    return f"interrupted, {_position(checkpoint)}; {saved} in {output}; {how}"


def check_folder(run: BaseModel, output: Path, resume: bool) -> None:
    """Check that a run may use a folder: new, empty, or of the same run to resume.

    A run that failed before its first checkpoint leaves its folder free.

    Raises:
        ConfigError: the folder has other files, a run without ``resume``, or a run with another configuration.
    """
    _check_folder(run, output, resume)
    processes.wait()  # no process writes before all have looked


@contextmanager
def run_folder(run: BaseModel, output: Path, resume: bool) -> Iterator[None]:
    """Write the configuration of a run to its folder, and claim the folder while the run writes.

    Raises:
        ConfigError: as ``check_folder``, or another process holds the folder.
    """
    if not processes.is_first():
        yield
        return
    with claimed(output):
        _check_folder(run, output, resume)
        write_json(output / CONFIG_FILE, run.model_dump(mode="json"))
        yield


def _check_folder(run: BaseModel, output: Path, resume: bool) -> None:
    stored = output / CONFIG_FILE
    if not stored.exists():
        other = next((path.name for path in sorted(output.glob("[!.]*"))), None)
        if other is not None:
            raise ConfigError(
                f"{output}: the folder is not empty and is not a run (found {other!r}); choose a new or empty folder"
            )
        return
    checkpoint = _last_checkpoint(output)
    if checkpoint is None and not (output / "run.json").exists():
        return
    if not resume:
        state = "a run" if checkpoint is None else f"a run, {_position(checkpoint)}"
        raise ConfigError(f"{output}: the folder has {state}; continue it with --resume, or choose another folder")
    check_settings(output, run.model_dump(mode="json"), read_json(stored))


def _last_checkpoint(output: Path) -> Path | None:
    """The progress file of the last checkpoint."""
    return max((output / "checkpoints").glob(f"[0-9]*/{_PROGRESS}"), default=None)


def _position(checkpoint: Path) -> str:
    """Describe how far a run is."""
    progress = read_json(checkpoint)
    epoch, epochs, batch = progress.get("epoch", 0), progress.get("epochs", 0), progress.get("batch", 0)
    if not epochs:
        return f"step {batch}"
    has_ended = epoch == epochs or (progress.get("stopped") and not progress.get("phase") and not batch)
    return f"finished after epoch {epoch}" if has_ended else f"epoch {epoch + 1} of {epochs}"
