"""Texts of files and folders, and what those without text are told."""

import gzip
import json
import logging
from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.tasks._texts import read_texts


def test_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one\n\ntwo", encoding="utf-8")
    assert list(read_texts(path)) == ["one\n\ntwo"]
    packed = tmp_path / "book"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_texts(packed)) == ["one\n\ntwo"]


def test_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"first"))
    (tmp_path / "inner" / "c.txt").write_text("third")
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "notes.md").write_text("# Notes\n\nfourth *text*")
    (tmp_path / "page.html").write_text("<p>fifth <b>text</b></p><script>no()</script>")
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress(b'{"text": "sixth"}\n{"text": "seventh"}\n'))
    (tmp_path / "broken.docx").write_bytes(b"PK no Word file")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    (tmp_path / ".DS_Store").write_bytes(b"\xff")
    (tmp_path / "._b.txt").write_bytes(b"\xff")
    with caplog.at_level(logging.INFO):
        texts = list(read_texts(tmp_path))
    assert texts == ["first", "second", "third", "sixth", "seventh", "Notes\n\nfourth text", "fifth text"]
    others, blank, broken = caplog.messages
    assert others == f"{tmp_path}: files of other formats are not read: 1 .png"
    assert blank == f"left out: {tmp_path / 'blank.txt'}: the document has no text"
    assert broken.startswith(f"left out: {tmp_path / 'broken.docx'}: not a readable Word file (")


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = (
        "".join(json.dumps({"text": text, "id": "x"}) + "\n" for text in ("first", "", "second")).encode()
        + b'{"document": "x"}'
    )

    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_texts(path)) == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "content", "wording"),
    [
        ("a.txt", b"", "a.txt: the document has no text"),
        ("a.txt", b" \n\t", "a.txt: the document has no text"),
        ("a.html", b"<p></p>", "a.html: the document has no text"),
        ("a.png", b"\x89PNG\0", "a.png: not a text file; known formats are"),
        ("a.txt", b"good\nbad \xff", "a.txt: line 2: not UTF-8 (byte 0xff), and no other encoding is sure"),
        ("a.jsonl", b"", "a.jsonl: holds no text"),
        ("a.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', "a.jsonl:2: text is missing"),
        ("a.jsonl", b'{"text": 3}\n', "a.jsonl:1: text must be a string, but is 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}', "a.jsonl:2: not UTF-8 (byte 0xe9); save it as UTF-8"),
        (
            "a.txt.gz",
            gzip.compress(b"text " * 99, mtime=0)[:-9],
            "a.txt.gz: the gzip file ends early",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: bytes, wording: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_texts(path))
    assert str(caught.value).startswith(f"{tmp_path}/{wording}")


def test_folders_and_files_without_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder has no file of a known format \(.*\.html, .*\.txt"):
        list(read_texts(tmp_path))
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(DataError, match=f"^{tmp_path}: holds no text$"):
        list(read_texts(tmp_path))
    with pytest.raises(DataError, match=r"missing\.txt: file not found"):
        list(read_texts(tmp_path / "missing.txt"))
