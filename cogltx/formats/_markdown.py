"""Markdown files, by cmark-gfm: rendered as HTML, which is read without markup; headings begin sections."""

import re
from html import escape, unescape

import cmarkgfm
from cmarkgfm.cmark import Options

from cogltx.formats import _formulas as formulas
from cogltx.formats import _html as html
from cogltx.formats._encoding import decode
from cogltx.formats._sections import Sections

_OPTIONS = (
    Options.CMARK_OPT_UNSAFE
    | Options.CMARK_OPT_HARDBREAKS
    | Options.CMARK_OPT_FOOTNOTES
    | Options.CMARK_OPT_STRIKETHROUGH_DOUBLE_TILDE
)
_EXTENSIONS = ("table", "strikethrough", "tasklist")
_SETTING = re.compile(r"[\w\"'.-][^:\n]*:|[\s#-]|\Z")  # begins a line of settings
_CODE = re.compile(r"(</?(?:pre|code)\b[^>]{0,200}>)")
_FORMULA = re.compile(r"\$\$([^$]{1,2000})\$\$|\$(?=\S)([^$\n]{1,200})(?<=\S)\$(?!\d)")
_TEX = re.compile(r"\\[a-zA-Z]|\^|_\{")
_TAG = re.compile(r"<[^<>]*>")


def read(content: bytes) -> Sections:
    """Read a Markdown file, without the settings before the text of a blog's page (front matter)."""
    text, note = decode(content)
    sections = Sections()
    sections.note(note)
    rendered = cmarkgfm.markdown_to_html_with_extensions(_without_front_matter(text), _OPTIONS, extensions=_EXTENSIONS)
    html.add(_with_formulas(rendered), sections, line_break="\n")
    return sections


def _with_formulas(rendered: str) -> str:
    """Write formulas between dollar signs, but not in code, as linear text."""
    pieces, in_code = _CODE.split(rendered), 0
    for index, piece in enumerate(pieces):
        if index % 2:
            in_code += -1 if piece.startswith("</") else 1
        elif in_code <= 0:
            pieces[index] = _FORMULA.sub(_formula, piece)
    return "".join(pieces)


def _formula(match: re.Match[str]) -> str:
    source = match[1] or match[2]
    return escape(formulas.tex(unescape(_TAG.sub(" ", source)))) if _TEX.search(source) else match[0]


def _without_front_matter(text: str) -> str:
    """Return the text after settings in YAML.

    >>> _without_front_matter("---\\nauthor: Ada\\n---\\nText")
    'Text'
    """
    lines = text.split("\n")
    if lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], start=1):
            if line.rstrip() in ("---", "..."):
                return "\n".join(lines[number + 1 :])
            if not _SETTING.match(line):
                break
    return text
