"""Word files: paragraphs, headings with their numbers, tables and notes in their order.

Includes content controls, text boxes (after their paragraph) and tracked insertions, but no deleted, moved or hidden
text and no table of contents. Notes and comments follow the paragraph that cites them. Each text of the headers comes
once, before the document, each of the footers once, after it, both without page numbers.
"""

from collections.abc import Callable, Iterator
from functools import cache, cached_property

from lxml import etree

from cogltx.errors import DataError
from cogltx.formats import _formulas as formulas
from cogltx.formats import _inline as inline
from cogltx.formats import _symbols as symbols
from cogltx.formats import _tables as tables
from cogltx.formats import _xml as xml
from cogltx.formats._numbering import Numbering, value
from cogltx.formats._office import Notes, Package
from cogltx.formats._sections import Sections

_SKIPPED = frozenset(
    "del moveFrom Fallback txbxContent pPr rPr sdtPr tblPr trPr tcPr instrText delText sectPr footnoteRef endnoteRef "
    "annotationRef".split()
)
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_PAGE = "\ufdd7"  # the number of a page
_PAGE_FIELDS = ("PAGE", "NUMPAGES", "SECTIONPAGES")
_HEADINGS = ("heading", "title")
_OFF = ("0", "false", "off")
_MOST_BASES = 20  # of a style


def read(content: bytes) -> Sections:
    """Read a Word file."""
    sections, reader = Sections(), _Reader(Package(content))
    sections.blocks((is_heading, text.replace(_PAGE, "")) for is_heading, text in reader.blocks())
    for problem in reader.problems:
        sections.note(problem)
    return sections


