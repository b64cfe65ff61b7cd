"""Long JSON lists: what is read is what was written; every broken file is described in one line."""

import gzip
import json
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.errors import DataError
from cogltx.tasks._json_list import read_json_list

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, max_size=4)


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
    return [item for _, item in read_json_list(path, key)]


@pytest.mark.parametrize("key", [None, "data"])
@pytest.mark.parametrize("indent", [None, 2])
@given(objects=st.lists(OBJECTS, max_size=4), escape=st.booleans(), pack=st.booleans())
def test_list_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    key: str | None,
    indent: int | None,
    objects: list[dict[str, object]],
    escape: bool,
    pack: bool,
) -> None:
    whole = objects if key is None else {"version": [1.5, {"x": "]"}], key: objects, "after": {"data": 2}}
    raw = json.dumps(whole, indent=indent, ensure_ascii=escape).encode()
    path = put(tmp_path_factory.mktemp("list"), gzip.compress(raw) if pack else raw)
    assert listed(path, key) == objects


def test_list_names_items(tmp_path: Path) -> None:
    path = put(tmp_path, b'\xef\xbb\xbf[{"a": 1}, {"b": 2.5}]')
    assert list(read_json_list(path)) == [(f"{path}: item 1", {"a": 1}), (f"{path}: item 2", {"b": 2.5})]


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
    assert next(records)[1] == {"a": 1}
    seen.set()
    assert len(next(records)[1]["text"]) == 1 << 22
    assert list(records) == []
    writer.join()
    assert waited == [True]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ": the file ends early, after 0 complete items"),
        ("[", ": the file ends early, after 0 complete items"),
        ('[{"a": 1}', ": the file ends early, after 1 complete items"),
        ('[{"a": 1},\n{"b":\n"cut', ": the file ends early, after 1 complete items"),
        (
            '[{"a": 1},\n\n{b: 2}]',
            ": not valid JSON (lexical error: invalid char in json text), after 1 complete items",
        ),
        ("[1]", ": item 1 must be a JSON object, but is 1"),
        (
            "[{}]\n[]",
            ": not one JSON value, perhaps JSON Lines, which the task jsonl reads (--set task.name=jsonl), after 1 complete items",
        ),
        ('{"a": 1}', ": must be a JSON list"),
        ('[{"b": [{"c": 1, "d": 2, "c": 3}]}]', ": not valid JSON (the key 'c' comes twice in an object)"),
        ("[" + "[" * 200_000, ": not valid JSON (nested too deeply)"),
        (b'[{"a": 1},\n{"b": "\xff"}]', ": not UTF-8, after 1 complete items"),
        (b'[{"a": "\xc3', ": not UTF-8, after 0 complete items"),
        (b'[{"a": 1},\n{"b": "\xed\xa0\x80"}]', ": not UTF-8, after 1 complete items"),
        (gzip.compress(b'[{"a": 1}]' * 99, mtime=0)[:-9], ": the gzip file ends early"),
        (b"\x1f\x8bnonsense", ": the gzip file is broken (Unknown compression method)"),
    ],
)
def test_broken_lists(tmp_path: Path, content: str | bytes, expected: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError) as error:
        listed(path)
    assert message(error, path) == expected


def test_deep_nesting_takes_little_memory(tmp_path: Path) -> None:
    path = put(tmp_path, "[" * 20_000)
    tracemalloc.start()
    with pytest.raises(DataError, match="nested too deeply"):
        listed(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 << 20


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"version": 1}', ": must be a JSON object with a list 'data'; choose another format with --set task.name"),
        ("[]", ": must be a JSON object with a list 'data'; choose another format with --set task.name"),
        ('{"data": {}}', ": must be a JSON object with a list 'data'; choose another format with --set task.name"),
        ('{"data": []', ": the file ends early, after 0 complete items"),
    ],
)
def test_broken_objects(tmp_path: Path, content: str, expected: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError) as error:
        listed(path, "data")
    assert message(error, path) == expected
