"""The index: a file with what does not depend on a question, a document's blocks and a retriever's vectors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cogltx._files import fingerprint, write_file
from cogltx.blocks import Blocks
from cogltx.document import Document
from cogltx.errors import DataError

_FORMAT = "2"
_ARRAYS = ("starts", "cuts", "token_ids", "token_starts", "token_ends", "heading_of")


@dataclass(frozen=True)
class Index:
    """A document that is split, and the vectors of its blocks.

    Attributes:
        encoder: fingerprint of what made the vectors; empty if there are none.
    """

    blocks: Blocks
    vectors: Float[np.ndarray, "blocks width"]
    encoder: str

    def save(self, path: Path, tokenizer: Any, max_block_tokens: int) -> None:
        """Write document, blocks and vectors as one safetensors file; the write is atomic.

        Raises:
            TrainingError: the file cannot be written.
        """
        blocks = self.blocks
        texts = {"document": blocks.document.to_dict(), "headings": list(blocks.headings)}
        arrays: dict[str, Shaped[np.ndarray, ...]] = {name: getattr(blocks, name) for name in _ARRAYS}
        arrays |= {name: np.frombuffer(json.dumps(value).encode(), dtype=np.uint8) for name, value in texts.items()}
        arrays["heading_ids"] = np.concatenate(list(blocks.headings.values()))
        arrays["heading_sizes"] = np.array([len(ids) for ids in blocks.headings.values()])
        arrays["vectors"] = self.vectors
        about = {
            "cogltx_index": _FORMAT,
            "splitter": splitter_key(tokenizer, max_block_tokens), "encoder": self.encoder,
        }  # fmt: skip
        write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))

    @classmethod
    def load(cls, path: Path, tokenizer: Any, max_block_tokens: int, encoder: str) -> Self:
        """Read an index, with its document.

        Raises:
            DataError: the file is missing, cut off, not an index, of another format, or of a model with other blocks or
                another retriever.
        """
        if not path.is_file():
            raise DataError(f"{path}: {'is a folder, not a file' if path.is_dir() else 'file not found'}")
        try:
            with safe_open(path, framework="np") as file:
                about, arrays = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{path}: not a complete index ({str(error).splitlines()[0]}); name another file"
            ) from error
        if about.get("cogltx_index") not in ("1", _FORMAT):
            reason = f"an index of format {about['cogltx_index']}" if "cogltx_index" in about else "not an index"
            raise DataError(f"{path}: {reason}; name another file")
        if about.get("splitter") != splitter_key(tokenizer, max_block_tokens):
            raise DataError(
                f"{path}: made for a model with another tokenizer or max_block_tokens; delete it, or name another file"
            )
        made_by = about.get("encoder")
        if encoder and made_by not in (encoder, encoder.partition(",")[0]):  # the first have no size of windows
            raise DataError(f"{path}: made for a model with another retriever; delete it, or name another file")
        try:
            values = json.loads(arrays["document"].tobytes()) if "document" in arrays else _of_format_1(about, arrays)
            headings = json.loads(arrays["headings"].tobytes())
            heading_ids = np.split(arrays["heading_ids"], np.cumsum(arrays["heading_sizes"])[:-1])
            blocks = Blocks(
                Document.from_dict(values),
                **{name: arrays[name] for name in _ARRAYS},
                headings=dict(zip(headings, heading_ids, strict=True)),
            )
            return cls(blocks, arrays["vectors"], encoder)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a complete index ({error}); name another file") from error


def _of_format_1(about: Mapping[str, str], arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> dict[str, Any]:
    """The document of an index that has no sections and no printed lines."""
    places = {name: json.loads(about[name]) for name in ("parts", "pages")}
    return {
        "text": arrays["text"].tobytes().decode(),
        "id": about["id"],
        "segments": (),
        "lines": (),
        "notes": (),
        **places,
    }


def splitter_key(tokenizer: Any, max_block_tokens: int) -> str:
    """Fingerprint of what the blocks of a text depend on."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    settings = {**state, "truncation": None, "padding": None}  # these two are of the last call
    return fingerprint([settings, max_block_tokens])
