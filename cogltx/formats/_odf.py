"""OpenDocument texts, sheets and presentations (odfpy is not kept): paragraphs, lists with numbers, tables and notes.

Notes and comments follow the paragraph that cites them; tables of contents, deleted and hidden text are left out. Each
text of the headers comes once, before the document, each of the footers once, after it.
"""

from collections.abc import Callable, Iterator
from zipfile import ZipFile

from lxml import etree

from cogltx.errors import DataError
from cogltx.formats import _formulas as formulas
from cogltx.formats import _inline as inline
from cogltx.formats import _symbols as symbols
from cogltx.formats import _tables as tables
from cogltx.formats import _xml as xml
from cogltx.formats._office import Notes, open_zip
from cogltx.formats._sections import Sections
from cogltx.formats._xml import attribute

_SKIPPED = frozenset(
    "tracked-changes table-of-content alphabetical-index hidden-text hidden-paragraph sequence-decls variable-decls "
    "user-field-decls forms page-number page-count note-citation ruby-text annotation-end title desc settings "
    "event-listeners covered-table-cell notes date-time footer header".split()
)
_MOST_REPEATED = 100  # equal cells or rows
_MOST_ROWS = 2_000_000  # of a sheet


def read(content: bytes) -> Sections:
    """Read an OpenDocument file."""
    sections = Sections()
    with open_zip(content) as archive:
        if "META-INF/manifest.xml" in archive.namelist() and b"encryption-data" in archive.read(
            "META-INF/manifest.xml"
        ):
            raise DataError("it is encrypted; save it without a password")
        if "content.xml" not in archive.namelist():
            return sections  # only styles
        reader = _Reader(archive)
        body = reader.root.find("{*}body")
        for part in body if body is not None else ():
            _KINDS.get(xml.local(part.tag), _add_text)(reader, part, sections)
    return sections


def _add_text(reader: "_Reader", part: etree._Element, sections: Sections) -> None:
    sections.blocks([*reader.margins("header"), *reader.blocks(part), *reader.margins("footer")])


def _add_sheets(reader: "_Reader", part: etree._Element, sections: Sections) -> None:
    for sheet in part.iterfind("{*}table"):
        if not reader.is_hidden(sheet):
            name = attribute(sheet, "name")
            sections.heading(name)
            tables.add_sheet(sections, reader.sheet_rows(sheet), name)


def _add_slides(reader: "_Reader", part: etree._Element, sections: Sections) -> None:
    for number, slide in enumerate(part.iterfind("{*}page"), start=1):
        if reader.is_hidden(slide):
            continue
        sections.page(f"slide {number}")
        frames = sorted(slide, key=lambda frame: attribute(frame, "class") != "title")
        for frame in frames:
            if attribute(frame, "class") in ("title", "subtitle"):
                sections.heading(" ".join(text for _, text in reader.blocks([frame])))
            else:
                sections.blocks((False, text) for _, text in reader.blocks([frame]))
        for notes in slide.iterfind("{*}notes"):
            for _, text in reader.blocks(notes):
                sections.paragraph(f"Notes: {text}")


_KINDS: dict[str, Callable[..., None]] = {"spreadsheet": _add_sheets, "presentation": _add_slides}


