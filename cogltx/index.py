"""The index: a file with what does not depend on a question, a document's blocks and a retriever's vectors."""

import json
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

_FORMAT = "1"
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
        """Write text, blocks and vectors as one safetensors file; the write is atomic.

        Raises:
            TrainingError: the file cannot be written.
        """
        blocks = self.blocks
        texts = {"text": blocks.document.text, "headings": json.dumps(list(blocks.headings))}
        arrays: dict[str, Shaped[np.ndarray, ...]] = {name: getattr(blocks, name) for name in _ARRAYS}
        arrays |= {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}
        arrays["heading_ids"] = np.concatenate(list(blocks.headings.values()))
        arrays["heading_sizes"] = np.array([len(ids) for ids in blocks.headings.values()])
        arrays["vectors"] = self.vectors
        about = {
            "cogltx_index": _FORMAT, "id": blocks.document.id,
            "parts": json.dumps(blocks.document.parts), "pages": json.dumps(blocks.document.pages),
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
        if about.get("cogltx_index") != _FORMAT:
            reason = f"an index of format {about['cogltx_index']}" if "cogltx_index" in about else "not an index"
            raise DataError(f"{path}: {reason}; name another file")
        if about.get("splitter") != splitter_key(tokenizer, max_block_tokens):
            raise DataError(
                f"{path}: made for a model with another tokenizer or max_block_tokens; delete it, or name another file"
            )
        made_by = about.get("encoder")
        if encoder and made_by not in (encoder, encoder.partition(",")[0]):  # format 1 has no size of windows
            raise DataError(f"{path}: made for a model with another retriever; delete it, or name another file")
        try:
            text, headings = (arrays[name].tobytes().decode() for name in ("text", "headings"))
            heading_ids = np.split(arrays["heading_ids"], np.cumsum(arrays["heading_sizes"])[:-1])
            parts, pages = (tuple(map(tuple, json.loads(about[name]))) for name in ("parts", "pages"))
            blocks = Blocks(
                Document(text, about["id"], parts=parts, pages=pages),
                **{name: arrays[name] for name in _ARRAYS},
                headings=dict(zip(json.loads(headings), heading_ids, strict=True)),
            )
            return cls(blocks, arrays["vectors"], encoder)
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: not a complete index ({error}); name another file") from error


def splitter_key(tokenizer: Any, max_block_tokens: int) -> str:
    """Fingerprint of what the blocks of a text depend on."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    settings = {**state, "truncation": None, "padding": None}  # these two are of the last call
    return fingerprint([settings, max_block_tokens])
