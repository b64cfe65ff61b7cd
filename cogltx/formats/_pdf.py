"""PDF files as a reader sees them, by pdfium: pages to words, lines, columns and tables, paragraphs, sections."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter

import pypdfium2
from more_itertools import consecutive_groups, map_reduce

from cogltx.document import Line as PrintedLine
from cogltx.errors import DataError
from cogltx.formats import _pdf_ocr
from cogltx.formats._pdf_columns import Block, blocks
from cogltx.formats._pdf_forms import filled_in
from cogltx.formats._pdf_hyphens import Hyphens
from cogltx.formats._pdf_lines import LEADER, LEADER_TO_PAGE, Line, pieces, without_spaces
from cogltx.formats._pdf_paragraphs import Paragraph, Paragraphs
from cogltx.formats._pdf_running import without_running
from cogltx.formats._pdf_tables import grids
from cogltx.formats._pdf_words import Frame, Rule, TooMuchError, Word, page_words
from cogltx.formats._sections import Sections

Titles = dict[int, set[frozenset[str]]]  # by page: the letters of each title of the outline, with and without its label
_HEADING_SIZE = 1.1  # of the text's size
_LEAST_TITLES = 0.5  # share of the outline's titles that are in the text, if it has all headings
_LEAST_PER_PAGE = 1 / 6  # such titles
_PITCH = 0.6  # width of a letter of fixed pitch, in type sizes
_MOST_HEADING = 200  # characters
_LABEL = re.compile(r"^(?:[A-Z]|[IVXLC]+)(?:\.\d+)*[.:)]?\s+")  # of an appendix or a part
_SECTION = re.compile(r"(?:\d{1,2}|[A-Z]\.\d+)(?:\.\d+)*\.?\s+\S")  # begins with a section number
_ENTRY = re.compile(r"(.+?)[\s.]+(?:\d{1,4}|[ivxlc]{1,7})")  # of a table of contents
_LEAST_ENTRIES, _ENTRIES_SHARE = 5, 0.5  # of a document, and of a paragraph's lines
_MOST_BETWEEN, _MOST_ENTRY_LINES = 12, 2  # paragraphs from entry to entry, and lines of one between them
_IN_ADDRESS = re.compile(r"[\w%~.-]*(?:[/=_?&]|\w\.\w)")
_ADDRESS = re.compile(r"(?:https?|ftp)://\S*(?<=[./=_])$")
_MARKS = str.maketrans(dict.fromkeys("\ufffe\x02", "-"))


def read(content: bytes) -> Sections:
    """Read a PDF file; raises DataError if it needs a password, or no page has text."""
    sections, pictures = Sections(), list[int]()
    with _open(content) as file:
        if file.get_formtype():
            file.init_forms()
        pages = [_pieces(file, number, sections, pictures) for number in range(len(file))]
        if not any(pages):
            hint = f"; {_pdf_ocr.INSTALL}" if pictures and not _pdf_ocr.is_installed() else ""
            raise DataError(f"no page has text{', probably a scan' if pictures else ''}{hint}")
        titles = _titles(file)
    if pictures:
        sections.note(_are_pictures(pictures))
    _write(pages, titles, sections)
    return sections


def _are_pictures(numbers: list[int]) -> str:
    """Say which pages have no text.

    >>> _are_pictures([2, 5, 6, 7])
    'pages 2, 5-7 are pictures'
    """
    runs = map(list, consecutive_groups(numbers))
    listed = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"pages {listed} are pictures" if len(numbers) > 1 else f"page {listed} is a picture"


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError("the PDF file is encrypted; remove its password first") from None
        raise


def _pieces(file: pypdfium2.PdfDocument, number: int, sections: Sections, pictures: list[int]) -> list[Line]:
    """Read the pieces of lines of a page; without text, its number goes to ``pictures``."""
    try:
        page = file[number]
    except pypdfium2.PdfiumError as error:
        sections.note(f"page {number + 1} is not readable ({error})")
        return []
    try:
        return _lines_of_page(page, number + 1, pictures)
    except TooMuchError:
        sections.note(f"page {number + 1} has more characters or objects than a page that people read")
        return []
    finally:
        page.close()


def _lines_of_page(page: pypdfium2.PdfPage, number: int, pictures: list[int]) -> list[Line]:
    frames, rules = page_words(page)
    by_length = sorted(frames.items(), key=lambda item: -sum(len(word.text) for word in item[1]))
    printed = [line for frame, words in by_length for line in _of_frame(words, frame, rules, number)]
    lines = printed + filled_in(page, number, printed)
    if not lines and next(iter(page.get_objects(max_depth=1)), None):
        lines = _pdf_ocr.recognised(page, number) if _pdf_ocr.is_installed() else []
        pictures += [] if lines else [number]
    return lines


def _of_frame(words: list[Word], frame: Frame, rules: list[Rule], number: int) -> list[Line]:
    """Return the pieces of the lines of one direction, and a line per row of a ruled table."""
    tables = grids(rules, frame)
    columns = [(x, table.rows[0], table.rows[-1]) for table in tables for x in table.columns]
    parts = pieces(words, frame, number, columns)
    for table in tables:
        inside = [part for part in parts if not part.cells and table.is_around(part)]
        if rows := table.lines(inside):
            gone = set(map(id, inside))
            parts = [part for part in parts if id(part) not in gone] + rows
    return parts


def _titles(file: pypdfium2.PdfDocument) -> Titles:
    """Return the titles of the outline by page."""
    titles: Titles = defaultdict(set)
    for bookmark in file.get_toc():
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if index is not None:
            titles[index + 1].add(_forms(bookmark.get_title()))
    return titles


def _forms(title: str) -> frozenset[str]:
    """Return the letters of a title, with and without a label such as "A.1" or "IV.", which only one side may have."""
    return frozenset({_letters(title), _letters(_LABEL.sub("", title.strip()))} - {""})


def _letters(text: str) -> str:
    """Return the letters of a title, without its number."""
    text = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"[\W_]+", "", re.sub(r"^[\W\d]*(?:(?:chapter|appendix|part|section)\s+\w+[\W\d]*)?", "", text))


def _write(pages: list[list[Line]], titles: Titles, sections: Sections) -> None:
    ordered = [
        [block for frame in map_reduce(page, attrgetter("frame")).values() for block in blocks(frame)]
        for page in without_running(pages)
    ]
    lines = (line for page in ordered for block in page for row in block for line in row.cells or (row,))
    hyphens = Hyphens(line.text for line in lines)
    paragraphs = Paragraphs(ordered)
    number = 0
    for paragraph in _with_headings(paragraphs, ordered, titles):
        while number < paragraph.lines[0].page:
            number += 1
            sections.page(number)
        _add(paragraph, hyphens, sections)


def _with_headings(paragraphs: Paragraphs, pages: list[list[Block]], titles: Titles) -> Iterator[Paragraph]:
    """Mark the headings: paragraphs in the outline; if it is missing or poor, also those in larger or bold type."""
    listed = list(paragraphs.all(pages))
    candidates = [paragraph for paragraph in listed if paragraph.kind in {"text", "code"} or _is_first_cell(paragraph)]
    headings = {id(paragraph) for paragraph in candidates if _is_in_outline(paragraph, titles, paragraphs.size)}
    if len(headings) < max(_LEAST_TITLES * sum(map(len, titles.values())), _LEAST_PER_PAGE * len(pages)):
        texts = (paragraph for paragraph in candidates if paragraph.kind != "code")
        by_type = [paragraph for paragraph in texts if _looks_like_heading(paragraph, paragraphs.size)]
        headings |= {id(paragraph) for paragraph in by_type} - _entries(by_type)
    for paragraph in listed:
        if id(paragraph) in headings:
            paragraph.kind, paragraph.lines[-1].after = "heading", ""
    yield from _without_contents(listed)


def _without_contents(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Leave out the table of contents: lines that name headings after it, each with its page, and few between them."""
    is_heading = [one.kind == "heading" for one in paragraphs]
    places_of = {form: n for n, one in enumerate(paragraphs) if is_heading[n] for form in _forms(_plain(one))}
    counts = [0 if is_heading[n] else _n_entries(one, places_of, n) for n, one in enumerate(paragraphs)]
    if sum(counts) < _LEAST_ENTRIES:
        return paragraphs
    places = [n for n, one in enumerate(paragraphs) if counts[n] > _ENTRIES_SHARE * len(one.lines)]
    gone = set(places)
    for first, last in pairwise(places):
        if last - first <= _MOST_BETWEEN and all(map(_may_be_entry, paragraphs[first + 1 : last])):
            gone.update(range(first, last))
    return [one for n, one in enumerate(paragraphs) if n not in gone]


