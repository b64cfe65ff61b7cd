"""HTML files, by lxml: the visible text, block element by block element, without navigation.

Navigation is a ``nav`` element, or a block that is named as navigation and whose letters are mostly links, or a list
whose entries all lead to places in the same page. If nothing else remains, it is read, too.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from html.entities import html5
from itertools import chain

from lxml import etree

from cogltx.formats import _formulas as formulas
from cogltx.formats import _inline as inline
from cogltx.formats import _tables as tables
from cogltx.formats import _xml as xml
from cogltx.formats._encoding import decode_markup
from cogltx.formats._sections import Sections

_SKIPPED = frozenset(
    "style noscript template svg title button head datalist audio video canvas iframe rp noembed".split()
)
_REPLACED = frozenset("math select textarea script".split())
_COPIES = frozenset(("katex-html", "MathJax_Preview", "link-target", "ttc"))  # of formulas, links and their targets
_TABLE_PARTS = frozenset("tr tbody thead tfoot caption".split())
_FRAMES = frozenset("table td th ul ol header footer aside".split())
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol p plaintext pre search "
    "section summary table tbody td tfoot th thead tr ul xmp".split()
)
_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HEADING = re.compile("h[1-6]")
_SPACE = re.compile("[ \t\n\r\xa0\u2007\u202f]+")
_NAMED = re.compile(
    r"(?<![a-z])(?<!table-)(?<!example-)(nav\w*|menu|toc|contents|breadcrumbs?|(sphinx)?sidebar\w*|related|pager"
    r"|pagination|header|footer|skip\w*|share|social|tabs|banner|contentinfo)(?![a-z])",
    re.IGNORECASE,
)
_OF_DOCBOOK = re.compile(r"(?<![a-z])nav(?:header|footer)(?![a-z])")  # with titles of other pages
_LEADING = re.compile(  # such as "[Prev] | [Up] | [Next]"
    r"(?:\W*(?:previous|prev|next|up|top|home|(?:table\ of\ )?contents|index|back|forward|first|last|about"
    r"|zurück|weiter|vor|nach\ oben|hoch|inhalt(?:sverzeichnis)?|anfang|précédent|suivant|sommaire|remonter|accueil"
    r"|(?:página\ )?(?:anterior|siguiente|próxima)|subir|inicio|início|índice(?:\ general)?|indietro|avanti|indice"
    r"|前へ|次へ|上に戻る|ホーム|目次|上一页|下一页|起始页|目录|назад|вперёд|вверх|содержание)){2,}\W*",
    re.IGNORECASE | re.VERBOSE,
)
_LEADING_LETTERS = 200  # at most
_COOKIES = re.compile(r"cookie[-_\s]?(banner|consent|notice|bar|popup|law)", re.IGNORECASE)
_LINKED = 0.5  # share of the letters of a block, named as navigation, from which it is that
_ENTRIES = 3  # links of a table of contents
_PAGE_LETTERS = 50  # outside links, in a block named contents, from which it is the text of the page
_PAGE_HEADINGS = 2  # likewise
_NOTE_LINKS = re.compile(r"(?<![a-z])(noteref|footnote-?ref(erence)?)(?![a-z])", re.IGNORECASE)
_ARROWS = frozenset("¶#§^↩↑⤴🔗")
_EMPTY_LINE = re.compile(f"(?:{inline.BREAK} ?){{2,}}")
_AROUND_BREAK = re.compile(f" ?{inline.BREAK} ?")
_STYLES = {
    "decimal": "1", "lower-alpha": "a", "lower-latin": "a", "upper-alpha": "A", "upper-latin": "A", "lower-roman": "i",
    "upper-roman": "I", "decimal-leading-zero": "01", "none": "", "disc": "", "circle": "", "square": "",
}  # fmt: skip
_STYLE = re.compile(r"list-style(?:-type)?\s*:[^;]*?\b(" + "|".join(sorted(_STYLES, key=len, reverse=True)) + r")\b")
_TYPED = frozenset("text email tel url number date time month week datetime-local search color range".split()) | {""}
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)([a-zA-Z][a-zA-Z0-9]{1,31};)")
_XHTML = re.compile(rb"\s*(?:<\?xml|<!DOCTYPE[^>]{1,200}XHTML|<html[^>]{1,300}xmlns=)", re.IGNORECASE)


@dataclass
class _Frame:
    """Blocks of an element that is read whole before its place in the text is decided."""

    blocks: list[tables.Block] = field(default_factory=list)
    rows: list[list[tuple[etree._Element, "_Frame"]]] = field(default_factory=list)  # of a table
    has_table: bool = False
    letters: int = 0
    linked: int = 0  # letters of links
    links: int = 0
    outside: int = 0  # links to other pages

    def take(self, other: "_Frame") -> None:
        """Add the blocks of a frame within this one."""
        if self.blocks:
            self.blocks += other.blocks
        else:
            self.blocks = other.blocks
        self.has_table |= other.has_table
        self.count(other)

    def count(self, other: "_Frame") -> None:
        """Add the letters and links of a frame within this one."""
        self.letters += other.letters
        self.linked += other.linked
        self.links += other.links
        self.outside += other.outside


@dataclass
class _List:
    """Numbers of an open list."""

    next: int
    step: int = 1
    style: str = ""


def read(content: bytes) -> Sections:
    """Read an HTML file."""
    sections = Sections()
    text, note = decode_markup(content)
    sections.note(note)
    add(text, sections, is_xml=_XHTML.match(content.removeprefix(b"\xef\xbb\xbf")) is not None)
    return sections


def add(
    markup: str, sections: Sections, is_xml: bool = False, line_break: str = " ", titles: Collection[str] = ()
) -> None:
    """Add the visible text of HTML to a document; paragraphs that are one of the titles are headings, too."""
    root = _parse(markup, sections, is_xml)
    if root is None:
        return
    blocks = _Reader(line_break).read(root) or _Reader(line_break, with_navigation=True).read(root)
    sections.blocks((is_heading or text in titles, text) for is_heading, text in blocks)


def _parse(markup: str, sections: Sections, is_xml: bool) -> etree._Element | None:
    """Parse XHTML as XML if it is that without fault, all else as HTML."""
    if is_xml:
        try:
            named = _ENTITY.sub(lambda match: html5.get(match[1], match[0]), markup)
            return xml.parse(re.sub(r"\A\s*<\?xml[^>]*\?>", "", named).encode("utf-8", "replace"))
        except etree.XMLSyntaxError:
            pass
    content = markup.replace("\0", "\ufffd").encode("utf-8", "replace")
    xml.check_size(content)
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError:  # nothing but comments and unfinished tags
        return None
    if any("xcessive depth" in error.message for error in parser.error_log):
        sections.note("elements are nested too deeply; the text from there on is not read")
    return root


class _Reader:
    """Collects the blocks of one page."""

    def __init__(self, line_break: str, with_navigation: bool = False) -> None:
        self._line_break = line_break
        self._with_navigation = with_navigation
        self._pieces: list[str] = []
        self._frames = [_Frame()]
        self._framed: list[etree._Element] = []  # elements of the frames but the first
        self._lists: list[_List] = []
        self._label = ""  # number of a list item, before its first block
        self._linked = 0  # letters of links in the open block
        self._places = set[str]()  # of this page, to which links may lead
        self._open: Counter[str] = Counter()  # open elements by name
        put = self._pieces.append
        self._starts: dict[str, Callable[[etree._Element], None]] = {
            "a": self._link, "img": self._picture, "input": self._input, "select": self._chosen, "ol": self._list,
            "ul": self._list, "menu": self._list, "li": self._item, "tr": self._row, "script": self._script,
            "br": lambda element: put("\n" if self._open["pre"] else inline.BREAK),
            "textarea": lambda element: put(f" {element.text or ''} "),
            "sup": lambda element: put(inline.NOTE if _has_link(element) else inline.RAISED),
            "ruby": lambda element: put(inline.BASE),
            "rt": lambda element: put(inline.READING),
            "math": lambda element: put(f" {formulas.mathml(element)} "),
            "q": lambda element: put("“"),
            "span": lambda element: put(inline.NOTE * _has_brackets(element)),
        }  # fmt: skip
        self._ends: dict[str, Callable[[etree._Element], None]] = {
            "a": self._link_end, "ol": self._list_end, "ul": self._list_end, "menu": self._list_end,
            "li": self._label_end, "td": self._label_end, "th": self._label_end, "table": self._table_end,
            "sup": lambda element: put(inline.END),
            "rt": lambda element: put(inline.READ + inline.BASE),
            "q": lambda element: put("”"),
            "span": lambda element: put(inline.END * _has_brackets(element)),
        }  # fmt: skip

    def read(self, root: etree._Element) -> list[tables.Block]:
        """The blocks of a page: whether each is a heading, and its text."""
        skipped: list[etree._Element] = []
        self._places.update(place for one in root.iter("{*}*") if (place := one.get("id") or one.get("name")))
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            name = xml.local(element.tag).lower()
            if event == "start" and self._is_skipped(element, name):
                skipped.append(element)
                walk.skip_subtree()
            elif event == "start":
                self._begin(element, name)
            elif skipped and skipped[-1] is element:
                skipped.pop()
                self._add(element.tail)
            else:
                self._finish(element, name)
        self._flush()
        return self._frames[0].blocks

    def _is_skipped(self, element: etree._Element, name: str) -> bool:
        """The element is not shown, or is navigation, or shows something else than its text."""
        attributes = element.attrib
        if attributes and (
            "hidden" in attributes
            or (name != "math" and _NOT_SHOWN.search(attributes.get("style", "")))
            or attributes.get("class") in _COPIES
        ):
            return True
        if name in _REPLACED:
            self._starts[name](element)
            return True
        if name == "dialog" and "open" not in attributes:
            return True
        if not attributes and name in _BLOCKS and name != "nav":
            return False
        if self._with_navigation:
            return name in _SKIPPED
        role = attributes.get("role", "")
        return (
            name in _SKIPPED
            or name == "nav"
            or role == "navigation"
            or _OF_DOCBOOK.search(attributes.get("class", "")) is not None
            or bool(name in _BLOCKS and attributes and _COOKIES.search(_names(element)))
            or (name == "a" and len(element) == 0 and (element.text or "").strip(" \ufe0e\ufe0f") in _ARROWS)
        )

    def _begin(self, element: etree._Element, name: str) -> None:
        if name in _BLOCKS:
            self._flush()
            if name in _FRAMES or (name not in _TABLE_PARTS and element.attrib and _NAMED.search(_names(element))):
                self._frames.append(_Frame())
                self._framed.append(element)
        self._open[name] += 1
        if start := self._starts.get(name):
            start(element)
        self._add(element.text)

    def _finish(self, element: etree._Element, name: str) -> None:
        if name in _BLOCKS:
            self._flush(is_heading=_HEADING.fullmatch(name) is not None)
        if end := self._ends.get(name):
            end(element)
        if self._framed and self._framed[-1] is element:
            self._close(element)
        self._open[name] -= 1
        self._add(element.tail)

    def _add(self, text: str | None) -> None:
        if text:
            self._pieces.append(text)
            letters = sum(map(str.isalnum, text))
            frame = self._frames[-1]
            frame.letters += letters
            if self._open["link"]:
                frame.linked += letters
                self._linked += letters

    def _flush(self, is_heading: bool = False) -> None:
        """End a block."""
        text, linked = "".join(self._pieces), self._linked
        self._pieces.clear()
        self._linked = 0
        if not text or text.isspace() or (linked and not self._with_navigation and _leads(text, linked)):
            return
        text = (
            text.strip("\n").rstrip() if self._open["pre"] else _AROUND_BREAK.sub(inline.BREAK, _SPACE.sub(" ", text))
        )
        for part in _EMPTY_LINE.split(text):
            if part := inline.plain(part.strip(f" {inline.BREAK}"), self._line_break):
                is_title = is_heading and not self._open["blockquote"]
                self._frames[-1].blocks.append((is_title, self._label + part))
                self._label = ""

    def _close(self, element: etree._Element) -> None:
        """End a frame: leave it out if it is navigation."""
        self._framed.pop()
        frame = self._frames.pop()
        name = xml.local(element.tag).lower()
        if name in ("td", "th") and self._in_table():
            rows = self._frames[-1].rows
            rows.append([]) if not rows else None
            rows[-1].append((element, frame))
        elif self._with_navigation or not self._is_navigation(frame, element, name):
            self._frames[-1].take(frame)

    def _is_navigation(self, frame: _Frame, element: etree._Element, name: str) -> bool:
        """The block is mostly links, and is named as navigation, or leads to places in the same page only."""
        if frame.linked <= _LINKED * frame.letters:
            return False
        is_contents = name in ("ul", "ol") and frame.links >= _ENTRIES and not frame.outside
        text = " ".join(text for _, text in frame.blocks[:_LEADING_LETTERS])
        if is_contents or name in ("header", "footer", "aside") or _leads(text, frame.linked):
            return True
        return _NAMED.search(_names(element)) is not None and not _is_page(frame, element)

    def _in_table(self) -> bool:
        return bool(self._framed) and xml.local(self._framed[-1].tag).lower() == "table"

    def _table_end(self, element: etree._Element) -> None:
        """Lay the rows out as lines, or, in a table that only places text on the page, as blocks one by one."""
        frame = self._frames[-1]
        rows, frame.rows, frame.has_table = frame.rows, [], True
        frame.blocks += tables.blocks([[_cell(*cell) for cell in row] for row in rows])
        for _, cell in chain.from_iterable(rows):
            frame.count(cell)

    def _label_end(self, element: etree._Element) -> None:
        self._label = ""

    def _row(self, element: etree._Element) -> None:
        if self._in_table():
            self._frames[-1].rows.append([])

    def _link(self, element: etree._Element) -> None:
        if (target := element.get("href")) is not None:
            self._open["link"] += 1
            self._frames[-1].links += 1
            is_within = target.startswith("#") or target.partition("#")[2] in self._places
            self._frames[-1].outside += not is_within
        if _is_note(element):
            self._pieces.append(inline.NOTE)

    def _link_end(self, element: etree._Element) -> None:
        self._open["link"] -= element.get("href") is not None
        if _is_note(element):
            self._pieces.append(inline.END)

    def _picture(self, element: etree._Element) -> None:
        description = inline.picture(element.get("alt", ""))
        self._add(formulas.tex(description) if "\\" in description else description)

    def _script(self, element: etree._Element) -> None:
        if element.get("type", "").startswith("math/tex"):
            self._pieces.append(formulas.tex(element.text or ""))

    def _input(self, element: etree._Element) -> None:
        kind = element.get("type", "").lower()
        if kind in ("checkbox", "radio"):
            self._pieces.append("[x] " if "checked" in element.attrib else "[ ] ")
        elif kind in _TYPED:
            self._pieces.append(f" {element.get('value', '')} ")

    def _chosen(self, element: etree._Element) -> None:
        chosen = (option for option in element.iter("{*}option") if "selected" in option.attrib)
        self._pieces.append(f" {', '.join(' '.join(option.itertext()) for option in chosen)} ")

    def _list(self, element: etree._Element) -> None:
        is_numbered = xml.local(element.tag).lower() == "ol"
        style = element.get("type", "1") if is_numbered else ""
        if stated := _STYLE.search(element.get("style", "")):
            style = _STYLES[stated[1]]
        is_reversed = "reversed" in element.attrib
        first = sum(xml.local(child.tag).lower() == "li" for child in element) if is_reversed else 1
        self._lists.append(_List(_integer(element, "start", first), -1 if is_reversed else 1, style))

    def _list_end(self, element: etree._Element) -> None:
        self._lists.pop()

    def _item(self, element: etree._Element) -> None:
        numbers = self._lists[-1] if self._lists else _List(1)
        value = _integer(element, "value", numbers.next)
        numbers.next = value + numbers.step
        if numbers.style:
            self._label += f"{inline.number(value, element.get('type', numbers.style))}. "


def _names(element: etree._Element) -> str:
    """Names that say what an element is for."""
    return " ".join(element.get(name, "") for name in ("id", "class", "role"))


def _leads(text: str, linked: int) -> bool:
    """A text is nothing but links to the next page and the like.

    Args:
        text: a text.
        linked: its number of letters in links.
    """
    is_short = len(text) <= _LEADING_LETTERS
    return is_short and linked > _LINKED * sum(map(str.isalnum, text)) and _LEADING.fullmatch(text) is not None


def _is_page(frame: _Frame, element: etree._Element) -> bool:
    """Check whether a block named contents is the page's text, or one named header holds its title, as in Doxygen."""
    names = _names(element).split()
    has_text = frame.letters - frame.linked > _PAGE_LETTERS or sum(one for one, _ in frame.blocks) >= _PAGE_HEADINGS
    return ("contents" in names and has_text) or (
        "header" in names and element.find(".//{*}div[@class='title']") is not None
    )


def _cell(element: etree._Element, frame: _Frame) -> tables.Cell:
    spans = _integer(element, "colspan", 1), _integer(element, "rowspan", 1)
    return tables.Cell(frame.blocks, *spans, has_table=frame.has_table)


def _integer(element: etree._Element, name: str, default: int) -> int:
    """A number in an attribute."""
    match = re.match(r"\s*(-?\d{1,9})", element.get(name, ""))
    return int(match[1]) if match else default


def _has_link(raised: etree._Element) -> bool:
    """Superscript letters link to a note, or are all of a link."""
    parent = raised.getparent()
    inside = any(xml.local(child.tag) == "a" and child.get("href") for child in raised)
    is_link = parent is not None and xml.local(parent.tag) == "a" and parent.get("href") is not None
    return inside or (is_link and len(parent) == 1 and not f"{parent.text or ''}{raised.tail or ''}".strip())


def _has_brackets(span: etree._Element) -> bool:
    """A style sheet shows brackets around the element."""
    return bool(span.get("class") == "brackets")


def _is_note(link: etree._Element) -> bool:
    """A link is the mark of a note."""
    names = (xml.attribute(link, name) for name in ("class", "type", "role"))
    return any(_NOTE_LINKS.search(name) for name in names)
