"""Thresholds are chosen by the metric that chooses the epoch, not by another one of the task."""

from collections.abc import Iterable

import pytest

from cogltx.document import Document, Example, Query
from cogltx.prediction import Prediction
from cogltx.reasoners import SpanReasonerConfig
from cogltx.tasks.jsonl import JsonLines
from cogltx.training._thresholds import tuned


class TwoMetrics(JsonLines):
    """One metric is best if everything is answered, one if nothing is."""

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        answered = [bool(prediction.answer) for _, prediction in pairs]
        return {"answered": 100 * sum(answered) / len(answered), "silent": 100 - 100 * sum(answered) / len(answered)}


@pytest.mark.parametrize(("metric", "n_answered"), [("answered", 4), ("silent", 0)])
def test_the_given_metric_chooses_the_threshold(metric: str, n_answered: int) -> None:
    document = Document("cup")
    examples = [Example(id=str(number), document=document, query=Query("?"), answers=()) for number in range(4)]
    predictions = [
        Prediction(
            id=str(number), answer="cup", start=0, end=3, score=0.5, no_answer_score=0.5, no_answer_margin=float(number)
        )
        for number in range(4)
    ]
    config, metrics = tuned(SpanReasonerConfig(), TwoMetrics(), examples, predictions, metric)
    assert sum(bool(config.apply_thresholds(one).answer) for one in predictions) == n_answered
    assert metrics == {"answered": 25.0 * n_answered, "silent": 100 - 25.0 * n_answered}
