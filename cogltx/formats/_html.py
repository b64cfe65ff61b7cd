"""HTML files, by Beautiful Soup: the visible text without navigation, block element by block element."""

import re
from collections.abc import Iterator
from itertools import groupby

from bs4 import BeautifulSoup
from bs4.builder import HTMLTreeBuilder
from bs4.element import NavigableString, PreformattedString, Tag

from cogltx.formats._sections import Sections

_LEFT_OUT = ("script", "style", "noscript", "template", "svg", "math", "title", "button", "select", "textarea", "nav")
_NOT_SHOWN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_CELLS = {"td", "th"}
_BLOCKS = HTMLTreeBuilder.DEFAULT_BLOCK_ELEMENTS | {"body", "tr", "caption", "details", "summary", "legend"}
_HEADING = re.compile("h[1-6]")
_SPACE = re.compile(r"\s+")


def read(content: bytes) -> Sections:
    """Read an HTML file."""
    sections = Sections()
    add(content, sections)
    return sections


def add(markup: bytes | str, sections: Sections) -> None:
    """Add the visible text of HTML to a document."""
    soup = BeautifulSoup(markup, "html.parser")
    for tag in [*soup.find_all(_LEFT_OUT), *soup.find_all(hidden=True), *soup.find_all(style=_NOT_SHOWN)]:
        tag.decompose()
    for _, group in groupby(_strings(soup), key=lambda pair: id(pair[0])):
        pairs = list(group)
        name, text = pairs[0][0].name, "".join(string for _, string in pairs)
        text = text.strip("\n") if name == "pre" else _SPACE.sub(" ", text).strip(" |")
        if _HEADING.fullmatch(name):
            sections.heading(text)
        else:
            sections.paragraph(text)


def _strings(soup: BeautifulSoup) -> Iterator[tuple[Tag, str]]:
    """The visible strings, each with its innermost block element."""
    block: Tag = soup
    for node in soup.descendants:
        if isinstance(node, NavigableString):
            if not isinstance(node, PreformattedString):
                block = next((parent for parent in node.parents if parent.name in _BLOCKS), soup)
                yield block, str(node)
        elif isinstance(node, Tag) and node.name == "br":
            yield block, " "
        elif isinstance(node, Tag) and node.name in _CELLS:
            row = next((parent for parent in node.parents if parent.name in _BLOCKS), soup)
            yield row, " | "
