"""Texts alone: a text file, a folder of ``.txt`` files, or JSON Lines with the field ``text``; each plain or gzipped.

Knows nothing about tokens, or about what the texts are for.
"""

from collections.abc import Iterator
from pathlib import Path

from cogltx.errors import DataError
from cogltx.tasks.files import read_json_lines, read_text

_TEXTS = (".txt", ".txt.gz")
_LINES = (".jsonl", ".jsonl.gz")


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a file or folder, one after another; blank ones are left out.

    Args:
        path: a folder, with folders in it or not; a JSON Lines file, by its name; or a file that is one text.

    Raises:
        DataError: it is missing, not UTF-8, not JSON Lines with texts, or holds no text; names the file and line.
    """
    texts = 0
    for text in _all(path):
        if text.strip():
            texts += 1
            yield text
    if not texts:
        raise DataError(f"{path}: expected text, got none")


def _all(path: Path) -> Iterator[str]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(_TEXTS) and file.is_file())
        if not files:
            raise DataError(f"{path}: expected files that end in {' or '.join(_TEXTS)}, found none")
        yield from map(read_text, files)
    elif path.name.endswith(_LINES):
        yield from (record.get("text", str) for record in read_json_lines(path))
    else:
        yield read_text(path)
