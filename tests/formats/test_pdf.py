"""PDF files as a reader sees them. Every file is made here, with text at known places in points."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fpdf import FPDF

from cogltx import Document, read_document

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
    assert [document.page(document.text.index(word)) for word in ("quick", "shade", "owl", "end of")] == [1, 1, 2, 3]
    assert [line.page for line in document.lines] == [1, 1, 2, 2, 2, 2, 3]


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
