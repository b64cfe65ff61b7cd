"""Validation: the whole flow over the validation examples, the reasoner's thresholds, the task's metrics."""

from collections.abc import Sequence

from tqdm.auto import tqdm

from cogltx.document import Example
from cogltx.pipeline import WindowReader
from cogltx.reader import ReadDocument, Reader, batched
from cogltx.tasks import Task


def main_metric(task: Task, reader: Reader) -> str:
    """The metric that chooses the best epoch: of the answers alone where a reader shows no evidence."""
    return task.main_metric if reader.uses_judge else task.answer_metric or task.main_metric


def validate(reader: WindowReader, task: Task, examples: Sequence[Example], main: str) -> dict[str, float]:
    """Reads the examples, sets the thresholds that are best for them, and measures.

    Args:
        reader: reads.
        task: measures.
        examples: for validation.
        main: the metric by which thresholds are chosen.

    Returns:
        the task's metrics, in percent.
    """
    results: list[ReadDocument] = []
    with tqdm(total=len(examples), desc="validation", disable=None, leave=False) as bar:
        for batch in batched(examples):
            results += reader.read(batch)
            bar.update(len(batch))
    tune(reader, task, examples, results, main)
    return _metrics(reader, task, examples, results)


def tune(
    reader: WindowReader, task: Task, examples: Sequence[Example], results: Sequence[ReadDocument], main: str
) -> None:
    """Gives the reasoner the thresholds with the best main metric; of equal ones the highest."""
    configs = reader.reasoner.tunings(examples, [result.reading for result in results])
    if len(configs) > 1:
        values = []
        for config in configs:
            reader.with_reasoner(config)
            values.append(_metrics(reader, task, examples, results)[main])
        configs = [config for config, value in zip(configs, values, strict=True) if value == max(values)]
    if configs:
        reader.with_reasoner(configs[-1])


def _metrics(
    reader: WindowReader, task: Task, examples: Sequence[Example], results: Sequence[ReadDocument]
) -> dict[str, float]:
    pairs = zip(examples, results, strict=True)
    return task.metrics((example, reader.prediction(example, result)) for example, result in pairs)
