"""Markdown files, by markdown-it: the text without markup; headings begin sections."""

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cogltx.formats import _html as html
from cogltx.formats._encoding import decode
from cogltx.formats._sections import Sections

_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n(?:[^\n]*\S[^\n]*\n)*?---[^\S\n]*(?:\n|\Z)")  # settings, as of a blog
_BREAKS = ("softbreak", "hardbreak")


def read(content: bytes) -> Sections:
    """Read a Markdown file."""
    text, sections = decode(content), Sections()
    if front := _FRONT_MATTER.match(text):
        sections.paragraph(front[0])
        text = text[front.end() :]
    cells, opening = list[str](), ""
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "inline":
            if opening in ("th_open", "td_open"):
                cells.append(_plain(token))
            elif opening == "heading_open" and token.level == 1:  # not in a quotation
                sections.heading(_plain(token))
            else:
                sections.paragraph(_plain(token))
        elif token.type == "tr_close":
            sections.paragraph(" | ".join(filter(None, cells)))
            cells = []
        elif token.type in ("fence", "code_block"):
            sections.paragraph(token.content)
        elif token.type == "html_block":
            html.add(token.content, sections)
        opening = token.type
    return sections


def _plain(inline: Token) -> str:
    """The text of a paragraph, a heading or a cell; of a picture, what it shows."""
    return "".join(map(_text, inline.children or ()))


def _text(child: Token) -> str:
    is_tag = child.type == "html_inline"
    if child.type in _BREAKS or (is_tag and child.content.lower().startswith("<br")):
        return "\n"
    return "" if is_tag else child.content
