"""Answer parts on a Ray cluster: workers that hold the model take parts as they become free."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ray

from cogltx.cli._predictions import Part, Predictor
from cogltx.errors import CogltxError, DataError


class _Worker(Predictor):
    """A process with the model. Ray starts another in its place if it dies, and gives that one its part."""

    def write(self, part: Part) -> str:
        """Answer and write a part; returns the message of an error that the user can correct."""
        try:
            list(self.write_all([part]))
        except CogltxError as error:
            return str(error)
        return ""


def answer_with_ray(parts: Iterable[Part], options: Mapping[str, Any], workers: int | None) -> Iterator[Part]:
    """Answer parts in workers; yields each part when it is written.

    ``RAY_ADDRESS`` names a cluster; without it Ray starts on this machine. Every machine of the cluster must have the
    package, and see model and output under the same names. A worker takes one core, or one GPU where there are any.
    """
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    running: dict[Any, tuple[Any, Part]] = {}
    try:
        idle = 2 * _workers(options, workers)  # a worker has its next part when it ends one
        for part in parts:
            if not idle:
                yield _next_written(running, idle)
            worker = idle.pop(0)
            running[worker.write.remote(part)] = worker, part
        while running:
            yield _next_written(running, idle)
    finally:
        if started_here:
            ray.shutdown()


def _workers(options: Mapping[str, Any], workers: int | None) -> list[Any]:
    free = ray.available_resources()
    unit = "GPU" if free.get("GPU") else "CPU"
    n_free = max(1, int(free[unit]))
    resources = {"num_cpus": int(unit == "CPU"), "num_gpus": int(unit == "GPU")}
    actor = ray.remote(**resources, max_restarts=-1, max_task_retries=-1)(_Worker)
    return [actor.remote(**options) for _ in range(min(workers or n_free, n_free))]


def _next_written(running: dict[Any, tuple[Any, Part]], idle: list[Any]) -> Part:
    """Wait for a part, and free its worker."""
    [done], _ = ray.wait(list(running), num_returns=1)
    worker, part = running.pop(done)
    idle.append(worker)
    if error := ray.get(done):
        raise DataError(error)
    return part
