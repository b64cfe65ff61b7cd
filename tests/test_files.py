"""Every write is complete or leaves no trace; broken files are described in one line."""

import errno
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from cogltx._files import (
    check_settings,
    claimed,
    fingerprint,
    new_folder,
    read_json,
    read_json_lines,
    read_text,
    write_file,
    write_json,
)
from cogltx.encoding._weights import to_safetensors
from cogltx.errors import ConfigError, DataError, ModelError, TrainingError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("before", [False, True])
def test_a_new_folder_takes_the_place_of_another(tmp_path: Path, before: bool) -> None:
    target = tmp_path / "deep" / "model"
    if before:
        target.mkdir(parents=True)
        (target / "new").write_text("old")
        (target / "judge.safetensors").write_text("of another model")
    with new_folder(target) as folder:
        (folder / "new").write_text("new")
        assert files(target) == ({"new": "old", "judge.safetensors": "of another model"} if before else {})
    assert files(tmp_path) == {"deep/model/new": "new"}
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_weights_that_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(
            TrainingError, match=rf"{tmp_path}/model: cannot be saved: .*No such file or directory.*; what was"
        ),
        new_folder(tmp_path / "model") as folder,
    ):
        save_file({"a": np.zeros(2)}, folder / "missing" / "a.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("before", [False, True])
def test_a_folder_that_fails_leaves_no_trace(tmp_path: Path, before: bool) -> None:
    target = tmp_path / "model"
    if before:
        target.mkdir()
        (target / "old").write_text("old")
    with pytest.raises(TrainingError, match=rf"{target}: cannot be saved: .*No space left on device; what was "):
        with new_folder(target) as folder:
            (folder / "new").write_text("new")
            raise FULL
    assert files(tmp_path) == ({"model/old": "old"} if before else {})
    assert [path.name for path in tmp_path.iterdir()] == (["model"] if before else [])


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    others = (".other.abcd_1ef.tmp", ".model.backup.old", ".model.v2.abcd_1ef.tmp", ".modelabcd_1ef.tmp")
    for name in (".model.abcd_1ef.tmp", ".model.abcd_1ef.old", *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("half")
    with new_folder(tmp_path / "model") as folder:
        (folder / "new").write_text("new")
    assert files(tmp_path) == {"model/new": "new"} | {f"{name}/half": "half" for name in others}
    (tmp_path / ".a.jsonl.0123abcd.tmp").write_text("half")
    write_file(tmp_path / "a.jsonl", "whole")
    assert files(tmp_path) == {"a.jsonl": "whole", "model/new": "new"} | {f"{name}/half": "half" for name in others}


@pytest.mark.parametrize("name", ["thesis.txt", ".git/config"])
def test_nothing_but_a_model_is_replaced(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "model" / name
    kept.parent.mkdir(parents=True)
    kept.write_text("years of work")
    wording = rf"model: also holds '{name.split('/')[0]}', which would be lost; choose a new folder$"
    with pytest.raises(TrainingError, match=wording):
        with new_folder(tmp_path / "model") as folder:
            (folder / "new").write_text("new")
    assert files(tmp_path) == {f"model/{name}": "years of work"}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(TrainingError, match="model: is a file; choose a folder to save in$"):
        with new_folder(tmp_path / "model"):
            pass
    assert files(tmp_path) == {"model": "a file"}


def test_a_digest_tells_models_apart(tmp_path: Path) -> None:
    def model(name: str, *, config: str = "{}", weights: float = 0.0) -> str:
        with new_folder(tmp_path / name) as folder:
            (folder / "config.json").write_text(config)
            (folder / "reasoner.safetensors").write_bytes(to_safetensors({"a": torch.full((3,), weights)}))
        return fingerprint(tmp_path / name)

    assert model("a") == model("b") == model("a")
    assert len({model("a"), model("b", config="[]"), model("c", weights=1.0)}) == 3


@pytest.mark.parametrize("text", ["[]", "3", "null"])
def test_a_json_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ModelError, match=r"run\.json: must be one JSON object, but is (\[\]|3|None)$"):
        read_json(tmp_path / "run.json")


def test_another_error_passes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_folder(tmp_path / "model"):
        raise KeyError("x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_moved_keeps_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "model").write_text("old")
    real = Path.rename

    def rename(self: Path, other: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise FULL
        return real(self, other)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(TrainingError, match="what was saved before is kept"), new_folder(target) as folder:
        (folder / "model").write_text("new")
    assert files(tmp_path) == {"model/model": "old"}


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"name": "Łódź", "list": [1, 2.5, None]}
    write_json(tmp_path / "deep" / "a.json", value)
    assert read_json(tmp_path / "deep" / "a.json") == value
    assert "Łódź" in (tmp_path / "deep" / "a.json").read_text(encoding="utf-8")


def test_text_that_cannot_be_written_keeps_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_file(path, "old")

    def replace(self: Path, target: Path) -> None:
        raise FULL

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(TrainingError, match=rf"{path}: cannot be saved: .*No space left"):
        write_file(path, "new")
    assert files(tmp_path) == {"a.txt": "old"}


@pytest.mark.parametrize(
    ("content", "wording"),
    [
        (None, r"a\.json: file not found"),
        (b'{"a": 1,\n "b": [1, 2', r"a\.json:2: not valid JSON \(it ends early\)"),
        (b"", r"a\.json: not valid JSON \(it ends early\)"),
        (b'{"a": "\xff"}', r"a\.json:1: not UTF-8 \(byte 0xff\)"),
    ],
)
def test_json_that_cannot_be_read(tmp_path: Path, content: bytes | None, wording: str) -> None:
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ModelError, match=wording):
        read_json(tmp_path / "a.json")


def test_a_folder_where_json_is_expected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder, not a file"):
        read_json(tmp_path)


@pytest.mark.parametrize(
    ("now", "then", "wording"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, r"was started with a\.b 2, not 1; choose another folder"),
        ({"a": None}, {"a": {"b": 2}}, r"was started with a\.b 2, not None"),
        ({"a": {"b": 2}}, {"a": None}, r"was started with a\.b None, not 2"),
        ({"a": [1]}, {"a": [1, 2]}, r"was started with a \[1, 2\], not \[1\]"),
    ],
)
def test_other_settings(now: dict[str, Any], then: dict[str, Any], wording: str) -> None:
    check_settings(Path("place"), now, now)
    with pytest.raises(ConfigError, match=f"^place: {wording}"):
        check_settings(Path("place"), now, then)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
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


@given(objects=st.lists(OBJECTS, max_size=4), pack=st.booleans())
def test_lines_come_back(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, object]], pack: bool
) -> None:
    raw = "".join(json.dumps(value) + "\r\n\n" for value in objects).encode()
    path = put(tmp_path_factory.mktemp("lines"), gzip.compress(raw) if pack else raw)
    assert list(read_json_lines(path)) == [(f"{path}:{2 * number + 1}", value) for number, value in enumerate(objects)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1}\n{"a": ', ":2: not valid JSON (it ends early)"),
        ('{"a": 1}\n\n{a}\n', ":3: not valid JSON at character 2: 'a}'"),
        ('{"a": 1} 2\n', ":1: not valid JSON at character 10: '2'"),
        ("[1]\n", ":1: must be one JSON object, but is [1]"),
        ('{"a": 1, "a": 1}', ":1: not valid JSON (the key 'a' comes twice)"),
        ('{"a": "\\ud800"}', ":1: holds half of a surrogate pair, '\\ud800'"),
        ('{"a": ' + "[" * 200_000, ":1: not valid JSON (nested too deeply)"),
        (b'{\n  "a": 1\n}', ":1: not valid JSON (it ends early; JSON Lines have one whole object per line)"),
        (b'{"a": 1}\n{"b": "\xe9"}', ":2: not UTF-8 (byte 0xe9); save it as UTF-8"),
        (gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-4], ": the gzip file ends early"),
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
    with pytest.raises(DataError, match=r"^standard input:3: not UTF-8 \(byte 0xff\); save it as UTF-8$"):
        read_text("-")


