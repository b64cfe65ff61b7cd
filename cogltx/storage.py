"""Files of models and runs: every write is atomic, tensors are safetensors, nothing is ever unpickled.

Knows nothing about what the tensors mean.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cogltx.errors import ConfigError, ModelError, TrainingError

_TEMPORARY = re.compile(r"[a-z0-9_]{8}\.(tmp|old)")  # ends the names that tempfile gives
_WEIGHTS = ".safetensors"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that takes the target's place when the block ends well, and leaves no trace otherwise.

    What a killed writer leaves is a hidden folder, which the next one removes.

    Raises:
        TrainingError: the disk is full, the folder cannot be written, or it holds what is none of the writer's; the
            target is as it was.
    """
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"))
        temporary.chmod(0o755)
        yield temporary
        _check_replaced(temporary, target)
        _swap(temporary, target)
        _remove_left_over(target)
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"{target}: expected to save, got: {_reason(error)}; what was saved before is kept"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _check_replaced(temporary: Path, target: Path) -> None:
    """Nothing is lost but what the writer writes again, and weights."""
    if target.exists() and not target.is_dir():
        raise TrainingError(f"{target}: expected a folder to save in, got a file")
    for entry in sorted(target.iterdir()) if target.exists() else ():
        if entry.suffix != _WEIGHTS and not (temporary / entry.name).exists():
            raise TrainingError(f"{target}: expected a new folder or a model's, got one that holds {entry.name!r} too")


def _swap(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".old") as aside:
        old = target.rename(Path(aside) / "old")
        try:
            temporary.rename(target)
        except OSError:
            old.rename(target)
            raise


def _remove_left_over(target: Path) -> None:
    """Removes what earlier writers of the target left behind when they were killed."""
    prefix = f".{target.name}."
    for path in target.parent.iterdir():
        if path.name.startswith(prefix) and _TEMPORARY.fullmatch(path.name.removeprefix(prefix)):
            shutil.rmtree(path, ignore_errors=True)


def write_json(path: Path, value: object) -> None:
    """Writes JSON atomically; see ``write_text``."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically.

    Raises:
        TrainingError: the file cannot be written; an earlier one is as it was.
    """
    with _replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a safetensors file atomically; see ``write_text``."""
    with _replaced(path) as temporary:
        save_tensors(temporary, tensors)


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` when the block ends well, and leaves no trace otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise TrainingError(f"{path}: expected to save, got: {_reason(error)}") from error


def read_json(path: Path) -> Any:
    """Reads a JSON file of a model or run.

    Raises:
        ModelError: it is missing, cut off or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{path}: expected a file, found none") from error
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}:{error.lineno}: expected JSON, got: {error.msg}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: expected a JSON file, got: {_reason(error)}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object of a model or run.

    Raises:
        ModelError: as ``read_json``, or it is another value.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise ModelError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def check_settings(
    place: Path,
    settings: Mapping[str, Any],
    before: Mapping[str, Any],
    other: str = "another folder with --output",
) -> None:
    """What lies in a place goes on with the settings that it began with.

    Args:
        place: a folder or a file, for the error.
        settings: as plain data, perhaps nested.
        before: those that were noted there.
        other: what to choose instead, for the error.

    Raises:
        ConfigError: one is another; names it, and both values.
    """
    now, then = dict(_leaves(settings)), dict(_leaves(before))
    for name in now | then:
        if now.get(name) != then.get(name):
            raise ConfigError(
                f"{place}: expected {name} {then.get(name)!r}, with which it began, got {now.get(name)!r}; "
                f"choose {other}"
            )


def _leaves(values: Mapping[str, Any], parents: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{parents}{key}.")
        else:
            yield f"{parents}{key}", value


def digest(folder: Path) -> str:
    """What tells a model from all others: a hash of its configuration and weights, 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".json", _WEIGHTS)):
        found.update(path.name.encode())
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:16]


def digest_of(values: Iterable[object]) -> str:
    """What tells plain data from all other: a hash of it, 16 hexadecimal digits."""
    found = hashlib.sha256()
    for value in values:
        found.update(f"{value!r}\n".encode())
    return found.hexdigest()[:16]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors as safetensors."""
    save_file({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Reads a safetensors file.

    Raises:
        ModelError: it is missing, cut off, or of another format.
    """
    if not path.is_file():
        raise ModelError(f"{path}: expected a safetensors file, found none")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        if isinstance(error, SafetensorError) and _is_pickle(path):
            raise ModelError(f"{path}: expected safetensors, got a pickle, which is never loaded") from error
        raise ModelError(f"{path}: expected safetensors, got: {_reason(error)}") from error
    return tensors


def _is_pickle(path: Path) -> bool:
    """Whether a file that is no safetensors begins as a pickle or torch's archive of one does."""
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
