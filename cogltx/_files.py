"""Text, JSON and JSON Lines files, plain or gzipped; atomic writes. Every error is one line that names the file."""

import gzip
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from cogltx.errors import CogltxError, ConfigError, DataError, ModelError, TrainingError, shorten

_WEIGHTS = ".safetensors"
_MOST_BYTES = 100_000_000  # of a line, or of a text from a pipe or a device
_MOST_EXPANSION = 20  # of a gzipped text that is larger than that


def read_text(path: Path | str, kind: type[CogltxError] = DataError) -> str:
    """Read a plain or gzipped UTF-8 file, ``-`` for the standard input; raises ``kind`` if that is impossible."""
    if str(path) == "-":
        return decode_utf8(read_all(sys.stdin.buffer.read, 0, "standard input", kind), "standard input", 1, kind)
    with open_binary(Path(path), kind) as file:
        return decode_utf8(read_all(file.read, os.fstat(file.fileno()).st_size, str(path), kind), str(path), 1, kind)


def read_all(read: Callable[[int], bytes], size: int, name: str, kind: type[CogltxError] = DataError) -> bytes:
    """Read a file of ``size`` bytes; raises ``kind`` if its content is much longer, as of a device or an archive."""
    most = max(_MOST_BYTES, _MOST_EXPANSION * size)
    content = read(most + 1)
    if len(content) > most:
        raise kind(f"{name}: goes on after {most / 1e6:,.0f} MB, which is too much for one text")
    return content


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain or gzipped UTF-8 file, without line ends; errors as ``read_text``."""
    with open_binary(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, _MOST_BYTES), b""), 1):
            if len(raw) == _MOST_BYTES:
                raise DataError(f"{path}:{number}: the line is longer than {_MOST_BYTES / 1e6:,.0f} MB")
            yield decode_utf8(raw, str(path), number).rstrip("\r\n")


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``FILE:LINE`` and the JSON object of each line that is not blank."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            where = f"{path}:{number}"
            if line.strip() in ("[", "{"):
                raise DataError(f"{where}: not valid JSON (it ends early; JSON Lines have one whole object per line)")
            yield where, _object(line, where)


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file of a model or run; raises ModelError."""
    return _object(read_text(path, ModelError), str(path), ModelError)