class _Reader:
    """Collects the blocks of a file."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self.root = xml.parse(archive.read("content.xml"))
        self._roots = [self.root]
        if "styles.xml" in archive.namelist():
            self._roots.append(xml.parse(archive.read("styles.xml")))
        self._styles = {attribute(one, "name"): one for root in self._roots for one in root.iter("{*}style")}
        self._list_styles = {
            attribute(one, "name"): _levels(one) for root in self._roots for one in root.iter("{*}list-style")
        }
        outlines = [_levels(one) for root in self._roots for one in root.iter("{*}outline-style")]
        self._outline = outlines[-1] if outlines else {}
        self._counts: dict[str, dict[int, int]] = {}  # per list, by level
        self._lists: list[str] = []  # the open lists: the keys of their counts, all that of the outermost
        self._previous: dict[str, str] = {}  # the last list of a style
        self._keys: dict[str, str] = {}  # of a list with an id, which others continue
        self._label = ""
        self._notes = Notes()
        self._inlines: dict[str, Callable[[etree._Element], str]] = {
            "s": lambda one: " " * min(100, int(attribute(one, "c", "1"))), "tab": lambda one: "\t",
            "line-break": lambda one: "\n", "span": self._span, "note": self._note, "annotation": self._comment,
            "ruby": self._ruby, "frame": self._frame,
        }  # fmt: skip

    def blocks(self, parent: etree._Element | list[etree._Element]) -> list[tables.Block]:
        """The headings and paragraphs in an element."""
        found = list[tables.Block]()
        for child in parent:
            name = xml.local(child.tag)
            if name in ("p", "h"):
                found += self._paragraph(child, name == "h")
            elif name == "list":
                found += self._list(child)
            elif name == "table":
                found += tables.blocks(list(self._rows(child)))
                found += self._notes.take()
            elif name not in _SKIPPED:
                found += self.blocks(child)
        return found

    def margins(self, kind: str) -> list[tables.Block]:
        """The texts of headers or footers, each once, without those that only number the page."""
        pages = [page for root in self._roots for page in root.iter("{*}master-page")]
        texts = [text for page in pages for part in page.iterfind(f"{{*}}{kind}") for _, text in self.blocks(part)]
        return [(False, text) for text in dict.fromkeys(texts)]

    def is_hidden(self, element: etree._Element) -> bool:
        """A sheet or a slide is not displayed."""
        style = self._styles.get(attribute(element, "style-name"), ())
        return any(attribute(one, "display") == "false" or attribute(one, "visibility") == "hidden" for one in style)

    def sheet_rows(self, sheet: etree._Element) -> Iterator[tuple[int, list[str]]]:
        """The rows of a sheet with their numbers, without hidden ones."""
        number = 1
        for row in sheet.iter("{*}table-row"):
            repeated = _repeated(row, "number-rows-repeated", _MOST_ROWS)
            cells = [cell.text for cell in self._cells(row)]
            if attribute(row, "visibility") not in ("collapse", "filter") and any(cells):
                for copy in range(min(repeated, _MOST_REPEATED)):
                    yield number + copy, cells
            number += repeated

    def _rows(self, table: etree._Element) -> Iterator[list[tables.Cell]]:
        for child in table:
            name = xml.local(child.tag)
            if name == "table-row":
                yield list(self._cells(child))
            elif name in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self._rows(child)

    def _cells(self, row: etree._Element) -> Iterator[tables.Cell]:
        """The cells of a row; those that a merged cell covers are empty."""
        for cell in row:
            name = xml.local(cell.tag)
            if name in ("table-cell", "covered-table-cell"):
                with self._notes.inside():
                    blocks = self.blocks(cell) if name == "table-cell" else []
                has_table = cell.find("{*}table") is not None
                for _ in range(_repeated(cell, "number-columns-repeated", _MOST_REPEATED)):
                    yield tables.Cell(blocks, has_table=has_table)

    def _paragraph(self, paragraph: etree._Element, is_heading: bool) -> list[tables.Block]:
        text = inline.plain(symbols.plain(self._inline(paragraph))).strip(" \n")
        number, self._label = self._label, ""
        if is_heading and not number and attribute(paragraph, "is-list-header") != "true":
            number = self._count("outline", self._outline, int(attribute(paragraph, "outline-level", "1")))
        found = [(is_heading, number + text)] if text else []
        for box in paragraph.iter("{*}text-box"):
            if next(one for one in box.iterancestors() if xml.local(one.tag) in ("p", "h")) is paragraph:
                found += self.blocks(box)
        return found + self._notes.take()

    def _list(self, element: etree._Element) -> list[tables.Block]:
        """The items of a list with their numbers."""
        style = attribute(element, "style-name") or (self._lists[-1].partition("\0")[0] if self._lists else "")
        if self._lists and self._lists[-1].partition("\0")[0] == style:
            key = self._lists[-1]
        elif attribute(element, "continue-numbering") == "true" and style in self._previous:
            key = self._previous[style]
        else:
            continued = self._keys.get(attribute(element, "continue-list"))
            key = continued or f"{style}\0{attribute(element, 'id') or len(self._counts)}"
        self._previous[style] = key
        if id := attribute(element, "id"):
            self._keys[id] = key
        self._lists.append(key)
        levels, level, found = self._list_styles.get(style, {}), len(self._lists), list[tables.Block]()
        for item in element:
            if xml.local(item.tag) == "list-item":
                start = attribute(item, "start-value")
                has_text = len(item) > 0 and xml.local(item[0].tag) in ("p", "h")
                number = self._count(key, levels, level, int(start) if start.isdigit() else None) if has_text else ""
                self._label += number
            found += self.blocks(item)
        self._lists.pop()
        return found

    def _count(self, key: str, levels: dict[int, etree._Element], level: int, start: int | None = None) -> str:
        """The number of the next item of a list."""
        counts, style = self._counts.setdefault(key, {}), levels.get(level)
        first = int(attribute(style, "start-value", "1")) if style is not None else 1
        counts[level] = start if start is not None else counts.get(level, first - 1) + 1
        for deeper in [one for one in counts if one > level]:
            del counts[deeper]
        if style is None or not attribute(style, "num-format"):
            return ""
        shown = range(level - int(attribute(style, "display-levels", "1")) + 1, level + 1)
        formats = {one: attribute(levels[one], "num-format") for one in shown if one in levels}
        numbers = [inline.number(counts.get(one, 1), formats[one]) for one in shown if formats.get(one)]
        return f"{attribute(style, 'num-prefix')}{'.'.join(numbers)}{attribute(style, 'num-suffix')}".strip() + " "

    def _inline(self, parent: etree._Element) -> str:
        """The text in an element, without blocks."""
        pieces = [" ".join((parent.text or "").split("\n"))]
        for child in parent:
            name = xml.local(child.tag)
            if name in self._inlines:
                pieces.append(self._inlines[name](child))
            elif name not in _SKIPPED:
                pieces.append(self._inline(child))
            pieces.append(" ".join((child.tail or "").split("\n")))
        return "".join(pieces)

    def _span(self, span: etree._Element) -> str:
        style, text = self._styles.get(attribute(span, "style-name")), self._inline(span)
        properties = None if style is None else style.find("{*}text-properties")
        if properties is None:
            return text
        if attribute(properties, "display") == "none":
            return ""
        text = symbols.plain(text, attribute(properties, "font-name"))
        position = attribute(properties, "text-position")
        is_raised = position.startswith("super") or (position[:1].isdigit() and not position.startswith("0%"))
        return inline.raised(text) if is_raised and text and inline.NOTE not in text else text

    def _note(self, note: etree._Element) -> str:
        """The mark of a note, whose text follows the paragraph."""
        mark = "".join(note.find("{*}note-citation").itertext()).strip()
        self._notes.cite(mark, self._line(note.find("{*}note-body")))
        return inline.note_mark(mark)

    def _comment(self, comment: etree._Element) -> str:
        self._notes.comment(comment.findtext("{*}creator"), self._line(comment))
        return ""

    def _line(self, note: etree._Element) -> str:
        lists, self._lists = self._lists, []
        label, self._label = self._label, ""
        with self._notes.inside():
            blocks = self.blocks(note)
        self._lists, self._label = lists, label
        return " ".join(text for _, text in blocks)

    def _ruby(self, element: etree._Element) -> str:
        parts = (element.iterfind(f"{{*}}{name}") for name in ("ruby-base", "ruby-text"))
        return inline.with_reading(*("".join(map(self._inline, part)) for part in parts))

    def _frame(self, frame: etree._Element) -> str:
        """A formula, or what a picture shows; text boxes follow the paragraph."""
        for part in frame.iterfind("{*}object"):
            math = next(part.iter("{*}math"), None)
            name = attribute(part, "href").removeprefix("./").strip("/") + "/content.xml"
            if math is None and name in self._archive.namelist():
                root = xml.parse(self._archive.read(name))
                math = root if xml.local(root.tag) == "math" else None
            if math is not None:
                return f" {formulas.mathml(math)} "
        return inline.picture(frame.findtext("{*}desc") or frame.findtext("{*}title") or "")


def _levels(style: etree._Element) -> dict[int, etree._Element]:
    levels = (one for one in style if attribute(one, "level").isdigit())
    return {int(attribute(one, "level")): one for one in levels}


def _repeated(element: etree._Element, name: str, most: int) -> int:
    count = attribute(element, name, "1")
    return min(int(count), most) if count.isdigit() else 1
