"""CUAD: clauses of contracts as questions (Hendrycks, Burns, Chen, Ball 2021), with its official measures."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from cogltx.document import Example
from cogltx.prediction import Prediction
from cogltx.tasks.squad import Squad

_LEAST_OVERLAP = 0.5  # intersection over union of the words
_THRESHOLDS = [*np.arange(0.99, 0, -0.01), 0.001, 0.0]
_NO_PUNCTUATION = str.maketrans("/", " ", ".,;:")


class Cuad(Squad):
    """SQuAD's format and scores, and the official measures of CUAD.

    ``aupr`` is the area under the precision-recall curve, ``precision_at_80_recall`` and ``precision_at_90_recall`` are
    points of it. A candidate answer is right if it shares half of its words with a gold clause.
    """

    name: ClassVar[str] = "cuad"

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """See ``Squad.metrics``; the official measures in percent, if any question has an answer."""
        from sklearn.metrics import auc

        pairs = list(pairs)
        compared = [_compare(example, prediction) for example, prediction in pairs if example.answers is not None]
        scores = super().metrics(pairs)
        if any(is_match.shape[0] for _, is_match in compared):
            precision, recall = _curve(compared)
            scores["aupr"] = 100 * float(auc(recall, precision))
            for share in (80, 90):
                reached = precision[100 * recall >= share]
                scores[f"precision_at_{share}_recall"] = 100 * float(reached[0]) if len(reached) else 0.0
        return scores


def _compare(example: Example, prediction: Prediction) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the candidates, and their matches with the gold clauses, shape [clauses, candidates]."""
    candidates: dict[str, float] = {}
    for one in prediction.candidates:
        candidates.setdefault(one.text, one.confidence)
    names_parties = "Parties" in example.id  # the official script's rule
    is_match = [
        [_overlap(clause, text) >= _LEAST_OVERLAP or (names_parties and clause in text) for text in candidates]
        for clause in example.answers or ()
    ]
    shape = (len(example.answers or ()), len(candidates))
    return np.array(list(candidates.values())), np.array(is_match, dtype=bool).reshape(shape)


def _overlap(a: str, b: str) -> float:
    """Intersection over union of the words."""
    words, others = (set(text.translate(_NO_PUNCTUATION).lower().split()) for text in (a, b))
    return len(words & others) / len(words | others) if words | others else 0.0


def _curve(compared: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Best precision at each recall or a higher one, and recall, for falling thresholds."""
    n_clauses = sum(len(is_match) for _, is_match in compared)
    precision, recall = [1.0], [0.0]
    for threshold in _THRESHOLDS:
        hits = false = 0
        for scores, is_match in compared:
            chosen = is_match[:, scores > threshold]
            hits += chosen.any(axis=1).sum()
            false += (~chosen.any(axis=0)).sum()
        precision.append(hits / (hits + false) if hits + false else 0.0)
        recall.append(hits / n_clauses)
    return np.maximum.accumulate(precision[::-1])[::-1], np.array(recall)
