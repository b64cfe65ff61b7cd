"""Markdown files, by markdown-it: the text stays as it is; headings begin sections."""

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from cogltx.files import read_text
from cogltx.formats.sections import Sections

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n(?:[^\n]*\S[^\n]*\n)*?---[^\S\n]*(?:\n|\Z)")  # settings, as of a blog


def read(path: Path) -> Sections:
    """Read a Markdown file."""
    text = read_text(path)
    front = _FRONT_MATTER.match(text)
    first_character = front.end() if front else 0
    line_ends = (match.end() for match in _LINE_END.finditer(text, first_character))
    starts = [first_character, *line_ends, len(text)]
    tokens = MarkdownIt().parse(text[first_character:])
    sections, at = Sections(), 0
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open" and opening.map and opening.level == 0:
            first, end = opening.map
            sections.paragraph(text[at : starts[first]])
            sections.heading(content.content)
            at = starts[end]
    sections.paragraph(text[at:])
    return sections
