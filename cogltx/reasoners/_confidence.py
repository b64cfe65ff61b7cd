"""Calibrated probabilities that an answer is right, or that there is none (Platt 1999, for several outcomes).

Of each question, one of these holds: an answer of the reader is right, there is no answer, or all answers are wrong.
Four numbers, fitted on validation examples, turn what reader and judge say into probabilities of these outcomes. So an
answer and "no answer" can be compared, and the most probable one is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field

_LEAST = 1e-12  # probability
_CLIP = 1e-4  # smallest distance of a relevance from 0 and 1
_FEWEST = 20  # validation examples that a calibration is fitted on where there is none before
_PRIOR = (0.6, 0.0, -1.0, 0.0)  # what 20 examples or more are drawn to
_PRIOR_WEIGHT = 2.0  # in examples, per number and unit


@dataclass(frozen=True)
class Uncalibrated:
    """Probabilities of one question, by reader and judge.

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

    def probabilities(self, one: Uncalibrated) -> tuple[list[float], float]:
        """Return the probability that each answer is right, in the order of the answers, and that there is none."""
        numbers = np.array([self.sharpness, self.relevance, self.no_answer, self.wrong])
        no_answer, _, *answers = np.exp(log_softmax(_logits(numbers, *_columns([one]))[0])).tolist()
        return answers, no_answer

    @classmethod
    def fitted(cls, known: Sequence[tuple[Uncalibrated, int | None]], before: Self | None = None) -> Self | None:
        """Fit the numbers by maximum likelihood; None for fewer than 20 questions and no calibration before.

        Args:
            known: the probabilities of each question, and what is right: the number of an answer, −1 for no answer,
                None if all answers are wrong.
            before: what fewer than 20 questions are drawn to.
        """
        prior = _PRIOR
        if len(known) < _FEWEST:
            if before is None or not known:
                return None
            prior = (before.sharpness, before.relevance, before.no_answer, before.wrong)
        from scipy.optimize import minimize  # takes 0.2 s, and only training fits

        columns = _columns([one for one, _ in known])
        outcome = [1 if right is None else 0 if right == -1 else 2 + right for _, right in known]

        def loss(numbers: np.ndarray) -> float:
            chances = log_softmax(_logits(numbers, *columns))[np.arange(len(known)), outcome]
            return _PRIOR_WEIGHT * float(((numbers - prior) ** 2).sum()) - float(chances.sum())

        bounds = [(0.05, 3.0), (0.0, 3.0), (-12.0, 12.0), (-12.0, 12.0)]
        best = minimize(loss, np.array(prior), method="L-BFGS-B", bounds=bounds).x
        return cls(**dict(zip(cls.model_fields, np.round(best, 4).tolist(), strict=True)))


def _columns(
    questions: Sequence[Uncalibrated],
) -> tuple[Float[np.ndarray, "questions answers"], Float[np.ndarray, " questions"], Float[np.ndarray, " questions"]]:
    """Logarithms of the probabilities of the answers, −inf where a question has fewer, and of no answer; log-odds."""
    answers = np.full((len(questions), max(len(one.answers) for one in questions)), -np.inf)
    for row, one in zip(answers, questions, strict=True):
        row[: len(one.answers)] = np.log(np.maximum(one.answers, _LEAST))
    no_answer = np.log(np.maximum([one.no_answer for one in questions], _LEAST))
    relevance = torch.tensor([one.relevance for one in questions], dtype=torch.float64)
    return answers, no_answer, relevance.logit(eps=_CLIP).numpy()


def _logits(
    numbers: np.ndarray,
    answers: Float[np.ndarray, "questions answers"],
    no_answer: Float[np.ndarray, " questions"],
    relevance: Float[np.ndarray, " questions"],
) -> Float[np.ndarray, "questions outcomes"]:
    """Logarithms of the weights of no answer, of nothing but wrong answers, and of each answer."""
    sharpness, odds_weight, none, wrong = numbers
    of_none = sharpness * no_answer + none - odds_weight * relevance
    return np.column_stack([of_none, np.full(len(of_none), wrong), sharpness * answers])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the shares of the last axis."""
    exact = logits.astype(np.float64)
    return np.asarray(exact - np.logaddexp.reduce(exact, axis=-1, keepdims=True))
