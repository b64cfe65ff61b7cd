"""Questions about twenty files of all kinds: every answer and key block is a slice of the text, on the right page."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import docx
import pytest
from fpdf import FPDF

from cogltx import CogLTX, read_document

Pages = list[list[str]]  # the paragraphs of each page
NAMES = ["Ada Novak", "Bo Lindqvist", "Chiara Rossi", "Dov Katz", "Eun-ji Park"]


def pages(number: int) -> Pages:
    """Pages whose every sentence names its page, the third with the answer."""
    filler = "Rain fell on the hills near mile {} of page{}. The fishermen repaired {} nets there, says page{}."
    texts = [
        [filler.format(7 * page + line, page, line + 2, page) for line in range(4 + number % 3)] for page in range(1, 5)
    ]
    texts[2].insert(1, f"The engineer {NAMES[number % 5]} designed the bridge, as page3 says.")
    return texts


def pdf(path: Path, content: Pages) -> None:
    file = FPDF()
    file.set_font("Helvetica", size=12)
    for page in content:
        file.add_page()
        for paragraph in page:
            file.multi_cell(0, 7, paragraph)
            file.ln(7)
    file.output(str(path))


def word(path: Path, content: Pages) -> None:
    file = docx.Document()
    for number, page in enumerate(content, start=1):
        file.add_heading(f"Chapter {number}", 1)
        for paragraph in page:
            file.add_paragraph(paragraph)
    file.save(str(path))


def html(path: Path, content: Pages) -> None:
    path.write_text(
        "".join(
            f"<h2>Chapter {n}</h2>" + "".join(f"<p>{p}</p>" for p in page) for n, page in enumerate(content, start=1)
        )
    )


def markdown(path: Path, content: Pages) -> None:
    path.write_text("\n\n".join(f"## Chapter {n}\n\n" + "\n\n".join(page) for n, page in enumerate(content, start=1)))


def text(path: Path, content: Pages) -> None:
    written = "\n\n".join("\n\n".join(page) for page in content).encode()
    path.write_bytes(gzip.compress(written) if path.suffix == ".gz" else written)


def epub(path: Path, content: Pages) -> None:
    names = [f"c{n}.xhtml" for n in range(len(content))]
    items = "".join(f'<item id="{name}" href="{name}"/>' for name in names)
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    with ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="b.opf"/></rootfiles></container>',
        )
        archive.writestr(
            "b.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>',
        )
        for name, page in zip(names, content, strict=True):
            archive.writestr(name, "".join(f"<p>{paragraph}</p>" for paragraph in page))


WRITERS: dict[str, Callable[[Path, Pages], None]] = {
    "pdf": pdf, "docx": word, "epub": epub, "html": html, "htm": html, "md": markdown, "txt": text, "txt.gz": text,
}  # fmt: skip
KINDS = [*WRITERS, *WRITERS, "pdf", "docx", "epub", "md"]


@pytest.mark.parametrize(("number", "kind"), list(enumerate(KINDS)))
def test_answers_are_slices_on_their_pages(number: int, kind: str, model: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{number}.{kind}"
    WRITERS[kind](path, pages(number))
    document = read_document(path)
    prediction = CogLTX.from_pretrained(model).predict(document, "Which engineer designed the bridge?")
    places = [one for one in (prediction, *prediction.alternatives, *prediction.evidence) if one.start is not None]
    assert len(places) > 3
    for one in places:
        found = one.answer if one is prediction else one.text  # type: ignore[union-attr]
        assert document.text[one.start : one.end] == found
        sentence = document.text[max(0, document.text.rfind(".", 0, one.start)) : one.end + 120]
        assert one.page == (int(re.findall(r"page(\d)", sentence)[0]) if kind == "pdf" else None)
    assert NAMES[number % 5] in prediction.evidence[0].text
    if kind == "pdf":
        assert prediction.evidence[0].page == 3
