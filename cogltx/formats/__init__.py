"""Read text, Markdown, HTML, PDF, Word and EPUB files. To add a format, write a module with ``read`` and a line."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile, is_zipfile
from zlib import error as zlib_error

from more_itertools import unique_everseen

from cogltx._files import is_hidden, open_binary, read_text
from cogltx._progress import logger
from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats._sections import Sections

__all__ = ["FORMATS", "find_files", "read_document"]

FORMATS = {
    ".pdf": ("pdf", "PDF file"),
    ".docx": ("docx", "Word file"),
    ".epub": ("epub", "EPUB file"),
    ".html": ("html", "HTML file"),
    ".htm": ("html", "HTML file"),
    ".xhtml": ("html", "HTML file"),
    ".md": ("markdown", "Markdown file"),
    ".markdown": ("markdown", "Markdown file"),
}
"""Module and noun of each format by the ending of a file's name; all others are text."""

_MOST_EXPANSION = 200_000_000  # bytes that the text of a zipped document grows by; more is an attack
_NOT_TEXT = f"not a text file; known formats are {', '.join(FORMATS)} and UTF-8 text"
_FIRST_BYTES = 4096
ENDINGS = {*FORMATS, ".txt", ".text", ".rst", ".gz"}


def read_document(path: str | Path) -> Document:
    """Read a file in the format of its name's ending, or else as UTF-8 text; ``-`` is the standard input.

    Sections become segments with their headings; ``Document.pages`` holds the pages of a PDF.

    Raises:
        DataError: the file is missing, broken, encrypted or without text, or a package for its format is missing.
    """
    name = "standard input" if str(path) == "-" else str(path)
    ending = Path(path).suffix.lower()
    if ending in FORMATS:
        document = _read(Path(path), *FORMATS[ending])
    else:
        if str(path) != "-":
            _check_text(Path(path))
        text = read_text(path)
        if "\0" in text:
            raise DataError(f"{name}: {_NOT_TEXT}")
        document = Document(text, id="" if str(path) == "-" else Path(path).name) if text.strip() else None
    if document is None:
        raise DataError(f"{name}: the document has no text")
    for note in document.notes:
        logger.warning(f"{name}: {note}")
    return document


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """List files, and the readable files in folders and their subfolders by name, each once, without hidden ones."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not is_hidden(file.relative_to(path)))
        known = [file for file in inside if file.suffix.lower() in ENDINGS]
        if not known:
            raise DataError(f"{path}: the folder has no file of a known format ({', '.join(sorted(ENDINGS))})")
        if others := Counter(file.suffix or "without ending" for file in inside if file.suffix.lower() not in ENDINGS):
            counts = ", ".join(f"{count} {ending}" for ending, count in sorted(others.items()))
            logger.info(f"{path}: files of other formats are not read: {counts}")
        files += known
    return list(unique_everseen(files, key=Path.resolve))


def _check_text(path: Path) -> None:
    """Check that a file is not binary."""
    with open_binary(path) as file:
        first = file.read(_FIRST_BYTES)
    if first.startswith(b"{\\rtf") or (b"\0" in first and not first.startswith((BOM_UTF16_LE, BOM_UTF16_BE))):
        raise DataError(f"{path}: {_NOT_TEXT}")


def _read(path: Path, module: str, noun: str) -> Document | None:
    """Read a file with the module of its format; None without text."""
    with open_binary(path) as file:
        content = file.read()
    try:
        read: Callable[[bytes], Sections] = import_module(f"cogltx.formats._{module}").read
    except ModuleNotFoundError as error:
        if str(error.name).startswith("cogltx"):
            raise
        raise DataError(
            f'{path}: the package {error.name} is not installed, which reads a {noun}; pip install "cogltx[files]"'
        ) from None
    try:
        if is_zipfile(BytesIO(content)):
            with ZipFile(BytesIO(content)) as archive:
                if sum(part.file_size - part.compress_size for part in archive.infolist()) > _MOST_EXPANSION:
                    raise ValueError(f"it expands to more than {_MOST_EXPANSION:,} bytes")
        return read(content).document(path.name)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except MemoryError:
        raise
    except (Exception, zlib_error) as error:  # whatever the libraries raise for a broken file
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DataError(f"{path}: not a readable {noun} ({reason})") from error
