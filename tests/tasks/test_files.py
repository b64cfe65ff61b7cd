"""Reading and writing files: what comes back, and what each broken file is told."""

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.errors import DataError
from cogltx.tasks import json_list
from cogltx.tasks.files import read_json_lines, read_text, write_text
from cogltx.tasks.json_list import read_json_list
from cogltx.tasks.records import Record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
DIGITS = "Exceeds the limit (4300 digits) for integer string conversion: value has 4301 digits; use sys.set_int_max_str_digits() to increase the limit"
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


def put(folder: Path, content: str | bytes, name: str = "data.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(error: pytest.ExceptionInfo[DataError], path: Path) -> str:
    """The text of an error that must open with the file, without the file."""
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text[len(str(path)) :]


def listed(path: Path, key: str | None = None) -> list[dict[str, object]]:
    return [dict(record.fields) for record in read_json_list(path, key)]


@pytest.mark.parametrize("key", [None, "data"])
@pytest.mark.parametrize("indent", [None, 2])
@given(objects=st.lists(OBJECTS, max_size=4), chunk=st.integers(1, 40), pack=st.booleans())
def test_list_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    key: str | None,
    indent: int | None,
    objects: list[dict[str, object]],
    chunk: int,
    pack: bool,
) -> None:
    whole = objects if key is None else {"version": [1.5, {"x": "]"}], key: objects, "after": {"data": 2}}
    raw = json.dumps(whole, indent=indent, ensure_ascii=chunk % 2 == 0).encode()
    path = put(tmp_path_factory.mktemp("list"), gzip.compress(raw) if pack else raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_list, "_CHUNK", chunk)
        assert listed(path, key) == objects


def test_list_names_lines(tmp_path: Path) -> None:
    path = put(tmp_path, '\n[\n{"a":\n1},\n\n{"b": 2}\n]\n')
    assert [record.where for record in read_json_list(path)] == [f"{path}:3", f"{path}:6"]


