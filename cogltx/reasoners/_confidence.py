"""Calibrated probabilities that an answer is right, or that there is none (Platt 1999, for several outcomes).

Of each question, one of these holds: an answer of the reader is right, there is no answer, or all answers are wrong.
Four numbers, fitted on validation examples, turn what reader and judge say into probabilities of these outcomes. So an
answer and "no answer" can be compared, and the most probable one is shown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

_LEAST = 1e-12  # probability
_FEWEST = 20  # validation examples that a calibration is fitted on
_PRIOR = (0.6, 0.0, -1.0, 0.0)  # what few examples are drawn to
_PRIOR_WEIGHT = 2.0  # in examples, per number and unit


@dataclass(frozen=True)
class Evident:
    """What reader and judge say of a question.

    Attributes:
        answers: probability in [0, 1] of each answer by the reader, best first.
        no_answer: probability in [0, 1] that there is none.
        relevance: the judge's highest relevance of a key block, in [0, 1]; 0.5 without a judge.
    """

    answers: tuple[float, ...]
    no_answer: float
    relevance: float


class Calibration(BaseModel):
    """The weights of the outcomes; their shares are the probabilities.

    Attributes:
        sharpness: exponent of the reader's probabilities; below 1 for a reader that is too sure.
        relevance: exponent of the odds that no key block is relevant, in the weight of no answer.
        no_answer: logarithm of a factor of the weight of no answer.
        wrong: logarithm of the weight of the outcome that all answers are wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sharpness: float = Field(1.0, gt=0)
    relevance: float = Field(0.0, ge=0)
    no_answer: float = 0.0
    wrong: float = 0.0

    def probabilities(self, one: Evident) -> tuple[list[float], float]:
        """Return the probability that each answer is right, in the order of the answers, and that there is none."""
        logits = _logits(np.array([self.sharpness, self.relevance, self.no_answer, self.wrong]), one)
        *answers, no_answer, _ = np.exp(logits - np.logaddexp.reduce(logits)).tolist()
        return answers, no_answer

    @classmethod
    def fitted(cls, known: Sequence[tuple[Evident, int | None]]) -> Self | None:
        """Fit the numbers by maximum likelihood; None for fewer than 20 questions.

        Args:
            known: what was said of each question, and what is right: the number of an answer, −1 for no answer, None
                if all answers are wrong.
        """
        if len(known) < _FEWEST:
            return None
        from scipy.optimize import minimize

        outcome = [len(one.answers) if right == -1 else len(one.answers) + 1 if right is None else right
                   for one, right in known]  # fmt: skip

        def loss(numbers: np.ndarray) -> float:
            total = _PRIOR_WEIGHT * float(((numbers - _PRIOR) ** 2).sum())
            for (one, _), index in zip(known, outcome, strict=True):
                logits = _logits(numbers, one)
                total += float(np.logaddexp.reduce(logits) - logits[index])
            return total

        bounds = [(0.05, 3.0), (0.0, 3.0), (-12.0, 12.0), (-12.0, 12.0)]
        best = minimize(loss, np.array(_PRIOR), method="L-BFGS-B", bounds=bounds).x
        return cls(**dict(zip(cls.model_fields, np.round(best, 4).tolist(), strict=True)))


def _logits(numbers: np.ndarray, one: Evident) -> np.ndarray:
    """Logarithms of the weights of each answer, of no answer, and of nothing but wrong answers."""
    sharpness, relevance, no_answer, wrong = numbers
    logs = np.log(np.maximum([*one.answers, one.no_answer], _LEAST)) * sharpness
    logs[-1] += no_answer - relevance * log_odds(one.relevance)
    return np.append(logs, wrong)


def log_odds(probability: float) -> float:
    """Log-odds of a probability, at most 9.2 in size.

    >>> round(log_odds(0.9), 2), round(log_odds(1), 1)
    (2.2, 9.2)
    """
    clipped = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(clipped / (1 - clipped))
