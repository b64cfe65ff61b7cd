"""HTML, Markdown and EPUB: what a reader of the page sees, in rows, lists, notes and formulas."""

import logging
import re
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from cogltx.document import Document
from cogltx.errors import DataError
from cogltx.formats import read_document

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="O/b.opf"/>'
    "</rootfiles></container>"
)


def paragraphs(tmp_path: Path, text: str | bytes, name: str = "a.html") -> list[str]:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(tmp_path / name).text.split("\n\n")


def book(path: Path, chapters: dict[str, str], spine: str = "", manifest: str = "", **files: str) -> Document:
    """Read an EPUB file of chapters by their file names; further files by their names with one dot for ``_``."""
    items = "".join(f'<item id="c{i}" href="{name}"/>' for i, name in enumerate(chapters))
    order = spine or "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    with ZipFile(path, "w") as archive:
        archive.writestr("META-INF/container.xml", CONTAINER)
        package = f"<manifest>{items}{manifest}</manifest><spine>{order}</spine>"
        archive.writestr("O/b.opf", f'<package xmlns="http://www.idpf.org/2007/opf">{package}</package>')
        for name, text in chapters.items():
            if text:
                archive.writestr(f"O/{name}", f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{text}</body></html>')
        for name, text in files.items():
            archive.writestr("O/" + name.replace("_", "."), text)
    return read_document(path)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("R<sup>2</sup> of 10<sup>−9</sup> and 2<sup>61</sup>−1", "R^2 of 10^−9 and 2^61−1"),
        ("a town<sup>7</sup> of 5 km<sup>2</sup>, H<sub>2</sub>O", "a town [7] of 5 km^2, H2O"),
        ("kg<sup><a href='#n'>3</a></sup>, <a href='#m'><sup>4</sup></a>", "kg [3], [4]"),
        ("<sup>14</sup>C, <sup>3</sup>And he said", "14C, 3 And he said"),
        ("the 2<sup>nd</sup>, XX<sup>e</sup>, M<sup>me</sup>, Acme<sup>®</sup>", "the 2nd, XXe, Mme, Acme®"),
        ("(a+b)<sup>2</sup>, x<sup>n+1</sup>, s<sup>-1</sup>", "(a+b)^2, x^(n+1), s^-1"),
        ("in 1999<sup>2</sup> and 村<sup>5</sup>の", "in 1999 [2] and 村 [5] の"),
        ("in 10<sup>x<sup>2</sup></sup>", "in 10^(x^2)"),
        ("word<a epub:type='noteref' href='n.html'>5</a>s", "word [5] s"),
        ("word <a class='footnote-reference brackets' href='#a'>2</a>", "word [2]"),
        ("Schiff&shy;fahrt, non&#8209;stop, 3&nbsp;km", "Schifffahrt, non-stop, 3 km"),
        ("<ruby>京<rp>(</rp><rt>きょう</rt><rp>)</rp>都<rt>と</rt></ruby>へ", "京都(きょうと)へ"),
        ("He said <q>go</q> <img src=a alt='a red door'> <img alt='a.png'>", "He said “go” a red door"),
        ("Name: <input value=Ada><input type=hidden value=x> <textarea>ok</textarea>", "Name: Ada ok"),
        ("<input type=checkbox checked> Yes <select><option>a<option selected>b</select>", "[x] Yes b"),
        ("x &copy 2020 &unknown; &#0;&#xD800; AT&T", "x © 2020 &unknown; \ufffd\ufffd AT&T"),
        (r"so <math><mfrac><mn>1</mn><mrow><mi>a</mi><mo>+</mo><msup><mi>b</mi><mn>2</mn></msup></mrow></mfrac></math>.", "so 1/(a+b^2) ."),
        (r"so <math alttext='\sqrt{x}'><apply/></math>", "so sqrt(x)"),
        ("so <math><apply/></math>", "so [formula]"),
        (r"<span class='math'><img alt='\frac{x_{1}}{\alpha}'></span>", "x_1/α"),
    ],
)  # fmt: skip
def test_letters_that_are_not_plain(tmp_path: Path, html: str, expected: str) -> None:
    assert paragraphs(tmp_path, f"<meta charset=utf-8><p>{html}") == [expected]
    if "<m" not in html and "epub:" not in html and "&copy " not in html:  # the same in a book and in Markdown
        xhtml = html.replace("<input value=Ada><input type=hidden value=x>", "Ada").replace("&unknown;", "")
        if "=a " not in html and "=checkbox" not in html:
            assert book(tmp_path / "a.epub", {"a.xhtml": f"<p>{xhtml}</p>"}).text == expected
        assert paragraphs(tmp_path, html, "a.md") == [expected]


