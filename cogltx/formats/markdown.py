"""Markdown files, by markdown-it: the text stays as it is; headings begin sections."""

from itertools import accumulate, pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from cogltx.files import read_text
from cogltx.formats.sections import Sections


def read(path: Path) -> Sections:
    """Read a Markdown file."""
    text = read_text(path)
    lines = text.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))
    tokens = MarkdownIt().parse(text)
    sections, at = Sections(), 0
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open" and opening.map and opening.level == 0:
            first, end = opening.map
            sections.paragraph(text[at : starts[first]])
            sections.heading(content.content)
            at = starts[end]
    sections.paragraph(text[at:])
    return sections
