"""The judge of another model: it scores blocks with that model's tokenizer, windows and shortlist."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int

from cogltx.blocks import Blocks, split
from cogltx.document import Query, Segment
from cogltx.encoding.layout import Layout, WindowFormat, pack
from cogltx.index import splitter_key
from cogltx.judges.base import Judge, Memory


@dataclass(frozen=True)
class _Pieces:
    """The blocks of a document as another model sees them: one piece each, or several of a block that is too long.

    Attributes:
        pieces: the pieces.
        block_of: the block of each piece, shape [pieces].
    """

    pieces: Blocks
    block_of: Int[np.ndarray, " pieces"]

    def of(self, blocks: Sequence[int]) -> list[int]:
        """Return the pieces of some blocks, in order; a block without a token of the other model has none."""
        return np.flatnonzero(np.isin(self.block_of, blocks)).tolist()


class ModelJudge(Judge):
    """Scores blocks with the judge of another model. A block is as relevant as its most relevant piece.

    Args:
        judge: the judge of the other model, with its shortlist.
        form: the windows of the other model.
        max_block_tokens: the size of its blocks.
    """

    def __init__(self, judge: Judge, form: WindowFormat, max_block_tokens: int) -> None:
        self.judge, self.probabilities = judge, judge.probabilities
        self.form, self.max_block_tokens = form, max_block_tokens
        self._pieces: WeakKeyDictionary[Blocks, _Pieces] = WeakKeyDictionary()

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the other model."""
        return self.form.tokenizer

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``; NaN also for blocks outside the other model's shortlist."""
        coarse = self.judge.retrieve(list(map(self._translated, memories)))
        return [self._block_scores(memory, scores) for memory, scores in zip(memories, coarse, strict=True)]

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``; in several windows if z is too long for one of the other model."""
        owners, runs = list[int](), list[Memory]()
        for number, memory in enumerate(memories):
            layout, kept = self._layout(memory), self._pieces_of(memory.blocks).of(memory.kept)
            for places in pack(layout.blocks.sizes[kept].tolist(), layout.room):
                owners.append(number)
                runs.append(Memory(layout, tuple(kept[place] for place in places)))
        fine = [np.full(len(self._pieces_of(memory.blocks).pieces), np.nan) for memory in memories]
        for number, run, scores in zip(owners, runs, self.judge.rehearse(runs), strict=True):
            fine[number][list(run.kept)] = scores
        return [
            np.nan_to_num(self._block_scores(memory, scores)[list(memory.kept)])
            for memory, scores in zip(memories, fine, strict=True)
        ]

    @property
    def index_key(self) -> str:
        """See ``Judge.index_key``; with a fingerprint of what the pieces depend on."""
        key = self.judge.index_key
        return key and f"pieces of {splitter_key(self.tokenizer, self.max_block_tokens)}: {key}"

    def vectors(self, layout: Layout) -> Float[np.ndarray, "pieces width"]:
        """See ``Judge.vectors``; one per piece."""
        return self.judge.vectors(self.form.layout(None, self._pieces_of(layout.blocks).pieces))

    def use_vectors(self, blocks: Blocks, vectors: Float[np.ndarray, "pieces width"]) -> None:
        """See ``Judge.use_vectors``."""
        self.judge.use_vectors(self._pieces_of(blocks).pieces, vectors)

    def _translated(self, memory: Memory) -> Memory:
        """Translate z and candidates for the other model; blocks of z are left out until any other piece fits."""
        layout, pieces = self._layout(memory), self._pieces_of(memory.blocks)
        kept, room = list[int](), layout.room - layout.blocks.max_size
        for piece in pieces.of(memory.kept):
            room -= int(layout.blocks.sizes[piece])
            if room >= 0:
                kept.append(piece)
        return Memory(layout, tuple(kept), shortlist=tuple(pieces.of(memory.candidates)))

    def _layout(self, memory: Memory) -> Layout:
        query = None if memory.query is None else Query(memory.query.text)
        return self.form.layout(query, self._pieces_of(memory.blocks).pieces)

    def _pieces_of(self, blocks: Blocks) -> _Pieces:
        if blocks not in self._pieces:
            segments = tuple(Segment(block.start, block.end, block.heading) for block in blocks)
            document = replace(blocks.document, segments=segments)
            pieces = split(document, self.tokenizer, max_tokens=self.max_block_tokens)
            block_of = np.searchsorted(blocks.starts, pieces.starts, side="right") - 1
            self._pieces[blocks] = _Pieces(pieces, block_of)
        return self._pieces[blocks]

    def _block_scores(self, memory: Memory, scores: Float[np.ndarray, " pieces"]) -> Float[np.ndarray, " blocks"]:
        """Return the best score of a piece of each block; NaN where none is scored."""
        best = np.full(len(memory.blocks), np.nan)
        np.fmax.at(best, self._pieces_of(memory.blocks).block_of, scores)
        return best
