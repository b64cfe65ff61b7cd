"""Paragraphs of a PDF: lines that continue each other, across columns and pages."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from more_itertools import split_before, split_when

from cogltx.formats._pdf_columns import Block
from cogltx.formats._pdf_hyphens import HYPHEN
from cogltx.formats._pdf_lines import LEADER, Line, is_right_to_left

_SPACED = 1.25  # usual distances of lines: more is the space between paragraphs
_INDENT = 0.7  # type sizes
_ENDS = re.compile(r"[.!?:;。！？：；…؟۔।][\"'”’»)\]」』）]*(?:\s?\[\d+\])?$")
_SENTENCE_ENDS = re.compile(r"[.!?。！？…؟۔।][\"'”’»)\]」』）]*(?:\s?\[\d+\])?$")
_BULLET = re.compile(r"[•◦▪▫–—·‣●○■□◆▶►✓✗*-](?:\s|$)")
_NUMBERED = re.compile(r"(?:\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\([ivx]{1,4}\)|[ivx]{1,4}[.)]|\[\d+\])(?:\s|$)")
_NOTE = re.compile(r"(?:\[?\d{1,3}\]?|[*†‡§¶]{1,3})\s?\S")
_NOTE_SIZE = 0.93  # of the size of the text


@dataclass(eq=False)
class Paragraph:
    """Lines that belong together; ``kind`` is text, table, code or note."""

    kind: str
    lines: list[Line] = field(default_factory=list)
    edge: float = 0  # where its lines end at most

    @property
    def size(self) -> float:
        """Type size of most lines."""
        return Counter(line.size for line in self.lines).most_common(1)[0][0]

    @property
    def text(self) -> str:
        """Its lines joined by spaces."""
        return " ".join(line.text for line in self.lines)


class Paragraphs:
    """Builds paragraphs with what is usual in the document: the type size of its text and the distance of its lines."""

    def __init__(self, pages: Sequence[Sequence[Block]]) -> None:
        sizes, fixed, steps = Counter[float](), Counter[bool](), defaultdict[float, Counter[float]](Counter)
        for block in (block for page in pages for block in page):
            for line in block:
                sizes[line.size] += len(line.text)
                fixed[line.style.fixed] += len(line.text)
            for before, line in pairwise(block):
                if before.size == line.size:
                    steps[line.size][round(line.y - before.y, 1)] += 1
        self.size = sizes.most_common(1)[0][0] if sizes else 0.0
        self._all_fixed = fixed[True] > 0.9 * fixed.total()
        self._steps = {size: counts.most_common(1)[0][0] for size, counts in steps.items()}

    def all(self, pages: Iterable[Sequence[Block]]) -> Iterator[Paragraph]:
        """Yield the paragraphs of all pages; one that continues on the next page is whole, and footnotes follow it."""
        last: Paragraph | None = None
        notes: list[Paragraph] = []
        for page in pages:
            page_notes: list[Paragraph] = []
            page_paragraphs: list[Paragraph] = []
            for block in page:
                lines = self._without_notes(block, page_notes)
                page_paragraphs = self._stitched(page_paragraphs, self._of(lines))
            if notes and page_notes and not _NOTE.match(page_notes[0].text):
                notes[-1].lines += page_notes.pop(0).lines
            if last:
                position = self._continuation(last, page_paragraphs)
                if position is not None:
                    last.lines += page_paragraphs.pop(position).lines
                if not page_paragraphs:
                    notes += page_notes
                    continue
                yield last
            yield from notes
            notes = page_notes
            yield from page_paragraphs[:-1]
            last = page_paragraphs[-1] if page_paragraphs else None
        if last:
            yield last
        yield from notes

    def _stitched(self, before: list[Paragraph], after: list[Paragraph]) -> list[Paragraph]:
        if before and after and self._goes_on(before[-1], after[0]):
            before[-1].lines += after[0].lines
            before[-1].edge = after[0].edge
            return before + after[1:]
        return before + after

    def _continuation(self, last: Paragraph, following: list[Paragraph]) -> int | None:
        """Return which paragraph of a page continues the last one of the page before; tables or code may precede it."""
        end = last.lines[-1].text[-1:]
        may_jump = end not in ":;" and not (end == "," and following and following[0].kind == "code")
        texts = [number for number, paragraph in enumerate(following) if paragraph.kind == "text"][:4]
        found = [n for n in texts if (n == 0 or may_jump) and self._goes_on(last, following[n], nearby=n == 0)]
        if end in HYPHEN:  # a word goes on in small letters
            found.sort(key=lambda n: not following[n].lines[0].text[0].islower())
        return found[0] if found else None

    def _goes_on(self, last: Paragraph, following: Paragraph, nearby: bool = True) -> bool:
        """Check whether a sentence continues in the next column or on the next page."""
        if last.kind != "text" or following.kind != "text" or abs(last.lines[-1].size - following.lines[0].size) > 0.4:
            return False
        end, begin = last.lines[-1], following.lines[0]
        if end.is_bold != begin.is_bold or _BULLET.match(begin.text) or _SENTENCE_ENDS.search(end.text):
            return False
        if begin.text[0].islower() or (nearby and end.text[-1:] in HYPHEN):
            return True
        if end.page == begin.page and begin.y > end.y:
            return False
        full = self._is_full(end, last.edge, begin)
        indented = len(following.lines) > 1 and begin.left > following.lines[1].left + _INDENT * begin.size
        return nearby and full and not indented and not _ENDS.search(end.text) and not _NUMBERED.match(begin.text)

    def _of(self, lines: list[Line]) -> list[Paragraph]:
        """Divide lines, first where their distance or their type size changes."""
        runs = split_when(lines, lambda before, line: line.cells or before.cells or not self._is_near(before, line))
        return [paragraph for run in runs for paragraph in self._divided(run)]

    def _without_notes(self, lines: list[Line], notes: list[Paragraph]) -> list[Line]:
        """Take the small lines at the end of a column to ``notes``, if they begin as notes do."""
        start = len(lines)
        while start and lines[start - 1].size < _NOTE_SIZE * self.size:
            start -= 1
        if start == len(lines) or start == 0:
            return lines
        found = self._of(lines[start:])
        first = next((n for n, paragraph in enumerate(found) if _NOTE.match(paragraph.text)), None)
        if first is None or first > 1:
            return lines
        for note in split_before(found, lambda paragraph: _NOTE.match(paragraph.text)):
            whole = [line for paragraph in note for line in paragraph.lines]
            notes.append(Paragraph("note", whole, note[0].edge))
        return lines[:start]

    def _is_near(self, before: Line, line: Line) -> bool:
        if abs(before.size - line.size) > 0.08 * line.size and not self._is_inline(before, line):
            return False
        usual = self._steps.get(line.size, 1.2 * line.size)
        usual = min(max(usual, line.size), 2.5 * line.size)
        return 0.5 * line.size < line.y - before.y < max(_SPACED * usual, 1.3 * line.size)

    def _is_inline(self, before: Line, line: Line) -> bool:
        """Check for text in fixed pitch, which is often set smaller, within a paragraph."""
        return before.style.fixed != line.style.fixed and 0.8 < before.size / line.size < 1.25

    def _divided(self, run: list[Line]) -> Iterator[Paragraph]:
        """Divide near lines by what their edges and beginnings say."""
        if run[0].cells:
            yield Paragraph("table", list(run[0].cells))
            return
        backwards = is_right_to_left(" ".join(line.text for line in run[:3]))
        edge = self._edge(run, backwards)
        if _is_list(run):
            yield from (Paragraph(self._kind(line), [line], edge) for line in run)
            return
        paragraph = Paragraph(self._kind(run[0]), [run[0]], edge)
        for number in range(1, len(run)):
            line = run[number]
            following = run[number + 1] if number + 1 < len(run) else None
            if self._begins(paragraph, line, following, backwards):
                yield paragraph
                paragraph = Paragraph(self._kind(line), [line], edge)
            else:
                goes_on = line.text[0].islower() or paragraph.lines[-1].text[-1] in HYPHEN
                if goes_on and self._kind(line) == "text":
                    paragraph.kind = "text"  # a sentence that begins with code
                paragraph.lines.append(line)
        yield paragraph

    def _kind(self, line: Line) -> str:
        return "code" if line.style.fixed and not self._all_fixed else "text"

    def _edge(self, run: list[Line], backwards: bool) -> float:
        """Return where lines end at most, as a distance from the left or, backwards, to the right."""
        ends = [_end(line, backwards) for line in run]
        usual, count = Counter(map(round, ends)).most_common(1)[0]
        return usual if count > max(2, 0.3 * len(run)) else max(ends)

    def _is_full(self, before: Line, edge: float, line: Line, backwards: bool = False) -> bool:
        """Check that the first word of a line had no room at the end of the line before."""
        return _end(before, backwards) + line.first + 0.2 * line.size > edge - 0.3 * line.size

    def _is_cut(self, before: Line, line: Line, edge: float, backwards: bool) -> bool:
        """Check for a sentence that continues although there was room, as in text with an uneven edge."""
        if before.text[-1] in HYPHEN and before.text[-2:-1].isalnum():
            return line.text[0].isalnum()
        width = edge - _start(before, backwards)
        return line.text[0].islower() and not _ENDS.search(before.text) and _end(before, backwards) > edge - 0.3 * width

    def _begins(self, paragraph: Paragraph, line: Line, following: Line | None, backwards: bool) -> bool:
        """Check whether a line begins a paragraph."""
        before, edge = paragraph.lines[-1], paragraph.edge
        full = self._is_full(before, edge, line, backwards)
        indent = (_start(line, backwards) - _start(before, backwards)) / line.size
        if paragraph.kind == "code" and self._kind(line) == "code":
            return False
        if self._kind(line) != paragraph.kind:
            return not (full and abs(indent) < _INDENT and not _ENDS.search(before.text))
        if LEADER.search(before.text) or before.is_alone or line.is_alone:
            return True
        if not full and not self._is_cut(before, line, edge, backwards):
            return True
        if before.is_bold != line.is_bold and _is_whole(before, line):
            return True
        if _BULLET.match(line.text) and indent <= _INDENT:
            return not (line.text[0] in "-–—*·" and abs(indent) < 0.1 and not _BULLET.match(paragraph.text))
        is_first = len(paragraph.lines) == 1
        if _NUMBERED.match(line.text) and (_SENTENCE_ENDS.search(before.text) or _NUMBERED.match(paragraph.text)):
            return not is_first or indent < _INDENT
        if indent > _INDENT:
            returns = following is not None and _start(following, backwards) < _start(line, backwards) - 0.5 * line.size
            return not is_first or (returns and bool(_ENDS.search(before.text)))
        if indent < -_INDENT:
            return not is_first
        return False


def _is_list(run: list[Line]) -> bool:
    """Check for lines that all begin anew: with a capital or a figure, after a line that is no sentence's part."""
    if len(run) < 3 or any(line.text[-1] in HYPHEN + "," or line.text.isupper() for line in run):
        return False
    words = [line.text.split()[0] for line in run]
    anew = all(word[0].isupper() or word[0].isdigit() for word in words)
    return anew and (len(run) > 6 or len(set(words)) == 1)


def _is_whole(before: Line, line: Line) -> bool:
    """Check that a change between bold and plain type is one between paragraphs."""
    return bool(before.is_bold and not line.text[0].islower()) or bool(line.is_bold and _ENDS.search(before.text))


def _end(line: Line, backwards: bool) -> float:
    return -line.left if backwards else line.right


def _start(line: Line, backwards: bool) -> float:
    return -line.right if backwards else line.left
