"""PDF files as a reader sees them. Every file is made here, with text at known places in points."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import matplotlib
import pypdfium2
import pytest
from fpdf import FPDF

from cogltx import Document, read_document
from cogltx.errors import DataError
from cogltx.formats import _pdf, _pdf_ocr, _pdf_words

Placed = tuple[float, float, str]  # left edge and baseline in points from the upper left corner, and the text

FOX = [
    "The quick brown fox jumps over the lazy dog while the",
    "hunter of the village sleeps under the great old oak in",
    "the shade of its leaves.",
]
OWL = [
    "An owl that lives in the tower of the church hears the",
    "mice in the hay before they hear the wings of the owl",
    "in the dark of the night.",
]


def drawn(pages: Sequence[Sequence[Placed]], size: float = 11, **options: object) -> FPDF:
    """Draw texts at their places."""
    file = FPDF(unit="pt", format=(612, 792), **options)  # type: ignore[arg-type]
    file.set_font("Helvetica", size=size)
    for page in pages:
        file.add_page()
        for left, baseline, text in page:
            file.text(left, baseline, text)
    return file


def lines(left: float, top: float, texts: Sequence[str], step: float = 13) -> list[Placed]:
    return [(left, top + step * number, text) for number, text in enumerate(texts)]


@pytest.fixture
def read(tmp_path: Path) -> Callable[[FPDF], Document]:
    def save_and_read(file: FPDF) -> Document:
        file.output(str(tmp_path / "a.pdf"))
        return read_document(tmp_path / "a.pdf")

    return save_and_read


Read = Callable[[FPDF], Document]


def paragraphs(document: Document) -> list[str]:
    return document.text.split("\n\n")


def test_lines_become_paragraphs(read: Read) -> None:
    assert paragraphs(read(drawn([lines(72, 90, [*FOX, *OWL])]))) == [" ".join(FOX), " ".join(OWL)]


@pytest.mark.parametrize("apart", [150, 14])
def test_columns_drawn_row_by_row(read: Read, apart: float) -> None:
    width = 290
    rows = zip(lines(40, 90, FOX), lines(40 + width + apart, 90, OWL), strict=True)
    assert paragraphs(read(drawn([[placed for row in rows for placed in row]]))) == [" ".join(FOX), " ".join(OWL)]


def test_three_columns_under_a_title(read: Read) -> None:
    columns = [
        ["Rain fell on the hills of the", "north and the rivers rose to", "the doors of the mills."],
        ["Snow fell on the roofs of the", "south and the roads were shut", "for the whole of a week."],
        ["Wind blew the sand from all the", "dunes of the west into gardens", "and over the walls."],
    ]
    title = [(150.0, 60.0, "The weather of the year in all the parts of the country")]
    rows = zip(*(lines(40 + 185 * number, 90, column) for number, column in enumerate(columns)), strict=True)
    assert paragraphs(read(drawn([title + [placed for row in rows for placed in row]]))) == [
        title[0][2], *(" ".join(column) for column in columns)
    ]  # fmt: skip


def test_columns_of_tables_drawn_one_after_the_other(read: Read) -> None:
    rows = [[f"The {animal} of the {place}", f"{animal}({place})"] for animal in ("fox", "owl") for place in "abcdef"]
    rows[3][1] = "a name that reaches into the next column"
    placed = [
        (left + column, 100.0 + 14 * number, cell)
        for left, half in [(40, rows[:6]), (350, rows[6:])]
        for number, row in enumerate(half)
        for column, cell in zip((0, 110), row, strict=True)
    ]
    assert paragraphs(read(drawn([[(200, 60, "The names of all the animals"), *placed]]))) == [
        "The names of all the animals", *map(" | ".join, rows)
    ]  # fmt: skip


def test_running_heads_go_and_a_sentence_over_pages_is_whole(read: Read) -> None:
    texts = [FOX[:2], [*FOX[2:], *OWL], ["The end of it."]]
    pages = [
        [
            (60.0, 40.0, "Annual Report 2020"),
            (60.0, 54.0, "of the Company"),
            *lines(72, 100, text),
            (290.0, 760.0, foot),
        ]
        for text, foot in zip(texts, ["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"], strict=True)
    ]
    document = read(drawn(pages))
    assert paragraphs(document) == [" ".join(FOX), " ".join(OWL), "The end of it."]
    assert [document.page(document.text.index(word)) for word in ("quick", "shade", "owl", "end of")] == [1, 2, 2, 3]
    assert [line.page for line in document.lines] == [1, 1, 2, 2, 2, 2, 3]


def test_titles_of_slides_are_no_running_heads(read: Read) -> None:
    titles = ["Outline", "Foxes (1/3)", "Foxes (2/3)", "Foxes (3/3)", "Outline", "Owls", "Hens", "Outline", "Hares"]
    file = drawn([])
    for number, title in enumerate(titles):
        file.add_page()
        file.set_font_size(16)
        file.text(72, 60, title)
        file.set_font_size(11)
        file.text(72, 120 + 40 * number, f"{[*FOX, *OWL][number % 6]} and no other place.")
    assert [segment.heading for segment in read(file).segments] == titles


def test_heads_of_left_and_right_pages_and_roman_numbers(read: Read) -> None:
    story = [
        f"{words} of the long story goes on here."
        for words in ("One part", "More", "The rest", "All", "An end", "Nothing")
    ]
    pages = [
        [
            (60.0, 40.0, number) if odd % 2 else (500.0, 40.0, number),
            (200.0, 40.0, "A History" if odd % 2 else "Of Rain"),
            (72.0, 100.0, text),
        ]
        for odd, (number, text) in enumerate(zip(["iii", "iv", "v", "vi", "vii", "viii"], story, strict=True))
    ]
    assert paragraphs(read(drawn(pages))) == story


@pytest.mark.parametrize("step", [1, 5])
def test_numbers_of_lines_go(read: Read, step: int) -> None:
    texts = [*FOX[:2], *OWL[:2], *FOX[:2], *OWL[:2], *FOX[:2], *OWL[:2], *FOX[:2], *OWL[1:]]
    numbers = [(40.0, 90 + 13.0 * at, str(at + 1)) for at in range(len(texts)) if (at + 1) % step == 0]
    assert read(drawn([[*numbers, *lines(72, 90, texts)]])).text == " ".join(texts)


def test_hyphens_at_the_ends_of_lines(read: Read) -> None:
    text = [
        "The company was foun-", "ded in 1931 by an engineer from the north of the coun-", "try. The well-",
        "known firm builds e-", "mail systems and sells Debian-", "Pakete, and its e-mail in 1990-", "1999 was the state-of-the-",
        "art, as Neu\u00ad", "stadt says.",
    ]  # fmt: skip
    assert " ".join(read(drawn([lines(72, 90, text)])).text.split()) == (
        "The company was founded in 1931 by an engineer from the north of the country. The well-known firm builds e-mail "
        "systems and sells Debian-Pakete, and its e-mail in 1990-1999 was the state-of-the-art, as Neustadt says."
    )


def test_the_document_decides_about_a_hyphen(read: Read) -> None:
    text = [
        "A cross-road is no crossroad, and the farm at the cross-",
        "road has a data base with a database, a data-",
        "base and a base of data.",
    ]
    both = "The road has a data-base. The data-base is a cross-road."
    assert "cross-road has" in read(drawn([lines(72, 90, [*text, both])])).text
    assert "a data-base and" in read(drawn([lines(72, 90, [*text, both])])).text
    assert "a database and" in read(drawn([lines(72, 90, text)])).text


def test_accents_drawn_above_their_letters(read: Read) -> None:
    file = drawn([[(72, 200, "Peter\u00b4s and l\u00b4eau stay.")]])
    file._out(b"BT /F1 11 Tf 72 712 Td [(F\\250) 440 (ur die L\\250) 440 (ange, Andr\\264) 440 (e)] TJ ET")
    assert read(file).text.split("\n\n") == ["Für die Länge, André", "Peter\u00b4s and l\u00b4eau stay."]


def test_accents_drawn_apart_from_their_letters(read: Read) -> None:
    file = drawn([[(72, 100, "In Munster a lumiere, `quoted', is tres good."), (72, 113, "The code `a` stays.")]])
    for before, accent in (
        ("In M", "\u00a8"),
        ("In Munster a lumi", "`"),
        ("In Munster a lumiere, `quoted', is tr", "`"),
    ):
        file.text(72 + file.get_string_width(before) + 1.2, 100, accent)
    assert read(file).text == "In Münster a lumière, `quoted', is très good. The code `a` stays."


def test_rows_of_a_table_keep_their_cells(read: Read) -> None:
    cells = [["Country", "Capital", "People"], ["France", "Paris", "67"], ["Spain", "", "48"], ["Italy", "Rome", "59"]]
    placed = [
        (72 + 120.0 * x, 100 + 16.0 * y, cell) for y, row in enumerate(cells) for x, cell in enumerate(row) if cell
    ]
    assert paragraphs(read(drawn([placed]))) == [
        "Country | Capital | People",
        "France | Paris | 67",
        "Spain |  | 48",
        "Italy | Rome | 59",
    ]


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("shown", [0, 90, 180, 270])
def test_turned_text_and_turned_pages(read: Read, turn: int, shown: int) -> None:
    file = FPDF(unit="pt", format=(612, 792))
    file.set_font("Helvetica", size=11)
    file.add_page()
    with file.rotation(turn, 306, 396):
        for left, baseline, text in lines(150, 380, [*FOX, *OWL]):
            file.text(left, baseline, text)
    file.pages[1].rotate = shown  # type: ignore[attr-defined]
    assert paragraphs(read(file)) == [" ".join(FOX), " ".join(OWL)]


def test_boxes_are_places_on_the_page(read: Read) -> None:
    document = read(drawn([lines(72, 90, FOX), lines(100, 500, OWL)], size=12))
    start = document.text.index("the great old oak")
    (line,) = document.lines_of(start, start + 5)
    assert line.page == 1
    assert document.text[line.start : line.end] == FOX[1]
    width = drawn([[]], size=12).get_string_width(FOX[1])
    assert line.box == pytest.approx((72, 103 - 9.6, 72 + width, 103 + 2.4), abs=1)


def test_powers_and_marks_of_notes(read: Read) -> None:
    file = drawn(
        [
            [
                (72, 90, "It has 10"),
                (190, 90, "grains, as he said."),
                (320, 90, "That is so, by all that is known of it."),
            ]
        ]
    )
    file.set_font_size(7)
    x = 72 + drawn([[]]).get_string_width("It has 10")
    file.text(x, 85, "6")
    file.text(190 + drawn([[]]).get_string_width("grains, as he said."), 85, "3")
    assert read(file).text == "It has 10^6 grains, as he said. [3] That is so, by all that is known of it."


def test_a_page_without_text_is_noted(read: Read) -> None:
    file = drawn([[(72, 90, "Text.")], [], [(72, 90, "More.")]])
    file.page = 2
    file.rect(100, 100, 50, 50, style="F")
    assert read(file).notes == ("page 2 is a picture",)


FAKE_OCR = """
from types import SimpleNamespace
import numpy
class RapidOCR:
    def __init__(self, params): pass
    def __call__(self, picture):
        assert picture.shape == (1584, 1224, 3)
        corners = lambda x, y, w: [[x, y], [x + w, y], [x + w, y + 28], [x, y + 28]]
        boxes = numpy.array([corners(144, 200, 560), corners(144, 232, 500)], dtype="float32")
        return SimpleNamespace(txts=("The text of a picture is", "read from it."), boxes=boxes)
