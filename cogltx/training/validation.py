"""Validation: predict the validation examples, choose the reasoner's thresholds, and compute the task's metrics."""

from collections.abc import Sequence

from tqdm.auto import tqdm

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction
from cogltx.tasks import Task


def main_metric(task: Task, reader: Reader) -> str:
    """Return the metric that selects the best epoch; of answers alone for readers without evidence."""
    return task.main_metric if reader.uses_judge else task.answer_metric or task.main_metric


def validate(reader: WindowReader, task: Task, examples: Sequence[Example], metric: str) -> dict[str, float]:
    """Predict the examples, set the reasoner's best thresholds, and measure.

    Args:
        reader: the model.
        task: computes the metrics.
        examples: the validation examples.
        metric: the metric by which thresholds are chosen.

    Returns:
        the task's metrics, in percent.
    """
    reader.model.reasoner.reset_thresholds()
    stream = tqdm(
        reader.predict_many(examples), total=len(examples), desc="validation", disable=None, leave=False
    )  # fmt: skip
    return tune(reader, task, examples, list(stream), metric)


def tune(
    reader: WindowReader, task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], metric: str
) -> dict[str, float]:
    """Set the thresholds with the best metric, of equal ones the highest; returns the task's metrics with them."""
    reasoner = reader.model.reasoner
    best = task.metrics(zip(examples, predictions, strict=True))
    candidates = reasoner.threshold_candidates(examples, predictions)
    for number, config in enumerate(candidates):
        tuned = [reasoner.with_thresholds(prediction, config) for prediction in predictions]
        metrics = task.metrics(zip(examples, tuned, strict=True))
        if number == 0 or metrics[metric] >= best[metric]:
            best, reasoner.config = metrics, config
    return best
