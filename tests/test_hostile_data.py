"""Data and configurations made to be slow or endless: one line, soon."""

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx import _files
from cogltx._files import read_lines, read_text
from cogltx.blocks._mentions import Mentions
from cogltx.cli._yaml_config import load_yaml, parse_changes
from cogltx.errors import CogltxError, ConfigError, DataError, one_line
from cogltx.tasks import _json_list, make_task, newsqa
from cogltx.training.config import RunConfig

SOON = 5.0  # seconds of processor time, of a busy machine; what is quadratic needs minutes


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < SOON


ALIASES = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        (ALIASES, r":6: not valid YAML: over 50,000 values$"),
        (MERGES, r":6: not valid YAML: over 50,000 values$"),
        ("a: [" + "1," * 300_000 + "]", r":1: not valid YAML: over 50,000 values$"),
        ("a: &a [*a]", r": not valid YAML: nested too deeply$"),
        ("a: " + "[" * 100_000, r": not valid YAML: nested too deeply$"),
        ("".join(" " * i + "a:\n" for i in range(1000)), r": not valid YAML: nested too deeply$"),
        ("a: " + "1:" * 200_000 + "1", r":1: not valid YAML: a number is too long$"),
        ("a: " + "9" * 200_000, r":1: not valid YAML: a number is too long$"),
        ("# a comment\n" * 100_000, r": not a configuration: it has over 1,000,000 characters$"),
    ],
)  # fmt: skip
def test_configurations(tmp_path: Path, text: str, wording: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"run\.yaml{wording}"):
        load_yaml(RunConfig, tmp_path / "run.yaml")


def test_aliases_are_read(tmp_path: Path) -> None:
    """What repeats a little is a configuration, and every finding still has its line."""
    (tmp_path / "run.yaml").write_text("judge: &one {nam: bm25}\ntask: *one\n")
    with pytest.raises(ConfigError, match=r"run\.yaml:1: nam is not a setting of task"):
        load_yaml(RunConfig, tmp_path / "run.yaml")


def test_a_change_without_end() -> None:
    with pytest.raises(ConfigError, match="^--set a: .* is not a YAML value$"):
        parse_changes([f"a={'1:' * 100_000}1"])


def example(**values: object) -> str:
    return json.dumps({"question": "q?", "text": "Anna has a boat.", "answers": ["boat"], **values})


@pytest.mark.parametrize(
    ("task", "content", "wording"),
    [
        ("jsonl", '{"a":' * 100_000, "nested too deeply"),
        ("jsonl", '{"text":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("squad", '{"data":' + "[" * 100_000, "nested too deeply"),
        ("jsonl", "{" + ",".join(f'"k{n}":1' for n in range(100_000)) + ',"k99999":2}', "the key 'k99999' comes twice"),
        ("jsonl", "{" + ",".join(f'"k{n}":1' for n in range(20_000)) + "}", "k0 is not a field; .* and more$"),
        ("jsonl", example(answers=[1] * 50_000), r"answers\[0\] must be .*; and more$"),
        ("jsonl", example(**{"x" * 100_000: 1}), "is not a field"),
        ("tagging", "a " * 1_000_000 + "\n", "the tag 'a' is not"),
    ],
)  # fmt: skip
def test_data(tmp_path: Path, task: str, content: str, wording: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(DataError, match=wording) as caught:
        list(make_task(task, {}).read(tmp_path / "a.jsonl", split="train"))
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert len(line) < 150_000


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_files, "_MOST_BYTES", 2_000_000)
    content = f"first\n{' ' * 3_000_000}\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    lines = read_lines(tmp_path / name)
    assert next(lines) == "first"
    with pytest.raises(DataError, match=rf"{name}:2: the line is longer than 2 MB$"):
        next(lines)


def test_an_item_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second article of a SQuAD file; many small ones are longer together."""
    monkeypatch.setattr(_json_list, "_MOST_BYTES", 2_000_000)
    small = json.dumps({"title": "t", "paragraphs": []})
    (tmp_path / "a.json").write_text(f'{{"data": [{", ".join([small] * 100_000)}, {{"title": "{"x" * 5_000_000}')
    with pytest.raises(DataError, match=r"a\.json: an item is longer than 2 MB$"):
        list(make_task("squad", {}).read(tmp_path / "a.json", split="train"))


def test_a_long_string(tmp_path: Path) -> None:
    """The parser of long lists begins a string anew with each piece of the file."""
    (tmp_path / "a.json").write_text(f'{{"data": [{{"title": "{"x" * 30_000_000}"')
    with pytest.raises(DataError, match="the file ends early"):
        list(make_task("squad", {}).read(tmp_path / "a.json", split="train"))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device /dev/zero")
def test_texts_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "_MOST_BYTES", 2_000_000)
    with pytest.raises(ConfigError, match="^/dev/zero: goes on after 2 MB, which is too much for one text$"):
        read_text("/dev/zero", ConfigError)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(bytes(3_000_000)))
    with pytest.raises(DataError, match=r"a\.txt\.gz: goes on after 2 MB"):
        read_text(tmp_path / "a.txt.gz")
    (tmp_path / "a.txt").write_bytes(b"a" * 3_000_000)
    assert len(read_text(tmp_path / "a.txt")) == 3_000_000


@pytest.mark.parametrize("text", [" " * 300_000 + "x", "(" * 300_000, "( " * 150_000, ". " * 150_000 + "x"])
def test_expressions_for_headings_and_answers(text: str) -> None:
    Mentions.of("a b", np.array([0]), [text], np.array([0]))
    assert newsqa._TRAILING.sub("", text) == text.rstrip(" .")


def test_the_ends_of_answers() -> None:
    assert newsqa._TRAILING.sub("", 'a. b, "c".\u201d ') == 'a. b, "c'


@given(st.text(st.characters(), max_size=30))
def test_errors_are_one_line(text: str) -> None:
    line = str(CogltxError(text))
    assert len(line.splitlines()) <= 1
    line.encode()
    assert one_line(line) == line


def test_plain_letters_stay() -> None:
    text = "Größe — 語 «x» \u200f\u05d0\u200c\u0301 file.pdf"
    assert one_line(text) == text
    assert str(DataError("a\nb\ud800\u202ec")) == "a\\nb\\ud800\\u202ec"
