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

from cogltx import processes
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


@dataclass(frozen=True)
class _Removal:
    """A window without one of its blocks; its target is None if the removal took the answer away."""

    item: int
    block: int
    window: Window
    target: Any | None


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
    removed = _removals(reasoner, examples, items, budget, rng)
    by_item: dict[int, list[tuple[int, float]]] = {}
    for removal, rise in zip(removed, _rises(reasoner, items, removed, runner), strict=True):
        by_item.setdefault(removal.item, []).append((removal.block, rise))
    return by_item


def _removals(
    reasoner: Reasoner[Any],
    examples: Sequence[Example],
    items: Sequence[ReasonerTarget],
    budget: float | None,
    rng: np.random.Generator,
) -> list[_Removal]:
    """Build the windows without one block each, within the budget."""
    blocks_of = [item.window.blocks for item in items]
    pairs = [(item, block) for item, blocks in enumerate(blocks_of) for block in blocks]
    n_tokens = math.inf if budget is None else budget * sum(len(item.window) for item in items)
    chosen = []
    for index in rng.permutation(len(pairs)).tolist():
        item, block = pairs[index]
        n_tokens -= len(items[item].window) - int(items[item].layout.blocks.sizes[block])
        if n_tokens < 0:
            break
        chosen.append(pairs[index])
    removed = []
    for item, block in sorted(chosen):
        original = items[item]
        window = original.layout.window(other for other in blocks_of[item] if other != block)
        target = reasoner.target(examples[item], original.layout.blocks, window)
        gone = target is not None and reasoner.is_negative(target) and not reasoner.is_negative(original.target)
        removed.append(_Removal(item, block, window, None if gone else target))
    return removed


def _rises(
    reasoner: Reasoner[Any], items: Sequence[ReasonerTarget], removed: Sequence[_Removal], runner: BatchRunner
) -> list[float]:
    """The rise of the loss by each removal, dropout off."""
    touched = sorted({removal.item for removal in removed})
    measured = [(items[item].window, items[item].target) for item in touched]
    measured += [(removal.window, removal.target) for removal in removed if removal.target is not None]
    groups = batches([window for window, _ in measured], runner.batch_tokens)
    shares, group_losses = processes.share(list(map(len, groups))), {}
    reasoner.eval()
    with torch.no_grad(), runner.precision.autocast():
        for number in processes.local_share(shares):
            windows, targets = zip(*(measured[index] for index in groups[number]), strict=True)
            rises = reasoner.intervention_losses(reasoner(runner.tensors(windows)), windows, targets)
            group_losses[number] = rises.float().cpu().numpy()
    losses = np.zeros(len(measured))
    for group, found in zip(groups, processes.gather(group_losses, list(map(len, groups)), shares), strict=True):
        losses[group] = found
    before = dict(zip(touched, losses.tolist(), strict=False))
    after = iter(losses[len(touched) :].tolist())
    return [math.inf if removal.target is None else next(after) - before[removal.item] for removal in removed]
