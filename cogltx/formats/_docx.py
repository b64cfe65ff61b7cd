"""Word files, by python-docx: paragraphs, headings and tables in their order.

Includes content controls, text boxes (after their paragraph) and tracked insertions, but no deleted or moved text.
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import docx
from docx.oxml.ns import qn
from docx.text.paragraph import Paragraph

from cogltx.formats._sections import Sections

_HEADINGS = ("Heading", "Title")
_PARAGRAPH, _TABLE, _MOVED_AWAY, _TEXT_BOX = map(qn, ("w:p", "w:tbl", "w:moveFrom", "w:txbxContent"))
_SECOND_COPY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # of a text box
_TEXT = {qn("w:t"): None, qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}


def read(content: bytes) -> Sections:
    """Read a Word file."""
    sections, document = Sections(), docx.Document(BytesIO(content))
    for item in _paragraphs_and_tables(document.element.body):
        if item.tag == _TABLE:
            for row in _own(item, "w:tr"):
                cells = (" ".join(map(_text, cell.iter(_PARAGRAPH))).strip() for cell in _own(row, "w:tc"))
                sections.paragraph(" | ".join(filter(None, cells)))
        elif (style := Paragraph(item, document).style) is not None and (style.name or "").startswith(_HEADINGS):
            sections.heading(_text(item))
        else:
            sections.paragraph(_text(item))
    return sections


def _paragraphs_and_tables(parent: Any) -> Iterator[Any]:
    """The outermost paragraphs and tables of an element and of its text boxes, in order."""
    for child in parent:
        if child.tag in (_PARAGRAPH, _TABLE):
            yield child
        if child.tag == _PARAGRAPH:
            for box in child.iter(_TEXT_BOX):
                if next(box.iterancestors(_PARAGRAPH)) is child:
                    yield from _paragraphs_and_tables(box)
        elif child.tag != _TABLE:
            yield from _paragraphs_and_tables(child)


def _own(parent: Any, kind: str) -> Iterator[Any]:
    """Elements of a kind inside another, but not inside one of its kind that it contains."""
    return (element for element in parent.iter(qn(kind)) if next(element.iterancestors(parent.tag)) is parent)


def _text(paragraph: Any) -> str:
    """The text of a paragraph, without its text boxes."""
    if next(paragraph.iterancestors(_SECOND_COPY), None) is not None:
        return ""
    runs = (run for run in _own(paragraph, "w:r") if next(run.iterancestors(_MOVED_AWAY), None) is None)
    parts = (child for run in runs for child in run if child.tag in _TEXT)
    return "".join(_TEXT[part.tag] or part.text or "" for part in parts)
