"""`cogltx ask`: files and questions in, answers with places out."""

import io
import json
import sys
from pathlib import Path

import pytest
from command_line import Call, Files

from cogltx.cli.ask import _looks_english, _sort

QUESTION = "Where does the person live ?"


def test_a_question_about_a_file(files: Files, call: Call, tmp_path: Path) -> None:
    done = call("ask", files.document, QUESTION, "--model", files.run, "--html", tmp_path / "report.html")
    assert not done.code
    first, blank, *evidence = done.out.rstrip().split("\n")
    assert first.endswith("%)") or first == "No answer in document.txt"
    assert not blank
    assert all(line.startswith("  line ") for line in evidence)
    assert "document.txt" in (tmp_path / "report.html").read_text()


def test_json_names_the_question(files: Files, call: Call) -> None:
    done = call("ask", files.document, QUESTION, "Who is it ?", "--model", files.run, "--json")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["question"] for record in records] == [QUESTION, "Who is it ?"]
    assert all(record["evidence"] for record in records)


def test_a_folder_is_searched_together(files: Files, call: Call, tmp_path: Path) -> None:
    text = files.document.read_text()
    (tmp_path / "a.md").write_text(f"# Part one\n\n{text}")
    (tmp_path / "b.html").write_text(f"<h1>Part two</h1><p>{text}</p>")
    (tmp_path / "c.pdf").write_bytes(b"broken")
    done = call("ask", tmp_path, QUESTION, "--model", files.run)
    assert not done.code
    assert "left out" in done.err
    assert "c.pdf: not a readable PDF file" in done.err
    assert "a.md, “Part one”: " in done.out or "b.html, “Part two”: " in done.out
    record = json.loads(call("ask", tmp_path, QUESTION, "--model", files.run, "--json").out)
    assert {block["document"] for block in record["evidence"]} <= {str(tmp_path / "a.md"), str(tmp_path / "b.html")}


def test_questions_from_the_standard_input(files: Files, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n\nWho is it ?\n"))
    done = call("ask", files.document, "--model", files.run, "--json")
    assert [json.loads(line)["question"] for line in done.out.splitlines()] == [QUESTION, "Who is it ?"]


def test_a_question_that_cannot_be_asked_does_not_end_the_others(
    files: Files, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n{'why ' * 900}\nWho is it ?\n"))
    done = call("ask", files.document, "--model", files.run, "--json")
    assert done.code == 2
    assert [json.loads(line)["question"] for line in done.out.splitlines()] == [QUESTION, "Who is it ?"]
    assert done.err.splitlines()[-1].startswith("cogltx: the question has 900 tokens; at most ")


def test_the_standard_input_as_the_text(files: Files, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(files.document.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    done = call("ask", "-", QUESTION, "--model", files.run, "--json")
    assert json.loads(done.out)["evidence"], done.err
    silent = call("ask", "-", "--model", files.run)
    assert (silent.code, silent.err) == (
        2, "cogltx: ask: the standard input is the text, so give a question as an argument\n",
    )  # fmt: skip


GERMAN = "Die Brücke wurde im Jahr 1884 von der Ingenieurin Ilse Brandt entworfen und steht bis heute in der Stadt. "
ENGLISH = "The bridge was designed by the engineer Ilse Brandt in 1884 and stands in the old town to this day. "


def test_a_text_in_another_language_is_noted(call: Call, tmp_path: Path) -> None:
    for name, text in (("german.txt", GERMAN * 8), ("english.txt", ENGLISH * 8)):
        (tmp_path / name).write_text(text)
        done = call("ask", tmp_path / name, "Who designed the bridge?")
        assert not done.code
        assert ("qa-minilm knows English, and the text looks like another language" in done.err) == (text[:3] == "Die")
    assert _looks_english(GERMAN)
    assert not _looks_english("桥梁由工程师设计，" * 200)


def test_what_a_question_is(tmp_path: Path) -> None:
    file = tmp_path / "a b.txt"
    file.write_text("text")
    questions = ["Rent?", "谁是房东？", "Who is it", "Where was it in 1932.", "Who owns it.com", "Why? " * 100]
    assert _sort([str(file), *questions]) == ([file], questions)


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        (["missing.pdf", "Who is it?"], "missing.pdf: file not found (a question has several words, or ends with a question mark)"),
        (["Who is it?"], "ask needs a file or a folder; 'Who is it?' is none"),
        (["missing.pdf", "Who " * 100], "missing.pdf: file not found"),
        (["DOCUMENT", "my missing report.pdf", "Who is it?"], "my missing report.pdf: file not found"),
        (["DOCUMENT", ""], "an empty argument is neither a file nor a question"),
        (["DOCUMENT", "Who is it?", "What is it?", "--html", "a.html"], "--html: a report shows one question; give exactly one"),
        (["DOCUMENT", "Who is it?", "--model", "no-such-model"], "no-such-model: no such folder"),
        (["DOCUMENT", "Who is it?", "--model", "CLASSIFIED"], "the task classification does not answer questions"),
        (["DOCUMENT", "Who is it?", "--model", "TAGGED"], "a model of the baseline sliding_window; "),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(
    files: Files, tagged: Path, classified: Path, call: Call, arguments: list[str], wording: str
) -> None:
    names = {"DOCUMENT": str(files.document), "TAGGED": str(tagged / "run"), "CLASSIFIED": str(classified / "run")}
    done = call("ask", *(names.get(one, one) for one in arguments))
    assert done.code == 2
    assert wording in done.err
    assert len(done.err.splitlines()) == 1
