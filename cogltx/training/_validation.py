"""Validation of a training: predictions that an interrupted run does not make again, thresholds, and metrics."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cogltx import _processes as processes
from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.errors import TrainingError
from cogltx.pipeline import CogLTX, batches_of_examples
from cogltx.prediction import Prediction
from cogltx.recall import Recall
from cogltx.tasks import Task
from cogltx.training._relevance import asks_by_block
from cogltx.training._thresholds import tune


class Validation:
    """Measures a reader on the validation examples.

    Until the metrics are known, each batch of predictions is a line of ``validation.jsonl`` in the folder of the run.
    """

    def __init__(
        self, reader: WindowReader, task: Task, metric: str, examples: Sequence[Example], output: Path
    ) -> None:
        self.reader, self.task, self.metric, self.examples = reader, task, metric, examples
        self.given = reader.model.reasoner.config  # its thresholds are the first to start from, in every epoch
        self.path = output / "validation.jsonl"
        self._batches = list(batches_of_examples(examples))
        self._recalls: dict[int, list[Recall]] = {}

    def predict(self, name: str, *, recalls_stay: bool, advance: Callable[[int], None]) -> list[Prediction]:
        """Predict without thresholds, once for a name; with ``recalls_stay``, key blocks are found only once."""
        self.reader.model.reasoner.config = self.given.without_thresholds()
        saved = list(self._saved(name))
        predictions = [prediction for batch in saved for prediction in batch]
        advance(len(predictions))
        for index in range(len(saved), len(self._batches)):
            batch = self._recalled(index) if recalls_stay else list(self.reader.predict_many(self._batches[index]))
            self._save(name, batch)
            predictions += batch
            advance(len(batch))
        return predictions

    def metrics(self, predictions: Sequence[Prediction]) -> dict[str, float]:
        """Compute the metrics with the thresholds that the model had at the start."""
        return self.task.metrics(zip(self.examples, map(self.given.apply_thresholds, predictions), strict=True))

    def tune(self, predictions: Sequence[Prediction]) -> dict[str, float]:
        """Tune thresholds and task; returns the metrics with them."""
        return tune(self.reader, self.task, self.examples, predictions, self.metric, self.given)

    def forget(self) -> None:
        """Remove the saved predictions."""
        if processes.is_first():
            self.path.unlink(missing_ok=True)

    def _recalled(self, index: int) -> list[Prediction]:
        """Predict a batch with the key blocks that were found before."""
        batch, reader = self._batches[index], self.reader
        if not isinstance(reader, CogLTX) or asks_by_block(reader, batch[0]):
            return list(reader.predict_many(batch))
        if index not in self._recalls:
            self._recalls[index] = list(reader.recall_many(batch))
        predictions = zip(batch, reader.reason_over(self._recalls[index]), strict=True)
        return [replace(prediction.within(example.document), id=example.id) for example, prediction in predictions]

    def _save(self, name: str, batch: Sequence[Prediction]) -> None:
        if processes.is_first():
            line = json.dumps([name, *(prediction.to_dict() for prediction in batch)])
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
            except OSError as error:
                reason = error.strerror
                raise TrainingError(f"{self.path}: cannot be written: {reason}; the last checkpoint is kept") from error

    def _saved(self, name: str) -> Iterator[list[Prediction]]:
        """Yield the saved batches of a name, without a line that a kill cut short."""
        lines = self.path.read_bytes().split(b"\n") if self.path.is_file() else []
        processes.wait()
        if lines and lines[-1] and processes.is_first():
            os.truncate(self.path, self.path.stat().st_size - len(lines[-1]))
        for line in lines[:-1]:
            of, *predictions = json.loads(line)
            if of == name:
                yield [Prediction.from_dict(values) for values in predictions]
