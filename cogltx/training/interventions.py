"""Interventions (paper §3.3, algorithm 1): remove a block from z, watch the loss, and so learn which blocks matter.

    loss(z − z_i) − loss(z) > raise_threshold   block i becomes relevant
    loss(z − z_i) − loss(z) < lower_threshold   block i becomes irrelevant
    between the two                             nothing changes

Dropout is off and no gradient is kept; all removals of a batch go through the reasoner in few large forwards. A removed
block is really gone: the window is laid out anew without it.
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
class Removal:
    """A window without one of its blocks.

    Attributes:
        item: which of the windows it was taken from.
        block: index of the block that is gone.
        window: what is left.
        target: what the reasoner should say of it; None where it no longer can, as the answer is gone.
    """

    item: int
    block: int
    window: Window
    target: Any | None


@dataclass(frozen=True)
class Effect:
    """What the removal of a block does to the loss of a window.

    Attributes:
        item: which window.
        block: which block.
        rise: loss(z − z_i) − loss(z), in nats; infinite where the answer is gone.
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
) -> list[Removal]:
    """All removals of a batch, or as many, drawn at random, as a budget allows.

    Args:
        reasoner: says what it should make of a window.
        examples: of the windows.
        items: the windows that the reasoner was trained on.
        budget: tokens that the removals' windows may hold together, for each token of the windows themselves.
        rng: of the draw.
    """
    shown = [item.window.blocks for item in items]
    pairs = [(item, block) for item, own in enumerate(shown) for block in own if len(own) > 1]
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
        window = before.layout.window(other for other in shown[item] if other != block)
        wanted = reasoner.target(examples[item], before.layout.blocks, window)
        gone = wanted is not None and reasoner.is_negative(wanted) and not reasoner.is_negative(before.target)
        made.append(Removal(item, block, window, None if gone else wanted))
    return made


def effects(
    reasoner: Reasoner[Any],
    items: Sequence[ReasonerTarget],
    removed: Sequence[Removal],
    runner: BatchRunner,
) -> list[Effect]:
    """What each removal does to the loss."""
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
