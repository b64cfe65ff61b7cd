"""``cogltx predict``: documents, files of examples, and damaged models."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import corpus
import pytest
import torch
import yaml
from command_line import COUNT, QUESTION, Call, Files, same, write
from torch import nn

from cogltx.document import Query
from cogltx.tasks.jsonl import write_examples


def test_one_question(files: Files, call: Call) -> None:
    text = files.document.read_text()
    found = call("predict", files.run, "--document", files.document, "--question", QUESTION, "--json").json
    if found["start"] is not None:
        assert found["answer"] == text[found["start"] : found["end"]]
    assert found["evidence"]
    for evidence in found["evidence"]:
        assert evidence["text"] == text[evidence["start"] : evidence["end"]]
    plain = call("predict", files.run, "--document", files.document, "--question", QUESTION)
    assert f"evidence, of {found['n_blocks']} blocks ({found['n_tokens']} tokens):" in plain.out


def test_a_document_from_standard_input(files: Files) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cogltx", "predict", str(files.run), "--document", "-", "--question", QUESTION, "--json"],
        input=files.document.read_text(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_blocks"] > 1


def test_an_index_of_several_documents(files: Files, call: Call, tmp_path: Path) -> None:
    other = write(tmp_path / "other.txt", "Nobody has anything. " * 40)
    index = tmp_path / "both.index"
    done = call("index", files.run, "--document", files.document, "--document", other, "--output", index)
    assert done.code == 0
    found = call("predict", files.run, "--index", index, "--question", QUESTION, "--json").json
    texts = {str(path): path.read_text() for path in (files.document, other)}
    assert found["evidence"]
    for evidence in found["evidence"]:
        assert evidence["text"] == texts[evidence["document"]][evidence["start"] : evidence["end"]]
    printed = call("predict", files.run, "--index", index, "--question", QUESTION).out
    assert f" {found['evidence'][0]['document']}: " in printed


def test_questions_about_an_index(files: Files, call: Call, tmp_path: Path) -> None:
    index = tmp_path / "some.index"
    done = call("index", files.run, "--document", files.document, "--output", index)
    assert done.code == 0
    assert done.err.endswith(f" tokens) in {index}\n")
    asked = ["--question", QUESTION, "--question", "where is tom?"]
    options = ["--set", "memrecall.shortlist=2", "--json"]
    expected = call("predict", files.run, "--document", files.document, *asked, *options).json
    assert len(expected) == 2
    assert call("predict", files.run, "--index", index, *asked, *options).json == expected
    lines = call("predict", files.run, "--index", index, *asked).out.splitlines()
    assert [line for line in lines if line.startswith("==")] == [f"== {QUESTION}", "== where is tom?"]
    index.write_bytes(index.read_bytes()[:-7])
    done = call("predict", files.run, "--index", index, "--question", QUESTION)
    assert done.code == 2
    assert done.err.startswith(f"cogltx: {index}: not a complete index")
    assert done.err.count("\n") == 1


def test_questions_from_standard_input(files: Files) -> None:
    command = [sys.executable, "-m", "cogltx", "predict", str(files.run), "--document", str(files.document)]
    done = subprocess.run(
        [*command, "--question", "-", "--json"],
        input=f"{QUESTION}\n\nwhere is tom?\n", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 2


def test_a_file_of_questions_goes_on_where_it_ended(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "out" / "predictions.jsonl"
    assert call("predict", files.run, "--input", files.data, "--output", output).code == 0
    lines = output.read_text().splitlines()
    assert len(lines) == COUNT
    for left in (lines[0] + "\n", lines[0] + "\n" + lines[1], lines[0] + "\n" + lines[1][:40], lines[0][:3]):
        output.write_text(left)
        done = call("predict", files.run, "--input", files.data, "--output", output)
        assert done.err.endswith(f"{COUNT} predictions in {output}\n")
        assert same(output.read_text().splitlines(), lines)


def test_a_file_without_examples(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    assert call("predict", files.run, "--input", write(tmp_path / "e.jsonl", "\n"), "--output", output).code == 0
    assert output.read_text() == ""


def test_a_question_that_fits_no_window(files: Files, call: Call, tmp_path: Path) -> None:
    """Found before anything is trained; in a file of examples, those before it are answered and kept."""
    data, output = tmp_path / "examples.jsonl", tmp_path / "predictions.jsonl"
    good, bad = corpus.make(2)
    write_examples(data, [good, replace(bad, query=Query("what " * 600))])
    done = call("train", files.config, "--output", tmp_path / "run", "--set", f"data.train={data}")
    assert done.code == 2
    assert f"training: example '{bad.id}': the question has" in done.err
    done = call("predict", files.run, "--input", data, "--output", output)
    assert done.code == 2
    assert f"example '{bad.id}': the question has 600 tokens; at most" in done.err
    assert [json.loads(line)["id"] for line in output.read_text().splitlines()] == [good.id]


@pytest.mark.parametrize("change", [{"text": "Anna is in a box. Bob too."}, {"question": "Where?"}])
def test_predictions_of_another_text(files: Files, call: Call, tmp_path: Path, change: dict[str, str]) -> None:
    output = tmp_path / "predictions.jsonl"
    fields = {"id": "1", "text": "Anna is in a box.", "question": "Who?"}
    one = write(tmp_path / "one.jsonl", json.dumps(fields))
    other = write(tmp_path / "other.jsonl", json.dumps(fields | change))
    assert call("predict", files.run, "--input", one, "--output", output).code == 0
    done = call("predict", files.run, "--input", other, "--output", output)
    assert done.code == 2
    expected = "the prediction for example '1' was made from another text or question; choose another file"
    assert f"{output}:1: {expected}" in done.err


def test_predictions_of_other_examples_are_not_overwritten(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "predictions.jsonl"
    call("predict", files.run, "--input", files.data, "--output", output)
    before = output.read_text()
    others = tmp_path / "others.jsonl"
    write_examples(others, corpus.make(2, seed=5)[1:])
    done = call("predict", files.run, "--input", others, "--output", output)
    assert done.code == 2
    assert f"{output}:1: a prediction for example '0', but example '1' comes next; choose another file" in done.err
    assert output.read_text() == before


def test_predictions_into_a_pipe(files: Files) -> None:
    command = [
        sys.executable,
        "-m",
        "cogltx",
        "predict",
        str(files.run),
        "--input",
        str(files.data),
        "--output",
        "/dev/stdout",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()[:COUNT]] == [
        str(number) for number in range(COUNT)
    ]


def test_an_unwritable_output(files: Files, call: Call) -> None:
    done = call("predict", files.run, "--input", files.data, "--output", files.document / "predictions.jsonl")
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_a_full_disk(files: Files, call: Call, tmp_path: Path) -> None:
    """Files may not grow beyond 300 bytes."""
    output = tmp_path / "predictions.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        done = call("predict", files.run, "--input", files.data, "--output", output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 2
    assert f"{output}: cannot write predictions: File too large; earlier ones are kept" in done.err
    assert call("predict", files.run, "--input", files.data, "--output", output).code == 0
    assert len(output.read_text().splitlines()) == COUNT


@pytest.mark.parametrize(
    ("content", "question", "expected"),
    [
        ("", QUESTION, "document.txt: the document has no text"),
        (" \n\t", QUESTION, "document.txt: the document has no text"),
        (b"caf\xe9", QUESTION, "document.txt:1: not UTF-8"),
        ("anna has the boat.", " ", "the question is empty"),
        ("anna has the boat.", "what " * 70, "the question has 70 tokens; at most"),
    ],
)
def test_wrong_texts(
    files: Files, call: Call, tmp_path: Path, content: str | bytes, question: str, expected: str
) -> None:
    document = write(tmp_path / "document.txt", content)
    done = call("predict", files.run, "--document", document, "--question", question)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


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
    assert call("predict", model, "--document", files.document, "--question", QUESTION).code == 0
    damage(model)
    done = call("predict", model, "--document", files.document, "--question", QUESTION)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_every_label_name_is_asked_without_a_question(classified: Path, call: Call, tmp_path: Path) -> None:
    values = yaml.safe_load((classified / "run.yaml").read_text())
    values["task"]["options"] = {"label_queries": True, "labels": ["boat", "cup"]}
    values |= {"judge": {"name": "linear"}, "training": {"epochs": 1, "batch_size": 2}}
    (tmp_path / "labels.yaml").write_text(yaml.safe_dump(values))
    assert call("train", tmp_path / "labels.yaml", "--output", tmp_path / "run").code == 0
    document = next((classified / "data" / "boat").iterdir())
    found = call("predict", tmp_path / "run", "--document", document, "--json").json
    assert [one["question"] for one in found] == ["boat", "cup"]
    assert {one["answer"] for one in found} <= {"yes", "no"}
    assert call("predict", tmp_path / "run", "--document", document).out.startswith("== boat\n")


def test_tags_of_a_document(tagged: Path, call: Call, tmp_path: Path) -> None:
    document = tmp_path / "a.txt"
    document.write_text("anna has the boat.\n" * 16)
    found = call("predict", tagged / "run", "--document", document, "--json").json
    assert [own["text"] for own in found["entities"]] == ["anna", "boat"] * 16
    plain = call("predict", tagged / "run", "--document", document)
    assert plain.out.startswith(f"32 entities in {found['n_tokens']} tokens:\n")
    assert "0-4       PER  anna" in plain.out
    cut = call("predict", tagged / "run", "--document", document, "--set", "reader=truncation").out
    assert "were not read" in cut.splitlines()[0]
    examples = tmp_path / "a.jsonl"
    examples.write_text('{"id": "1", "text": "anna has the boat ."}\n')
    call("predict", tagged / "run", "--input", examples, "--output", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["entities"]
    wrong = tmp_path / "wrong.conll"
    wrong.write_text("anna B-PER\nhas I-PER\nthe I-THING\n")
    refused = call("evaluate", tagged / "run", "--data", wrong)
    assert (refused.code, refused.err) == (
        2, f"cogltx: {wrong}:3: I-THING follows I-PER, but only B-THING begins an entity (IOB2)\n",
    )  # fmt: skip


def test_several_documents_are_answered_in_order(files: Files, call: Call, tmp_path: Path) -> None:
    other = write(tmp_path / "other.txt", corpus.make(2)[1].document.text)
    command = ["predict", files.run, "--question", QUESTION, "--document", files.document, "--document", other]
    plain = call(*command)
    assert plain.code == 0, plain.err
    assert [line for line in plain.out.splitlines() if line.startswith("==")] == [f"== {files.document}", f"== {other}"]
    records = call(*command, "--json").json
    assert [record["id"] for record in records] == [str(files.document), str(other)]
    alone = call("predict", files.run, "--question", QUESTION, "--document", other, "--json").json
    assert alone["answer"] == records[1]["answer"]


def test_the_files_of_a_folder(files: Files, call: Call, tmp_path: Path) -> None:
    text = corpus.make(2)[1].document.text
    for name in ("a.txt", "sub/b.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    write(tmp_path / "c.pdf", "broken")
    done = call("predict", files.run, "--question", QUESTION, "--document", tmp_path, "--json")
    assert [record["id"] for record in done.json] == [str(tmp_path / "a.txt"), str(tmp_path / "sub" / "b.md")]
    assert done.err.startswith("left out: ")
    assert "c.pdf: not a readable PDF file" in done.err


def test_another_judge_and_device(files: Files, call: Call) -> None:
    command = ["predict", files.run, "--question", QUESTION, "--document", files.document]
    done = call(*command, "--judge", "bm25", "--device", "cpu", "--json")
    assert done.code == 0, done.err
    assert done.json["evidence"]
    wrong = call(*command, "--device", "nowhere")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "nowhere" in wrong.err


def test_readers_without_evidence_print_none(files: Files, call: Call) -> None:
    command = ["predict", files.run, "--question", QUESTION, "--document", files.document]
    done = call(*command, "--set", "reader=truncation")
    assert done.code == 0, done.err
    assert "evidence" not in done.out