"""


def test_a_picture_is_read_if_ocr_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = drawn([[]])
    file.rect(100, 100, 50, 50, style="F")
    content = bytes(file.output())
    with pytest.raises(
        DataError, match=re.escape('no page has text, probably a scan; pip install "cogltx[ocr]" to read it')
    ):
        _pdf.read(content)
    (tmp_path / "rapidocr.py").write_text(FAKE_OCR)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_pdf_ocr, "_engine", cache(_pdf_ocr._engine.__wrapped__))
    document = _pdf.read(content).document()
    assert document is not None
    assert (document.text, document.notes) == ("The text of a picture is read from it.", ())
    assert document.lines[0].box == pytest.approx((72, 101.4, 352, 112.6), abs=2)
    del sys.modules["rapidocr"]


def test_rapidocr_reads_a_picture() -> None:
    pytest.importorskip("rapidocr", reason="the extra ocr is not installed")
    picture = pypdfium2.PdfDocument(bytes(drawn([lines(72, 90, FOX)], size=16).output()))[0].render(scale=2).to_pil()
    file = drawn([[]])
    file.image(picture, 0, 0, 612, 792)
    document = _pdf.read(bytes(file.output())).document()
    assert document is not None
    assert "jumps over the lazy dog" in document.text


def test_right_to_left(read: Read) -> None:
    file = FPDF(unit="pt", format=(612, 792))
    file.add_font("DejaVu", fname=Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")
    file.set_font("DejaVu", size=12)
    file.add_page()
    texts = ["בית הספר נפתח בשנת 1931 על ידי המהנדס שבנה את הגשר", "על הנהר. העיר צובעת אותו כל שבע שנים."]
    for number, text in enumerate(texts):
        as_drawn = re.sub(r"\d+", lambda match: match[0][::-1], text)[::-1]
        file.text(500 - file.get_string_width(text), 90 + 16 * number, as_drawn)
    assert read(file).text == " ".join(texts)


def test_addresses_among_text_from_right_to_left(read: Read) -> None:
    file = FPDF(unit="pt", format=(612, 792))
    file.add_font("DejaVu", fname=Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")
    file.set_font("DejaVu", size=12)
    file.add_page()
    text = "קרא עוד: על הגשר באתר http://www.example.org/a.b או בספר 1.3 של John Smith כאן."
    as_drawn = re.sub(r"[a-zA-Z1-9][^א-ת]+[a-zA-Z1-9]", lambda match: match[0][::-1], text)[::-1]
    file.text(500 - file.get_string_width(text), 90, as_drawn)
    assert read(file).text == text


def test_vertical_japanese(read: Read, tmp_path: Path) -> None:
    columns = ["吾輩は猫である名前はまだ", "無いどこで生れたかとんと", "見当がつかぬ。"]
    shows = " ".join(
        f"1 0 0 1 {500 - 20 * at} 700 Tm <{text.encode('utf-16-be').hex()}> Tj" for at, text in enumerate(columns)
    )
    font = (
        "<</Type/Font/Subtype/Type0/BaseFont/HeiseiMin-W3/Encoding/UniJIS-UCS2-V/DescendantFonts[<</Type/Font/Subtype"
        "/CIDFontType0/BaseFont/HeiseiMin-W3/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>/FontDescriptor"
        "<</Type/FontDescriptor/FontName/HeiseiMin-W3/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0/Ascent 900"
        "/Descent -200/CapHeight 700/StemV 80>>>>]>>"
    )
    (tmp_path / "v.pdf").write_bytes(raw(f"BT /F1 12 Tf {shows} ET", font))
    document = read_document(tmp_path / "v.pdf")
    assert document.text == "".join(columns)
    assert document.lines[0].box == pytest.approx((494, 92, 506, 92 + 144), abs=3)


def raw(content: str, font: str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", page: str = "") -> bytes:
    """A PDF file of one page, from the text of its content."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R{page}>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream", font,
    ]  # fmt: skip
    body, offsets = "%PDF-1.7\n", ""
    for number, one in enumerate(objects, start=1):
        offsets += f"{len(body):010d} 00000 n \n"
        body += f"{number} 0 obj{one}endobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{offsets}trailer<</Size {len(objects) + 1}/Root 1 0 R>>"
    return f"{body}{table}\nstartxref\n{len(body)}\n%%EOF".encode("latin-1")


