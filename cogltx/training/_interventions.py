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

from cogltx import _processes as processes
from cogltx.document import Example
from cogltx.encoding.encoder import BatchRunner, batches
from cogltx.encoding.layout import Layout, Window
from cogltx.reasoners import Reasoner


@dataclass(frozen=True)
class ReasonerTarget:
    """A reasoner's training window, its query and document, and what the reasoner should predict."""

    layout: Layout
    window: Window
    target: Any


def intervene(
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    items: Sequence[ReasonerTarget],
    budget: float | None,
    rng: np.random.Generator,
    runner: BatchRunner,
) -> dict[int, list[tuple[int, float]]]:
    """Remove blocks from windows, one at a time: every block, or as many as a budget allows, drawn at random.

    The only block of a window is removed, too; the reasoner then reads the query alone. ``budget`` is the largest
    number of tokens in all new windows per token of the original windows; None: no limit.

    Returns:
        for each window, pairs of a removed block and the rise loss(z − z_i) − loss(z) in nats, which is infinite if
        the removal took the answer away.
    """
    removals = _drawn(items, budget, rng)
    removed = [_without(reasoner, examples[item], items[item], block) for item, block in removals]
    touched = sorted({item for item, _ in removals})
    readable = [one for one in removed if one is not None]
    losses = iter(_losses(reasoner, [*(items[item] for item in touched), *readable], runner))
    before = {item: next(losses) for item in touched}
    rises: dict[int, list[tuple[int, float]]] = {item: [] for item in touched}
    for (item, block), without in zip(removals, removed, strict=True):
        rises[item].append((block, math.inf if without is None else next(losses) - before[item]))
    return rises


def _drawn(items: Sequence[ReasonerTarget], budget: float | None, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw pairs of a window and one of its blocks, within the budget."""
    pairs = [(item, block) for item, target in enumerate(items) for block in target.window.blocks]
    n_tokens = math.inf if budget is None else budget * sum(len(item.window) for item in items)
    chosen = []
    for index in rng.permutation(len(pairs)).tolist():
        item, block = pairs[index]
        n_tokens -= len(items[item].window) - int(items[item].layout.blocks.sizes[block])
        if n_tokens < 0:
            break
        chosen.append(pairs[index])
    return sorted(chosen)


def _without(reasoner: Reasoner[Any], example: Example, item: ReasonerTarget, block: int) -> ReasonerTarget | None:
    """Lay out a window without one of its blocks; None if the removal took the answer away."""
    window = item.layout.window(other for other in item.window.blocks if other != block)
    target = reasoner.target(example, item.layout.blocks, window)
    gone = target is not None and reasoner.is_negative(target) and not reasoner.is_negative(item.target)
    return None if gone or target is None else ReasonerTarget(item.layout, window, target)


def _losses(reasoner: Reasoner[Any], items: Sequence[ReasonerTarget], runner: BatchRunner) -> list[float]:
    """The loss of each window, dropout off."""
    groups = batches([item.window for item in items], runner.batch_tokens)
    shares, group_losses = processes.share(list(map(len, groups))), {}
    reasoner.eval()
    with torch.no_grad(), runner.precision.autocast():
        for number in processes.local_share(shares):
            windows, targets = zip(
                *((items[index].window, items[index].target) for index in groups[number]), strict=True
            )
            found = reasoner.intervention_losses(reasoner(runner.tensors(windows)), windows, targets)
            group_losses[number] = found.float().cpu().numpy()
    losses = np.zeros(len(items))
    for group, of_group in zip(groups, processes.gather(group_losses, list(map(len, groups)), shares), strict=True):
        losses[group] = of_group
    return losses.tolist()