class _Reader:
    """Collects the blocks of a file."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self.problems: list[str] = []
        self._styles = {xml.attribute(style, "styleId"): style for style in self._all("styles", "style")}
        self._kind = cache(self._find_kind)
        self._numbering = Numbering(self._part("numbering"))
        self._notes = Notes()
        self._marks: dict[tuple[str, str], str] = {}  # of the notes so far
        self._counts = {"footnote": 0, "endnote": 0}
        self._fields: list[str] = []  # instructions of the open fields; "=" after them begins their result
        self._inlines: dict[str, Callable[[etree._Element], str]] = {
            "t": lambda element: element.text or "", "r": self._run, "fldChar": self._field, "fldSimple": self._simple,
            "instrText": self._instruction, "footnoteReference": self._note, "endnoteReference": self._note,
            "commentReference": self._comment, "ruby": self._ruby, "oMath": formulas.omml, "sym": self._symbol,
            "docPr": lambda element: inline.picture(xml.attribute(element, "descr")), "p": lambda element: "",
        }  # fmt: skip

    def blocks(self) -> list[tables.Block]:
        """The headings and paragraphs of the file."""
        body = self._package.part(self._package.main).find("{*}body")
        if body is None:
            raise DataError("it has no text part of Word")
        return [*self._margins("header"), *self._blocks(body), *self._margins("footer")]

    def _part(self, kind: str) -> etree._Element | None:
        """A part of the file; None if it is missing or broken."""
        for name in self._package.related(self._package.main, kind):
            try:
                return self._package.part(name)
            except (DataError, etree.XMLSyntaxError):
                self.problems.append(f"the {kind} cannot be read")
        return None

    def _all(self, part: str, name: str) -> Iterator[etree._Element]:
        root = self._part(part)
        return iter(()) if root is None else root.iterfind(f"{{*}}{name}")

    def _margins(self, kind: str) -> Iterator[tables.Block]:
        """The texts of headers or footers, each once."""
        parts = (self._package.part(name) for name in self._package.related(self._package.main, kind))
        texts = [text for part in parts for _, text in self._blocks(part)]
        for text in dict.fromkeys(texts):
            if kept := "\t".join(part for part in text.split("\t") if _PAGE not in part).strip():
                yield False, kept

    def _blocks(self, parent: etree._Element) -> list[tables.Block]:
        """The blocks in an element, with those of its text boxes and its notes."""
        found = list[tables.Block]()
        for child in parent:
            name = xml.local(child.tag)
            if name == "p":
                found += self._paragraph(child)
            elif name == "tbl":
                found += tables.blocks(list(self._rows(child)))
                found += self._notes.take()
            elif name not in _SKIPPED:
                found += self._blocks(child)
        return found

    def _paragraph(self, paragraph: etree._Element) -> list[tables.Block]:
        """A paragraph with its number, then its text boxes and, outside tables, the notes that it cites."""
        is_heading, is_contents, list_id, level = self._kind(value(paragraph, "pPr/{*}pStyle"))
        found = list[tables.Block]()
        text = inline.plain(self._inline(paragraph)).strip(" \n")
        is_heading |= value(paragraph, "pPr/{*}outlineLvl") in tuple("012345678")
        numbers = paragraph.find("{*}pPr/{*}numPr")
        if numbers is not None:
            list_id, level = value(numbers, "numId") or list_id, value(numbers, "ilvl") or level
        number = self._numbering.label(list_id, int(level) if level.isdigit() else 0) if list_id else ""
        if text and not is_contents:
            found.append((is_heading, number + text))
        for box in paragraph.iter("{*}txbxContent"):  # of this paragraph, and no second copy for old versions of Word
            if next(one for one in box.iterancestors() if xml.local(one.tag) in ("p", "Fallback")) is paragraph:
                found += self._blocks(box)
        return found + self._notes.take()

    def _bases(self, id: str) -> Iterator[etree._Element]:
        """A style and those that it is based on, nearest first."""
        for _ in range(_MOST_BASES):
            if (style := self._styles.get(id)) is None:
                return
            yield style
            id = value(style, "basedOn")

    def _find_kind(self, style: str) -> tuple[bool, bool, str, str]:
        """Look up a style: whether it is for headings, whether for a table of contents, its list, and its level."""
        is_heading, is_contents, list_id, level = False, False, "", ""
        for one in self._bases(style):
            name = value(one, "name").lower()
            outline = one.find("{*}pPr/{*}outlineLvl")
            is_contents |= name.startswith("toc ") and name[4:].isdigit()
            is_heading |= name.startswith(_HEADINGS) or (outline is not None and xml.attribute(outline, "val") < "9")
            numbers = one.find("{*}pPr/{*}numPr")
            if numbers is not None and not list_id:
                list_id, level = value(numbers, "numId"), value(numbers, "ilvl")
                of_style = (list_id, xml.attribute(one, "styleId"))
                level = level or str(self._numbering.levels_of_styles.get(of_style, 0))
        return is_heading and not is_contents, is_contents, list_id, level

    def _rows(self, table: etree._Element) -> Iterator[list[tables.Cell]]:
        """The rows of a table, without deleted ones."""
        for row in _within(table, "tr"):
            if row.find("{*}trPr/{*}del") is None:
                skipped = int(value(row, "trPr/{*}gridBefore") or 0)
                empty = [tables.Cell(())] * min(skipped, 50)
                yield empty + [self._cell(cell) for cell in _within(row, "tc")]

    def _cell(self, cell: etree._Element) -> tables.Cell:
        properties = cell.find("{*}tcPr")
        with self._notes.inside():
            blocks = self._blocks(cell)
        has_table = cell.find("{*}tbl") is not None
        if properties is None:
            return tables.Cell(blocks, has_table=has_table)
        span, merge = value(properties, "gridSpan"), properties.find("{*}vMerge")
        if merge is not None and xml.attribute(merge, "val", "continue") == "continue":
            blocks = []
        return tables.Cell(blocks, int(span) if span.isdigit() else 1, has_table=has_table)

    def _inline(self, parent: etree._Element) -> str:
        """The text in an element, without blocks."""
        pieces = list[str]()
        for child in parent:
            name = xml.local(child.tag)
            if name in self._inlines:
                pieces.append(self._inlines[name](child))
            elif name in _SIGNS:
                pieces.append(_SIGNS[name])
            elif name not in _SKIPPED and len(child):
                pieces.append(self._inline(child))
        hidden = bool(self._fields) and self._fields[-1].endswith("=") and self._fields[-1].split()[0] in _PAGE_FIELDS
        return "" if hidden and xml.local(parent.tag) == "r" else "".join(pieces)

    def _run(self, run: etree._Element) -> str:
        """The text of a run; superscript letters are marked, hidden ones left out."""
        properties, fonts = run.find("{*}rPr"), run.find("{*}rPr/{*}rFonts")
        text = symbols.plain(self._inline(run), "" if fonts is None else xml.attribute(fonts, "ascii"))
        if properties is None or not text:
            return text
        hidden = properties.find("{*}vanish")
        if hidden is not None and xml.attribute(hidden, "val") not in _OFF:
            return ""
        return inline.raised(text) if self._is_raised(properties) and inline.NOTE not in text else text

    def _is_raised(self, properties: etree._Element) -> bool:
        of_styles = (value(style, "rPr/{*}vertAlign") for style in self._bases(value(properties, "rStyle")))
        return next(filter(None, (value(properties, "vertAlign"), *of_styles)), "") == "superscript"

    def _field(self, mark: etree._Element) -> str:
        kind = xml.attribute(mark, "fldCharType")
        if kind == "begin":
            self._fields.append("")
        elif kind == "separate" and self._fields:
            self._fields[-1] += " ="
        elif self._fields:
            is_page = self._fields.pop().split()[:1]
            return _PAGE if is_page and is_page[0] in _PAGE_FIELDS else ""
        return ""

    def _instruction(self, element: etree._Element) -> str:
        if self._fields:
            self._fields[-1] += element.text or ""
        return ""

    def _simple(self, field: etree._Element) -> str:
        kind = xml.attribute(field, "instr").split()[:1]
        return _PAGE if kind and kind[0] in _PAGE_FIELDS else self._inline(field)

    def _note(self, reference: etree._Element) -> str:
        """The mark of a note, whose text follows the paragraph."""
        kind = xml.local(reference.tag).removesuffix("Reference")
        id = xml.attribute(reference, "id")
        if (kind, id) in self._marks:
            return inline.note_mark(self._marks[kind, id])
        note = self._texts_of_notes[kind].get(id)
        if note is None or xml.attribute(reference, "customMarkFollows") not in ("", *_OFF):
            mark = "*"
        else:
            self._counts[kind] += 1
            mark = inline.number(self._counts[kind], "i" if kind == "endnote" else "1")
        self._marks[kind, id] = mark
        if note is not None:
            self._notes.cite(mark, self._line(note))
        return inline.note_mark(mark)

    def _comment(self, reference: etree._Element) -> str:
        comment = self._texts_of_notes["comment"].pop(xml.attribute(reference, "id"), None)
        if comment is not None:
            self._notes.comment(xml.attribute(comment, "author"), self._line(comment))
        return ""

    @cached_property
    def _texts_of_notes(self) -> dict[str, dict[str, etree._Element]]:
        kinds = ("footnote", "endnote", "comment")
        return {kind: {xml.attribute(one, "id"): one for one in self._all(f"{kind}s", kind)} for kind in kinds}

    def _line(self, note: etree._Element) -> str:
        with self._notes.inside():
            blocks = self._blocks(note)
        return " ".join(text for _, text in blocks)

    def _ruby(self, element: etree._Element) -> str:
        parts = (element.iterfind(f"{{*}}{name}") for name in ("rubyBase", "rt"))
        return inline.with_reading(*("".join(map(self._inline, part)) for part in parts))

    def _symbol(self, element: etree._Element) -> str:
        return symbols.character(int(xml.attribute(element, "char") or "0", 16), xml.attribute(element, "font"))


def _within(parent: etree._Element, name: str) -> Iterator[etree._Element]:
    """Elements of a name in another, also in content controls, but not in tables or rows inside it."""
    for child in parent:
        tag = xml.local(child.tag)
        if tag == name:
            yield child
        elif tag not in ("tbl", "tr", "tc", "p") and len(child):
            yield from _within(child, name)
