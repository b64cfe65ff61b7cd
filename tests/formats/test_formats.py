"""Files of people: their text, sections with headings, pages, and one line for what cannot be read."""

import gzip
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from fpdf import FPDF
from fpdf.enums import AccessPermission

from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats import FORMATS, find_files, read_document
from cogltx.formats._parse import load_reader

BRIDGE = "The Harbour Bridge was designed by the engineer Ilse Brandt. She drew its first plans in the winter of 1911."
MILL = "The mill on the river was sold in 1924 to the family Okoro, who made paper there until the flood of 1957."

PAGE = f"""<!doctype html><html><head><title>T</title><style>p {{color: red}}</style></head><body>
<nav><a href="/">Home</a></nav><h1>Bridges</h1><p>{BRIDGE.replace("Ilse Brandt", "<b>Ilse</b>&nbsp;<i>Brandt</i>")}</p>
<p hidden>Soon</p><p style="color: red; display: NONE">Never</p><script>alert("no")</script><!-- no comment --><h2>Mills &amp; <em>rivers</em></h2><div>First<p>{MILL}</p>Last<br>line</div>
<table><tr><th>Year</th><th>Owner</th></tr><tr><td>1924</td><td>Okoro</td></tr></table><pre>a
  b</pre></body></html>"""


def pdf(path: Path, pages: list[str], **options: object) -> Path:
    file = FPDF()
    if "password" in options:
        file.set_encryption(owner_password="owner", user_password="secret", permissions=AccessPermission.none())
    file.set_font("Helvetica", size=12)
    for text in pages:
        file.add_page()
        file.multi_cell(0, text=text)
    file.output(str(path))
    return path


def word(path: Path) -> Path:
    file = docx.Document()
    file.add_heading("Annual report", 0)
    file.add_paragraph("An opening paragraph.")
    file.add_heading("Bridges", 1)
    file.add_paragraph(BRIDGE)
    table = file.add_table(2, 2)
    for cell, text in zip(
        (cell for row in table.rows for cell in row.cells), ("Year", "Owner", "1924", "Okoro"), strict=True
    ):
        cell.text = text
    file.save(str(path))
    return path


def epub(path: Path, *, encrypted: bool = False) -> Path:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="b" href="two%20b.xhtml"/>'
        '<item id="a" href="text/one.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    with ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("OEBPS/book.opf", package)
        archive.writestr("OEBPS/two b.xhtml", f"<html><body><h1>Two</h1><p>{MILL}</p></body></html>")
        archive.writestr("OEBPS/text/one.xhtml", f"<html><body><h1>One</h1><p>{BRIDGE}</p></body></html>")
        if encrypted:
            files = ("OEBPS/text/one.xhtml", "OEBPS/two%20b.xhtml")
            references = "".join(f"<CipherReference URI='{file}'/>" for file in files)
            archive.writestr("META-INF/encryption.xml", f"<e>{references}</e>")
    return path


def headings(document: Document) -> list[tuple[str, str]]:
    """The heading of each section, and the first word of its text."""
    return [(one.heading, document.text[one.start : one.end].split()[0]) for one in document.segments]


