"""Word, PowerPoint, Excel, OpenDocument, RTF, tables and e-mails: what a reader sees, with its place."""

import datetime
from email.message import EmailMessage
from pathlib import Path
from zipfile import ZipFile

import openpyxl
import pytest

from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats import find_files, read_document

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STRICT = 'xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{url}:1.0"'
    for name, url in {
        "office": "office", "text": "text", "table": "table", "style": "style", "draw": "drawing",
        "presentation": "presentation", "fo": "xsl-fo-compatible", "svg": "svg-compatible",
    }.items()
) + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip


def package(path: Path, parts: dict[str, str], links: dict[str, dict[str, str]]) -> Document:
    """Write an office file of parts, and per part the kinds of its links by their targets, and read it."""
    with ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        for name, targets in links.items():
            ones = "".join(
                f'<Relationship Id="r{i}" Type="{KIND}/{kind}" Target="{target}"/>'
                for i, (target, kind) in enumerate(targets.items())
            )
            archive.writestr(name, f'<Relationships xmlns="{RELATIONSHIPS}">{ones}</Relationships>')
    return read_document(path)


def word(tmp_path: Path, body: str, name: str = "a.docx", space: str = W, **parts: str) -> Document:
    """A Word file; further parts by the names of their kinds."""
    texts = {
        f"word/{part}.xml": f"<w:{part} {space} {M}>{text}</w:{part}>".replace("_", "") for part, text in parts.items()
    }
    kinds = {f"{part}.xml": part.rstrip("0123456789") for part in parts}
    document = f"<w:document {space} {M}><w:body>{body}</w:body></w:document>"
    return package(
        tmp_path / name,
        {"word/document.xml": document, **texts},
        {"_rels/.rels": {"word/document.xml": "officeDocument"}, "word/_rels/document.xml.rels": kinds},
    )


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def par(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{text if text.startswith('<') else run(text)}</w:p>"


def item(text: str, list_id: int = 1, level: int = 0) -> str:
    return par(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>')


def level(number: int, format: str, text: str, more: str = "") -> str:
    shown = f'<w:start w:val="1"/><w:numFmt w:val="{format}"/><w:lvlText w:val="{text}"/>{more}'
    return f'<w:lvl w:ilvl="{number}">{shown}</w:lvl>'


NUMBERING = (
    '<w:abstractNum w:abstractNumId="7">'
    + level(0, "decimal", "%1.", '<w:pStyle w:val="Clause"/>') + level(1, "lowerLetter", "(%2)")
    + level(2, "decimal", "%1.%2.%3", "<w:isLgl/>") + level(3, "bullet", "•")
    + '</w:abstractNum><w:abstractNum w:abstractNumId="8">' + level(0, "chineseCountingThousand", "第%1条")
    + '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    + '<w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num>'
    + '<w:num w:numId="3"><w:abstractNumId w:val="8"/></w:num>'
)  # fmt: skip
STYLES = (
    '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="H1"/></w:style>'
    '<w:style w:styleId="T1"><w:name w:val="toc 1"/></w:style>'
    '<w:style w:styleId="Clause"><w:name w:val="Clause"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="Mark"><w:name w:val="Mark"/><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
)


def test_numbers_of_word(tmp_path: Path) -> None:
    """Levels, restarts, lists that go on, Arabic numbers of all levels, bullets, styles with numbers, no number."""
    body = (
        item("a") + item("b", level=1) + item("c", level=1) + item("d", level=2) + item("e", level=3) + par("plain")
        + item("f") + item("g", level=1) + item("h", 2) + item("i") + par("j", '<w:pStyle w:val="Clause"/>')
        + item("k", 0) + item("x", 3) * 12
    )  # fmt: skip
    document = word(tmp_path, body, numbering=NUMBERING, styles=STYLES)
    assert document.text.split("\n\n")[:12] == [
        "1. a", "(a) b", "(b) c", "1.2.1 d", "e", "plain", "2. f", "(a) g", "5. h", "6. i", "7. j", "k",
    ]  # fmt: skip
    assert document.text.endswith("第十条 x\n\n第十一条 x\n\n第十二条 x")


def test_headings_of_word(tmp_path: Path) -> None:
    body = (
        par("Contents 3", '<w:pStyle w:val="T1"/>') + par("One", '<w:pStyle w:val="Own"/>') + par("text")
        + par("Two", '<w:outlineLvl w:val="1"/><w:numPr><w:numId w:val="1"/></w:numPr>')
    )  # fmt: skip
    document = word(tmp_path, body, numbering=NUMBERING, styles=STYLES)
    assert document.text == "One\n\ntext\n\n1. Two"
    assert [segment.heading for segment in document.segments] == ["One", "1. Two"]


def test_letters_of_word_that_are_not_plain(tmp_path: Path) -> None:
    up = '<w:vertAlign w:val="superscript"/>'
    body = (
        par(run("10") + run("−", up) + run("9", up) + run(" of a town") + run("3", '<w:rStyle w:val="Mark"/>'))
        + par("<w:r><w:t>Schiff</w:t><w:softHyphen/><w:t>fahrt, non</w:t><w:noBreakHyphen/><w:t>stop</w:t></w:r>")
        + par(run("seen") + run(" hidden", "<w:vanish/>") + run(" too", '<w:vanish w:val="0"/>'))
        + par(f"<w:r><w:ruby><w:rt>{run('とう')}</w:rt><w:rubyBase>{run('東')}</w:rubyBase></w:ruby></w:r>")
        + par("so <m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>a+</m:t></m:r><m:sSup><m:e><m:r><m:t>b"
              "</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:den></m:f></m:oMath>".replace("so ", "", 1))
        + par("<m:oMath><m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub><m:r><m:t>i=1</m:t></m:r></m:sub><m:sup><m:r>"
              "<m:t>n</m:t></m:r></m:sup><m:e><m:r><m:t>i</m:t></m:r></m:e></m:nary></m:oMath>")
        + par("<m:oMath><m:unknown/></m:oMath>")
    )  # fmt: skip
    body = body.replace("so <m:oMath>", "<m:oMath>")
    assert word(tmp_path, body, styles=STYLES).text.split("\n\n") == [
        "10^−9 of a town [3]", "Schifffahrt, non-stop", "seen too", "東(とう)", "1/(a+b^2)", "∑_(i=1)^n i", "[formula]",
    ]  # fmt: skip


def test_letters_of_symbol_fonts(tmp_path: Path) -> None:
    def sym(font: str, code: str) -> str:
        return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'

    body = (
        par(sym("Symbol", "F0B3") + run(" 5 ") + sym("Symbol", "6D") + run("g, 20 \uf0b1 2 \uf0e6x\uf0f6, 3\uf0b4s"))
        + par(sym("Wingdings", "F0FE") + run("yes") + sym("Wingdings 2", "00A3") + run("no"))
        + par(run("\uf0d8", '<w:rFonts w:ascii="Wingdings"/>') + run("\uf0a7 item") + sym("Webdings", "F041"))
        + par(sym("Calibri", "00E9") + sym("Sans", "F041"))
    )  # fmt: skip
    assert word(tmp_path, body).text == "≥ 5 μg, 20 ± 2 x, 3×s\n\n☑yes☐no\n\n➢▪ item\n\né"
    styles = '<style:style style:name="W"><style:text-properties style:font-name="Wingdings"/></style:style>'
    body = '<text:p>10\uf02d3 <text:span text:style-name="W">\uf0fc</text:span> \uf8eb\ue083</text:p>'
    assert odf(tmp_path / "a.odt", body, styles).text == "10−3 ✓ +"


def test_notes_of_word(tmp_path: Path) -> None:
    """Notes follow the paragraph or the table that cites them; one that cites itself ends."""
    cite = '<w:r><w:{0}Reference w:id="{1}"/></w:r>'.format
    row = f"<w:tr><w:tc>{par(run('cell') + cite('footnote', 3))}</w:tc><w:tc>{par('b')}</w:tc></w:tr>"
    body = (
        par(run("One") + cite("footnote", 2) + run(" two") + cite("endnote", 5) + run(".") + cite("comment", 0))
        + f"<w:tbl>{row}</w:tbl>"
    )
    document = word(
        tmp_path,
        body,
        footnotes=f'<w:footnote w:id="2">{par("<w:r><w:footnoteRef/></w:r>" + run("First."))}</w:footnote>'
        f'<w:footnote w:id="3">{par(run("Second") + cite("footnote", 3))}</w:footnote>',
        endnotes=f'<w:endnote w:id="5">{par("End.")}</w:endnote>',
        comments=f'<w:comment w:id="0" w:author="Ada">{par("Sure?")}</w:comment>',
    )
    assert document.text.split("\n\n") == [
        "One [1] two [i].", "[1] First.", "[i] End.", "Comment by Ada: Sure?", "cell [2] | b", "[2] Second [2]",
    ]  # fmt: skip


def test_headers_and_footers_of_word_come_once(tmp_path: Path) -> None:
    page = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    footer = par(f"{run('Acme')}<w:r><w:tab/></w:r>{run('Page ')}{page}")
    document = word(tmp_path, par("Body"), header1=par("Contract 12"), header2=par("Contract 12"), footer1=footer)
    assert document.text == "Contract 12\n\nBody\n\nAcme"


def test_cells_of_word(tmp_path: Path) -> None:
    """Merged cells come once and keep their place; a table that only places text is read block by block."""

    def cells(*texts: str) -> str:
        return "<w:tr>" + "".join(f"<w:tc>{text}</w:tc>" for text in texts) + "</w:tr>"

    merge = "<w:tcPr><w:vMerge {}/></w:tcPr>"
    rows = (
        cells(merge.format('w:val="restart"') + par("Ada"), '<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + par("wide"))
        + cells(merge.format("") + par(""), "<w:p/>", par("1852"))
        + "<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p/></w:tc></w:tr>"
    )
    heading = par("Heading", '<w:outlineLvl w:val="0"/>')
    layout = f"<w:tbl>{cells(heading + par('text'), par('side'))}</w:tbl>"
    assert word(tmp_path, f"<w:tbl>{rows}</w:tbl>{layout}").text.split("\n\n") == [
        "Ada | wide |", "|  | 1852", "Heading", "text", "side",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.docm", "a.dotx", "a.docx.gz"])
@pytest.mark.parametrize("space", [W, STRICT])
def test_other_files_of_word(tmp_path: Path, name: str, space: str) -> None:
    assert (
        word(tmp_path, par("Text") + par(run("x") + run("2", '<w:vertAlign w:val="superscript"/>')), name, space).text
        == "Text\n\nx^2"
    )


def test_a_broken_part_of_word_is_said(tmp_path: Path) -> None:
    document = word(tmp_path, par("Text"), footnotes="<w:footnote>")
    assert (document.text, document.notes) == ("Text", ())
    body = par(run("Text") + '<w:r><w:footnoteReference w:id="1"/></w:r>')
    document = word(tmp_path, body, footnotes="<w:footnote>")
    assert (document.text, document.notes) == ("Text [*]", ("the footnotes cannot be read",))


SHAPE = '<p:sp><p:nvSpPr><p:nvPr>{}</p:nvPr></p:nvSpPr><p:spPr><a:xfrm><a:off x="{}" y="{}"/></a:xfrm></p:spPr><p:txBody>{}</p:txBody></p:sp>'


def slide(*shapes: str, more: str = "") -> str:
    return f"<p:sld {P} {A} {more}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:sld>"


def line(text: str, properties: str = "") -> str:
    return f"<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>"


def deck(path: Path, *slides: str, notes: str = "", missing: int = 0) -> Document:
    names = [f"slides/s{i}.xml" for i in range(len(slides) + missing)]
    ids = "".join(f'<p:sldId id="{i}" r:id="r{i}"/>' for i in range(len(names)))
    parts = {f"ppt/{name}": text for name, text in zip(names, slides, strict=False)}
    parts["ppt/p.xml"] = f"<p:presentation {P} {R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    links = {"_rels/.rels": {"ppt/p.xml": "officeDocument"}, "ppt/_rels/p.xml.rels": dict.fromkeys(names, "slide")}
    if notes:
        parts["ppt/slides/n.xml"] = notes
        links["ppt/slides/_rels/s0.xml.rels"] = {"n.xml": "notesSlide"}
    return package(path, parts, links)


def test_slides(tmp_path: Path) -> None:
    numbered = '<a:pPr><a:buAutoNum type="{}" startAt="3"/></a:pPr>'
    up = '<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r></a:p>'
    low = SHAPE.format(
        "",
        0,
        3_000_000,
        line("below") + line("x", numbered.format("alphaLcParenR")) + line("y", numbered.format("alphaLcParenR")),
    )
    left, right = SHAPE.format("", 0, 1_000_000, line("left")), SHAPE.format("", 4_000_000, 1_000_001, up)
    title = SHAPE.format('<p:ph type="title"/>', 0, 9_000_000, line("Bridges"))
    margin = SHAPE.format('<p:ph type="sldNum"/>', 0, 0, line("7"))
    cells = [
        "<a:tc><a:txBody>{}</a:txBody></a:tc>".format(line(text) if text else "<a:p/>") for text in ("Ada", "", "1852")
    ]
    table = f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr>{''.join(cells)}</a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    group = f"<p:grpSp>{SHAPE.format('', 0, 5_000_000, line('grouped'))}</p:grpSp>"
    document = deck(
        tmp_path / "a.pptx",
        slide(low, right, left, title, margin),
        slide(SHAPE.format("", 0, 0, line("hidden")), more='show="0"'),
        slide(table, group),
        notes=slide(SHAPE.format('<p:ph type="body"/>', 0, 0, line("Say hello."))),
        missing=1,
    )
    assert document.text.split("\n\n") == [
        "Bridges", "left", "10^6", "below", "c) x", "d) y", "Notes: Say hello.", "Ada |  | 1852", "grouped",
    ]  # fmt: skip
    assert document.page(document.text.index("below")) == "slide 1"
    assert document.page(document.text.index("Ada")) == "slide 3"
    assert [segment.heading for segment in document.segments] == ["Bridges"]
    assert document.notes == ("slide 4 cannot be read",)


def test_sheets(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Prices"
    for row in (
        ["Price list 2024"], [], ["Item", "Price", "Sold on", "Share"], ["Widget", 3.5, datetime.date(2024, 3, 1), 0.256],
        ["Rope", 1234.5, datetime.datetime(2024, 3, 1, 12, 30), None], ["Nail", None, True, 12], ["All sold"],
    ):  # fmt: skip
        sheet.append(row)
    for row in sheet.iter_rows(4, 5):
        row[1].number_format, row[3].number_format = '#,##0.00 "EUR"', "0.0%"
    book.create_sheet("Secret").append(["not seen"])
    book["Secret"].sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    document = read_document(tmp_path / "a.xlsx")
    assert document.text.split("\n\n") == [
        "Prices", "Price list 2024", "Item | Price | Sold on | Share",
        "Item: Widget | Price: 3.50 EUR | Sold on: 2024-03-01 | Share: 25.6%",
        "Item: Rope | Price: 1,234.50 EUR | Sold on: 2024-03-01 12:30", "Item: Nail | Sold on: TRUE | Share: 12", "All sold",
    ]  # fmt: skip
    assert document.page(document.text.index("Rope")) == "sheet Prices, row 5"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", 'Name,Born,Died\nAda,,1852\n"Bo, b",1950,\n', ["Name | Born | Died", "Name: Ada | Died: 1852", "Name: Bo, b | Born: 1950"]),
        ("a.csv", "sep=|\r\nName|Size\r\nAda, B|1;5\r\n", ["Name | Size", "Name: Ada, B | Size: 1;5"]),
        ("a.csv", "Name;Größe\nAda;1,5\n", ["Name | Größe", "Name: Ada | Größe: 1,5"]),
        ("a.tsv", "1\t\t3\n4\t5\t6\n", ["1 |  | 3", "4 | 5 | 6"]),
        ("a.csv", "A note, that is long\na,b,c,d\n1,2,3,4\n", ["A note | that is long", "a | b | c | d", "a: 1 | b: 2 | c: 3 | d: 4"]),
        ("a.csv", "Year,2023,2024\nRevenue,10,12\n", ["Year | 2023 | 2024", "Year: Revenue | 2023: 10 | 2024: 12"]),
        ("a.csv", ",2022/23,2023/24\nNorth,10,12\n", ["| 2022/23 | 2023/24", "North | 2022/23: 10 | 2023/24: 12"]),
        ("a.csv", "Ada,1852\nBo,1950\n", ["Ada | 1852", "Bo | 1950"]),
        ("a.csv", ",Q1,Q2\nNorth,10,12\n", ["| Q1 | Q2", "North | Q1: 10 | Q2: 12"]),
        ("a.csv", "Item,Price,Price\nRope,3,4\n", ["Item | Price | Price", "Item: Rope | Price: 3 | Price: 4"]),
        ("a.csv", "Item,Price,\nRope,3,new\n", ["Item | Price", "Item: Rope | Price: 3 | new"]),
        ("a.csv", "a,few,,notes\nName,Age,Kids,Town\nAda,36,3,Ely\n", ["a | few |  | notes", "Name | Age | Kids | Town", "Name: Ada | Age: 36 | Kids: 3 | Town: Ely"]),
        ("a.csv", ",Rope,Boat\nUse,ties,swims\nColor,red,blue\n", ["| Rope | Boat", "Use | Rope: ties | Boat: swims", "Color | Rope: red | Boat: blue"]),
        ("a.csv", "7,2020,2021\n8,5,6\n", ["7 | 2020 | 2021", "8 | 5 | 6"]),
        ("a.csv", 'one "quoted\nword', ["one \"quoted", "word"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_tables_in_text_files(tmp_path: Path, name: str, text: str, expected: list[str], encoding: str) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    document = read_document(tmp_path / name)
    assert document.text.split("\n\n") == expected
    assert document.page(len(document.text) - 1) == f"row {len(expected)}"


def odf(path: Path, body: str, styles: str = "", kind: str = "text", **files: str) -> Document:
    with ZipFile(path, "w") as archive:
        automatic = f"<office:automatic-styles>{styles}</office:automatic-styles>"
        content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        archive.writestr(
            "content.xml", f"<office:document-content {ODF}>{automatic}{content}</office:document-content>"
        )
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return read_document(path)


def test_texts_of_opendocument(tmp_path: Path) -> None:
    number = '<text:list-level-style-number text:level="{}" style:num-format="{}" style:num-suffix="{}" text:display-levels="{}"/>'
    styles = (
        f'<text:list-style style:name="L">{number.format(1, "1", ".", 1)}{number.format(2, "a", ")", 1)}</text:list-style>'
        '<style:style style:name="Up"><style:text-properties style:text-position="super 58%"/></style:style>'
    )
    outline = f"<office:document-styles {ODF}><text:outline-style>{number.format(1, '1', '', 1)}{number.format(2, '1', '', 2)}</text:outline-style></office:document-styles>"
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>".format
    inner = f"<text:list>{item('b', '')}{item('c', '')}</text:list>"
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body></text:note>"
    comment = "<office:annotation><dc:creator>Ada</dc:creator><text:p>Sure?</text:p></office:annotation>"
    row = '<table:table-row><table:table-cell><text:p>Ada</text:p></table:table-cell><table:table-cell/><table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell></table:table-row>'
    body = (
        '<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h text:outline-level="1">One</text:h>'
        f'<text:h text:outline-level="2">Two</text:h><text:p>10<text:span text:style-name="Up">6</text:span>{note}'
        f'<text:s text:c="2"/>end{comment}</text:p><text:list text:style-name="L">{item("a", inner)}{item("d", "")}</text:list>'
        f'<text:list text:style-name="L" text:continue-numbering="true">{item("e", "")}</text:list><table:table>{row}</table:table>'
        '<text:table-of-content><text:p>One 3</text:p></text:table-of-content><text:p>Schiff\u00adfahrt '
        '<text:ruby><text:ruby-base>東</text:ruby-base><text:ruby-text>とう</text:ruby-text></text:ruby>'
        '<draw:frame><draw:object xlink:href="./O"/></draw:frame></text:p>'
        '<text:p>Box<draw:frame><draw:text-box><text:p>inside</text:p></draw:text-box></draw:frame></text:p>'
    )  # fmt: skip
    math = '<math xmlns="http://www.w3.org/1998/Math/MathML"><msup><mi>x</mi><mn>2</mn></msup></math>'
    document = odf(tmp_path / "a.odt", body, styles, styles_xml=outline, O__content_xml=math)
    assert document.text.split("\n\n") == [
        "1 One", "1.1 Two", "10^6 [1]  end", "[1] A note.", "Comment by Ada: Sure?", "1. a", "a) b", "b) c", "2. d", "3. e",
        "Ada |  | x | x", "Schifffahrt 東(とう) x^2", "Box", "inside",
    ]  # fmt: skip
    assert [segment.heading for segment in document.segments] == ["1 One", "1.1 Two"]


def test_numbered_headings_of_opendocument_are_items_of_lists(tmp_path: Path) -> None:
    number = '<text:list-level-style-number text:level="{}" style:num-format="1" style:num-suffix=")" text:display-levels="{}"/>'
    styles = f'<text:list-style style:name="L">{number.format(1, 1)}{number.format(2, 2)}</text:list-style>'
    heading = '<text:list-item><text:h text:outline-level="{}">{}</text:h></text:list-item>'.format
    inner = "<text:list-item><text:list>{}</text:list></text:list-item>".format
    begin = '<text:list xml:id="{}" text:style-name="L"{}>{}</text:list><text:p>Text.</text:p>'.format
    body = (
        begin("a", "", heading(1, "One"))
        + begin("b", ' text:continue-list="a"', inner(heading(2, "Two")))
        + begin("c", ' text:continue-list="b"', inner(heading(2, "Three")) + heading(1, "Four"))
    )
    document = odf(tmp_path / "a.odt", body, styles)
    assert [segment.heading for segment in document.segments] == ["1) One", "1.1) Two", "1.2) Three", "2) Four"]


def test_sheets_and_slides_of_opendocument(tmp_path: Path) -> None:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
    empty = '<table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    rows = f"<table:table-row>{cell('Item')}{cell('Price')}</table:table-row>{empty}<table:table-row>{cell('Rope')}{cell('3.50')}</table:table-row>"
    document = odf(tmp_path / "a.ods", f'<table:table table:name="S">{rows}</table:table>', kind="spreadsheet")
    assert document.text == "S\n\nItem | Price\n\nItem: Rope | Price: 3.50"
    assert document.page(len(document.text) - 1) == "sheet S, row 1048002"
    frame = '<draw:frame presentation:class="{}"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'.format
    notes = f"<presentation:notes>{frame('notes', 'Say.')}</presentation:notes>"
    slides = f"<draw:page>{frame('outline', 'text')}{frame('title', 'Ropes')}{notes}</draw:page><draw:page>{frame('', 'b')}</draw:page>"
    document = odf(tmp_path / "a.odp", slides, kind="presentation")
    assert document.text == "Ropes\n\ntext\n\nNotes: Say.\n\nb"
    assert document.page(len(document.text) - 1) == "slide 2"


def test_rtf(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Secret}}10{\super 6} people, x\super 2\nosupersub .\par "
        rb"Schiff\-fahrt, caf\'e9\~\u8364?{\super\chftn{\footnote\pard {\super\chftn} A\par note.}} end\par "
        rb"{\listtext 1.\tab}First\par\trowd Name\cell Born\cell Died\cell\row\trowd Ada\cell\cell 1852\cell\row non\_stop \{x\}}"
    )
    assert read_document(tmp_path / "a.rtf").text.split("\n\n") == [
        "10^6 people, x^2.", "Schifffahrt, café € [1] end", "[1] A note.", "1.\tFirst", "Name | Born | Died", "Ada |  | 1852", "non-stop {x}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.rtf", "{\\rtf1 x\\par " + '{\\field{\\*\\fldinst{HYPERLINK "a" ' * 5000),
        ("a.rtf", "{\\rtf1 x\\par " + "{\\super " * 20000 + "y"),
        (
            "a.eml",
            "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n" + "--b\nContent-Type: image/png\n\n" * 500,
        ),
        ("a.csv", "x\n" + "a," * 50000 + '"' * 50001),
    ],
)
def test_files_that_are_made_to_take_long(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    document = read_document(tmp_path / name)
    assert document.text.startswith(("x", "Subject: x"))
    assert len(document.notes) <= 1


def test_e_mails(tmp_path: Path) -> None:
    message, inner = EmailMessage(), EmailMessage()
    message["Subject"], message["From"], message["Date"] = (
        "Büro am Hafen",
        "Ada <a@example.org>",
        "Fri, 1 Mar 2024 12:00:00 +0000",
    )
    message.set_content("Dear Bo,\n\nthe bridge is red.\n")
    message.add_alternative("<p>no", subtype="html")
    message.add_attachment(b"Item;Price\nRope;3\n", maintype="text", subtype="csv", filename="list.csv")
    message.add_attachment(b"x", maintype="image", subtype="png", filename="a.png")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="b.pdf")
    inner["Subject"] = "Older"
    inner.set_content("<p>H<sub>2</sub>O</p>", subtype="html")
    message.add_attachment(inner)
    (tmp_path / "a.eml").write_bytes(bytes(message))
    document = read_document(tmp_path / "a.eml")
    assert document.text.split("\n\n") == [
        "Büro am Hafen", "Subject: Büro am Hafen\nFrom: Ada <a@example.org>\nDate: Fri, 01 Mar 2024 12:00:00 +0000", "Dear Bo,",
        "the bridge is red.", "list.csv", "Item | Price", "Item: Rope | Price: 3", "b.pdf", "Older", "Subject: Older", "H2O",
    ]  # fmt: skip
    assert document.notes == ("attachments that are not read: a.png, b.pdf (damaged)",)
    assert document.page(document.text.index("Rope")) == "row 2"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.rtf", "a.eml"])
def test_an_office_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    with pytest.raises(DataError) as caught:
        read_document(tmp_path / name)
    assert "\n" not in str(caught.value)
    if name[2:] in ("docx", "pptx", "xlsx", "odt"):
        assert "it has a password, or a format of before 2007; save it anew without a password" in str(caught.value)


def test_folders_with_office_files(tmp_path: Path) -> None:
    names = ["a.csv", "b.docm", "c.eml", "d.odt", "e.pptx", "f.rtf", "g.tsv", "h.xlsx"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in find_files([tmp_path])] == names
