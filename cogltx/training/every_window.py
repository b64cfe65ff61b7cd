"""Training windows where every part of a document has an answer of its own (tagging): all of them, or some a turn.

Knows windows and targets; not what the targets are.
"""

from collections.abc import Iterable

import numpy as np

from cogltx.baselines.sliding_window import SlidingWindow
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.encoding.layout import Window
from cogltx.pipeline import CogLTX, WindowReader
from cogltx.training.sampling import ReasonerTarget


def block_windows(
    reader: CogLTX, example: Example, rng: np.random.Generator, count: int | None
) -> list[ReasonerTarget]:  # fmt: skip
    """The windows of a document whose every block is the query in turn; as at inference, MemRecall chooses the rest.

    Args:
        reader: holds reasoner and judge.
        example: whose windows are wanted.
        rng: of this example and epoch.
        count: blocks drawn at random; None for all.
    """
    blocks = reader.split(example.document)
    windows = reader.windows_by_block([(blocks, block) for block in _drawn(len(blocks), rng, count)])
    return _known(reader, example, blocks, windows)


def baseline_windows(
    reader: SlidingWindow, example: Example, rng: np.random.Generator, count: int | None
) -> list[ReasonerTarget]:  # fmt: skip
    """The windows of a baseline; arguments as of ``block_windows``."""
    blocks = reader.split(example.document)
    windows = reader.windows(example.query, blocks)
    return _known(reader, example, blocks, [windows[place] for place in _drawn(len(windows), rng, count)])


def _drawn(total: int, rng: np.random.Generator, count: int | None) -> list[int]:
    return sorted(rng.permutation(total)[:count].tolist())


def _known(reader: WindowReader, example: Example, blocks: Blocks, windows: Iterable[Window]) -> list[ReasonerTarget]:
    """The windows with a known target."""
    targets = ((window, reader.reasoner.target(example, blocks, window)) for window in windows)
    return [ReasonerTarget(window, target) for window, target in targets if target is not None]