def test_html_is_its_visible_text(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    document = read_document(tmp_path / "a.html")
    assert document.text.split("\n\n") == [
        "Bridges", BRIDGE, "Mills & rivers", "First", MILL, "Last line", "Year | Owner", "1924 | Okoro", "a\n  b",
    ]  # fmt: skip
    assert headings(document) == [("Bridges", "Bridges"), ("Mills & rivers", "Mills")]
    assert document.id == "a.html"


def test_pages_of_a_pdf(tmp_path: Path) -> None:
    document = read_document(pdf(tmp_path / "a.PDF", [BRIDGE, "", f"{MILL}\nA last line."]))
    assert BRIDGE in document.text
    assert MILL in document.text
    assert document.page(document.text.index("Ilse")) == 1
    assert document.page(document.text.index("Okoro")) == 3
    assert [number for _, number in document.pages] == [1, 2, 3]


def test_sections_of_a_word_file(tmp_path: Path) -> None:
    document = read_document(word(tmp_path / "a.docx"))
    assert (
        document.text
        == f"Annual report\n\nAn opening paragraph.\n\nBridges\n\n{BRIDGE}\n\nYear | Owner\n\n1924 | Okoro"
    )
    assert headings(document) == [("Annual report", "Annual"), ("Bridges", "Bridges")]


def test_cells_of_a_word_table(tmp_path: Path) -> None:
    """Equal cells are all kept, a merged cell comes once, and a width without bounds costs nothing."""
    file = docx.Document()
    table = file.add_table(3, 3)
    for cell in (cell for row in table.rows for cell in row.cells):
        cell.text = "7"
    table.cell(1, 0).merge(table.cell(1, 2)).text = "wide"
    table.cell(2, 0)._tc.grid_span = 10**9
    file.save(str(tmp_path / "a.docx"))
    assert read_document(tmp_path / "a.docx").text == "7 | 7 | 7\n\nwide\n\n7 | 7 | 7"


def test_text_boxes_of_a_word_file_come_once(tmp_path: Path) -> None:
    """Word keeps a text box twice, for new and old versions of itself; a box may hold a table or another box."""
    file = docx.Document()
    anchor, cell = file.add_paragraph("The company makes ropes."), file.add_table(1, 1).cell(0, 0).paragraphs[0]
    cell.add_run("In a cell")
    for paragraph, text in ((anchor, "Founded by Maria Lopez."), (cell, "beside")):
        box = f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"
        paragraph._p.append(
            parse_xml(
                f"""<w:r {nsdecls("w")} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">
                <mc:AlternateContent><mc:Choice><w:drawing>{box}</w:drawing></mc:Choice>
                <mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"""
            )
        )
    file.add_paragraph("The end.")
    file.save(str(tmp_path / "a.docx"))
    assert read_document(tmp_path / "a.docx").text.split("\n\n") == [
        "The company makes ropes.", "Founded by Maria Lopez.", "In a cell beside", "The end.",
    ]  # fmt: skip


def test_chapters_of_an_epub_in_reading_order(tmp_path: Path) -> None:
    document = read_document(epub(tmp_path / "a.epub"))
    assert document.text == f"One\n\n{BRIDGE}\n\nTwo\n\n{MILL}"
    assert headings(document) == [("One", "One"), ("Two", "Two")]


def test_sections_of_markdown(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        f"Before\n\n# Bridges *here*\n\n{BRIDGE}\n\n```\n# no heading\n```\n\nMills\n=====\n- {MILL}\n\n> # Quoted\n"
    )
    document = read_document(tmp_path / "a.md")
    assert document.text == f"Before\n\nBridges here\n\n{BRIDGE}\n\n# no heading\n\nMills\n\n{MILL}\n\nQuoted"
    assert headings(document) == [("Bridges here", "Bridges"), ("Mills", "Mills")]


def test_markdown_is_read_without_its_markup(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "Released by **Maria *Olsen*** ([mail](mailto:a@b)),\nsee `run.py` &amp; <b>this</b>.  \nEnd ![a map](m.png)\n\n"
        "| part | owner |\n|---|---|\n| `ask` | Anna |\n| serve | a<br>b |\n\n"
        "<table><tr><td>Length</td><td>503 m</td></tr></table><p hidden>no</p>\n"
    )
    assert read_document(tmp_path / "a.md").text == (
        "Released by Maria Olsen (mail),\nsee run.py & this.\nEnd a map\n\n"
        "part | owner\n\nask | Anna\n\nserve | a\nb\n\nLength | 503 m"
    )


def test_other_files_are_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(BRIDGE.encode()))
    assert read_document(tmp_path / "a") == Document(BRIDGE, "a")


@pytest.mark.parametrize(
    ("name", "make"), [("a.pdf", lambda path: pdf(path, [MILL, BRIDGE])), ("a.docx", word), ("a.epub", epub)]
)  # fmt: skip
def test_joined_documents_keep_pages_and_sections(tmp_path: Path, name: str, make: Callable[[Path], Path]) -> None:
    one = read_document(make(tmp_path / name))
    joined = Document.joined([Document("Plain text.", "p"), one, Document("More.", "m")])
    place = joined.text.index("Ilse")
    assert joined.page(place) == one.page(one.text.index("Ilse"))
    assert joined.page(joined.text.index("More.")) is None
    assert joined.page(0) is None
    assert {heading for heading, _ in headings(one)} <= {heading for heading, _ in headings(joined)}