@contextmanager
def open_binary(path: Path, kind: type[CogltxError] = DataError, name: str = "") -> Iterator[IO[bytes]]:
    """Open a file for reading, called ``name`` in messages; decompress it if its first bytes are gzip's."""
    name = name or str(path)
    try:
        with open(path, "rb") as raw:
            yield gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw  # type: ignore[misc]
    except FileNotFoundError:
        raise kind(f"{name}: file not found") from None
    except IsADirectoryError:
        raise kind(f"{name}: is a folder, not a file") from None
    except EOFError:
        raise kind(f"{name}: the gzip file ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise kind(f"{name}: the gzip file is broken ({error})") from None
    except OSError as error:
        raise kind(f"{name}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        if "\0" not in str(path):
            raise
        raise kind(f"{str(path)!r}: a file name cannot hold a null character") from None


def decode_utf8(raw: bytes, name: str, line: int = 1, kind: type[CogltxError] = DataError) -> str:
    """Decode UTF-8; ``line`` is the number of the first line. Raises ``kind``."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line += raw[: error.start].count(10)
        raise kind(f"{name}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save it as UTF-8") from None


def printable_name(path: Path | str) -> str:
    """Return the name of a file as text, with escapes for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_hidden(path: Path) -> bool:
    """Check whether any part of a path begins with a dot."""
    return any(part.startswith(".") for part in path.parts)


def write_file(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file, and missing folders, atomically; raises TrainingError. Devices are written directly.

    Text, whole or in pieces, is written as UTF-8, and gzipped if the name ends in ``.gz``, always to the same bytes.
    """
    target = Path(os.path.realpath(path))
    with _saving(path):
        if target.exists() and not target.is_file() and not target.is_dir():
            _write(target, content, pack=False)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target)
        try:
            _write(temporary, content, pack=path.suffix == ".gz")
            temporary.replace(target)
            _remove_leftovers(target)
        finally:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON; see ``write_file``."""
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Write a folder atomically: yield a temporary folder that replaces the target when the block ends without error.

    Raises TrainingError if the target, which is kept, contains other files.
    """
    with _saving(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target)
        temporary.mkdir()
        try:
            yield temporary
            _replace_folder(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def claimed(output: Path) -> Iterator[None]:
    """Lock a file or folder against other processes, where the system has locks; a missing folder is made.

    Raises ConfigError if another process has the lock.
    """
    if not output.is_file():
        with _saving(output):
            output.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(output, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{output}: another process is writing there; wait for it, or choose another place"
            raise ConfigError(message) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def fingerprint(source: Path | Iterable[object]) -> str:
    """Fingerprint of a file, a model folder (configuration and weights) or plain data: 16 hexadecimal digits."""
    total = hashlib.sha256()
    if not isinstance(source, Path):
        for value in source:
            total.update(f"{value!r}\n".encode())
        return total.hexdigest()[:16]
    in_folder = sorted(source.iterdir()) if source.is_dir() else ()
    for path in [path for path in in_folder if path.suffix in (".json", _WEIGHTS)] or [source]:
        total.update(path.name.encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def check_settings(
    place: Path, settings: Mapping[str, Any], before: Mapping[str, Any], other: str = "another folder with --output"
) -> None:
    """Raise ConfigError unless work is resumed with the settings, perhaps nested, that it was started with."""
    now, then = dict(_leaves(settings)), dict(_leaves(before))
    if differing := [name for name in now | then if now.get(name) != then.get(name)]:
        name = differing[0]
        problem = f"was started with {name} {then.get(name)!r}, not {now.get(name)!r}"
        raise ConfigError(f"{place}: {problem}; choose {other}")


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Replace nested values by dotted key.

    >>> changed({"memrecall": {"capacity": 512}}, {"memrecall.strides": [8]})
    {'memrecall': {'capacity': 512, 'strides': [8]}}
    """
    result = dict(values)
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        inner = result.get(first)
        inner = inner if isinstance(inner, Mapping) else {}
        result[first] = changed(inner, {rest: value}) if rest else value
    return result


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Translate the exceptions of a failed write."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "a part of the path is a file, not a folder"
        raise TrainingError(f"{path}: cannot be saved: {reason}; what was saved before is kept") from error


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _write(path: Path, content: str | bytes | Iterable[str], pack: bool) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if pack else nullcontext(raw) as file:
        for piece in (content,) if isinstance(content, str) else content:
            file.write(piece.encode())


def _replace_folder(temporary: Path, target: Path) -> None:
    """Replace a folder that contains only weights and files of the same names."""
    if target.exists() and not target.is_dir():
        raise TrainingError(f"{target}: is a file; choose a folder to save in")
    for entry in sorted(target.iterdir()) if target.exists() else ():
        if entry.suffix != _WEIGHTS and not (temporary / entry.name).exists():
            raise TrainingError(f"{target}: also holds {entry.name!r}, which would be lost; choose a new folder")
    old = temporary.with_suffix(".old")
    if target.exists():
        target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    _remove_leftovers(target)


def _remove_leftovers(target: Path) -> None:
    for path in target.parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.(tmp|old)", path.name):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _leaves(values: Mapping[str, Any], parents: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{parents}{key}.")
        else:
            yield f"{parents}{key}", value


def _object(text: str, where: str, kind: type[CogltxError] = DataError) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise kind(f"{where}: not valid JSON (nested too deeply)") from None
    except json.JSONDecodeError as error:
        rest = text[error.pos :].rstrip("\r\n")
        line = f":{error.lineno}" if "\n" in text.strip() else ""
        got = f"at character {error.colno}: {shorten(rest)}" if rest else "(it ends early)"
        raise kind(f"{where}{line}: not valid JSON {got}") from None
    except UnicodeEncodeError as error:
        raise kind(f"{where}: holds half of a surrogate pair, {error.object[error.start]!r}") from None
    except ValueError as error:
        raise kind(f"{where}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise kind(f"{where}: must be one JSON object, but is {shorten(value)}")
    return value


def _unique(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; raises ValueError for a duplicate key."""
    keys, values = [key for key, _ in fields], dict(fields)
    if len(values) < len(keys):
        raise ValueError(f"the key {shorten(Counter(keys).most_common(1)[0][0])} comes twice")
    return values
