"""PowerPoint files: each slide is a page, with its title, its texts and tables in reading order, and its notes.

Hidden slides and masters are not read; numbers of slides, dates and footers are left out.
"""

from collections.abc import Iterator
from itertools import chain

from lxml import etree

from cogltx.errors import DataError
from cogltx.formats import _formulas as formulas
from cogltx.formats import _inline as inline
from cogltx.formats import _symbols as symbols
from cogltx.formats import _tables as tables
from cogltx.formats import _xml as xml
from cogltx.formats._office import Package
from cogltx.formats._sections import Sections

_TITLES = ("title", "ctrTitle")
_MARGINS = ("sldNum", "dt", "ftr", "hdr", "sldImg")
_STYLES = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I", "arabic": "1"}
_LINE = 228_600  # a quarter of an inch: shapes whose tops are in the same one stand side by side


def read(content: bytes) -> Sections:
    """Read a PowerPoint file."""
    sections, package = Sections(), Package(content)
    slides = package.relationships(package.main)
    for number, one in enumerate(package.part(package.main).iterfind("{*}sldIdLst/{*}sldId"), start=1):
        id = next((value for key, value in one.attrib.items() if key.endswith("}id")), "")  # of a relationship
        _, name = slides.get(id, ("", ""))
        try:
            slide = package.part(name)
        except (KeyError, DataError, etree.XMLSyntaxError):
            sections.note(f"slide {number} cannot be read")
            continue
        if slide.get("show") not in ("0", "false"):
            sections.page(f"slide {number}")
            sections.blocks(_shapes(slide))
            for notes in package.related(name, "notesSlide"):
                for _, text in _shapes(package.part(notes)):
                    sections.paragraph(f"Notes: {text}")
            for comments in package.related(name, "comments"):
                for text in package.part(comments).iter("{*}text"):
                    sections.paragraph(f"Comment: {text.text or ''}")
    return sections


def _shapes(slide: etree._Element) -> list[tables.Block]:
    """The texts of a slide: titles, then placeholders, then other shapes from top to bottom and left to right."""
    tree = slide.find("{*}cSld/{*}spTree")
    shapes = [] if tree is None else sorted(tree, key=_place)
    return list(chain.from_iterable(map(_blocks, shapes)))


def _place(shape: etree._Element) -> tuple[bool, bool, int, int]:
    """Sorts shapes in reading order; placeholders without a place of their own have that of the layout."""
    offset = next(chain(shape.iterfind("{*}*/{*}xfrm/{*}off"), shape.iterfind("{*}xfrm/{*}off")), None)
    is_title = _placeholder(shape) in _TITLES
    if offset is None:
        return not is_title, False, 0, 0
    return not is_title, True, int(offset.get("y", "0")) // _LINE, int(offset.get("x", "0"))


def _placeholder(shape: etree._Element) -> str:
    """Kind of a placeholder; empty for other shapes."""
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if placeholder is None else placeholder.get("type", "body")


def _blocks(shape: etree._Element) -> Iterator[tables.Block]:
    """The texts of a shape or of a group of shapes."""
    name, kind = xml.local(shape.tag), _placeholder(shape)
    if name == "grpSp":
        yield from chain.from_iterable(map(_blocks, sorted(shape, key=_place)))
    elif name == "AlternateContent":
        yield from chain.from_iterable(map(_blocks, shape[0] if len(shape) else ()))
    elif name == "graphicFrame":
        for table in shape.iterfind("{*}graphic/{*}graphicData/{*}tbl"):
            yield from tables.blocks(
                [[_cell(cell) for cell in row.iterfind("{*}tc")] for row in table.iterfind("{*}tr")]
            )
    elif name == "pic":
        yield False, inline.picture(next((one.get("descr", "") for one in shape.iterfind("{*}nvPicPr/{*}cNvPr")), ""))
    elif name == "sp" and kind not in _MARGINS:
        texts = [text for body in shape.iterfind("{*}txBody") for text in _paragraphs(body)]
        yield from [(True, " ".join(texts))] if kind in _TITLES else [(False, text) for text in texts]


def _cell(cell: etree._Element) -> tables.Cell:
    """A cell; those that a merged cell covers are empty."""
    covered = "1" in (cell.get("hMerge"), cell.get("vMerge"))
    texts = [] if covered else [text for body in cell.iterfind("{*}txBody") for text in _paragraphs(body)]
    return tables.Cell([(False, text) for text in texts])


def _paragraphs(body: etree._Element) -> Iterator[str]:
    """The paragraphs of a text with their automatic numbers."""
    counts: dict[int, int] = {}
    for paragraph in body.iterfind("{*}p"):
        text = inline.plain("".join(map(_piece, paragraph))).strip()
        numbers, properties = paragraph.find("{*}pPr/{*}buAutoNum"), paragraph.find("{*}pPr")
        level = 0 if properties is None else int(properties.get("lvl", "0"))
        if text:  # it ends the lists of deeper levels, and of its own if it has no number
            counts = {one: count for one, count in counts.items() if one < level + (numbers is not None)}
        if text and numbers is not None:
            counts[level] = counts[level] + 1 if level in counts else int(numbers.get("startAt", "1"))
            text = f"{_number(numbers.get('type', ''), counts[level])} {text}"
        if text:
            yield text


def _number(kind: str, count: int) -> str:
    """A number such as ``2.``, ``b)`` or ``(iv)``."""
    number = inline.number(count, next((style for name, style in _STYLES.items() if kind.startswith(name)), "1"))
    return f"({number})" if kind.endswith("ParenBoth") else f"{number})" if kind.endswith("ParenR") else f"{number}."


def _piece(element: etree._Element) -> str:
    """The text of a run, a line break, a field or a formula."""
    name = xml.local(element.tag)
    if name == "br":
        return "\n"
    if name in ("r", "fld"):
        text, properties = symbols.plain(element.findtext("{*}t") or ""), element.find("{*}rPr")
        is_raised = properties is not None and not properties.get("baseline", "0").startswith(("0", "-"))
        return inline.raised(text) if is_raised else text
    if name in ("AlternateContent", "m"):
        return "".join(formulas.omml(one) for one in element.iter("{*}oMath"))
    return ""
