"""`cogltx ask`: files and questions in, answers with places out."""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
import yaml
from command_line import Call, Files, write
from torch import nn

from cogltx.cli.ask import _address, _sort
from cogltx.display import sureness, text_of
from cogltx.document import Document
from cogltx.prediction import Answer, Prediction

QUESTION = "Where does the person live ?"
SURE = r".+ \((sure|probably|not sure), \d+ %\)(, line \d+)?"


def test_a_question_about_a_file(files: Files, call: Call, tmp_path: Path) -> None:
    done = call("ask", files.document, QUESTION, "--model", files.run, "--html", tmp_path / "report.html")
    assert not done.code
    answer, evidence = done.out.rstrip().split("\n\n")
    assert re.fullmatch(SURE, answer.splitlines()[0])
    title, *passages = evidence.splitlines()
    assert title == "Passages that were found:"
    assert all(line.startswith("  line ") for line in passages)
    report = (tmp_path / "report.html").read_text()
    assert f'href="{_address(files.document, tmp_path / "report.html")}"' in report


@pytest.mark.parametrize("no_answer", [-12, 0, 12])
def test_what_is_most_probable_is_printed(files: Files, call: Call, no_answer: int) -> None:
    setting = f"reasoner.calibration={{no_answer: {no_answer}, wrong: -12}}"
    command = ["ask", files.document, QUESTION, "--model", files.run, "--set", setting]
    first, found = call(*command).out.splitlines()[0], call(*command, "--json").json
    assert f"({sureness(found['confidence'])})" in first
    assert first.startswith("Not found in document.txt (") == (not found["answer"])
    assert found["answer"] or no_answer >= 0
    assert not (found["answer"] and no_answer == 12)
    assert found["confidence"] >= max(one["confidence"] for one in found["alternatives"])
    always = call(*command, "--set", "reasoner.always_answers=true").out
    assert not always.startswith("Not found")


def test_the_best_candidates_where_no_answer_is_more_probable() -> None:
    candidates = (Answer("Ilse\nBrandt", 0, 11, 0.304), Answer("yes", None, None, 0.2), Answer("stone", 20, 25, 0.004))
    none = Prediction(
        id="", answer="", start=None, end=None, confidence=0.31, no_answer_confidence=0.31, alternatives=candidates
    )
    document = Document("Ilse\nBrandt built it of stone.", "bridge.txt")
    assert text_of(none.to_dict(), [document]).splitlines() == [
        "Not found in bridge.txt (not sure, 31 %)",
        "The nearest is “Ilse Brandt” (not sure, 30 %), line 1",
        "Then “yes” (not sure, 20 %)",
    ]
    shown = replace(none, answer="Ilse\nBrandt", start=0, end=11, confidence=0.62, alternatives=candidates[1:])
    assert text_of(shown.to_dict(), [document], "<{}>".format).splitlines() == [
        "<Ilse Brandt> (probably, 62 %), line 1"
    ]
    assert text_of(shown.to_dict()) == "Ilse Brandt (probably, 62 %)", "without the text, its lines are unknown"


def test_addresses_of_files(tmp_path: Path) -> None:
    page = tmp_path / "reports" / "page.html"
    assert _address(tmp_path / "Köln 1" / "a#b%.pdf", page) == "../K%C3%B6ln%201/a%23b%25.pdf"
    assert _address(tmp_path / "reports" / "a:b.pdf", page) == "a%3Ab.pdf", "no scheme of an address"


def test_a_report_leads_to_the_pages_of_each_pdf(files: Files, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    copies = [tmp_path / "Köln 1" / "a b.pdf", tmp_path / "c.pdf"]
    for copy in copies:
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).parents[2] / "data/samples/bridge.pdf", copy)
    report = tmp_path / "reports" / "report.html"
    done = call("ask", *copies, QUESTION, "--model", files.run, "--html", report)
    assert not done.code, done.err
    assert str(tmp_path) not in done.out, "files with different names are named without their folders"
    addresses = {*re.findall(r'href="([^#"]+)(?:#page=\d)?"', report.read_text())}
    assert addresses == {"../K%C3%B6ln%201/a%20b.pdf", "../c.pdf"}
    linked = re.findall(r'href="([^#"]+)#page=\d"', report.read_text())
    assert linked
    assert all((report.parent / unquote(one)).samefile(copies[one == "../c.pdf"]) for one in linked)
    json_ = call("ask", *copies, QUESTION, "--model", files.run, "--json").json
    assert {one["document"] for one in json_["evidence"]} <= {*map(str, copies)}


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
    assert "  a.md, Part one: " in done.out or "  b.html, Part two: " in done.out
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
    content = files.document.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    done = call("ask", "-", QUESTION, "--model", files.run, "--json")
    assert json.loads(done.out)["evidence"], done.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    silent = call("ask", "-", "--model", files.run)
    assert (silent.code, silent.err) == (
        2, "cogltx: ask: the standard input is the text, so give a question as an argument\n",
    )  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"%PDF-1.7\n%\xe9")))
    wrong = call("ask", "-", QUESTION, "--model", files.run)
    assert (wrong.code, wrong.err) == (
        2, "cogltx: standard input: it is read as text, and this is none; name the file instead\n",
    )  # fmt: skip


