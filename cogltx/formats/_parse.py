"""Parse the bytes of a file with the module of its format; every fault of the file is one line."""

import os
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile, is_zipfile
from zlib import error as zlib_error

from cogltx._files import open_binary
from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats._limits import Limits
from cogltx.formats._sections import Sections

FIRST_BYTES = 4096


def parse(path: Path, name: str, module: str, noun: str, limits: Limits) -> Document | None:
    """Read a file with the module of its format; None without text.

    Args:
        path: the file.
        name: the file in messages.
        module: the format's module, without underscore.
        noun: the format in messages.
        limits: how much a compressed file may expand to; the caller sets the limits of the process.
    """
    read = load_reader(module, noun, name)
    content = read_content(path, name, limits)
    try:
        if is_zipfile(BytesIO(content)):
            with ZipFile(BytesIO(content)) as archive:
                if sum(part.file_size - part.compress_size for part in archive.infolist()) > limits.expanded_bytes:
                    raise DataError(limits.too_large)
        return read(content).document()
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except MemoryError:
        raise
    except (Exception, zlib_error) as error:  # whatever the libraries raise for a broken file
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DataError(f"{name}: not a readable {noun} ({reason})") from error


def load_reader(module: str, noun: str, name: str) -> Callable[[bytes], Sections]:
    """Import the module of a format, and return its function; raises DataError if a package is missing."""
    try:
        read: Callable[[bytes], Sections] = import_module(f"cogltx.formats._{module}").read
    except ModuleNotFoundError as error:
        if str(error.name).startswith("cogltx"):
            raise
        raise DataError(
            f'{name}: the package {error.name} is not installed, which reads a {noun}; pip install "cogltx[files]"'
        ) from None
    return read


def read_content(path: Path, name: str, limits: Limits, check: Callable[[bytes], None] = lambda first: None) -> bytes:
    """Read a plain or gzipped file; raises DataError if its content is longer than the limit.

    Args:
        path: the file.
        name: the file in messages.
        limits: of memory.
        check: is called with the first bytes.
    """
    with open_binary(path, name=name) as file:
        most = max(limits.expanded_bytes, os.fstat(file.fileno()).st_size)
        first = file.read(FIRST_BYTES)
        check(first)
        rest = file.read(most + 1 - len(first))
    if len(first) + len(rest) > most:
        raise DataError(f"{name}: {limits.too_large}")
    return first + rest
