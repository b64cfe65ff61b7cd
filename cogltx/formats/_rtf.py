"""RTF files, by striprtf: their paragraphs, the numbers and rows that they hold, and their notes."""

import re

from striprtf.striprtf import rtf_to_text

from cogltx.errors import DataError
from cogltx.formats import _inline as inline
from cogltx.formats import _tables as tables
from cogltx.formats._sections import Sections

_MARKS = re.compile(r"\\\\|\\[{}]|[{}]|\\(?:\*\\)?(super|nosupersub|sub|plain|footnote|v|v0|cell|row)(?![a-z0-9])[ ]?")
_NOTE, _NOTE_END, _CELL = "\ufdd8", "\ufdd9", "\ufdda"
_NOTES = re.compile(f"{_NOTE}([^{_NOTE}{_NOTE_END}]*){_NOTE_END}")


def read(content: bytes) -> Sections:
    """Read an RTF file."""
    if not content.lstrip().startswith(b"{\\rtf"):
        raise DataError("it does not begin with {\\rtf")
    sections, count = Sections(), 0
    text = rtf_to_text(_marked(content.decode("latin-1")), errors="replace")
    text = _NOTES.sub(lambda match: match[0].replace("\n", " "), text)
    for paragraph in text.split("\n"):
        notes = list[str]()
        for note in _NOTES.findall(paragraph):
            count += 1
            notes.append(f"[{count}] {inline.plain(note).strip()}")
            paragraph = _NOTES.sub(inline.note_mark(str(count)), paragraph, count=1)
        paragraph = inline.plain(paragraph)
        cells = paragraph.split(_CELL)
        sections.paragraph(tables.row(cells[:-1]) if len(cells) > 1 else paragraph)
        for note in notes:
            sections.paragraph(note)
    return sections


def _marked(source: str) -> str:
    """Put markers into RTF for what striprtf leaves out: superscript letters, notes and the ends of cells."""
    closing = [""]  # the markers that end with each open group

    def mark(match: re.Match[str]) -> str:
        word = match[1]
        if match[0] == "{":
            closing.append("")
        elif match[0] == "}":
            return _code(closing.pop() if len(closing) > 1 else "") + "}"
        elif word == "super":
            closing[-1] += inline.END
            return _code(inline.RAISED)
        elif word in ("nosupersub", "plain", "sub") and closing[-1].endswith(inline.END):
            closing[-1] = closing[-1][:-1]
            return _code(inline.END) + match[0]
        elif word == "footnote":
            closing[-1] += _NOTE_END
            return _code(_NOTE)
        elif word == "cell":
            return _code(_CELL)
        return match[0]

    return _MARKS.sub(mark, source).replace("{\\field", "{\n\\field")  # striprtf looks for links in quadratic time


def _code(markers: str) -> str:
    """Characters as RTF has them."""
    return "".join(f"\\uc0\\u{ord(marker)} \\uc1 " for marker in reversed(markers))