def test_an_index_is_written_and_then_read(files: Files, call: Call, tmp_path: Path) -> None:
    other, index = write(tmp_path / "other.txt", "Nobody has anything. " * 40), tmp_path / "both.index"
    command = ["ask", files.document, other, QUESTION, "--model", files.run, "--set", "memrecall.shortlist=2", "--json"]
    expected = call(*command)
    first, again = (call(*command, "--index", index) for _ in range(2))
    assert (first.code, again.code, again.err) == (0, 0, "")
    assert f"index: {index}\n" in first.err
    assert first.json == again.json == expected.json
    texts = {str(path): path.read_text() for path in (files.document, other)}
    assert again.json["evidence"]
    for evidence in again.json["evidence"]:
        assert evidence["text"] == texts[evidence["document"]][evidence["start"] : evidence["end"]]
    done = call("ask", files.document, QUESTION, "--model", files.run, "--index", index)
    assert (done.code, f"{index}: the index of another text" in done.err) == (2, True)
    index.write_bytes(index.read_bytes()[:-7])
    done = call(*command, "--index", index)
    assert done.code == 2
    assert done.err.startswith(f"cogltx: {index}: not a complete index")
    assert done.err.count("\n") == 1
    for option in ("--index", "--html"):
        done = call("ask", files.document, QUESTION, "--model", files.run, option, tmp_path)
        assert (done.code, done.err) == (2, f"cogltx: {option}: {tmp_path} is a folder; name a file\n")


def test_labels_of_texts(classified: Path, files: Files, call: Call) -> None:
    command = ["ask", files.document, "--model", classified / "run"]
    found = call(*command, "--json").json
    assert found["answer"] in ("boat", "cup")
    assert sum(label["score"] for label in found["labels"]) == pytest.approx(1)
    assert found["evidence"]
    assert "question" not in found
    assert "Labels, * is chosen:\n  *" in call(*command).out
    several = call(*command, next((classified / "data" / "boat").iterdir()), "--json")
    assert len({json.loads(line)["id"] for line in several.out.splitlines()}) == 2


def test_every_label_name_is_asked_without_a_question(classified: Path, call: Call, tmp_path: Path) -> None:
    values = yaml.safe_load((classified / "run.yaml").read_text())
    values["task"]["options"] = {"label_queries": True, "labels": ["boat", "cup"]}
    values |= {"judge": {"name": "linear"}, "training": {"epochs": 1, "batch_size": 2}}
    (tmp_path / "labels.yaml").write_text(yaml.safe_dump(values))
    assert call("train", tmp_path / "labels.yaml", "--output", tmp_path / "run").code == 0
    command = ["ask", next((classified / "data" / "boat").iterdir()), "--model", tmp_path / "run"]
    found = [json.loads(line) for line in call(*command, "--json").out.splitlines()]
    assert [one["question"] for one in found] == ["boat", "cup"]
    assert {one["answer"] for one in found} <= {"yes", "no"}
    assert call(*command).out.startswith("boat\n\n")


def test_entities_of_texts(tagged: Path, call: Call, tmp_path: Path) -> None:
    command = ["ask", write(tmp_path / "a.txt", "anna has the boat.\n" * 16), "--model", tagged / "run"]
    found = call(*command, "--json").json
    assert [own["text"] for own in found["entities"]] == ["anna", "boat"] * 16
    plain = call(*command).out
    assert plain.startswith("32 entities:\n  PER    anna (")
    assert re.search(r"^  THING  boat \(.*\), line 16$", plain, re.MULTILINE), plain
    assert "were not read" in call(*command, "--set", "reader=truncation").out.splitlines()[0]
    several = call(*command, write(tmp_path / "b.txt", "the fox."))
    assert f"{tmp_path / 'b.txt'}\n\n0 entities" in several.out


def test_baselines_judges_and_devices(files: Files, call: Call) -> None:
    command = ["ask", files.document, QUESTION, "--model", files.run]
    assert call(*command, "--set", "reader=truncation", "--json").json["evidence"] == []
    assert call(*command, "--judge", "bm25", "--device", "cpu", "--json").json["evidence"]
    wrong = call(*command, "--device", "nowhere")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "nowhere" in wrong.err


