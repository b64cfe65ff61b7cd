"""Weights and thresholds that suit the validation examples, and the metric that is measured with them."""

from collections.abc import Sequence
from operator import is_not
from typing import TypeVar

import numpy as np

from cogltx.baselines import WindowReader
from cogltx.config import TaskConfig
from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.judges import FusionWeights, Memory, TrainedRetriever
from cogltx.pipeline import CogLTX, Reader, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.reasoners import ReasonerConfig
from cogltx.tasks import Task
from cogltx.tasks.metrics import is_right

AnyConfig = TypeVar("AnyConfig", bound=ReasonerConfig)


def tune(
    reader: WindowReader,
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    metric: str,
    given: ReasonerConfig,
) -> dict[str, float]:
    """Give a reader the thresholds, and its task the options, that suit predictions made without thresholds.

    Few examples change those of ``given`` little, or not at all.

    Returns:
        all metrics with them, in percent.
    """
    model, chosen = reader.model, task.tuned(list(zip(examples, predictions, strict=True)))
    if chosen != task:
        model.task = TaskConfig(name=chosen.name, options=chosen.model_dump(exclude_defaults=True))
    model.reasoner.config, metrics = tuned(given, chosen, examples, predictions, metric)
    return metrics


def tuned(
    config: AnyConfig, task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], metric: str
) -> tuple[AnyConfig, dict[str, float]]:
    """Return the configuration whose thresholds give the best metric, of equal ones the highest, and all metrics."""
    best, best_metrics = config, task.metrics(zip(examples, map(config.apply_thresholds, predictions), strict=True))
    candidates = config.threshold_candidates(examples, predictions, is_right)
    before, metrics = list[Prediction](), best_metrics
    for candidate, applied in zip(candidates, config.applied(candidates, predictions), strict=True):
        if not before or any(map(is_not, applied, before)):
            before, metrics = applied, task.metrics(zip(examples, applied, strict=True))
        if candidate is candidates[0] or metrics[metric] >= best_metrics[metric]:
            best, best_metrics = candidate, metrics
    return best, best_metrics


def fitted_fusion(reader: CogLTX, examples: Sequence[Example]) -> FusionWeights | None:
    """Fit how judge and trained retriever together rank the blocks of long documents.

    Returns:
        None for a reader without these two, or without examples that teach it.
    """
    retriever, judge = reader.retriever, reader.memrecall.judge
    if not isinstance(retriever, TrainedRetriever) or not judge.probabilities:
        return None
    scored = []
    for batch in batches_of_examples(examples):
        labelled = [
            (layout, relevant)
            for example in batch
            if not (layout := reader.model.layout(example.document, example.query)).fits
            and example.query is not None
            and (relevant := layout.blocks.relevance_labels(example)) is not None
            and relevant.any()
        ]
        memories = [Memory(layout) for layout, _ in labelled]
        for memory, coarse, (_, relevant) in zip(memories, judge.retrieve(memories), labelled, strict=True):
            known = ~np.isnan(coarse)
            scored.append((coarse[known], retriever.log_probabilities(memory)[known], relevant[known]))
    return FusionWeights.fitted(scored) if scored else None


def main_metric(task: Task, reader: Reader, train: Sequence[Example], validation: Sequence[Example]) -> str:
    """Return the metric that selects the best epoch; raises DataError without examples that train and measure it."""
    if not train or not validation:
        raise DataError(
            f"training: there are {len(train)} training and {len(validation)} validation examples; both are needed"
        )
    metric = task.main_metric if reader.uses_judge else task.answer_metric or task.main_metric
    silent = Prediction(id="", answer="", start=None, end=None, confidence=0.0)
    if metric not in task.metrics((example, silent) for example in validation):
        hint = ""
        if any(example.labels is not None for example in validation):
            hint = "; for this data set reasoner.name: classification"
        elif any(example.entities is not None for example in validation):
            hint = "; for this data set reasoner.name: tagging"
        elif all(example.answers is None for example in (*train, *validation)):
            hint = "; no example has any"
        raise DataError(f"training: no validation example has a known answer, which {metric} needs{hint}")
    return metric