def test_rows_keep_their_cells(tmp_path: Path) -> None:
    rows = "<tr><th rowspan=2>Name<th colspan=2>Life<tr><th>born<th>died<tr><td><p>Ada</p><td><td><p>1852</p>"
    expected = ["Name | Life |", "| born | died", "Ada |  | 1852"]
    assert paragraphs(tmp_path, f"<table>{rows}<tr><td><td></table>") == expected
    assert paragraphs(tmp_path, "|a|b|c|\n|-|-|-|\n|1||3|\n|||3|\n", "a.md") == ["a | b | c", "1 |  | 3", "|  | 3"]
    wide = "<td colspan=999999999>x" + "<td rowspan=999999999>y" * 300
    assert len(paragraphs(tmp_path, f"<table><tr>{wide}" + "<tr><td>z" * 300 + "</table>")) == 301


def test_tables_that_only_place_text(tmp_path: Path) -> None:
    inner = "<table><tr><td>a<td>b<tr><td>c<td></table>"
    assert paragraphs(tmp_path, f"<table><tr><td><h2>Title</h2><p>Text<td>{inner}</table>") == [
        "Title", "Text", "a | b", "c |"
    ]  # fmt: skip
    assert paragraphs(tmp_path, "<table><tr><td>one<tr><td>two</table><tr><td>no table") == ["one", "two", "no table"]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ol><li>a<li><p>b</p>c</ol>", ["1. a", "2. b", "c"]),
        ("<ol start=3 type=a><li>x<li value=7>y<li>z</ol>", ["c. x", "g. y", "h. z"]),
        ("<ol reversed><li>x<li>y</ol>", ["2. x", "1. y"]),
        ("<ol type=I><li>x<ol style='list-style-type: lower-roman'><li>y<li>z</ol></ol>", ["I. x", "i. y", "ii. z"]),
        ("<ol><li><ol><li>x</ol><li></li><li>y<ul><li>z</ul></ol>", ["1. 1. x", "3. y", "z"]),
        ("<ul><li>x</ul><ol style='list-style: none'><li>y</ol><li>z", ["x", "y", "z"]),
    ],
)
def test_numbers_of_lists(tmp_path: Path, html: str, expected: list[str]) -> None:
    assert paragraphs(tmp_path, html) == expected


def test_numbers_of_lists_in_markdown(tmp_path: Path) -> None:
    text = "4. x\n5. y\n   - z\n     1. w\n\n- [x] done\n- [ ] open\n\nText[^n] ~~old~~.\n\n[^n]: A note.\n"
    assert paragraphs(tmp_path, text, "a.md") == [
        "4. x", "5. y", "z", "1. w", "[x] done", "[ ] open", "Text [1] old.", "1. A note."
    ]  # fmt: skip


def test_formulas_in_markdown(tmp_path: Path) -> None:
    text = "So $\\frac{a}{b+1}$ and $$\nx^{2} < y\n$$ cost $5 or $6, `$x^2$`.\n\n    $y^2$\n"
    assert paragraphs(tmp_path, text, "a.md") == ["So a/(b+1) and x^2 < y cost $5 or $6, $x^2$.", "$y^2$"]


