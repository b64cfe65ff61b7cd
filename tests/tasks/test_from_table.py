"""Examples from documents and a table: which document, which place, what is not found."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.tasks._from_table import TableReport, prepare_table
from cogltx.tasks.jsonl import JsonLines

BRIDGE = "<h1>Bridge</h1><p>The bridge was built in 1888 by Ilse Brandt.</p><h2>Today</h2><p>In 1990 Bo painted it.</p>"
MILL = "The mill burned in 1990.\n\nIt was sold to the Okoro family. Nobody rebuilt the old mill, says Bo.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "bridge.html": BRIDGE,
        "old/mill.txt": MILL,
        "old/bridge.md": "# A bridge\n\nof 1700.",
    }.items():
        (tmp_path / "documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "documents" / name).write_text(content)
    return tmp_path / "documents"


def run(
    folder: Path, *rows: str, header: str = "question,answer,document,page,evidence", given: Sequence[Path] = ()
) -> tuple[list[Example], TableReport]:
    table, output = folder.parent / "t.csv", folder.parent / "out.jsonl"
    table.write_text("\n".join([header, *rows]))
    report = prepare_table(table, given or [folder], output)
    return list(JsonLines().read(output, split="train")) if report.questions else [], report


def slices(example: Example) -> list[str]:
    return [example.document.text[span.start : span.end] for span in example.answer_spans]


def test_examples(folder: Path) -> None:
    rows = ["Who sold it?,yes,mill.txt", "Who built it?,ILSE BRANDT,bridge.html", "Who bought it?,the okoro family,old/mill",
            "Who bought it?,Okoro,old/mill", "What did it cost?,,OLD\\MILL.TXT", "When?,1888,bridge.html"]  # fmt: skip
    examples, report = run(folder, *rows)
    assert [(one.id, one.document.id, one.answers) for one in examples] == [
        ("3", "bridge.html", ("Ilse Brandt",)), ("7", "bridge.html", ("1888",)), ("2", "old/mill.txt", ("yes",)),
        ("4", "old/mill.txt", ("the Okoro family", "Okoro")), ("6", "old/mill.txt", ()),
    ]  # fmt: skip
    assert [slices(one) for one in examples] == [["Ilse Brandt"], ["1888"], [], ["the Okoro family", "Okoro"], []]
    assert [one.relevant for one in examples] == [None, None, None, None, ()]
    assert examples[0].document is examples[1].document
    assert [segment.heading for segment in examples[0].document.segments] == ["Bridge", "Today"]
    assert (report.answers, report.found, report.questions, report.documents, report.not_found) == (6, 6, 5, 2, [])


def test_a_document_that_is_not_named(folder: Path) -> None:
    rows = ["Who built the bridge?,Ilse Brandt", "When did the mill burn?,1990", "Who painted the bridge?,Bo", "What?,it",
            "Is it?,yes", "Is it sold?,yes,,,sold to the Okoro family", "How old is that bridge?,1700"]  # fmt: skip
    examples, report = run(folder, *rows)
    assert {one.id: one.document.id for one in examples} == {
        "2": "bridge.html", "3": "old/mill.txt", "4": "bridge.html", "7": "old/mill.txt", "8": "old/bridge.md"
    }  # fmt: skip
    assert [str(one) for one in report.not_found] == [
        "5: 'What?': 'it' is in 2 documents (bridge.html, old/mill.txt); name one in the column document",
        "6: 'Is it?': it needs the name of its document",
    ]
    (alone,), _ = run(folder, "Who?,bo", given=[folder / "old/mill.txt"])
    assert (alone.document.id, slices(alone)) == ("mill.txt", ["Bo"])


def test_the_place_that_is_meant(folder: Path) -> None:
    (folder / "long.txt").write_text(
        "A fire in 1990. " + "x " * 300 + "The bridge of 1990. " + "y " * 300 + "The end of 1990."
    )
    header = "question,answer,document,evidence"
    (example,), _ = run(folder, "When was the bridge built?,1990,long", header=header)
    assert [example.document.text[span.start - 10 : span.start] for span in example.answer_spans] == ["bridge of "]
    (example,), report = run(folder, 'When was the bridge built?,1990,long,"The end\nof  1990."', header=header)
    assert [example.document.text[span.start - 8 : span.start] for span in example.answer_spans] == [" end of "]
    assert example.relevant is not None
    assert [example.document.text[span.start : span.end] for span in example.relevant] == ["The end of 1990."]
    assert report.notes == []
    (example,), report = run(folder, "When was the bridge built?,1990,long,The beginning", header=header)
    assert example.relevant is None
    assert report.notes == ["2: 'When was the bridge built?': the evidence is not in long.txt"]
    (example,), _ = run(folder, "What did it end?,1990,long,The bridge", header=header)  # the answer is elsewhere
    assert len(example.relevant or ()) == len(example.answer_spans) + 1


def test_pages(folder: Path) -> None:
    import fpdf

    pdf, filler = fpdf.FPDF(), "Nothing else is said here. " * 10
    pdf.set_font("Helvetica", size=12)
    for text in ("Contents. The year 1990.", f"{filler} The bridge burned in 1990. {filler}", "The year 1990 again."):
        pdf.add_page()
        pdf.multi_cell(0, text=text)
    pdf.output(str(folder / "report.pdf"))
    asked = [
        "When did the bridge burn?,1990,report.pdf,3",
        "When?,1990,report.pdf,p. 1",
        "When did a bridge burn?,1990,report.pdf,7",
    ]
    examples, _ = run(folder, *asked)
    assert [[one.document.page(span.start) for span in one.answer_spans] for one in examples] == [[3], [1], [2]]


def test_what_is_not_found(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "broken.docx").write_bytes(b"PK")
    (folder / "mill.md").write_text("Another mill.")
    rows = ["Who?,Ilse Brand,bridge.html", "Who?,Ilse Brandt,bridge.html", "Where?,x,mil.txt", "Where?,x,mill", "Where?,x,broken",
            "Where?,,broken.docx", "Where?,Qqq"]  # fmt: skip
    (example,), report = run(folder, *rows)
    assert (example.id, example.answers) == ("2", ("Ilse Brandt",))
    assert [str(one) for one in report.not_found] == [
        "2: 'Who?': 'Ilse Brand' is not in bridge.html; most similar: 'Ilse Brandt'",
        "4: 'Where?': there is no document 'mil.txt'; did you mean 'mill.txt'?",
        "5: 'Where?': 2 files are called 'mill': mill.md, old/mill.txt",
        "6: 'Where?': its document cannot be read",
        "7: 'Where?': its document cannot be read",
        "8: 'Where?': 'Qqq' is in no document",
    ]
    assert (report.answers, report.found) == (7, 1)
    assert [message.partition(": ")[0] for message in caplog.messages] == ["left out"]
    with pytest.raises(DataError, match=r"broken\.docx: not a readable Word file"):
        run(folder, *rows, given=[folder / "broken.docx"])


def test_nothing_is_found(folder: Path) -> None:
    examples, report = run(folder, "Who?,Anna,bridge.html")
    assert (examples, report.found, report.answers) == ([], 0, 1)
    assert not (folder.parent / "out.jsonl").exists()
    (folder / "old/bridge.md").unlink()
    with pytest.raises(DataError, match=r"t\.csv: none of its documents can be read"):
        (folder / "bridge.html").write_text(" ")
        run(folder, "Who?,Anna,bridge.html")


def test_the_number_of_a_line_may_be_the_id_of_another(folder: Path) -> None:
    examples, _ = run(folder, "3,A?,Bo,mill.txt", ",B?,Bo,mill.txt", header="id,question,answer,document")
    assert [example.id for example in examples] == ["3", "line 3"]


def test_files_of_one_name(folder: Path) -> None:
    (folder.parent / "more").mkdir()
    (folder.parent / "more/bridge.html").write_text("<p>Another bridge, by Eva.</p>")
    examples, report = run(folder, "Who?,Eva,more/bridge", "Who?,Bo,documents/bridge", "Who?,Bo,bridge.html",
                           given=[folder, folder.parent / "more"])  # fmt: skip
    assert [one.document.id for one in examples] == [
        str(folder / "bridge.html"),
        str(folder.parent / "more/bridge.html"),
    ]
    assert "2 files are called 'bridge.html'" in report.not_found[0].reason


def test_the_table_is_no_document(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, output = folder / "questions.txt", folder / "out.txt"
    table.write_text("question,answer\nWho built it?,Ilse Brandt\n")
    output.write_text("Ilse Brandt")
    with caplog.at_level(logging.INFO):
        report = prepare_table(table, [folder], output)
    assert (report.found, report.documents) == (1, 1)


def test_the_same_file_each_time(folder: Path) -> None:
    written = []
    for _ in range(2):
        run(folder, "When?,1990", "Who?,Bo,mill.txt", "What?,it")
        written.append((folder.parent / "out.jsonl").read_bytes())
    assert written[0] == written[1]
