"""Builds a document from paragraphs, headings and pages."""

import re
from collections.abc import Iterable
from dataclasses import replace

from cogltx.document import BETWEEN_PARAGRAPHS, Document, Line, Segment

_HEADING_CHARACTERS = 120  # of a heading before each block
_UNPRINTABLE = re.compile(r"[\0\ud800-\udfff]")


class Sections:
    """Collects paragraphs; a heading begins a section, which becomes a segment."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._sections: list[tuple[int, str]] = []
        self._pages: list[tuple[int, int | str]] = []
        self._lines: list[Line] = []
        self._notes: list[str] = []

    def paragraph(self, text: str, lines: Iterable[Line] = ()) -> None:
        """Add a paragraph; white space around it is removed.

        Args:
            text: the paragraph.
            lines: its printed lines; their positions count from the beginning of ``text``.
        """
        text = _UNPRINTABLE.sub("\ufffd", text.strip())
        self._lines += [replace(line, start=self._next + line.start, end=self._next + line.end) for line in lines]
        if text:
            piece = (BETWEEN_PARAGRAPHS if self._pieces else "") + text
            self._pieces.append(piece)
            self._length += len(piece)

    def heading(self, text: str) -> None:
        """Begin a section; its heading is a paragraph, too."""
        text = " ".join(text.split())
        if text:
            self._sections.append((self._next, text[:_HEADING_CHARACTERS]))
            self.paragraph(text)

    def blocks(self, blocks: Iterable[tuple[bool, str]]) -> None:
        """Add texts, each of which is a heading or a paragraph."""
        for is_heading, text in blocks:
            (self.heading if is_heading else self.paragraph)(text)

    def page(self, number: int | str) -> None:
        """Begin a page with a number, or with a name, such as "slide 4"."""
        self._pages.append((self._next, number))

    def note(self, problem: str) -> None:
        """Report in one line what cannot be read, if anything; the rest of the file is read."""
        if problem:
            self._notes.append(problem)

    def take(self, other: "Sections") -> None:
        """Add the sections, pages and notes of a document within this one."""
        start = self._next
        self._sections += [(start + place, heading) for place, heading in other._sections]
        self._pages += [(start + place, number) for place, number in other._pages]
        self._notes += other._notes
        moved = [replace(line, start=start + line.start, end=start + line.end) for line in other._lines]
        self.paragraph("".join(other._pieces))
        self._lines += moved

    @property
    def _next(self) -> int:
        """Offset of the next paragraph."""
        return self._length + len(BETWEEN_PARAGRAPHS) if self._pieces else 0

    def document(self) -> Document | None:
        """Make the document; None if there is no text.

        Without headings and pages, the text is one segment: its lines are not those of the file.
        """
        text = "".join(self._pieces)
        if not text:
            return None
        ends = [start - len(BETWEEN_PARAGRAPHS) for start, _ in self._sections[1:]] + [len(text)]
        segments = [Segment(start, end, heading) for (start, heading), end in zip(self._sections, ends, strict=False)]
        pages = tuple(page for page in self._pages if page[0] < len(text))
        if not segments and not pages:
            segments = [Segment(0, len(text))]
        return Document(text, "", tuple(segments), pages=pages, lines=tuple(self._lines), notes=tuple(self._notes))