@pytest.mark.parametrize(
    "html",
    [
        "<p>Seen.<p hidden>Not.<p>Seen.",
        "<p>Seen.<div style='color: red; display : none'>Not.<p>Not.</div><p>Seen.",
        "<p>Seen.<script>Not.</script><template>Not.</template><dialog>Not.</dialog><p>Seen.",
        "<p>Seen.<nav>Not.</nav><div role=navigation>Not.</div><button>Not</button><p>Seen.",
        "<p>Seen.<div class='site-menu'><a href=a>Not</a> | <a href=b>Not</a></div><p>Seen.",
        "<p>Seen.<table class=header><tr><td>[<a href=a> &lt;&lt; </a>]<td>[<a href=b> Up </a>]<td>[<a href=c> ? </a>]</table><p>Seen.",
        "<p>Seen.<div class=navheader><table><tr><td>A long title<td><a href=a>Next</a></table></div><p>Seen.",
        "<p>Seen.<table><tr><td>[ &lt; ]<td>[<a href=a> Up </a>]<td>[<a href=b>Contents</a>]</table><p>Seen.",
        "<p>Seen.<hr><a href=a><img src=p alt=Previous></a> <a href=b>Next</a><hr><p>Seen.",
        "<p>Seen.<ul><li><a href=a>上一页</a><li><a href=b>下一页</a></ul><p>Seen.",
        "<p>Seen.<div id='cookie-banner'>We use cookies for all we do.</div><p>Seen.",
        "<p>Seen.<ul><li><a href='#a'>Not</a><li><a href='#b'>Not</a><li><a href='#c'>Not</a></ul><p>Seen.",
        "<p>Seen.<ul><li><a href='m.html#a'>Not</a><li><a href='m.html#b'>Not</a><li><a href='#c'>Not</a></ul><p id=a>Seen.<a name=b></a>",
        "<p>Seen.<a href='#x'>¶</a><p>Seen.",
        "<title>Not</title><p>Seen.<!-- Not --><![foo bar]><p>Seen.",
    ],
)
def test_what_is_not_seen(tmp_path: Path, html: str) -> None:
    assert paragraphs(tmp_path, html) == ["Seen.", "Seen."]
    if "<title" not in html:
        assert paragraphs(tmp_path, html, "a.md") == ["Seen.", "Seen."]


def test_text_that_only_looks_like_navigation(tmp_path: Path) -> None:
    """A block that is named as navigation but is mostly text, links within text, and a page that is all links."""
    html = "<div class=sidebar>Founded in 1900 by <a href=x>Ada</a></div><ul><li>See <a href='#a'>a</a> soon</ul>"
    assert paragraphs(tmp_path, html) == ["Founded in 1900 by Ada", "See a soon"]
    assert paragraphs(tmp_path, "<div class=toc><a href=a>Ropes</a></div><nav>Boats</nav>") == ["Ropes", "Boats"]
    for words in ("Up next", "<a href=a>Index</a>", "<a href=a>Up</a> the next hill"):
        assert paragraphs(tmp_path, f"<p>{words}<p>End") == [re.sub("<.*?>", "", words), "End"]


def test_pages_that_are_mostly_links(tmp_path: Path) -> None:
    """The text of Doxygen's pages, their titles, and tables of DocBook are read; tables of contents are not."""
    link = "<a href=a>of a rope or of a boat</a>"
    for text in (f"<h2>Ropes</h2>{link}<h2>Ropes</h2>{link}", f"<p>Ropes{', thick or thin' * 9}<p>{link * 9}"):
        page = paragraphs(tmp_path, f"<div class=header>{link}</div><div class=contents>{text}</div><p>End")
        assert page[0].startswith("Ropes")
        assert page[1].startswith("of a rope or of a boat")
    header = f"<div class=header>{link}<div class=headertitle><div class=title>Rope Class</div></div></div>"
    assert paragraphs(tmp_path, f"{header}<p>End") == ["of a rope or of a boat", "Rope Class", "End"]
    table = f"<div class=table-contents><table><tr><td>{link}<td>5 m</table></div>"
    assert paragraphs(tmp_path, f"{table}<div class=table-of-contents>{link}</div>") == ["of a rope or of a boat | 5 m"]
    assert paragraphs(tmp_path, f"<div class=contents><h2>Contents</h2>{link}</div><p>End") == ["End"]


def test_lines_and_paragraphs_of_html(tmp_path: Path) -> None:
    html = "one<br>line<br> <br>two<dl><dt>Term<dd>Meaning</dl><details><summary>More</summary>text</details>"
    assert paragraphs(tmp_path, f"{html}<pre>a\n  b<br>c</pre><blockquote><h2>Said</h2></blockquote>") == [
        "one line", "two", "Term", "Meaning", "More", "text", "a\n  b\nc", "Said",
    ]  # fmt: skip
    assert [one.heading for one in read_document(tmp_path / "a.html").segments] == [""]


def test_deep_markdown_is_whole(tmp_path: Path) -> None:
    deep = "".join(f"{'  ' * level}- level {level}\n" for level in range(60))
    assert paragraphs(tmp_path, f"{deep}\n# End\n", "a.md")[-2:] == ["level 59", "End"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("---\n" + "key: some value\n" * 40 + "\nno end\n", "key: some value"),
        ("---\nauthor: Ada\n\ntags: x\n---\nText\n", "Text"),
        ("---\n\nA line of prose\n\n---\n", "A line of prose"),
    ],
)
def test_settings_before_markdown(tmp_path: Path, text: str, first: str) -> None:
    assert paragraphs(tmp_path, text, "a.md")[0].startswith(first)


