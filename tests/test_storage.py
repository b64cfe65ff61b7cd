"""Every write is whole or not at all, and nothing is ever unpickled."""

import errno
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from cogltx.errors import ConfigError, ModelError, TrainingError
from cogltx.storage import (
    check_settings,
    digest,
    load_tensors,
    new_folder,
    read_json,
    read_object,
    save_tensors,
    write_json,
    write_text,
)

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


@pytest.mark.parametrize("before", [False, True])
def test_a_folder_that_fails_leaves_no_trace(tmp_path: Path, before: bool) -> None:
    target = tmp_path / "model"
    if before:
        target.mkdir()
        (target / "old").write_text("old")
    with pytest.raises(TrainingError, match=rf"{target}: expected to save, got: .*No space left on device; what was "):
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


@pytest.mark.parametrize("name", ["thesis.txt", ".git/config"])
def test_nothing_but_a_model_is_replaced(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "model" / name
    kept.parent.mkdir(parents=True)
    kept.write_text("years of work")
    wording = rf"model: expected a new folder or a model's, got one that holds '{name.split('/')[0]}' too$"
    with pytest.raises(TrainingError, match=wording):
        with new_folder(tmp_path / "model") as folder:
            (folder / "new").write_text("new")
    assert files(tmp_path) == {f"model/{name}": "years of work"}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(TrainingError, match="model: expected a folder to save in, got a file$"):
        with new_folder(tmp_path / "model"):
            pass
    assert files(tmp_path) == {"model": "a file"}


def test_a_digest_tells_models_apart(tmp_path: Path) -> None:
    def model(name: str, *, config: str = "{}", weights: float = 0.0) -> str:
        with new_folder(tmp_path / name) as folder:
            (folder / "config.json").write_text(config)
            save_tensors(folder / "reasoner.safetensors", {"a": torch.full((3,), weights)})
        return digest(tmp_path / name)

    assert model("a") == model("b") == model("a")
    assert len({model("a"), model("b", config="[]"), model("c", weights=1.0)}) == 3


@pytest.mark.parametrize("text", ["[]", "3", "null"])
def test_a_json_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ModelError, match=r"run\.json: expected a JSON object, got (list|int|NoneType)$"):
        read_object(tmp_path / "run.json")


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
    write_text(path, "old")

    def replace(source: str, target: str) -> None:
        raise FULL

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(TrainingError, match=rf"{path}: expected to save, got: .*No space left"):
        write_text(path, "new")
    assert files(tmp_path) == {"a.txt": "old"}


@pytest.mark.parametrize(
    ("content", "wording"),
    [
        (None, r"a\.json: expected a file, found none"),
        (b'{"a": 1,\n "b": [1, 2', r"a\.json:2: expected JSON, got: Expecting ',' delimiter"),
        (b"", r"a\.json:1: expected JSON, got: Expecting value"),
        (b'{"a": "\xff"}', r"a\.json: expected a JSON file, got: 'utf-8' codec"),
    ],
)
def test_json_that_cannot_be_read(tmp_path: Path, content: bytes | None, wording: str) -> None:
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ModelError, match=wording):
        read_json(tmp_path / "a.json")


def test_a_folder_where_json_is_expected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a JSON file, got"):
        read_json(tmp_path)


@pytest.mark.parametrize(
    ("now", "then", "wording"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, r"expected a\.b 2, with which it began, got 1; choose another folder"),
        ({"a": None}, {"a": {"b": 2}}, r"expected a\.b 2, with which it began, got None"),
        ({"a": {"b": 2}}, {"a": None}, r"expected a\.b None, with which it began, got 2"),
        ({"a": [1]}, {"a": [1, 2]}, r"expected a \[1, 2\], with which it began, got \[1\]"),
    ],
)
def test_other_settings(now: dict[str, Any], then: dict[str, Any], wording: str) -> None:
    check_settings(Path("place"), now, now)
    with pytest.raises(ConfigError, match=f"^place: {wording}"):
        check_settings(Path("place"), now, then)


def test_tensors_come_back(tmp_path: Path) -> None:
    shared = torch.randn(4, 3)
    tensors = {"a": shared, "b": shared, "c": shared.T, "step": torch.tensor(3.0), "bytes": torch.get_rng_state()}
    save_tensors(tmp_path / "a.safetensors", tensors)
    found = load_tensors(tmp_path / "a.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype
    save_tensors(tmp_path / "none.safetensors", {})
    assert load_tensors(tmp_path / "none.safetensors") == {}


@pytest.mark.parametrize("length", [640, 896, 1152, 1408, 0x4B50])
def test_safetensors_that_begin_like_a_pickle(tmp_path: Path, length: int) -> None:
    """The file begins with the length of its header, whose bytes may be those that begin a pickle or a zip."""
    path = tmp_path / "a.safetensors"
    save_file({"x": torch.ones(2)}, path, metadata={"pad": ""})
    size = struct.unpack("<Q", path.read_bytes()[:8])[0]
    save_file({"x": torch.ones(2)}, path, metadata={"pad": "p" * (length - size)})
    assert path.read_bytes()[:2] == struct.pack("<Q", length)[:2]
    assert torch.equal(load_tensors(path)["x"], torch.ones(2))


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("/tmp/cogltx-was-unpickled",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, "torch", "torch, old"])
def test_a_pickle_is_never_loaded(tmp_path: Path, protocol: int | str) -> None:
    path = tmp_path / "judge.safetensors"
    if isinstance(protocol, int):
        path.write_bytes(pickle.dumps(Bomb(), protocol))
    else:
        torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=protocol == "torch")
    with pytest.raises(
        ModelError, match=r"judge\.safetensors: expected safetensors, got a pickle, which is never loaded"
    ):
        load_tensors(path)
    assert not Path("/tmp/cogltx-was-unpickled").exists()


def test_tensors_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ModelError, match=r"a\.safetensors: expected a safetensors file, found none"):
        load_tensors(path)
    save_tensors(path, {"a": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ModelError, match=r"a\.safetensors: expected safetensors, got: "):
        load_tensors(path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"a\.safetensors: expected safetensors, got: "):
        load_tensors(path)