def _may_be_entry(paragraph: Paragraph) -> bool:
    """Check for an entry of a table of contents whose heading is not known as one, or a part of it."""
    return paragraph.kind != "heading" and len(paragraph.lines) <= _MOST_ENTRY_LINES and paragraph.text[-1] not in ".;:"


def _n_entries(paragraph: Paragraph, places_of: dict[str, int], place: int) -> int:
    """Count the lines of a paragraph that name later headings, each with its page; a title may have several lines."""
    found, title = 0, list[str]()
    for line in paragraph.lines:
        title.append(line.text)
        if entry := _ENTRY.fullmatch(LEADER.sub(" ", " ".join(title)).strip()):
            found += len(title) * any(places_of.get(form, 0) > place for form in _forms(entry[1]))
            title = []
    return found


def _entries(headings: list[Paragraph]) -> set[int]:
    """The entries of a table of contents among headings: each ends with a page, and comes again without it."""
    last = {_letters(_plain(one)): number for number, one in enumerate(headings)}
    entries = ((number, _ENTRY.fullmatch(_plain(one))) for number, one in enumerate(headings))
    return {id(headings[number]) for number, match in entries if match and last.get(_letters(match[1]), 0) > number}


def _is_first_cell(paragraph: Paragraph) -> bool:
    """Check for a row of a table with a single line, in its first cell, as a heading above the other rows is."""
    line = paragraph.lines[0]
    return paragraph.kind == "table" and len(paragraph.lines) == 1 and bool(line.after) and not line.before


