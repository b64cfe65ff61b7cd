"""Predictions for a corpus on a Ray cluster: workers that hold the model take parts as they become free."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import ray
import ray.data

from cogltx.cli.corpus import Part, answer_part
from cogltx.cli.predictions import Predictor
from cogltx.errors import CogltxError, DataError


class _Worker:
    """A process with the model. Ray starts another in its place if it dies, and gives that one its part."""

    def __init__(self, **options: Any) -> None:
        self.predictor = Predictor(**options)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"predictions": answer_part(self.predictor, Part(**row)), "error": ""}
        except CogltxError as error:  # the same in every worker: no reason to try again
            return {"predictions": 0, "error": str(error)}


def answer_parts(parts: Sequence[Part], options: Mapping[str, Any], workers: int | None) -> Iterator[int]:
    """Answer parts in workers; yields the number of predictions of each as it is done.

    ``RAY_ADDRESS`` names a cluster; without it Ray starts on this machine. Every machine of the cluster must have the
    package, and see model, input and output under the same names. A worker takes one core, or one GPU where the
    cluster has them.

    Raises:
        DataError: an example cannot be read; parts that are done are kept.
    """
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        has_gpus = bool(ray.cluster_resources().get("GPU"))
        most = workers or int(ray.cluster_resources()["GPU" if has_gpus else "CPU"])
        dataset = ray.data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts)).map(
            _Worker,
            fn_constructor_kwargs=dict(options),
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(most, len(parts))),
            num_cpus=0 if has_gpus else 1,
            num_gpus=1 if has_gpus else 0,
        )
        for row in dataset.iter_rows():
            if row["error"]:
                raise DataError(row["error"])
            yield row["predictions"]
    finally:
        if started_here:
            ray.shutdown()
