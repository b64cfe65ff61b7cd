"""Thresholds are chosen by the metric that chooses the epoch; a calibration is fitted to what is right."""

from collections.abc import Iterable

import numpy as np
import pytest

from cogltx.document import Document, Example, Query
from cogltx.prediction import Prediction
from cogltx.reasoners import ClassificationConfig, SpanReasonerConfig
from cogltx.reasoners.classification import choose_labels
from cogltx.tasks.jsonl import JsonLines
from cogltx.training._thresholds import tuned

DOCUMENT = Document("cup")


class TwoMetrics(JsonLines):
    """One metric is best if everything is answered, one if nothing is."""

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        answered = [bool(prediction.answer) for _, prediction in pairs]
        return {"answered": 100 * sum(answered) / len(answered), "silent": 100 - 100 * sum(answered) / len(answered)}


@pytest.mark.parametrize(("metric", "n_answered"), [("answered", 4), ("silent", 0)])
def test_the_given_metric_chooses_the_threshold(metric: str, n_answered: int) -> None:
    examples = [Example(id=str(number), document=DOCUMENT, labels=()) for number in range(4)]
    any_number = ClassificationConfig(labels=("cup",), multi_label=True)
    predictions = [choose_labels(any_number, np.array([probability])) for probability in (0.1, 0.2, 0.3, 0.4)]
    config, metrics = tuned(any_number, TwoMetrics(), examples, predictions, metric)
    assert sum(bool(config.apply_thresholds(one).answer) for one in predictions) == n_answered
    assert metrics == {"answered": 25.0 * n_answered, "silent": 100 - 25.0 * n_answered}


@pytest.mark.parametrize("metric", ["answered", "silent"])
def test_a_calibration_does_not_depend_on_the_metric(metric: str) -> None:
    examples = [Example(id=str(number), document=DOCUMENT, query=Query("?"), answers=()) for number in range(30)]
    predictions = [
        Prediction(id=example.id, answer="cup", start=0, end=3, confidence=0.5, no_answer_confidence=0.4)
        for example in examples
    ]
    config, metrics = tuned(SpanReasonerConfig(), TwoMetrics(), examples, predictions, metric)
    assert config.calibration is not None
    assert metrics == {"answered": 0.0, "silent": 100.0}, "no answer is right, so none is shown"