def test_list_is_read_piece_by_piece(tmp_path: Path) -> None:
    """The first object comes while the rest does not exist yet; and one huge object is no trouble."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen = threading.Event()
    waited: list[bool] = []

    def write() -> None:
        with open(pipe, "w") as file:
            file.write('[{"a": 1},' + " " * (1 << 20))
            file.flush()
            waited.append(seen.wait(10))
            file.write(json.dumps({"text": "x" * (1 << 22)}) + "]")

    writer = threading.Thread(target=write)
    writer.start()
    records = read_json_list(pipe)
    assert next(records).fields == {"a": 1}
    seen.set()
    assert len(str(next(records).fields["text"])) == 1 << 22
    assert list(records) == []
    writer.join()
    assert waited == [True]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ":1: expected '[', got the end of the file"),
        ("[", ":1: expected whole JSON, got a file that ends early"),
        ('[{"a": 1}', ":1: expected ',' or ']', got the end of the file"),
        ('[{"a": 1},', ":1: expected whole JSON, got a file that ends early"),
        ('[{"a": 1},\n{"b":\n"cut', ":3: expected whole JSON, got a file that ends early"),
        ('[{"a": 1},\n{"b": tru', ":2: expected JSON, got 'tru'"),
        ('[{"a": 1},\n\n{b: 2}]', ":3: expected JSON, got 'b: 2}]'"),
        ('[{"a": 1} {"b": 2}]', ":1: expected ',' or ']', got '{\"b\": 2}]'"),
        ("[1]", ":1: expected an object, got 1"),
        ("[{}]\n[]", ":2: expected the end of the file, got '[]'"),
        ('{"a": 1}', ":1: expected '[', got '{\"a\": 1}'"),
        ('[{"a": "\\ud800"}]', ":1: expected Unicode text, got half of a surrogate pair, '\\ud800'"),
        ('[{"a": 1},\n{"b": [{"c": 1, "d": 2, "c": 3}]}]', ":2: expected JSON, got: the field 'c' twice"),
        ("[" + "9" * 4301 + "]", f":1: expected JSON, got: {DIGITS}"),
        ("[" + "[" * 200_000, ":1: expected JSON, got too many brackets"),
        (b'[{"a": 1},\n{"b": "\xff"}]', ":2: expected UTF-8, got the byte 0xff"),
        (b'[{"a": "\xc3', ":1: expected UTF-8, got the byte 0xc3"),
        (gzip.compress(b'[{"a": 1}]' * 99, mtime=0)[:-9], ": expected a whole gzip file, got one that ends early"),
        (b"\x1f\x8bnonsense", ": expected a whole gzip file, got a broken one (Unknown compression method)"),
    ],
)
def test_broken_lists(tmp_path: Path, content: str | bytes, expected: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError) as error:
        listed(path)
    assert message(error, path) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"version": 1}', ":1: expected an object with the field 'data', got 'version'"),
        ("{}", ":1: expected an object with the field 'data', got '}'"),
        ("[]", ":1: expected '{', got '[]'"),
        ('{"data": {}}', ":1: expected '[', got '{}}'"),
        ('{"data": []', ":1: expected ',' or '}', got the end of the file"),
    ],
)
def test_broken_objects(tmp_path: Path, content: str, expected: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError) as error:
        listed(path, "data")
    assert message(error, path) == expected


def test_an_error_far_from_the_end_is_told_at_once(tmp_path: Path) -> None:
    path = put(tmp_path, '[{"a": x}' + " " * 3_000_000)
    with pytest.raises(DataError, match=r":1: expected JSON, got 'x}"):
        listed(path)


@given(objects=st.lists(OBJECTS, max_size=4), pack=st.booleans())
def test_lines_come_back(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, object]], pack: bool
) -> None:
    raw = "".join(json.dumps(value) + "\r\n\n" for value in objects).encode()
    path = put(tmp_path_factory.mktemp("lines"), gzip.compress(raw) if pack else raw)
    assert list(read_json_lines(path)) == [
        Record(value, f"{path}:{2 * number + 1}") for number, value in enumerate(objects)
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1}\n{"a": ', ":2: expected one JSON object, got a line that ends early at character 7"),
        ('{"a": 1}\n\n{a}\n', ":3: expected one JSON object, got 'a}' at character 2"),
        ('{"a": 1} 2\n', ":1: expected one JSON object, got '2' at character 10"),
        ("[1]\n", ":1: expected an object, got [1]"),
        ('{"a": 1, "a": 1}', ":1: expected one JSON object, got: the field 'a' twice"),
        ("9" * 4301, f":1: expected one JSON object, got: {DIGITS}"),
        (b'{"a": 1}\n{"b": "\xe9"}', ":2: expected UTF-8, got the byte 0xe9"),
        (gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-4], ": expected a whole gzip file, got one that ends early"),
    ],
)
def test_broken_lines(tmp_path: Path, content: str | bytes, expected: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError) as error:
        list(read_json_lines(path))
    assert message(error, path) == expected


def test_text_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ta\r\nb\u2028c\n"
    assert read_text(put(tmp_path, "\ufeff" + text)) == text
    assert read_text(put(tmp_path, gzip.compress(text.encode()), "no-suffix")) == text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_text("-") == text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n\n\xff")))
    with pytest.raises(DataError, match=r"^standard input:3: expected UTF-8, got the byte 0xff$"):
        read_text("-")


def test_no_such_file(tmp_path: Path) -> None:
    for path, found in ((tmp_path, "got a folder"), (tmp_path / "none", "got nothing of that name")):
        for read in (read_text, lambda path: list(read_json_lines(path)), listed):
            with pytest.raises(DataError) as error:
                read(path)
            assert message(error, path) == f": expected a file, {found}"


def test_written_text_is_there_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.txt"

    def fail_in_the_middle() -> None:
        with write_text(path) as file:
            file.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_in_the_middle()
    assert list(path.parent.iterdir()) == []
    with write_text(path) as file:
        file.write("old\n")
    with pytest.raises(KeyError):
        fail_in_the_middle()
    assert path.read_bytes() == b"old\n"
    assert list(path.parent.iterdir()) == [path]


def test_gzip_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with write_text(tmp_path / name) as file:
            file.write("Gleiches für alle\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert read_text(tmp_path / "a.gz") == "Gleiches für alle\n"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    put(tmp_path, "", "file")
    for path, expected in (
        (tmp_path, ": expected a file to write, got a folder"),
        (tmp_path / "file" / "x", ": expected a place that can be written, got: File exists"),
    ):
        with pytest.raises(DataError) as error, write_text(path):
            pass
        assert message(error, path) == expected


def test_links_and_devices_stay(tmp_path: Path) -> None:
    target, link = put(tmp_path, "old", "target"), tmp_path / "link"
    link.symlink_to(target)
    for path in (link, Path("/dev/null")):
        with write_text(path) as file:
            file.write("new")
    assert target.read_text() == "new"
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()
