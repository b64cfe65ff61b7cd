"""Several processes that share one training: ``torchrun`` or ``accelerate launch`` start them.

Every process makes the same plan from the same seed. The forward and backward passes are shared out, and outputs and
gradients exchanged; only the first process writes. Outside ``joined``, a process works alone.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate import PartialState
from jaxtyping import Float
from torch import Tensor

from cogltx._progress import logger
from cogltx.errors import TrainingError

_MAX_DIMENSIONS = 4
_together = False


@contextmanager
def joined() -> Iterator[None]:
    """Share the work with the other processes of the launcher, if it started several.

    A process reads the rank, the number of processes and the address of the first from the environment
    (``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``). Processes after the first are silent.
    """
    global _together
    if int(os.environ.get("WORLD_SIZE", 1)) == 1 or _together:
        yield
        return
    on_cpu, level = not torch.cuda.is_available(), logger.level
    if not on_cpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    _exchange(lambda: PartialState(cpu=on_cpu))
    _together = True
    if not is_first():
        logger.setLevel(logging.WARNING)
    try:
        yield
        wait()
    finally:
        _together = False
        logger.setLevel(level)


def count() -> int:
    """Return the number of processes that share the work."""
    return dist.get_world_size() if _together else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if _together else 0


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return rank() == 0


def of_first(report: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that the first process calls; in the others, it does nothing."""
    return report if is_first() else lambda line: None


def wait() -> None:
    """Wait until every process is here."""
    if _together:
        _exchange(dist.barrier)


def share(costs: Sequence[float]) -> list[list[int]]:
    """Share out tasks: the next costliest goes to the process with the least to do; returns task numbers by process."""
    shares: list[list[int]] = [[] for _ in range(count())]
    loads = [0.0] * len(shares)
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += costs[index]
    return [sorted(indices) for indices in shares]


def local_share(shares: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the share of this process."""
    return shares[rank()]


def gather(
    mine: Mapping[int, Float[np.ndarray, "_ *outputs"]], n_rows: Sequence[int], shares: Sequence[Sequence[int]]
) -> list[Float[np.ndarray, "_ *outputs"]]:
    """Return the results of all tasks.

    Args:
        mine: the results of this process, by task.
        n_rows: number of rows in each result.
        shares: task numbers by process.
    """
    if not _together:
        return [mine[index] for index in range(len(n_rows))]
    shape = torch.zeros(_MAX_DIMENSIONS, dtype=torch.long, device=_device())
    for rows in mine.values():
        shape[: rows.ndim] = torch.tensor([1, *rows.shape[1:]])
    _exchange(lambda: dist.all_reduce(shape, op=dist.ReduceOp.MAX))
    outputs = [n for n in shape[1:].tolist() if n]
    totals = [sum(n_rows[index] for index in indices) for indices in shares]
    sent = torch.zeros((max(totals), *outputs), device=_device())
    if mine:
        rows = np.concatenate([mine[index] for index in local_share(shares)])
        sent[: len(rows)] = torch.from_numpy(rows)
    received = [torch.empty_like(sent) for _ in shares]
    _exchange(lambda: dist.all_gather(received, sent))
    results: list[np.ndarray] = [np.empty(0)] * len(n_rows)
    for indices, part in zip(shares, received, strict=True):
        ends = np.cumsum([n_rows[index] for index in indices])
        for index, end in zip(indices, ends.tolist(), strict=True):
            results[index] = part[end - n_rows[index] : end].cpu().numpy().copy()
    return results


def total(values: Sequence[float]) -> list[float]:
    """Return the sums over all processes."""
    if not _together:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=_device())
    _exchange(lambda: dist.all_reduce(summed))
    return [float(value) for value in summed]


def add_gradients(parameters: Sequence[Tensor]) -> None:
    """Replace the gradients by their sums over all processes; a parameter that none of them used keeps none."""
    if not _together:
        return
    used = total([float(parameter.grad is not None) for parameter in parameters])
    learning = [parameter for parameter, n_users in zip(parameters, used, strict=True) if n_users]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    _exchange(lambda: dist.all_reduce(flat))
    for parameter, gradient in zip(learning, flat.split([p.numel() for p in learning]), strict=True):
        parameter.grad = gradient.view_as(parameter)


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


def _exchange(collective: Callable[[], Any]) -> None:
    try:
        collective()
    except RuntimeError as error:
        raise TrainingError(
            "training: another process ended or does not answer; start all again with --resume"
        ) from error
