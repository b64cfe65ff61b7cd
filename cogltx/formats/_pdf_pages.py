"""Pages of PDF files as pictures, by pdfium."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pypdfium2

from cogltx.errors import DataError
from cogltx.formats._limits import Limits
from cogltx.formats._parse import read_content

_MOST_PIXELS = 6_000_000


@contextmanager
def opened(path: Path, name: str, limits: Limits) -> Iterator[pypdfium2.PdfDocument]:
    """Open a PDF file, which may be gzipped; raises DataError if it is not readable."""
    try:
        file = pypdfium2.PdfDocument(read_content(path, name, limits))
    except pypdfium2.PdfiumError as error:
        raise DataError(f"{name}: not a readable PDF file ({error})") from None
    with file:
        if file.get_formtype():
            file.init_forms()
        yield file


def png(file: pypdfium2.PdfDocument, number: int, scale: float) -> bytes:
    """Draw a page, from 1, as PNG with ``scale`` pixels per point, fewer for a very large page; raises DataError."""
    if not 1 <= number <= len(file):
        raise DataError(f"there is no page {number}; the file has {len(file)}")
    page = file[number - 1]
    width, height = page.get_size()
    scale = min(scale, (_MOST_PIXELS / max(width * height, 1.0)) ** 0.5)
    picture = BytesIO()
    page.render(scale=scale).to_pil().save(picture, "PNG")
    return picture.getvalue()
