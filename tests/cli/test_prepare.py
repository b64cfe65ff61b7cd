"""``cogltx prepare``."""

import gzip
from pathlib import Path

import corpus
import pytest
import yaml
from command_line import COUNT, QUESTION, Call, Files


def test_prepare(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "again.jsonl.gz"
    done = call("prepare", "jsonl", "--source", files.data, "--output", output)
    assert done.err == f"{COUNT} examples in {output}; 0 gold labels do not match the text\n"
    assert gzip.decompress(output.read_bytes()) == gzip.decompress(files.data.read_bytes())


TABLE = "Frage Nr.;Question;Answer;Document\n1;what does anna have?;THE CUP;text\n2;who has it?;annna;text\n"


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Path, Path]:
    """A table with a typing error, and a folder with its document."""
    table, folder = tmp_path / "questions.csv", tmp_path / "documents"
    folder.mkdir()
    (folder / "text.html").write_text("<p>bert has the boat .</p><p>anna has the cup .</p>")
    table.write_text(TABLE, encoding="utf-8-sig")
    return table, folder


def test_a_table_of_questions(asked: tuple[Path, Path], call: Call, tmp_path: Path) -> None:
    table, folder = asked
    output = tmp_path / "data.jsonl"
    done = call("prepare", table, "--documents", folder, "--output", output)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        f"{table}: columns that are not used: Frage Nr.",
        f"{table}:3: 'who has it?': 'annna' is not in text.html; most similar: 'anna'",
        "1 of 2 answers found in 1 document; 1 not found (listed above)",
        f"1 question in {output}",
    ]
    done = call("--quiet", "prepare", table, "--documents", folder, "--output", output, "--json")
    assert done.err == f"{table}:3: 'who has it?': 'annna' is not in text.html; most similar: 'anna'\n"
    missing = {
        "line": 3,
        "question": "who has it?",
        "answer": "annna",
        "reason": "'annna' is not in text.html",
        "most_similar": "'anna'",
    }
    assert done.json == {
        "output": str(output),
        "found": 1,
        "answers": 2,
        "questions": 1,
        "documents": 1,
        "not_found": [missing],
        "notes": [],
    }


def test_a_table_without_any_answer(asked: tuple[Path, Path], call: Call, tmp_path: Path) -> None:
    table, folder = asked
    table.write_text("question,answer\nwho?,carl\n")
    done = call("prepare", table, "--documents", folder, "--output", tmp_path / "data.jsonl")
    assert (done.code, done.err.splitlines()) == (
        2,
        [f"{table}:2: 'who?': 'carl' is not in text.html", f"cogltx: {table}: none of its 1 answers is in the documents; nothing is written"],
    )  # fmt: skip
    assert not (tmp_path / "data.jsonl").exists()
    done = call("prepare", table, "--output", tmp_path / "data.jsonl")
    assert (done.code, done.err) == (
        2,
        f"cogltx: prepare: {table} is a file; name the documents of its questions with --documents\n",
    )
    done = call("prepare", table, "--documents", folder, "--output", tmp_path / "data.jsonl", "--source", table)
    assert (done.code, done.err) == (
        2,
        "cogltx: prepare: --source and --set go with a task, not with a table of questions\n",
    )
    done = call("prepare", "questions.cvs", "--documents", folder, "--output", tmp_path / "data.jsonl")
    assert (done.code, done.err) == (2, "cogltx: questions.cvs: file not found\n")


def test_training_on_a_table_of_questions(files: Files, call: Call, tmp_path: Path) -> None:
    """Documents and a table become data, a trained run, and an answer."""
    folder, table = tmp_path / "documents", tmp_path / "questions.csv"
    folder.mkdir()
    rows = ["question,answer,document"]
    for example in corpus.make(COUNT):
        (folder / f"{example.id}.html").write_text(
            "".join(f"<p>{line}</p>" for line in example.document.text.split("\n"))
        )
        rows.append(f'{example.query.text if example.query else ""},"{(example.answers or ("",))[0]}",{example.id}')
    table.write_text("\n".join(rows))
    assert call("prepare", table, "--documents", folder, "--output", tmp_path / "data.jsonl").code == 0
    config = tmp_path / "run.yaml"
    values = yaml.safe_load(files.config.read_text()) | {"data": {"train": str(tmp_path / "data.jsonl"), "held_out": 1}}
    config.write_text(yaml.safe_dump(values))
    assert call("train", config, "--output", tmp_path / "run").code == 0
    done = call("ask", files.document, QUESTION, "--model", tmp_path / "run", "--json")
    assert (done.code, done.json["question"]) == (0, QUESTION)


def test_json(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "again.jsonl"
    done = call("prepare", "jsonl", "--source", files.data, "--output", output, "--json")
    assert done.json == {"output": str(output), "examples": COUNT, "unmapped": []}
