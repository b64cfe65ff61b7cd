"""``cogltx recall``: by a run, by a judge alone, and custom judges."""

from pathlib import Path

import corpus
import pytest
from command_line import QUESTION, Call, Files, write


@pytest.mark.parametrize("options", [(), ("--set", "memrecall.strides=[2,2]")])
def test_recall_by_a_run(files: Files, call: Call, options: tuple[str, ...]) -> None:
    found = call("recall", files.run, "--document", files.document, "--question", QUESTION, "--json", *options).json
    assert len(found["steps"]) == 2
    text = files.document.read_text()
    assert [text[block["start"] : block["end"]] for block in found["key_blocks"]] == [
        block["text"] for block in found["key_blocks"]
    ]


def test_recall_without_a_run(files: Files, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(files.folder)
    document = tmp_path / "long.txt"
    document.write_text(corpus.make(1, filler=200)[0].document.text)
    for judge in ("bm25", "my_judges:Overlap"):
        found = call(
            "recall", "--judge", judge, "--document", document, "--question", QUESTION, "--json",
            "--set", "memrecall.capacity=96", "--set", "max_block_tokens=31",
        )  # fmt: skip
        assert found.code == 0, found.err
        assert 0 < len(found.json["key_blocks"]) < found.json["n_blocks"]
        assert max(block["n_tokens"] for block in found.json["key_blocks"]) <= 31
    plain = call("recall", "--judge", "bm25", "--document", document, "--question", QUESTION)
    title, *passages = plain.out.splitlines()
    assert title == "Passages that were found:"
    assert len(passages) > 1
    assert all(line.startswith("  line ") for line in passages)
    silent = call("recall", "--judge", "bm25", "--document", document)
    assert (silent.code, silent.err) == (2, 'cogltx: judge "bm25" needs a question\n')


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ("my_judges:Nobody", "my_judges:Nobody: cannot be imported: AttributeError"),
        ("my_judges:Short", "texts have shape (1,)"),
        ("my_judges:NotANumber", "judge my_judges:NotANumber: a score is nan"),
        ("my_judges:Silent", "Silent is not a judge; pass an nn.Module or an object with score"),
        ("encoder", 'judge "encoder" needs a trained run; use "bm25"'),
    ],
)
def test_wrong_judges(
    files: Files, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, judge: str, expected: str
) -> None:
    monkeypatch.chdir(files.folder)
    document = write(tmp_path / "long.txt", corpus.make(1, filler=100)[0].document.text)
    done = call("recall", "--judge", judge, "--document", document, "--question", QUESTION)
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_a_run_with_another_judge(files: Files, call: Call) -> None:
    command = ["recall", files.run, "--document", files.document, "--question", QUESTION, "--json"]
    done = call(*command, "--judge", "bm25", "--device", "cpu")
    assert done.code == 0, done.err
    scores = [block["score"] for block in call(*command).json["key_blocks"]]
    assert scores != [block["score"] for block in done.json["key_blocks"]]
