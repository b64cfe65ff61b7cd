"""PDF files as a reader sees them, by pdfium: pages to words, lines, columns and tables, paragraphs, sections."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

import pypdfium2

from cogltx.document import Line as PrintedLine
from cogltx.errors import DataError
from cogltx.formats._pdf_columns import Block, blocks
from cogltx.formats._pdf_forms import filled_in
from cogltx.formats._pdf_hyphens import Hyphens
from cogltx.formats._pdf_lines import LEADER, Line, pieces, without_spaces
from cogltx.formats._pdf_paragraphs import Paragraph, Paragraphs
from cogltx.formats._pdf_running import without_running
from cogltx.formats._pdf_words import TooManyCharactersError, page_words
from cogltx.formats._sections import Sections

Titles = dict[int, set[str]]  # letters of the titles of the outline, by page
_HEADING_SIZE = 1.1  # of the text's size
_MOST_HEADING = 200  # characters
_MARKS = str.maketrans(dict.fromkeys("\ufffe\x02", "-"))


def read(content: bytes) -> Sections:
    """Read a PDF file; raises DataError if it needs a password, or no page has text."""
    sections = Sections()
    with _open(content) as file:
        if file.get_formtype():
            file.init_forms()
        pages = [_pieces(file, number, sections) for number in range(len(file))]
        if not any(pages):
            raise DataError("no page has text, probably a scan; recognise its text first (OCR)")
        titles = _titles(file)
    _write(pages, titles, sections)
    return sections


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError("the PDF file is encrypted; remove its password first") from None
        raise


def _pieces(file: pypdfium2.PdfDocument, number: int, sections: Sections) -> list[Line]:
    """Read the pieces of lines of a page; a note says why there are none."""
    try:
        page = file[number]
        try:
            frames = page_words(page)
            by_length = sorted(frames.items(), key=lambda item: -sum(len(word.text) for word in item[1]))
            printed = [piece for frame, words in by_length for piece in pieces(words, frame, number + 1)]
            lines = printed + filled_in(page, number + 1, printed)
            if not lines and next(iter(page.get_objects(max_depth=1)), None):
                sections.note(f"page {number + 1} is a picture")
            return lines
        finally:
            page.close()
    except TooManyCharactersError:
        sections.note(f"page {number + 1} has too many characters to be a page")
        return []
    except pypdfium2.PdfiumError as error:
        sections.note(f"page {number + 1} is not readable ({error})")
        return []


def _titles(file: pypdfium2.PdfDocument) -> Titles:
    """Return the titles of the outline by page."""
    titles: Titles = defaultdict(set)
    for bookmark in file.get_toc():
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if index is not None and (title := _letters(bookmark.get_title())):
            titles[index + 1].add(title)
    return titles


def _letters(text: str) -> str:
    """Return the letters of a title, without its number."""
    text = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"[\W_]+", "", re.sub(r"^[\W\d]*(?:(?:chapter|appendix|part|section)\s+\w+[\W\d]*)?", "", text))


def _write(pages: list[list[Line]], titles: Titles, sections: Sections) -> None:
    ordered = [[block for frame in _by_frame(page) for block in blocks(frame)] for page in without_running(pages)]
    hyphens = Hyphens(line.text for page in ordered for block in page for line in block.lines)
    paragraphs = Paragraphs(ordered)
    number = 0
    for paragraph in _with_headings(paragraphs, ordered, titles):
        while number < paragraph.lines[0].page:
            number += 1
            sections.page(number)
        _add(paragraph, hyphens, sections)


def _by_frame(page: list[Line]) -> list[list[Line]]:
    frames: dict[object, list[Line]] = defaultdict(list)
    for piece in page:
        frames[piece.frame].append(piece)
    return list(frames.values())


def _with_headings(
    paragraphs: Paragraphs, pages: list[list[Block]], titles: dict[int, set[str]]
) -> Iterator[Paragraph]:
    """Mark the headings: paragraphs in the outline, or without an outline those in larger or bold type."""
    for paragraph in paragraphs.all(pages):
        if paragraph.kind == "text":
            if titles:
                is_heading = _letters(_plain(paragraph)) in titles[paragraph.lines[0].page]
            else:
                is_heading = _looks_like_heading(paragraph, paragraphs.size)
            paragraph.kind = "heading" if is_heading else "text"
        yield paragraph


def _plain(paragraph: Paragraph) -> str:
    return paragraph.text.replace("\ufffe ", "").replace("\x02 ", "")


def _looks_like_heading(paragraph: Paragraph, size: float) -> bool:
    text = paragraph.text
    if len(text) > _MOST_HEADING or not any(map(str.isalpha, text)) or text[-1] in ".,;":
        return False
    return paragraph.size > _HEADING_SIZE * size or (
        all(line.is_bold for line in paragraph.lines) and paragraph.size > 0.97 * size and text[-1] != ":"
    )


def _add(paragraph: Paragraph, hyphens: Hyphens, sections: Sections) -> None:
    """Add a paragraph with the places of its lines."""
    text, printed = "", list[PrintedLine]()
    for line, following in zip(paragraph.lines, [*paragraph.lines[1:], None], strict=True):
        piece = line.text
        separator = "\n" if paragraph.kind == "code" else " "
        if following is None:
            separator = ""
        elif paragraph.kind != "code":
            if hyphens.ends(piece):
                piece, separator = hyphens.joined(piece, following.text), ""
            elif without_spaces(piece[-1], following.text[0]):
                separator = ""
        piece = LEADER.sub(" ", piece.translate(_MARKS).replace("\u00ad", "")).strip()
        printed.append(PrintedLine(len(text), len(text) + len(piece), line.page, line.box))
        text += piece + separator
    if paragraph.kind == "heading":
        sections.heading(text)
    else:
        sections.paragraph(text, printed)
