"""Selection of the reasoner's input after MemRecall: the blocks of z, or the passages around the best of them."""

from cogltx.reading.pairs import PairModel
from cogltx.reading.passages import Passages, passages_of, read_blocks

__all__ = ["PairModel", "Passages", "passages_of", "read_blocks"]
