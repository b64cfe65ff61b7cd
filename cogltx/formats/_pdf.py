"""PDF files, by pypdfium2: the text of each page, its lines joined to paragraphs."""

import re
from statistics import quantiles

import pypdfium2

from cogltx.errors import DataError
from cogltx.formats._sections import Sections

_HYPHEN = re.compile("[\ufffe\x02]\n?|\u00ad\n")  # pdfium's marks of a word that was divided at the end of a line
_FULL = 0.8  # a line of at least this share of the page's long lines continues in the next


def read(content: bytes) -> Sections:
    """Read a PDF file; raises DataError if it needs a password, or no page has text."""
    sections = Sections()
    try:
        file = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError("the PDF file is encrypted; remove its password first") from None
        raise
    with_text = 0
    with file:
        for number, page in enumerate(file, start=1):
            text = page.get_textpage().get_text_bounded()
            sections.page(number)
            for paragraph in _paragraphs(text):
                sections.paragraph(paragraph)
            with_text += bool(text.strip())
        if not with_text:
            raise DataError("no page has text, probably a scan; recognise its text first (OCR)")
    return sections


def _paragraphs(text: str) -> list[str]:
    """Join the lines of a page to paragraphs; a line that is clearly shorter than the others ends one.

    >>> _paragraphs("The company was foun\\ufffe\\nded in 1931 by an\\nengineer.\\nIt builds bridges all")
    ['The company was founded in 1931 by an engineer.', 'It builds bridges all']
    """
    lines = [line.strip() for line in _HYPHEN.sub("", text.replace("\r\n", "\n")).split("\n")]
    lengths = [len(line) for line in lines if line]
    long = quantiles(lengths, n=10, method="inclusive")[-1] if len(lengths) > 1 else 0
    joined, current = [], ""
    for line in lines:
        current = f"{current} {line}".strip()
        if current and len(line) < _FULL * long:
            joined.append(current)
            current = ""
    return joined + [current] * bool(current)