def _is_in_outline(paragraph: Paragraph, titles: Titles, size: float) -> bool:
    """Check for a title of the page; code or a cell may only repeat one, without its number and its type."""
    if paragraph.kind != "text" and not (_SECTION.match(paragraph.text) or _stands_out(paragraph, size)):
        return False
    return any(map(_forms(_plain(paragraph)).intersection, titles[paragraph.lines[0].page]))


def _stands_out(paragraph: Paragraph, size: float) -> bool:
    return paragraph.size > _HEADING_SIZE * size or all(line.is_bold for line in paragraph.lines)


def _plain(paragraph: Paragraph) -> str:
    return paragraph.text.replace("\ufffe ", "").replace("\x02 ", "")


def _looks_like_heading(paragraph: Paragraph, size: float) -> bool:
    text, is_bold = paragraph.text, all(line.is_bold for line in paragraph.lines)
    is_numbered = is_bold and len(paragraph.lines) == 1 and _SECTION.match(text)
    if (
        paragraph.lines[0].frame.is_slanted
        or len(text) > _MOST_HEADING
        or not any(map(str.isalpha, text))
        or text[-1] in (",;" if is_numbered else ".,;")
    ):
        return False
    return paragraph.size > _HEADING_SIZE * size or (is_bold and paragraph.size > 0.97 * size and text[-1] != ":")


def _is_in_address(text: str, following: str) -> bool:
    """Check whether a line breaks an address of the web.

    >>> _is_in_address("see https://www.debian.", "org"), _is_in_address("see https://debian.org/", "doc/")
    (True, True)
    >>> _is_in_address("see https://debian.org.", "It"), _is_in_address("see https://debian.org/", "and")
    (False, False)
    """
    if not _ADDRESS.search(text):
        return False
    return bool(_IN_ADDRESS.match(following)) or (text[-1] == "." and following[0].islower())


def _add(paragraph: Paragraph, hyphens: Hyphens, sections: Sections) -> None:
    """Add a paragraph with the places of its lines."""
    text, printed = "", list[PrintedLine]()
    left = min(line.left for line in paragraph.lines)
    for line, following in zip(paragraph.lines, [*paragraph.lines[1:], None], strict=True):
        piece = line.text
        separator = "\n" if paragraph.kind == "code" else " "
        text += line.before
        if following is None or following.before:
            separator = ""
        elif paragraph.kind != "code":
            if hyphens.ends(piece):
                piece, separator = hyphens.joined(piece, following.text), ""
            elif without_spaces(piece[-1], following.text[0]) or _is_in_address(piece, following.text):
                separator = ""
        piece = piece.translate(_MARKS).replace("\u00ad", "").strip()
        piece = (LEADER_TO_PAGE if paragraph.kind == "code" else LEADER).sub(" ", piece).strip()
        if paragraph.kind == "code":
            text += " " * round((line.left - left) / (_PITCH * line.size))
        printed.append(PrintedLine(len(text), len(text) + len(piece), line.page, line.box))
        text += piece + line.after + separator
    if paragraph.kind == "heading":
        sections.heading(text)
    else:
        sections.paragraph(text, printed)
