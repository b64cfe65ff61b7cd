"""Reading and writing data files: plain or gzipped text and JSON Lines; atomic writes.

Every failure is a DataError that names the file and, where there is one, the line. Knows nothing about what
the records mean, or about long JSON lists (``json_list``).
"""

import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase, BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import TextIO

from cogltx.errors import DataError
from cogltx.tasks.records import Record, expect, shorten, unique

_GZIP_MAGIC = b"\x1f\x8b"
_JSON = json.JSONDecoder(object_pairs_hook=unique)


def read_text(path: Path | str) -> str:
    """The text of a plain or gzipped UTF-8 file, every character as it stands (but no byte order mark).

    Args:
        path: the file; ``-`` is the standard input.

    Raises:
        DataError: no such file, a folder, not UTF-8, a truncated gzip.
    """
    if str(path) == "-":
        return _decode(sys.stdin.buffer.read(), "standard input", 1)
    with open_binary(Path(path)) as file:
        return _decode(file.read(), str(path), 1)


def read_json_lines(path: Path) -> Iterator[Record]:
    """The objects of a JSON Lines file, one a line; blank lines are skipped.

    Raises:
        DataError: as ``read_text``, or a line is not one JSON object.
    """
    with open_binary(path) as file:
        for number, raw in enumerate(file, 1):
            line = _decode(raw, str(path), number)
            if line.strip():
                yield _line_record(line, f"{path}:{number}")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or gzipped UTF-8 file, without their ends.

    Raises:
        DataError: as ``read_text``.
    """
    with open_binary(path) as file:
        for number, raw in enumerate(file, 1):
            yield _decode(raw, str(path), number).rstrip("\r\n")


@contextmanager
def open_binary(path: Path, *, packed: bool = False) -> Iterator[BufferedIOBase]:
    """A file opened for reading, decompressed if its first bytes are gzip's (its name does not matter).

    Args:
        path: the file.
        packed: leave gzip as it is.

    Raises:
        DataError: no such file, a folder, one that may not be read; and, while reading, a truncated or broken
            gzip.
    """
    try:
        with open(path, "rb") as raw:
            unpack = not packed and raw.peek(2)[:2] == _GZIP_MAGIC
            yield gzip.GzipFile(fileobj=raw) if unpack else raw
    except FileNotFoundError:
        raise DataError(f"{path}: expected a file, got nothing of that name") from None
    except IsADirectoryError:
        raise DataError(f"{path}: expected a file, got a folder") from None
    except EOFError:
        raise DataError(f"{path}: expected a whole gzip file, got one that ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: expected a whole gzip file, got a broken one ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable file, got: {error.strerror or error}") from None
    except ValueError:
        if "\0" not in str(path):
            raise
        raise DataError(f"{str(path)!r}: expected the name of a file, got one that holds a null character") from None


@contextmanager
def write_text(path: Path) -> Iterator[TextIO]:
    """A text file that comes to be only when everything is written; until then an old one stays as it is.

    Written as UTF-8 beside its final place, then renamed; gzipped, always to the same bytes, if the name ends
    in ``.gz``. Missing folders are made. What is not an ordinary file (``/dev/stdout``) is written directly.

    Raises:
        DataError: the place is a folder or cannot be written.
    """
    with write_binary(path) as raw, _text_on(raw, path.suffix == ".gz") as text:
        yield text


@contextmanager
def write_binary(path: Path) -> Iterator[BufferedWriter]:
    """As ``write_text``, for bytes."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise DataError(f"{path}: expected a file to write, got a folder")
    direct = target.exists() and not target.is_file()
    place = target if direct else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "wb") as file:
            yield file
        if not direct:
            os.replace(place, target)
    except OSError as error:
        raise DataError(f"{path}: expected a place that can be written, got: {error.strerror or error}") from None
    finally:
        if not direct:
            with suppress(OSError):
                place.unlink()


def _text_on(raw: BufferedWriter, pack: bool) -> TextIOWrapper:
    """A text stream; if packed, its bytes depend on nothing but what is written: no name, no time."""
    if pack:
        packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)
        return TextIOWrapper(packed, encoding="utf-8", newline="\n")
    return TextIOWrapper(raw, encoding="utf-8", newline="\n")


def _line_record(line: str, where: str) -> Record:
    try:
        value = _JSON.decode(line)
    except RecursionError:
        raise DataError(f"{where}: expected one JSON object, got too many brackets") from None
    except json.JSONDecodeError as error:
        rest = line[error.pos :].rstrip("\r\n")
        found = shorten(rest) if rest else "a line that ends early"
        raise DataError(f"{where}: expected one JSON object, got {found} at character {error.pos + 1}") from None
    except ValueError as error:
        raise DataError(f"{where}: expected one JSON object, got: {error}") from None
    refuse_half_characters(value, line, where)
    return Record(expect(value, dict, where), where)


def refuse_half_characters(value: object, source: str, where: str) -> None:
    """Refuses half of a surrogate pair, which JSON can spell but which is no text.

    Args:
        value: what was decoded.
        source: the JSON that it was decoded from.
        where: opens the message.

    Raises:
        DataError: the value holds such a half.
    """
    if "\\ud" in source or "\\uD" in source:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise DataError(f"{where}: expected Unicode text, got half of a surrogate pair, {half!r}") from None


def _decode(raw: bytes, name: str, line: int) -> str:
    """UTF-8 bytes to text; ``line`` is the number of their first line."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(not_utf8(f"{name}:{line + raw[: error.start].count(10)}", error)) from None


def not_utf8(where: str, error: UnicodeDecodeError) -> str:
    """The message for bytes that are not UTF-8."""
    return f"{where}: expected UTF-8, got the byte 0x{error.object[error.start]:02x}"