@pytest.mark.parametrize(
    ("name", "content", "wording"),
    [
        ("a.pdf", b"%PDF-1.7 broken", r"a\.pdf: not a readable PDF file \("),
        ("a.docx", b"PK no zip", r"a\.docx: not a readable Word file \("),
        ("a.epub", b"", r"a\.epub: not a readable EPUB file \("),
        ("a.html", b"<p> <script>x</script>", r"a\.html: the document has no text$"),
        ("a.md", b"\n\xff\x81", r"a\.md: line 2: not UTF-8 \(byte 0xff\), and no other encoding is sure; save it as UTF-8$"),
        ("a.txt", b" \n", r"a\.txt: the document has no text$"),
        ("a.bin", b"a\0b", r"a\.bin: not a text file; known formats are \.pdf, \.docx, "),
        ("a.doc", b"\xd0\xcf\x11\xe0\0\0\0\0", r"a\.doc: not a text file; known formats are"),
        ("a.txt", rb"{\rtf1\ansi Anna}", r"a\.txt: not a text file; known formats are"),
        ("a.rtf", rb"Anna", r"a\.rtf: it does not begin with {\\rtf$"),
        ("a.txt", b"Anna \xff\x81", r"a\.txt: line 1: not UTF-8 \(byte 0xff\), and no other encoding is sure; save"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, wording: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=wording) as caught:
        read_document(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_encrypted_and_scanned_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.pdf: the PDF file is encrypted; remove its password first$"):
        read_document(pdf(tmp_path / "a.pdf", [BRIDGE], password=True))
    with pytest.raises(DataError, match=r"b\.pdf: no page has text$"):
        read_document(pdf(tmp_path / "b.pdf", ["", ""]))
    with pytest.raises(DataError, match=r"a\.epub: the EPUB file is encrypted \(DRM\)$"):
        read_document(epub(tmp_path / "a.epub", encrypted=True))


@pytest.mark.parametrize("ending", [".pdf", ".html"])
def test_missing_files_and_folders(tmp_path: Path, ending: str) -> None:
    with pytest.raises(DataError, match=rf"a\{ending}: file not found$"):
        read_document(tmp_path / f"a{ending}")
    (tmp_path / f"a{ending}").mkdir()
    with pytest.raises(DataError, match=rf"a\{ending}: is a folder, not a file$"):
        read_document(tmp_path / f"a{ending}")


def test_files_of_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("b/two.md", "a.txt", "b/.hidden.md", ".git/old.txt", "b/picture.png", "c.PDF"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO, logger="cogltx"):
        found = find_files([tmp_path, tmp_path / "a.txt", "other.bin"])
    assert caplog.messages == [f"{tmp_path}: files of other formats are not read: 1 .png"]
    assert [path.name for path in found] == ["a.txt", "two.md", "c.PDF", "other.bin"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: the folder has no file of a known format \("):
        find_files([tmp_path / "empty"])


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    monkeypatch.delitem(sys.modules, "cogltx.formats._pdf", raising=False)
    with pytest.raises(
        DataError,
        match=r'^a.pdf: the package pypdfium2 is not installed, which reads a PDF file; pip install "cogltx\[files\]"$',
    ):
        load_reader("pdf", "PDF file", "a.pdf")


def test_no_package_is_imported_before_it_is_needed() -> None:
    code = f"import sys, cogltx.formats; assert not {{'lxml', 'docx', 'pypdfium2', 'torch', 'cmarkgfm', 'charset_normalizer'}} & set(sys.modules); assert {len(FORMATS)}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_content_controls_and_tracked_changes_of_a_word_file(tmp_path: Path) -> None:
    file = docx.Document()
    paragraph, space = file.add_paragraph("The rent is "), nsdecls("w")
    for element in (
        "<w:sdt {}><w:sdtPr/><w:sdtContent><w:r><w:t>900 euros</w:t></w:r></w:sdtContent></w:sdt>",
        '<w:ins {} w:id="1"><w:r><w:t xml:space="preserve"> per month</w:t></w:r></w:ins>',
        '<w:del {} w:id="2"><w:r><w:delText xml:space="preserve"> per week</w:delText></w:r></w:del>',
        '<w:moveFrom {} w:id="3"><w:r><w:t>, moved away</w:t></w:r></w:moveFrom>',
    ):
        paragraph._p.append(parse_xml(element.format(space)))
    row = "<w:tr><w:sdt><w:sdtContent><w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc></w:sdtContent></w:sdt></w:tr>"
    for content in (
        "<w:p><w:r><w:t>Paid</w:t><w:tab/><w:t>late</w:t></w:r></w:p>",
        f"<w:tbl>{row.format('cell')}</w:tbl>",
    ):
        control = f"<w:sdt {space}><w:sdtContent>{content}</w:sdtContent></w:sdt>"
        file.element.body.insert(len(file.element.body) - 1, parse_xml(control))
    file.save(str(tmp_path / "a.docx"))
    assert read_document(tmp_path / "a.docx").text == "The rent is 900 euros per month\n\nPaid\tlate\n\ncell"


def test_html_whose_head_has_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html><head><title>Title</title><body><p>The bridge is old.")
    assert read_document(tmp_path / "a.html").text == "The bridge is old."


def test_markdown_with_other_separators_and_front_matter(tmp_path: Path) -> None:
    settings = "---\ntitle: My bridges\ndate: 2020\n---"
    (tmp_path / "a.md").write_text(f"{settings}\n\nA\x0cpage\u2028and a line.\n\n# Bridges\n\n{BRIDGE}\n")
    document = read_document(tmp_path / "a.md")
    assert document.text == f"A\x0cpage\u2028and a line.\n\nBridges\n\n{BRIDGE}"
    assert headings(document) == [("Bridges", "Bridges")]
