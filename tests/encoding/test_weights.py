"""Tensors are saved and loaded exactly; nothing is ever unpickled."""

import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cogltx._files import new_folder, write_file
from cogltx.encoding._weights import load_tensors, split_shared, to_safetensors
from cogltx.errors import ModelError


def test_tensors_are_loaded_exactly(tmp_path: Path) -> None:
    shared = torch.randn(4, 3)
    tensors = {"a": shared, "b": shared, "c": shared.T, "step": torch.tensor(3.0), "bytes": torch.get_rng_state()}
    (tmp_path / "a.safetensors").write_bytes(to_safetensors(tensors))
    found = load_tensors(tmp_path / "a.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype
    (tmp_path / "none.safetensors").write_bytes(to_safetensors({}))
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
    with pytest.raises(ModelError, match=r"judge\.safetensors: is a pickle, which is never loaded"):
        load_tensors(path)
    assert not Path("/tmp/cogltx-was-unpickled").exists()


def test_tensors_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ModelError, match=r"a\.safetensors: file not found"):
        load_tensors(path)
    path.write_bytes(to_safetensors({"a": torch.ones(100)}))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ModelError, match=r"a\.safetensors: is not a complete safetensors file"):
        load_tensors(path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"a\.safetensors: is not a complete safetensors file"):
        load_tensors(path)


def test_weights_have_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with new_folder(tmp_path / "model") as folder:
            (folder / "a.safetensors").write_bytes(to_safetensors({"a": torch.ones(2)}))
        write_file(tmp_path / "b.safetensors", to_safetensors({"b": torch.ones(2)}))
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755
    for name in ("model/a.safetensors", "b.safetensors"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o644


def test_weights_that_are_stored_alike_are_stored_once(tmp_path: Path) -> None:
    matrix, moved = torch.randn(100, 50), torch.randn(100, 50)
    (tmp_path / "a.safetensors").write_bytes(to_safetensors({"words": matrix}, int8=True))
    stored_before = load_tensors(tmp_path / "a.safetensors")["words"]
    assert not torch.equal(matrix, stored_before)
    judge = {"words": matrix, "matrix": matrix, "bias": torch.ones(50)}
    retriever = {
        "words": stored_before,
        "matrix": torch.where(matrix == matrix[5, 5], -matrix, matrix),
        "bias": moved[0],
    }
    split = split_shared({"judge": judge, "retriever": retriever})
    assert {part: list(state) for part, state in split.items()} == {
        "judge": ["matrix", "bias"],
        "retriever": ["matrix", "bias"],
        "shared": ["words"],
    }
