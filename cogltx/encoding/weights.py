"""Weights as safetensors files; nothing is ever unpickled."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from cogltx.errors import ModelError

_PICKLES = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # their first bytes


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of a safetensors file."""
    content: bytes = save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})
    return content


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ModelError: the file is missing, cut off, or of another format.
    """
    if not path.is_file():
        raise ModelError(f"{path}: file not found")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            start = file.read(2)
        if start in _PICKLES:
            raise ModelError(f"{path}: is a pickle, which is never loaded; save it as safetensors") from error
        raise ModelError(f"{path}: is not a complete safetensors file ({str(error).splitlines()[0]})") from error
    return tensors


def load_weights(model: nn.Module, path: Path, *, optional: tuple[str, ...] = ()) -> None:
    """Load all weights of a model.

    Args:
        model: the model to fill.
        path: a safetensors file.
        optional: prefixes of names that the model or the file may lack; the model keeps weights that the file lacks.

    Raises:
        ModelError: the file is missing, not safetensors, or of another model.
    """
    current, read = model.state_dict(), load_tensors(path)
    state = {name: value for name, value in read.items() if name in current or not name.startswith(optional)}
    state |= {name: value for name, value in current.items() if name not in state and name.startswith(optional)}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()[:200]
        raise ModelError(f"{path}: not the weights of this {type(model).__name__}: {reason}") from error
