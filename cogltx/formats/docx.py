"""Word files, by python-docx: paragraphs, headings and tables in their order."""

from collections.abc import Iterable
from pathlib import Path

import docx
from docx.table import Table, _Cell
from docx.text.paragraph import Paragraph

from cogltx.formats.sections import Sections

_HEADINGS = ("Heading", "Title")


def read(path: Path) -> Sections:
    """Read a Word file."""
    sections = Sections()
    _add(docx.Document(str(path)).iter_inner_content(), sections)
    return sections


def _add(items: Iterable[Paragraph | Table], sections: Sections) -> None:
    for item in items:
        if isinstance(item, Table):
            for row in item.rows:
                cells = (_Cell(cell, item).text.strip() for cell in row._tr.tc_lst)  # row.cells repeats merged cells
                sections.paragraph(" | ".join(filter(None, cells)))
        elif item.style is not None and (item.style.name or "").startswith(_HEADINGS):
            sections.heading(item.text)
        else:
            sections.paragraph(item.text)