@pytest.mark.parametrize(
    ("content", "question", "expected"),
    [
        ("", QUESTION, "document.txt: the document has no text"),
        (" \n\t", QUESTION, "document.txt: the document has no text"),
        (b"caf\xff\x81", QUESTION, "document.txt: line 1: not UTF-8"),
        ("anna has the boat.", "what " * 70, "the question has 70 tokens; at most"),
    ],
)
def test_wrong_texts(
    files: Files, call: Call, tmp_path: Path, content: str | bytes, question: str, expected: str
) -> None:
    done = call("ask", write(tmp_path / "document.txt", content), question, "--model", files.run)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_names_of_files_that_are_not_utf_8(files: Files, call: Call, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    text = write(tmp_path / name, "anna has the boat.")
    report = tmp_path / "report.html"
    done = call("ask", text, QUESTION, "--model", files.run, "--html", report, "--set", "reasoner.always_answers=true")
    assert done.code == 0, done.err
    page = report.read_text(encoding="utf-8")
    assert "caf\\xe9.txt" in page
    assert "caf%E9.txt" in page  # its address
    found = call("ask", text, files.document, QUESTION, "--model", files.run, "--json")
    assert found.code == 0
    found.out.encode()
    assert {one["document"] for one in found.json["evidence"]} <= {f"{tmp_path}/caf\\xe9.txt", str(files.document)}


def test_the_place_of_a_passage_is_that_of_the_answer_in_it(files: Files, call: Call, tmp_path: Path) -> None:
    text = write(tmp_path / "lines.txt", "bob is here.\nrain fell.\nanna has the boat.")
    done = call("ask", text, QUESTION, "--model", files.run, "--set", "reasoner.always_answers=true")
    first, passage = done.out.splitlines()[0], done.out.split("Passages that were found:\n")[1].splitlines()[0]
    assert passage.strip().startswith(first.rpartition(", ")[2] + ":")


def test_a_text_in_an_unknown_language_gives_passages_alone(files: Files, call: Call, tmp_path: Path) -> None:
    """The tokenizer of the tests knows no Georgian."""
    text = write(tmp_path / "georgian.txt", "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.\n\n" * 40)
    command = ["ask", text, "სად იბადება ადამიანი?", "--model", files.run]
    done = call(*command)
    assert not done.code
    assert "does not know the language of georgian.txt; these passages share most words" in done.err
    assert "line 1: ყველა ადამიანი" in done.out
    assert "Not found" not in done.out
    found = call(*command, "--json").json
    assert (found["answer"], found["alternatives"], found["no_answer_confidence"]) == ("", [], None)
    assert found["evidence"]
    assert "language" not in call("ask", files.document, QUESTION, "--model", files.run).err


def test_answers_that_are_not_sure_enough_are_candidates(files: Files, call: Call) -> None:
    command = ["ask", files.document, QUESTION, "--model", files.run, "--set", "reasoner.always_answers=true"]
    shown = call(*command, "--json").json
    hidden = call(*command, "--at-least", "1", "--json").json
    assert shown["answer"] == hidden["alternatives"][0]["text"] != ""
    assert (hidden["answer"], hidden["start"]) == ("", None)
    assert call(*command, "--at-least", "1").out.startswith("No sure answer in ")
    assert call(*command, "--at-least", "2").code == 2


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
        (["DOCUMENT", "OTHER", "--model", "CLASSIFIED", "--html", "a.html"], "--html: a report shows one question"),
        (["DOCUMENT", "OTHER", "--model", "CLASSIFIED", "--index", "a"], "--index: the model reads each file by itself; name one"),
        (["DOCUMENT", "--model", "TAGGED", "--index", "a.index"], "--index: the baseline sliding_window has no index"),
        (["DOCUMENT", "Who is it?", "--model", "TAGGED", "--judge", "bm25"], "--judge: the baseline sliding_window does not use"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(
    files: Files, tagged: Path, classified: Path, call: Call, arguments: list[str], wording: str
) -> None:
    other = write(files.folder / "other.txt", "the fox.")
    names = {
        "DOCUMENT": str(files.document),
        "OTHER": str(other),
        "TAGGED": str(tagged / "run"),
        "CLASSIFIED": str(classified / "run"),
    }
    done = call("ask", *(names.get(one, one) for one in arguments))
    assert done.code == 2
    assert wording in done.err
    assert len(done.err.splitlines()) == 1


def copy_of(run: Path, target: Path) -> Path:
    """The run's model folder, to be damaged."""
    best = run / json.loads((run / "run.json").read_text())["best"]
    for path in best.rglob("*"):
        if path.is_file():
            (target / path.relative_to(best)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(best)).write_bytes(path.read_bytes())
    return target


def _pickle(model: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), model / "reasoner.safetensors")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda model: (model / "reasoner.safetensors").unlink(), "reasoner.safetensors: "),
        (lambda model: (model / "judge.safetensors").unlink(), "judge.safetensors: file not found"),
        (lambda model: (model / "config.json").unlink(), "neither a model folder nor a run"),
        (lambda model: (model / "config.json").write_text("{}}"), "config.json: not valid JSON"),
        (
            lambda model: (model / "config.json").write_text('{"readers": 1}'),
            "readers is not a setting; did you mean reader?",
        ),
        (lambda model: (model / "reasoner.safetensors").write_bytes(b"x" * 99), "reasoner.safetensors: "),
        (_pickle, "reasoner.safetensors: "),
        (lambda model: (model / "tokenizer" / "tokenizer.json").unlink(), "tokenizer"),
    ],
)
def test_damaged_models(
    files: Files, call: Call, tmp_path: Path, damage: Callable[[Path], object], expected: str
) -> None:
    model = copy_of(files.run, tmp_path / "model")
    assert call("ask", files.document, QUESTION, "--model", model).code == 0
    damage(model)
    done = call("ask", files.document, QUESTION, "--model", model)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1
