"""The measurement of compressed texts."""

from pathlib import Path

from bridges import TEXTS
from command_line import Call

from cogltx.document import Document, Example, Query, Span
from cogltx.tasks.jsonl import write_examples

ANSWER = "Ilse Brandt"


def test_more_text_keeps_more_answers(model: str, call: Call, tmp_path: Path) -> None:
    document, start = Document(TEXTS[1]), TEXTS[1].index(ANSWER)
    examples = [
        Example(id="1", document=document, query=Query("Who designed the bridge?"), answers=(ANSWER,), answer_spans=(Span(start, start + len(ANSWER)),)),
        Example(id="2", document=document, query=Query("Who sang?"), answers=()),
    ]  # fmt: skip
    write_examples(tmp_path / "data.jsonl", examples)
    command = ["bench", "compress", tmp_path / "data.jsonl", "--model", model, "--budgets", "0.1,0.99"]
    rows = {(row["system"], row["budget"]): row["answers"] for row in call(*command, "--json").json}
    assert rows["CogLTX", 0.1] == rows["BM25", 0.1] == 100
    assert rows["truncation", 0.1] == 0
    assert rows["truncation", 0.99] == rows["sentence vectors", 0.99] == 100
    done = call(*command)
    assert done.out.splitlines()[-1] == "1 question"
    assert "10 % of the text" in done.out
