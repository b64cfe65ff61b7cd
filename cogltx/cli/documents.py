"""Read the files and folders that a command names."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats import find_files, read_document
from cogltx.progress import logger, progress


def read_documents(names: Iterable[str | Path]) -> Iterator[Document]:
    """Read files; in a folder, those that cannot be read are named and left out.

    The id of a document is its path if there are several; ``-`` is the standard input.

    Raises:
        DataError: a file that is named cannot be read, or no file of a folder can.
    """
    named = list(map(Path, names))
    files = find_files(named)
    n_documents = 0
    for file in progress(files, "read", unit="files", delay=2.0):
        try:
            document = read_document(file)
        except DataError as error:
            if file in named:
                raise
            logger.warning(f"left out: {error}")
        else:
            n_documents += 1
            yield replace(document, id=str(file)) if len(files) > 1 else document
    if not n_documents:
        raise DataError(f"{named[0]}: no file that can be read")