@pytest.mark.parametrize(
    "markup",
    ["<b>x " * 20000, "<!--" * 50000, "<a " * 50000, "<![CDATA[" * 9000, "<table><tr><td>x" * 20000, "[" * 50000,
     "> " * 5000 + "x", "<p><b id={i}>x " * 20000, "<ul><li>x" * 20000, "<sup>x" * 20000, "<math>" * 20000 + "x"],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["html", "md"])
def test_markup_that_is_nested_or_never_ends(tmp_path: Path, markup: str, ending: str) -> None:
    started = time.process_time()
    (tmp_path / f"a.{ending}").write_text(f"<p>First.</p>\n\n{markup}")
    assert read_document(tmp_path / f"a.{ending}").text.startswith("First.")
    assert time.process_time() - started < 2


def test_what_is_nested_too_deeply_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paragraphs(tmp_path, "<div>x" * 5000)
    assert "elements are nested too deeply; the text from there on is not read" in caplog.text


def test_a_book_with_bad_chapters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="cogltx"):
        order = "".join(f'<itemref idref="c{i}"/>' for i in (0, 1, 2, 9))
        document = book(tmp_path / "a.epub", {"one.xhtml": "<p>One</p>", "gone.xhtml": "", "b.xhtml": "<p>Two"}, order)
    assert document.text == "One\n\nTwo"
    assert document.notes == ("2 of 4 chapters cannot be read: O/gone.xhtml (missing), O/c9 (missing)",)
    content = bytearray((tmp_path / "a.epub").read_bytes())
    content[content.index(b"<p>One</p>") + 3] ^= 1
    (tmp_path / "b.epub").write_bytes(content)
    assert "3 of 4 chapters cannot be read: O/one.xhtml (damaged), " in read_document(tmp_path / "b.epub").notes[0]
    with pytest.raises(DataError, match=r"c\.epub: no chapter can be read: O/a\.xhtml \(missing\)$"):
        book(tmp_path / "c.epub", {"a.xhtml": ""})


def test_a_book_in_a_folder_of_its_archive(tmp_path: Path) -> None:
    book(tmp_path / "a.epub", {"one.xhtml": "<p>One</p>"})
    with ZipFile(tmp_path / "a.epub") as plain, ZipFile(tmp_path / "b.epub", "w") as nested:
        for name in plain.namelist():
            nested.writestr(f"epub/{name}", plain.read(name))
    assert read_document(tmp_path / "b.epub").text == "One"


def test_the_reading_order_of_a_book(tmp_path: Path) -> None:
    """Places within a chapter, chapters named twice, chapters beside the reading order, and names with signs."""
    spine = '<itemref idref="n" linear="no"/><itemref idref="p"/><itemref idref="c0"/><itemref idref="q"/>'
    manifest = (
        '<item id="n" href="n.xhtml"/><item id="p" href="a%20b.xhtml#x"/><item id="q" href="a%20b.xhtml#y"/>'
        '<item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    )
    toc = "<ncx><navMap><navPoint><navLabel><text>The Sea</text></navLabel><content src='a%20b.xhtml#x'/></navPoint></navMap></ncx>"
    text = {"a b.xhtml": "<p>The  Sea</p><p>Waves.</p>"}
    document = book(tmp_path / "a.epub", text, spine, manifest, n_xhtml="<p>Aside</p>", toc_ncx=toc)
    assert document.text == "The Sea\n\nWaves.\n\nAside"
    assert [segment.heading for segment in document.segments] == ["The Sea"]


def test_xhtml_is_read_as_xml_or_else_as_html(tmp_path: Path) -> None:
    title = "<head><title/><script src='x'/></head>"
    start = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">'
    assert paragraphs(tmp_path, f"{start}{title}<body><p>a&nbsp;b</p></body></html>", "a.xhtml") == ["a b"]
    assert paragraphs(tmp_path, f"{start}<body><p>a<p>b</body></html>", "a.xhtml") == ["a", "b"]
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    bomb = (
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><html xmlns="x"><p>First</p><p>&a11;</p></html>'
    )
    assert len(paragraphs(tmp_path, bomb, "a.xhtml")) < 20