def test_invisible_text_of_a_scan_and_text_drawn_twice(tmp_path: Path) -> None:
    shows = "3 Tr 1 0 0 1 72 700 Tm (The words under the picture.) Tj 0 Tr"
    bold = " ".join(f"1 0 0 1 {72 + shift} 650 Tm (Drawn twice.) Tj" for shift in (0, 0.3))
    (tmp_path / "a.pdf").write_bytes(raw(f"BT /F1 12 Tf {shows} {bold} ET"))
    assert read_document(tmp_path / "a.pdf").text == "The words under the picture.\n\nDrawn twice."


def test_values_of_forms_and_texts_of_annotations(tmp_path: Path) -> None:
    fields = [
        "/FT/Tx/T(tenant)/V(Anna Berg)/Rect[170 692 300 710]",
        "/FT/Ch/Ff 131072/T(city)/V(Oslo)/Opt[(Oslo)(Bergen)]/Rect[150 662 300 680]",
        "/FT/Btn/T(pets)/V/Yes/AS/Yes/AP<</N<</Yes null/Off null>>>>/Rect[72 632 84 644]",
        "/FT/Btn/T(smoker)/V/Off/AS/Off/AP<</N<</Yes null/Off null>>>>/Rect[72 602 84 614]",
        "/FT/Tx/T(Remark)/V(Third floor)/Rect[72 500 300 520]",
    ]  # fmt: skip
    widgets = "".join(f"<</Type/Annot/Subtype/Widget{field}/F 4>>" for field in fields)
    note = "<</Type/Annot/Subtype/FreeText/Contents(Paid in May)/Rect[72 400 300 420]>>"
    shows = [(72, 696, "Name of tenant:"), (72, 666, "City:"), (90, 636, "has pets"), (90, 606, "smokes")]
    content = " ".join(f"1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in shows)
    file = raw(f"BT /F1 12 Tf {content} ET", page=f"/Annots[{widgets}{note}]")
    file = file.replace(b"<</Type/Catalog", b"<</AcroForm<</Fields[]>>/Type/Catalog")
    (tmp_path / "a.pdf").write_bytes(file)
    assert paragraphs(read_document(tmp_path / "a.pdf")) == [
        "Name of tenant: Anna Berg", "City: Oslo", "☑ has pets", "☐ smokes", "Remark: Third floor", "Paid in May"
    ]  # fmt: skip


def test_footnotes_follow_the_paragraph(read: Read) -> None:
    file = FPDF(unit="pt", format=(612, 792))
    for texts, notes in [
        (
            [*FOX, *OWL[:2]],
            ["1 A note about the fox, which is long and goes on for more", "than the line that it has on this"],
        ),
        ([OWL[2], *FOX], ["page and on the next one.", "2 Another note about the oak."]),
    ]:
        file.add_page()
        file.set_font("Helvetica", size=11)
        for left, baseline, text in lines(72, 90, texts):
            file.text(left, baseline, text)
        file.set_font_size(8)
        for left, baseline, text in lines(72, 730, notes, 10):
            file.text(left, baseline, text)
    assert paragraphs(read(file)) == [
        " ".join(FOX), " ".join(OWL), "1 A note about the fox, which is long and goes on for more than the line that it "
        "has on this page and on the next one.", " ".join(FOX), "2 Another note about the oak.",
    ]  # fmt: skip


def test_notes_in_the_margin_are_no_cells(read: Read) -> None:
    file, notes = drawn([[]]), {1: "1 A red fox", 3: "2 A barn owl"}
    for number, (left, baseline, text) in enumerate(lines(72, 90, [*FOX, *OWL])):
        file.set_font_size(11)
        file.text(left, baseline, text)
        file.set_font_size(8)
        file.text(420, baseline, notes.get(number, ""))
    assert paragraphs(read(file)) == [" ".join(FOX), " ".join(OWL), *notes.values()]


def test_lists_code_contents_and_headings(read: Read) -> None:
    file = drawn([[]])
    file.set_font("Helvetica", "B", 16)
    file.text(72, 60, "2 The animals")
    file.set_font("Helvetica", "", 11)
    for left, baseline, text in [
        (72, 90, "There are two of them, and their names are:"),
        (80, 110, "1."), (95, 110, "the fox, which is quick and brown and jumps over all the"), (95, 123, "lazy dogs of the town;"),
        (80, 136, "2."), (95, 136, "the owl."),
        (72, 160, "2.1 Foxes . . . . . . . . . . . . . . . . . . . . 7"), (72, 173, "2.2 Owls . . . . . . . . . . . . . . . . . . . . 12"),
    ]:  # fmt: skip
        file.text(left, baseline, text)
    file.set_font("Courier", "", 10)
    for left, baseline, text in lines(90, 200, ["for fox in foxes:", "    jump(fox)"], 12):
        file.text(left, baseline, text)
    document = read(file)
    assert paragraphs(document) == [
        "2 The animals", "There are two of them, and their names are:",
        "1. the fox, which is quick and brown and jumps over all the lazy dogs of the town;", "2. the owl.",
        "2.1 Foxes 7", "2.2 Owls 12", "for fox in foxes:\n    jump(fox)",
    ]  # fmt: skip
    assert [segment.heading for segment in document.segments] == ["2 The animals"]


def test_headings_from_the_outline(read: Read) -> None:
    file = drawn([[]])
    file.start_section("Foxes and hounds")
    file.text(72, 60, "1 Foxes and hounds")
    for left, baseline, text in lines(72, 90, FOX):
        file.text(left, baseline, text)
    assert [segment.heading for segment in read(file).segments] == ["1 Foxes and hounds"]


@pytest.mark.parametrize(
    ("printed", "bold", "size"), [("3.1 jump(fox)", "", 11), ("jump(fox)", "B", 11), ("jump(fox)", "", 16)]
)
def test_headings_in_fixed_type_from_the_outline(read: Read, printed: str, bold: str, size: float) -> None:
    file = drawn([[*lines(72, 90, FOX), *lines(72, 250, OWL)]])
    file.start_section("jump(fox)")
    file.set_font("Courier", size=11)
    file.text(90, 200, "jump(fox)")  # code that repeats the title
    file.set_font("Courier", bold, size)
    file.text(72, 60, printed)
    assert [(segment.start, segment.heading) for segment in read(file).segments] == [(0, printed)]


def test_a_numbered_heading_may_end_in_a_full_stop(read: Read) -> None:
    file = drawn([lines(72, 90, FOX)])
    file.set_font("Helvetica", "B", 11)
    for left, baseline, text in [(72, 60, "1.2. Foxes!."), (72, 200, "Foxes are quick."), (72, 240, "2 Owls.")]:
        file.text(left, baseline, text)
    assert [segment.heading for segment in read(file).segments] == ["1.2. Foxes!.", "2 Owls."]


def test_a_heading_above_the_rows_of_a_table(read: Read) -> None:
    rows = ["Fox", "", "Owl", "", "Hen", ""]
    file = drawn([[*lines(72, 116, rows, 16), *lines(200, 116, ["fast", "", "wise", "", "fat", ""], 16)]])
    file.text(72, 164 - 16, "Hare")
    file.set_font("Helvetica", "B", 11)
    file.text(72, 100, "Animals")
    document = read(file)
    assert [(segment.start, segment.heading) for segment in document.segments] == [(0, "Animals")]


@pytest.mark.parametrize(
    ("n_pages", "outline", "headings"),
    [(2, ["Foxes"], ["Foxes"]), (2, ["a.dvi", "b.dvi", "Foxes"], ["Foxes", "Owls"]), (8, ["Foxes"], ["Foxes", "Owls"])],
)
def test_a_poor_outline_is_completed_by_type(
    read: Read, n_pages: int, outline: Sequence[str], headings: Sequence[str]
) -> None:
    file = drawn([[*lines(72, 90, FOX), *lines(72, 250, OWL)], *([lines(72, 90, OWL)] * (n_pages - 1))])
    file.page = 1
    for title in outline:
        file.start_section(title)
    file.set_font("Helvetica", "B", 11)
    file.text(72, 60, "Foxes")
    file.text(72, 220, "Owls")
    assert [segment.heading for segment in read(file).segments] == headings


@pytest.mark.parametrize(
    ("title", "printed"),
    [
        ("A Copying information", "Appendix A Copying information"), ("Free licence", "A.1 Free licence"),
        ("Methods", "IV. Methods"), ("B. Words", "Words"),
    ],
)  # fmt: skip
def test_headings_whose_label_only_one_side_has(read: Read, title: str, printed: str) -> None:
    file = drawn([[]])
    file.start_section(title)
    file.text(72, 60, printed)
    for left, baseline, text in lines(72, 90, FOX):
        file.text(left, baseline, text)
    assert [segment.heading for segment in read(file).segments] == [printed]


@pytest.mark.parametrize(
    ("before", "raised", "expected"),
    [("less than 10", ("-", "8"), "less than 10^-8"), ("the matrix W", ("-", "1"), "the matrix W^-1"), ("as said", ("8",), "as said [8]")],
)  # fmt: skip
def test_powers_with_a_sign_are_no_notes(read: Read, before: str, raised: Sequence[str], expected: str) -> None:
    file = drawn([[(72, 90, before)]])
    left = 72 + file.get_string_width(before)
    file.set_font_size(7)
    for piece in raised:
        file.text(left, 86, piece)
        left += file.get_string_width(piece) + 0.3
    assert read(file).text == expected


@pytest.mark.parametrize(
    ("creator", "expected"), [("groff version 1.22.4", "as they are read"), ("TeX", "as theyare read")]
)
def test_words_of_groff_are_apart_where_pdfium_sees_no_space(tmp_path: Path, creator: str, expected: str) -> None:
    file = drawn([[(72, 90, "as theyare read")]])
    file.set_creator(creator)
    file.set_compression(False)
    drawn_as = b"(as the) Tj 3 Tc [(ya) 273] TJ 0 Tc (re read) Tj"  # one object of two letters, set apart
    (tmp_path / "a.pdf").write_bytes(bytes(file.output()).replace(b"(as theyare read) Tj", drawn_as))
    assert read_document(tmp_path / "a.pdf").text == expected


def test_underscores_that_are_drawn(read: Read) -> None:
    file, left, parts = drawn([[]]), 72.0, ("call", "glp", "create", "graph", "first")
    for number, part in enumerate(parts):
        file.text(left, 90, part)
        left += file.get_string_width(part)
        if 0 < number < 3:
            file.set_line_width(0.4)
            file.line(left + 0.3, 90.8, left + 4.7, 90.8)
        left += 5
    assert read(file).text == "call glp_create_graph first"


def test_ligatures_of_old_fonts(read: Read) -> None:
    file = drawn([[(72, 90, "It is speci\x1cd completely, at \x0crst glance.")]])
    assert read(file).text == "It is specifid completely, at first glance."
    file = drawn([[(72, 90, "At \x0crst it did not \x0ct at all.")]])
    assert read(file).text == "At first it did not fit at all."


@pytest.mark.parametrize(
    "name", ["NimbusMonL-Regu", "ABCDEF+CMSLTT10", "SFTT1095", "t1xtt", "Monaco", "CourierPS", "DejaVuSansMono"]
)
def test_names_of_fonts_of_fixed_pitch(name: str) -> None:
    assert _pdf_words._FIXED_NAME.search(name.lower())


@pytest.mark.parametrize("name", ["ABCDEF+SFRM1095", "CMR10", "NimbusRomNo9L-Regu", "Times-Roman"])
def test_names_of_fonts_that_are_not_bold(name: str) -> None:
    assert _pdf_words._PLAIN_NAME.search(name.lower())
    assert not _pdf_words._FIXED_NAME.search(name.lower())


def test_bold_lines_of_contents_are_no_headings(read: Read) -> None:
    contents = ["Contents", "1 Of Foxes 1", "2 Of Owls 2", "3 The year 1984 3"]
    file = FPDF(unit="pt", format=(612, 792))
    for titles, text in (([*contents, "1 Of Foxes"], FOX), (["2 Of Owls"], OWL), (["3 The year 1984"], [*FOX, *OWL])):
        file.add_page()
        file.set_font("Helvetica", style="B", size=11)
        for left, baseline, title in lines(72, 90, titles, step=30):
            file.text(left, baseline, title)
        file.set_font("Helvetica", size=11)
        for left, baseline, line in lines(72, 300, text):
            file.text(left, baseline, line)
    headings = [segment.heading for segment in read(file).segments]
    assert headings == ["Contents", "1 Of Foxes", "2 Of Owls", "3 The year 1984"]


@pytest.mark.parametrize("n_sections", [4, 6])
def test_contents_are_no_text(read: Read, n_sections: int) -> None:
    """Lines that name five later headings or more, with their pages; one that does not, between them, goes with them."""
    titles = [
        f"{number} Of {what}" for number, what in enumerate(("Foxes", "Owls", "Bears", "Elks", "Hares", "Mice"), 1)
    ]
    entries = [f"{title} . . . . . . {number}" for number, title in enumerate(titles, 2)]
    entries.insert(3, "A note that is no section . . . . 5")
    file = FPDF(unit="pt", format=(612, 792))
    file.add_page()
    file.set_font("Helvetica", size=11)
    for left, baseline, line in [*lines(72, 90, entries, step=20), *lines(72, 400, OWL)]:
        file.text(left, baseline, line)
    for title in titles[:n_sections]:
        file.add_page()
        file.set_font("Helvetica", style="B", size=14)
        file.text(72, 90, title)
        file.set_font("Helvetica", size=11)
        for left, baseline, line in lines(72, 120, [*FOX, f"This is about {title}, 17"]):
            file.text(left, baseline, line)
    document = read(file)
    assert [segment.heading for segment in document.segments] == titles[:n_sections]
    assert document.text.startswith(" ".join(OWL)) == (n_sections > 5)
    assert document.text.count("This is about") == n_sections


def test_a_space_under_an_italic_letter(read: Read) -> None:
    file = drawn([[]])
    file._out(b"BT /F1 11 Tf 72 712 Td [(The Journal of ) 220 (Applied Statistics of ) 220 (fish)] TJ ET")
    assert read(file).text == "The Journal of Applied Statistics of fish"


def test_drawings_are_where_they_are_shown(tmp_path: Path) -> None:
    """A figure that is placed on the page by a matrix is a table only where it is shown."""
    drawing = FPDF(unit="pt", format=(612, 792))
    drawing.add_page()
    for x in (60, 160, 260, 400):
        drawing.line(x, 80, x, 240)
    for y in (80, 160, 240):
        drawing.line(60, y, 400, y)
    drawn([lines(72, 100, [*FOX, *OWL])]).output(str(tmp_path / "text.pdf"))
    with pypdfium2.PdfDocument(tmp_path / "text.pdf") as file, pypdfium2.PdfDocument(bytes(drawing.output())) as other:
        figure = other.page_as_xobject(0, file).as_pageobject()  # type: ignore[attr-defined]
        figure.set_matrix(pypdfium2.PdfMatrix().scale(0.5, 0.5).translate(200, 50))
        page = file[0]
        page.insert_obj(figure)
        page.gen_content()
        file.save(tmp_path / "a.pdf")
    assert paragraphs(read_document(tmp_path / "a.pdf")) == [" ".join(FOX), " ".join(OWL)]


def test_a_background_is_no_table(read: Read) -> None:
    file = drawn([[]])
    file.set_fill_color(240)
    file.rect(0, 0, 612, 792, style="F")
    for number in range(3):
        file.rect(204 * number, 772, 204, 20, style="F")
        file.text(204 * number + 20, 786, ("Ann Lee", "Foxes", "May 2020")[number])
    for left, baseline, text in lines(72, 100, [*FOX, *OWL]):
        file.text(left, baseline, text)
    assert paragraphs(read(file))[:2] == [" ".join(FOX), " ".join(OWL)]


def test_code_keeps_its_dots_and_a_sentence_that_begins_with_code_is_text(read: Read) -> None:
    file = drawn(
        [lines(72, 300, ["its words go on in the usual type of the text and so it is", "a paragraph as others are."])]
    )
    file.set_font("Courier", size=10)
    for left, baseline, text in [*lines(72, 100, ["[5,] . . . . 1 0", "0000 ff |................|"]), (72, 287, "ann_feats.pl --neg of the long name of it does what")]:  # fmt: skip
        file.text(left, baseline, text)
    *code, sentence = read(file).text.split("\n\n")
    assert "\n\n".join(code) == "[5,] . . . . 1 0\n0000 ff |................|"
    assert sentence.endswith(
        "does what its words go on in the usual type of the text and so it is a paragraph as others are."
    )


@pytest.mark.parametrize(
    ("end", "jumps"), [("all of these", True), ("as follows:", False), ("these are known;", False)]
)
def test_a_sentence_goes_on_after_code_only_if_it_does_not_introduce_it(read: Read, end: str, jumps: bool) -> None:
    first = [*FOX[:2], f"the shade of the village green, and {end}"]
    file = drawn(
        [lines(72, 700, first), lines(72, 200, ["where the hunter of the village sleeps under the great oak", *OWL])]
    )
    file.set_font("Courier", size=10)
    for left, baseline, text in lines(72, 100, ["for fox in foxes:", "    jump(fox)"]):
        file.text(left, baseline, text)
    text = read(file).text
    assert (f"{end} where the hunter" in text) == jumps
    assert (text.index("for fox") > text.index("where the")) == jumps


def test_a_drop_cap_begins_its_paragraph(read: Read) -> None:
    file = drawn([[(114, 90, FOX[0][4:]), (98, 103, FOX[1]), (72, 116, FOX[2])]])
    file.set_font_size(34)
    file.text(72, 103, "The"[0])
    file.set_font_size(11)
    file.text(98, 90, "he")
    assert read(file).text == " ".join(FOX)


def test_cells_of_several_lines(read: Read) -> None:
    file = drawn([[]])
    with file.table(col_widths=(100, 200, 80), first_row_as_headings=False) as table:
        for row in [
            ("Country", "What is made there", "Year"),
            ("France", "Wine and bread and much cheese of all the kinds that there are", "1990"),
            ("Spain", "", "1991"),
        ]:
            for cell in (line := table.row()) and row:
                line.cell(cell)
    assert paragraphs(read(file)) == [
        "Country | What is made there | Year",
        "France | Wine and bread and much cheese of all the kinds that there are | 1990",
        "Spain |  | 1991",
    ]


def test_an_empty_user_password_opens_the_file(tmp_path: Path) -> None:
    file = drawn([lines(72, 90, FOX)])
    file.set_encryption(owner_password="owner")
    file.output(str(tmp_path / "a.pdf"))
    assert read_document(tmp_path / "a.pdf").text == " ".join(FOX)


def test_terms_with_descriptions_of_several_lines(read: Read) -> None:
    placed = [
        (72, 100, "source"), (180, 100, "A string that names the commodity whose price is"), (180, 113, "asked for, such as EUR."),
        (72, 126, "date"), (180, 126, "The date of the price."), (72, 139, "target"), (180, 139, "The other commodity."),
    ]  # fmt: skip
    assert paragraphs(read(drawn([placed]))) == [
        "source | A string that names the commodity whose price is asked for, such as EUR.",
        "date | The date of the price.",
        "target | The other commodity.",
    ]


def test_fifty_answers_have_their_pages_and_boxes(read: Read) -> None:
    """Ten pages: single lines, two columns, turned pages, running heads and tables; five answers on each."""
    file = FPDF(unit="pt", format=(612, 792))
    expected: list[tuple[str, int, tuple[float, float, float, float]]] = []
    for page in range(10):
        file.add_page()
        kind, size = page // 2, (9, 11, 12, 14, 10)[page // 2]
        file.set_font("Helvetica", size=size)
        if kind == 2:
            file.pages[page + 1].rotate = 90 if page % 2 else 270  # type: ignore[attr-defined]
        if kind != 2:
            file.text(250, 30, "The Book of Codes")
            file.text(300, 770, str(page + 1))
        for number in range(5):
            answer = f"Code {page}{number}{'abcde'[number] * (number + 1)}"
            text = answer if kind == 4 else f"The item of this line has the {answer}."
            left, y = 72.0, 120 + 60.0 * number
            if kind == 1 and number > 2:
                left, y = 330.0, 120 + 60.0 * (number - 3)
            if kind == 4:
                file.text(left, y, f"Item {number}")
                left = 250.0
            file.text(left, y, text)
            x0, y0, x1, y1 = left, y - 0.8 * size, left + file.get_string_width(text), y + 0.2 * size
            box = {(2, 1): (792 - y1, x0, 792 - y0, x1), (2, 0): (y0, 612 - x1, y1, 612 - x0)}.get(
                (kind, page % 2), (x0, y0, x1, y1)
            )
            expected.append((answer, page + 1, box))
    document = read(file)
    assert len(expected) == 50
    for answer, number, box in expected:
        start = document.text.index(answer)
        (line,) = document.lines_of(start, start + len(answer))
        assert (document.page(start), line.page) == (number, number)
        assert line.box == pytest.approx(box, abs=2), answer
    assert "Book of Codes" not in document.text
