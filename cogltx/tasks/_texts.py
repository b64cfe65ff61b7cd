"""Plain texts: a text file, a folder of ``.txt`` files, or JSON Lines with ``text``; each plain or gzipped."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, StrictStr

from cogltx._files import is_hidden, read_json_lines, read_text
from cogltx.errors import DataError
from cogltx.tasks.base import errors_at

_TEXTS = (".txt", ".txt.gz")
_LINES = (".jsonl", ".jsonl.gz")


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file or folder that are not blank; raises DataError if there are none."""
    is_empty = True
    for text in filter(str.strip, _all(path)):
        is_empty = False
        yield text
    if is_empty:
        raise DataError(f"{path}: holds no text")


class _Line(BaseModel):
    text: StrictStr


def _all(path: Path) -> Iterator[str]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(_TEXTS) and file.is_file())
        visible = [file for file in files if not is_hidden(file.relative_to(path))]
        if not visible:
            raise DataError(f"{path}: the folder holds no files that end in {' or '.join(_TEXTS)}")
        yield from map(read_text, visible)
    elif path.name.endswith(_LINES):
        for where, values in read_json_lines(path):
            with errors_at(where):
                text = _Line.model_validate(values).text
            yield text
    else:
        yield read_text(path)
