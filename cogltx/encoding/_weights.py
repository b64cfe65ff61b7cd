"""Weights as safetensors files; nothing is ever unpickled."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from cogltx.errors import ModelError

SHARED = "shared"
"""Name of the file with the tensors that several models of a folder share."""

_FACTORS = ".int8_factors"
_LARGE = 4096  # numbers in a matrix that is worth storing as integers
_PICKLES = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # their first bytes


def to_safetensors(tensors: Mapping[str, Tensor], *, int8: bool = False) -> bytes:
    """Return the content of a safetensors file.

    With ``int8``, each row of a large matrix is stored as integers in [-127, 127] and a factor: a quarter of the size.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu()
        if int8 and _is_large(tensor):
            stored[name], stored[f"{name}{_FACTORS}"] = _integers(tensor)
        else:
            stored[name] = tensor.clone().contiguous()
    content: bytes = save(stored)
    return content


def _is_large(tensor: Tensor) -> bool:
    return tensor.ndim == 2 and tensor.is_floating_point() and tensor.numel() >= _LARGE


def _integers(tensor: Tensor) -> tuple[Tensor, Tensor]:
    factors = tensor.abs().amax(dim=1).float().clamp_min(1e-12) / 127
    return (tensor / factors[:, None]).round().to(torch.int8), factors


def _stored_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same as 8-bit integers, such as weights before and after they were stored."""
    if one.shape != other.shape or not _is_large(one):
        return torch.equal(one, other)
    (numbers, factors), (other_numbers, other_factors) = _integers(one), _integers(other)
    return torch.equal(numbers, other_numbers) and torch.allclose(factors, other_factors, rtol=1e-6)


def split_shared(states: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    """Take the tensors that are stored alike in several models out of them, into ``shared``; tensors by file name.

    >>> one, two = torch.ones(2), torch.zeros(2)
    >>> split = split_shared({"judge": {"x": one, "y": one}, "reasoner": {"x": one, "y": two}})
    >>> {name: list(state) for name, state in split.items()}
    {'judge': ['y'], 'reasoner': ['y'], 'shared': ['x']}
    """
    shared: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for state in states.values() for name in state):
        owners = [state[name] for state in states.values() if name in state]
        if len(owners) > 1 and all(_stored_alike(owners[0].cpu(), other.cpu()) for other in owners[1:]):
            shared[name] = owners[0]
    rest = {
        part: {name: tensor for name, tensor in state.items() if name not in shared} for part, state in states.items()
    }
    return {**rest, SHARED: shared}


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ModelError: the file is missing, cut off, or of another format.
    """
    if not path.is_file():
        raise ModelError(f"{path}: file not found")
    try:
        stored: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            start = file.read(2)
        if start in _PICKLES:
            raise ModelError(f"{path}: is a pickle, which is never loaded; save it as safetensors") from error
        raise ModelError(f"{path}: is not a complete safetensors file ({str(error).splitlines()[0]})") from error
    factors = {name.removesuffix(_FACTORS): tensor for name, tensor in stored.items() if name.endswith(_FACTORS)}
    tensors = {name: tensor for name, tensor in stored.items() if name.removesuffix(_FACTORS) not in factors}
    return tensors | {name: stored[name].float() * factor[:, None] for name, factor in factors.items()}


def shared_tensors(path: Path) -> dict[str, Tensor]:
    """Read what the parts of a model share, beside the file of one of them; nothing where each has its own."""
    shared = path.with_stem(SHARED)
    return load_tensors(shared) if shared.exists() else {}


def load_weights(model: nn.Module, path: Path, *, optional: tuple[str, ...] = ()) -> None:
    """Load all weights of a model, those that it shares with others from ``shared.safetensors`` in the same folder.

    Args:
        model: the model to fill.
        path: a safetensors file.
        optional: prefixes of names that the model or the file may lack; the model keeps weights that the file lacks.

    Raises:
        ModelError: the file is missing, not safetensors, or of another model.
    """
    current, read = model.state_dict(), load_tensors(path)
    read = {name: tensor for name, tensor in shared_tensors(path).items() if name in current} | read
    state = {name: value for name, value in read.items() if name in current or not name.startswith(optional)}
    state |= {name: value for name, value in current.items() if name not in state and name.startswith(optional)}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()[:200]
        raise ModelError(f"{path}: not the weights of this {type(model).__name__}: {reason}") from error
