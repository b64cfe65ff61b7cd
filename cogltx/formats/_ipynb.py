"""Jupyter notebooks: cells of Markdown, code, and what it printed; each cell is a page."""

import json
import re
from typing import Any

from cogltx.errors import DataError
from cogltx.formats import _html as html
from cogltx.formats import _markdown as markdown
from cogltx.formats._encoding import decode
from cogltx.formats._sections import Sections

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # of a terminal
_PICTURES = ("png", "jpeg", "svg")  # of nbformat 3


def read(content: bytes) -> Sections:
    """Read a notebook of nbformat 3 or 4."""
    notebook = json.loads(decode(content)[0])
    sheets = [notebook, *notebook.get("worksheets", [])] if isinstance(notebook, dict) else []
    cells = [cell for sheet in sheets for cell in sheet.get("cells", [])]
    if not cells:
        raise DataError("not a notebook: it has no cells")
    sections = Sections()
    for number, cell in enumerate(cells, start=1):
        sections.page(f"cell {number}")
        if cell["cell_type"] == "markdown":
            sections.take(markdown.read("".join(cell["source"]).encode()))
        elif cell["cell_type"] == "heading":
            sections.heading("".join(cell["source"]))
        else:
            sections.paragraph("".join(cell.get("source", cell.get("input", ""))))
        for output in cell.get("outputs", []):
            _add(output, sections)
    return sections


def _add(output: dict[str, Any], sections: Sections) -> None:
    """Add the text of an output, unless it is a picture."""
    by_type = output.get("data", output)
    plain = "".join(by_type.get("text/plain", by_type.get("text", "")))
    if "ename" in output:
        sections.paragraph(f"{output['ename']}: {output.get('evalue', '')}")
    elif "text/html" in by_type and plain.startswith("<"):  # only the name of an object
        sections.take(html.read("".join(by_type["text/html"]).encode()))
    elif not any(name.startswith("image/") or name in _PICTURES for name in by_type):
        sections.paragraph(_COLOURS.sub("", plain))
