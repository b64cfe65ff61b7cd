"""The judge of another model: it scores blocks with that model's tokenizer, windows and shortlist."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int

from cogltx.blocks import Blocks, split
from cogltx.document import Query, Segment
from cogltx.encoding.layout import Layout, pack
from cogltx.errors import ConfigError
from cogltx.judges import Judge, Memory
from cogltx.memrecall import MemRecall
from cogltx.retrieval import Index, splitter_key


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
        """The pieces of some blocks, in order; a block without a token of the other model has none."""
        return np.flatnonzero(np.isin(self.block_of, blocks)).tolist()


class ModelJudge(Judge):
    """Scores blocks with the judge of another model. A block is as relevant as its most relevant piece.

    If that model has a shortlist, its retriever proposes the blocks that are scored.

    Args:
        memrecall: judge, retriever, tokenizer and windows of the other model.
    """

    def __init__(self, memrecall: MemRecall) -> None:
        self.memrecall = memrecall
        self._pieces: WeakKeyDictionary[Blocks, _Pieces] = WeakKeyDictionary()

    @property
    def probabilities(self) -> bool:  # type: ignore[override]
        """Whether fine scores are probabilities of relevance."""
        return self.memrecall.judge.probabilities

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``; NaN also for blocks outside the shortlist."""
        coarse = self.memrecall.retrieve(list(map(self._translated, memories)))
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
        for number, run, scores in zip(owners, runs, self.memrecall.judge.rehearse(runs), strict=True):
            fine[number][list(run.kept)] = scores
        return [
            np.nan_to_num(self._block_scores(memory, scores)[list(memory.kept)])
            for memory, scores in zip(memories, fine, strict=True)
        ]

    def index(self, layout: Layout) -> Index:
        """See ``Retriever.index``; the vectors are those of the pieces."""
        pieces = self._pieces_of(layout.blocks).pieces
        index = self.memrecall.retriever.index(self.memrecall.form.layout(None, pieces))
        return replace(index, blocks=layout.blocks, encoder=self.encoder)

    @property
    def encoder(self) -> str:
        """See ``Retriever.encoder``; with a fingerprint of what the pieces depend on."""
        recall = self.memrecall
        return f"pieces of {splitter_key(recall.tokenizer, recall.max_block_tokens)}: {recall.retriever.encoder}"

    def keep(self, index: Index) -> None:
        """See ``Retriever.keep``."""
        self.memrecall.retriever.keep(replace(index, blocks=self._pieces_of(index.blocks).pieces))

    def _translated(self, memory: Memory) -> Memory:
        """The same state for the other model; blocks of z are left out until any other piece fits."""
        layout, pieces = self._layout(memory), self._pieces_of(memory.blocks)
        kept, room = list[int](), layout.room - layout.blocks.max_size
        for piece in pieces.of(memory.kept):
            room -= int(layout.blocks.sizes[piece])
            if room >= 0:
                kept.append(piece)
        return Memory(layout, tuple(kept), tuple(pieces.of(memory.candidates)))

    def _layout(self, memory: Memory) -> Layout:
        if memory.query is None and self.memrecall.config.shortlist is not None:
            raise ConfigError("give a question, which the judge of this model needs")
        query = None if memory.query is None else Query(memory.query.text)
        return self.memrecall.form.layout(query, self._pieces_of(memory.blocks).pieces)

    def _pieces_of(self, blocks: Blocks) -> _Pieces:
        if blocks not in self._pieces:
            segments = tuple(Segment(block.start, block.end, block.heading) for block in blocks)
            document, recall = replace(blocks.document, segments=segments), self.memrecall
            pieces = split(document, recall.tokenizer, max_tokens=recall.max_block_tokens)
            block_of = np.searchsorted(blocks.starts, pieces.starts, side="right") - 1
            self._pieces[blocks] = _Pieces(pieces, block_of)
        return self._pieces[blocks]

    def _block_scores(self, memory: Memory, scores: Float[np.ndarray, " pieces"]) -> Float[np.ndarray, " blocks"]:
        """The best score of a piece of each block; NaN where none is scored."""
        best = np.full(len(memory.blocks), np.nan)
        np.fmax.at(best, self._pieces_of(memory.blocks).block_of, scores)
        return best
