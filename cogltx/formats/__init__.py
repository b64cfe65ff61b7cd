"""Read text, Markdown, notebooks, HTML, PDF, EPUB, office files, tables and e-mails.

To add a format, write a module with ``read`` and a line in ``FORMATS``.
"""

import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from os.path import realpath
from pathlib import Path

from more_itertools import unique_everseen

from cogltx._files import is_hidden, printable_name, read_all
from cogltx._progress import logger, progress
from cogltx.document import Document
from cogltx.errors import DataError, one_line
from cogltx.formats._contents import without_contents
from cogltx.formats._encoding import decode, is_text
from cogltx.formats._limits import Limits
from cogltx.formats._parse import FIRST_BYTES, read_content
from cogltx.formats._processes import read_apart

__all__ = ["FORMATS", "ending", "find_files", "read_document", "read_documents"]

FORMATS = {
    ".pdf": ("pdf", "PDF file"),
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), ("docx", "Word file")),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".potx"), ("pptx", "PowerPoint file")),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx"), ("xlsx", "Excel file")),
    **dict.fromkeys((".odt", ".ods", ".odp", ".ott", ".ots", ".otp"), ("odf", "OpenDocument file")),
    **dict.fromkeys((".csv", ".tsv"), ("csv", "table")),
    ".rtf": ("rtf", "RTF file"),
    ".eml": ("eml", "e-mail"),
    ".epub": ("epub", "EPUB file"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("html", "HTML file")),
    **dict.fromkeys((".md", ".markdown"), ("markdown", "Markdown file")),
    ".ipynb": ("ipynb", "notebook"),
}
"""Module and noun of each format by the ending of a file's name; all others are text."""

_NOT_TEXT = f"not a text file; known formats are {', '.join(FORMATS)} and text"
ENDINGS = {*FORMATS, ".txt", ".text", ".rst", ".gz"}


def read_document(
    path: str | Path, *, name: str = "", seconds: float | None = None, megabytes: float | None = None
) -> Document:
    """Read a file in the format of its name's ending, or else as text; ``-`` is the standard input.

    Sections become segments with their headings; ``Document.pages`` holds pages, slides and rows of sheets. Any file
    may be gzipped.

    Args:
        path: the file.
        name: its name in messages, and the id of the document; by default its path, and its name without folders.
        seconds: limit of processor time, for all formats but text; by default 40 per megabyte, from 1.5 to 600.
        megabytes: limit of memory; by default 250, and 50 more per megabyte of the file, at most 2,000. A compressed
            file may expand to a third of it.

    Raises:
        DataError: the file is missing, broken, encrypted or without text, a package for its format is missing, or
            reading it exceeds a limit.
    """
    if str(path) == "-":
        shown, id = "standard input", ""
        document = _text(_standard_input(shown), shown)
    else:
        path = Path(path)
        shown, id = name or printable_name(path), name or printable_name(path.name)
        module, noun = FORMATS.get(ending(path), ("", ""))
        limits = Limits.of(_size(path), seconds, megabytes)
        document = read_apart(path, shown, module, noun, limits) if module else _read_text(path, shown, limits)
    if document is None:
        raise DataError(f"{shown}: the document has no text")
    for note in document.notes:
        logger.warning(one_line(f"{shown}: {note}"))
    return replace(document, id=id)


def _standard_input(name: str) -> bytes:
    """Read the standard input, which is a text."""
    content = read_all(sys.stdin.buffer.read, 0, name)
    if not is_text(content[:FIRST_BYTES]):
        raise DataError(f"{name}: it is read as text, and this is none; name the file instead")
    return content


def ending(path: str | Path) -> str:
    """Return the ending of a file's name in small letters, without ``.gz``: ``.pdf`` of ``book.PDF.gz``."""
    name = Path(path).name
    return Path(name[:-3] if name.lower().endswith(".gz") else name).suffix.lower()


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
    return list(unique_everseen(files, key=realpath))


def read_documents(
    files: Sequence[Path],
    named: Container[Path] = (),
    *,
    title: str = "read",
    seconds: float | None = None,
    megabytes: float | None = None,
) -> Iterator[tuple[Path, Document]]:
    """Read files one by one, with a progress bar; the log names those that cannot be read.

    Args:
        files: the files, such as those of ``find_files``.
        named: the files that must be readable, because the user named them.
        title: of the progress bar.
        seconds: see ``read_document``.
        megabytes: see ``read_document``.

    Raises:
        DataError: a named file cannot be read.
    """
    for file in progress(files, title, unit="files", delay=2.0):
        try:
            document = read_document(file, seconds=seconds, megabytes=megabytes)
        except DataError as error:
            if file in named:
                raise
            logger.warning(f"left out: {error}")
        else:
            yield file, document


def _size(path: Path) -> int:
    """Size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def _read_text(path: Path, name: str, limits: Limits) -> Document | None:
    """Read a text file; None without text."""

    def check(first: bytes) -> None:
        if not is_text(first):
            raise DataError(f"{name}: {_NOT_TEXT}")

    return _text(read_content(path, name, limits, check), name)


def _text(content: bytes, name: str) -> Document | None:
    """Make the document of a text; None if it is blank."""
    try:
        text, note = decode(content)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    if "\0" in text:
        raise DataError(f"{name}: {_NOT_TEXT}")
    return Document(without_contents(text), notes=(note,) if note else ()) if text.strip() else None
