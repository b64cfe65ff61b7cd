"""Interventions (CogLTX §3.3, algorithm 1): remove a block from z, measure the loss, and revise its relevance label.

    loss(z − z_i) − loss(z) > raise_threshold   block i becomes relevant
    loss(z − z_i) − loss(z) < lower_threshold   block i becomes irrelevant
    otherwise                                   its label stays

Dropout is off and there are no gradients. All removals of a batch share a few large forward passes. A window without a
block is laid out again, so positions do not reveal the removal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cogltx.document import Example
from cogltx.encoding.encoder import BatchRunner, batches
from cogltx.encoding.layout import Window
from cogltx.reasoners import Reasoner
from cogltx.training.sampling import ReasonerTarget


@dataclass(frozen=True)
class _Removal:
    """A window without one of its blocks.

    Attributes:
        item: index of the original window.
        block: index of the removed block.
        window: the window without it.
        target: training target of the window; None if the removal took the answer away.
    """

    item: int
    block: int
    window: Window
    target: Any | None


@dataclass(frozen=True)
class Effect:
    """Effect of a removal on the loss of a window.

    Attributes:
        item: index of the window.
        block: index of the removed block.
        rise: loss(z − z_i) − loss(z), in nats; infinite if the removal took the answer away.
    """

    item: int
    block: int
    rise: float


def removals(
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    items: Sequence[ReasonerTarget],
    budget: float,
    rng: np.random.Generator,
) -> list[_Removal]:
    """Build the windows without one block each: all, or as many as a budget allows, drawn at random.

    Args:
        reasoner: provides the targets.
        examples: examples of the windows.
        items: windows that the reasoner was trained on.
        budget: maximum number of tokens in all new windows, per token of the original windows.
        rng: generator of the draw.
    """
    blocks_of = [item.window.blocks for item in items]
    pairs = [(item, block) for item, blocks in enumerate(blocks_of) for block in blocks if len(blocks) > 1]
    tokens = budget * sum(len(item.window) for item in items)
    chosen = []
    for place in rng.permutation(len(pairs)).tolist():
        item, block = pairs[place]
        tokens -= len(items[item].window) - int(items[item].layout.blocks.sizes[block])
        if tokens < 0:
            break
        chosen.append(pairs[place])
    made = []
    for item, block in sorted(chosen):
        before = items[item]
        window = before.layout.window(other for other in blocks_of[item] if other != block)
        wanted = reasoner.target(examples[item], before.layout.blocks, window)
        gone = wanted is not None and reasoner.is_negative(wanted) and not reasoner.is_negative(before.target)
        made.append(_Removal(item, block, window, None if gone else wanted))
    return made


def effects(
    reasoner: Reasoner[Any],
    items: Sequence[ReasonerTarget],
    removed: Sequence[_Removal],
    runner: BatchRunner,
) -> list[Effect]:
    """Measure the effect of each removal on the loss."""
    touched = sorted({removal.item for removal in removed})
    solvable = [removal for removal in removed if removal.target is not None]
    windows = [items[item].window for item in touched] + [removal.window for removal in solvable]
    targets = [items[item].target for item in touched] + [removal.target for removal in solvable]
    losses = _losses(reasoner, windows, targets, runner)
    before = dict(zip(touched, losses, strict=False))
    after = iter(losses[len(touched) :])
    return [
        Effect(removal.item, removal.block, math.inf if removal.target is None else next(after) - before[removal.item])
        for removal in removed
    ]


def _losses(
    reasoner: Reasoner[Any],
    windows: Sequence[Window],
    targets: Sequence[Any],
    runner: BatchRunner,
) -> list[float]:
    """The loss of each window, dropout off, without gradients."""
    reasoner.eval()
    found = np.zeros(len(windows))
    with torch.no_grad(), runner.precision.autocast():
        for group in batches(windows, runner.batch_tokens):
            own = [windows[index] for index in group]
            outputs = reasoner(runner.tensors(own))
            losses = reasoner.losses(outputs, own, [targets[index] for index in group])
            found[group] = losses.float().cpu().numpy()
    return [float(loss) for loss in found]
