"""Texts without labels: a document of any format, a folder of them, or JSON Lines with ``text``."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, StrictStr

from cogltx._files import read_json_lines
from cogltx._progress import logger
from cogltx.errors import DataError
from cogltx.formats import find_files, read_document
from cogltx.tasks.base import errors_at

_LINES = (".jsonl", ".jsonl.gz")


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file or folder that are not blank; raises DataError if there are none.

    Of a folder, the files that ``find_files`` lists are read; the log names those that cannot be read.
    """
    is_empty = True
    for text in filter(str.strip, _all(path)):
        is_empty = False
        yield text
    if is_empty:
        raise DataError(f"{path}: holds no text")


class _Line(BaseModel):
    text: StrictStr


def _all(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield from _of_file(path)
        return
    for file in find_files([path]):
        try:
            texts = list(_of_file(file))
        except DataError as error:
            logger.warning(f"left out: {error}")
        else:
            yield from texts


def _of_file(path: Path) -> Iterator[str]:
    if not path.name.endswith(_LINES):
        yield read_document(path).text
        return
    for where, values in read_json_lines(path):
        if values.get("text") is None and values.get("document") is not None:
            continue  # another question about the document of the line before
        with errors_at(where):
            text = _Line.model_validate(values).text
        yield text
