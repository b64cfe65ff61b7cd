"""Texts of files and folders, and what those without text are told."""

import gzip
import json
from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.tasks.texts import read_texts


def test_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one\n\ntwo", encoding="utf-8")
    assert list(read_texts(path)) == ["one\n\ntwo"]
    packed = tmp_path / "book"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_texts(packed)) == ["one\n\ntwo"]


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"first"))
    (tmp_path / "inner" / "c.txt").write_text("third")
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "notes.md").write_text("no text")
    assert list(read_texts(tmp_path)) == ["first", "second", "third"]


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = "".join(json.dumps({"text": text, "id": "x"}) + "\n" for text in ("first", "", "second")).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_texts(path)) == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "content", "wording"),
    [
        ("a.txt", b"", "a.txt: expected text, got none"),
        ("a.txt", b" \n\t", "a.txt: expected text, got none"),
        ("a.txt", b"good\nbad \xff", "a.txt:2: expected UTF-8, got the byte 0xff"),
        ("a.jsonl", b"", "a.jsonl: expected text, got none"),
        ("a.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', "a.jsonl:2: expected the field 'text', got only 'txt'"),
        ("a.jsonl", b'{"text": 3}\n', "a.jsonl:1: field 'text': expected a string, got 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}', "a.jsonl:2: expected UTF-8, got the byte 0xe9"),
        (
            "a.txt.gz",
            gzip.compress(b"text " * 99, mtime=0)[:-9],
            "a.txt.gz: expected a whole gzip file, got one that ends early",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: bytes, wording: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_texts(path))
    assert str(caught.value) == f"{tmp_path}/{wording}"


def test_folders_and_files_without_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected files that end in \.txt or \.txt\.gz, found none"):
        list(read_texts(tmp_path))
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(DataError, match=f"^{tmp_path}: expected text, got none$"):
        list(read_texts(tmp_path))
    with pytest.raises(DataError, match=r"missing\.txt: expected a file, got nothing of that name"):
        list(read_texts(tmp_path / "missing.txt"))