def test_no_such_file(tmp_path: Path) -> None:
    for path, found in ((tmp_path, "is a folder, not a file"), (tmp_path / "none", "file not found")):
        for read in (read_text, lambda path: list(read_json_lines(path))):
            with pytest.raises(DataError) as error:
                read(path)
            assert message(error, path) == f": {found}"


def test_written_text_is_there_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.txt"

    def fails_in_the_middle() -> Iterator[str]:
        yield "half"
        raise KeyError

    with pytest.raises(KeyError):
        write_file(path, fails_in_the_middle())
    assert list(path.parent.iterdir()) == []
    write_file(path, ["old", "\n"])
    with pytest.raises(KeyError):
        write_file(path, fails_in_the_middle())
    assert path.read_bytes() == b"old\n"
    assert list(path.parent.iterdir()) == [path]


def test_gzip_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_file(tmp_path / name, "Gleiches für alle\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert read_text(tmp_path / "a.gz") == "Gleiches für alle\n"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    put(tmp_path, "", "file")
    for path, expected in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "x", "a part of the path is a file, not a folder"),
    ):
        with pytest.raises(TrainingError) as error:
            write_file(path, "text")
        assert str(error.value) == f"{path}: cannot be saved: {expected}; what was saved before is kept"


def test_links_and_devices_stay(tmp_path: Path) -> None:
    target, link = put(tmp_path, "old", "target"), tmp_path / "link"
    link.symlink_to(target)
    for path in (link, Path("/dev/null")):
        write_file(path, "new")
    assert target.read_text() == "new"
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    for place in (tmp_path / "run", tmp_path / "a.jsonl"):
        with (
            claimed(place),
            pytest.raises(ConfigError, match=f"^{place}: another process is writing there; "),
            claimed(place),
        ):
            pass
        with claimed(place):
            pass
    assert (tmp_path / "run").is_dir()
