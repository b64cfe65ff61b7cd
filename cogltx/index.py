"""The shortlist, the blocks of a document that the judge scores, and the index, a file that makes it cheap.

A retriever ranks blocks by BM25 and by the cosine of sentence vectors. Neither blocks nor vectors depend on the
question: they are computed once per document, and an index keeps them.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from jaxtyping import Float, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cogltx.blocks import Blocks
from cogltx.document import Document
from cogltx.errors import ConfigError, DataError
from cogltx.files import fingerprint, write_file
from cogltx.judges import Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge

RetrieverName: TypeAlias = Literal["bm25", "embedding", "both"]


_FORMAT = "1"
_ARRAYS = ("starts", "cuts", "token_ids", "token_starts", "token_ends", "heading_of")


class Retriever:
    """Proposes blocks to the judge: the best by BM25, by sentence vectors, or by both in turn."""

    def __init__(self, name: RetrieverName = "both") -> None:
        self.bm25, self.embedding = BM25Judge(), EmbeddingJudge()
        self._rankings: list[BM25Judge | EmbeddingJudge] = []
        self._rankings += [self.bm25] if name != "embedding" else []
        self._rankings += [self.embedding] if name != "bm25" else []

    def index(self, blocks: Blocks) -> "Index":
        """Compute what does not depend on a question."""
        return Index(blocks, self.embedding.vectors(blocks))

    def shortlist(self, memory: Memory, count: int) -> tuple[int, ...]:
        """Select blocks for the query together with the blocks in z, in document order.

        Args:
            memory: the query and the state of z, whose blocks are not proposed again.
            count: number of blocks.

        Raises:
            ConfigError: there is no query.
        """
        if memory.query is None:
            raise ConfigError("memrecall.shortlist needs a question; set it to null for tasks without one")
        candidates = np.array(memory.candidates)
        if len(candidates) <= count:
            return tuple(candidates.tolist())
        text = " ".join([memory.query.text, *map(memory.blocks.text_with_heading, memory.kept)])
        places = [_places(ranking.text_scores(text, memory.blocks)[candidates]) for ranking in self._rankings]
        best = np.argsort(np.min(places, axis=0), kind="stable")[:count]
        return tuple(np.sort(candidates[best]).tolist())


def _places(scores: Float[np.ndarray, " candidates"]) -> Float[np.ndarray, " candidates"]:
    """The place of each candidate in a ranking, from 0; equal scores in document order.

    >>> _places(np.array([0.1, 0.9, 0.1])).tolist()
    [1.0, 0.0, 2.0]
    """
    places = np.empty(len(scores))
    places[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return places


@dataclass(frozen=True)
class Index:
    """A document that is split, and the vectors of its blocks."""

    blocks: Blocks
    vectors: Float[np.ndarray, "blocks width"]

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
            "cogltx_index": _FORMAT, "id": blocks.document.id, "splitter": _splitter_key(tokenizer, max_block_tokens)
        }  # fmt: skip
        write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))

    @classmethod
    def load(cls, path: Path, tokenizer: Any, max_block_tokens: int) -> Self:
        """Read an index, with its document.

        Raises:
            DataError: the file is missing, cut off, not an index, of another format, or of a model with other blocks.
        """
        if not path.is_file():
            raise DataError(f"{path}: file not found")
        try:
            with safe_open(path, framework="np") as file:
                about, arrays = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise DataError(f"{path}: not a complete index ({str(error).splitlines()[0]})") from error
        if about.get("cogltx_index") != _FORMAT:
            reason = f"an index of format {about['cogltx_index']}" if "cogltx_index" in about else "not an index"
            raise DataError(f"{path}: {reason}; make one with cogltx index")
        if about.get("splitter") != _splitter_key(tokenizer, max_block_tokens):
            raise DataError(
                f"{path}: made for a model with another tokenizer or max_block_tokens; make one for this model"
            )
        try:
            text, headings = (arrays[name].tobytes().decode() for name in ("text", "headings"))
            heading_ids = np.split(arrays["heading_ids"], np.cumsum(arrays["heading_sizes"])[:-1])
            blocks = Blocks(
                Document(text, about["id"]),
                **{name: arrays[name] for name in _ARRAYS},
                headings=dict(zip(json.loads(headings), heading_ids, strict=True)),
            )
            return cls(blocks, arrays["vectors"])
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: not a complete index ({error})") from error


def _splitter_key(tokenizer: Any, max_block_tokens: int) -> str:
    """Fingerprint of what the blocks of a text depend on."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    own = {**state, "truncation": None, "padding": None}  # these two are of the last call
    return fingerprint([own, max_block_tokens])
