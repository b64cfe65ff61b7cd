"""Data parallelism over several processes, started by ``torchrun`` or ``accelerate launch``.

Every process makes the same plan from the same seed, computes its share, and exchanges outputs and gradients; only
the first one writes.
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
from torch import Tensor

from cogltx.errors import TrainingError
from cogltx.progress import logger

_together = False


@contextmanager
def joined() -> Iterator[None]:
    """Share the work with the other processes of the launcher, if there are any; all but the first are silent."""
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


def is_first() -> bool:
    """Check whether this process is the one that writes."""
    return not _together or dist.get_rank() == 0


def of_first(report: Callable[[str], None]) -> Callable[[str], None]:
    """Silence a report in all processes but the first."""
    return report if is_first() else lambda line: None


def wait() -> None:
    """Wait for all processes."""
    if _together:
        _exchange(dist.barrier)


def share(costs: Sequence[float]) -> list[int]:
    """Distribute tasks, the costliest first, to the least busy processes; return the task numbers of this process."""
    shares: list[list[int]] = [[] for _ in range(count())]
    loads = [0.0] * len(shares)
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += costs[index]
    return sorted(shares[dist.get_rank() if _together else 0])


def gather(mine: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """Return the results of all tasks in order, from the results of this process by task number."""
    received: list[Mapping[int, np.ndarray]] = [mine] * count()
    if _together:
        _exchange(lambda: dist.all_gather_object(received, mine))
    results = {index: result for of_process in received for index, result in of_process.items()}
    return [results[index] for index in sorted(results)]


def total(values: Sequence[float]) -> list[float]:
    """Return the sums over all processes."""
    if not _together:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=_device())
    _exchange(lambda: dist.all_reduce(summed))
    return [float(value) for value in summed]


def add_gradients(parameters: Sequence[Tensor]) -> None:
    """Replace the gradients by their sums over all processes; a parameter that no process used keeps none."""
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
