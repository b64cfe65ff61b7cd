"""Scores of answers, sets, labels and entities, all in [0, 1], and a paired bootstrap of their differences.

Does not depend on documents, tasks or files.
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})
_BOOTSTRAP_CELLS = 4_000_000  # random indices in memory at once, 32 MB


@dataclass(frozen=True)
class Score:
    """Agreement of a prediction with the gold, every number in [0, 1].

    Attributes:
        em: 1 if they are the same.
        f1: harmonic mean of precision and recall.
        precision: share of the prediction that is gold.
        recall: share of the gold that is predicted.
    """

    em: float
    f1: float
    precision: float
    recall: float

    @classmethod
    def of_counts(cls, hits: int, predicted: int, gold: int) -> "Score":
        """Score of numbers of items; an empty side has precision or recall 0."""
        precision, recall = hits / predicted if predicted else 0.0, hits / gold if gold else 0.0
        return cls(float(hits == predicted == gold), _harmonic(precision, recall), precision, recall)

    @classmethod
    def of_sets(cls, predicted: Collection[Hashable], gold: Collection[Hashable]) -> "Score":
        """HotpotQA's score of supporting facts.

        >>> Score.of_sets([("A", 0), ("B", 1)], [("A", 0), ("C", 2)])
        Score(em=0.0, f1=0.5, precision=0.5, recall=0.5)
        """
        return cls.of_counts(len(set(predicted) & set(gold)), len(set(predicted)), len(set(gold)))

    def joint(self, other: "Score") -> "Score":
        """HotpotQA's joint score: exact match, precision and recall are products, F1 is computed from those.

        >>> Score(1, 1, 1, 1).joint(Score(0, 0.5, 0.5, 0.5))
        Score(em=0, f1=0.5, precision=0.5, recall=0.5)
        """
        precision, recall = self.precision * other.precision, self.recall * other.recall
        return Score(self.em * other.em, _harmonic(precision, recall), precision, recall)


@dataclass(frozen=True)
class EntityScores:
    """Agreement of predicted entities with the gold.

    Attributes:
        micro: the score over all types.
        types: the score of each type that occurs, sorted by name.
        gold: the number of gold entities of each type.
    """

    micro: Score
    types: dict[str, Score]
    gold: dict[str, int]


@dataclass(frozen=True)
class Interval:
    """A difference of means and its 95 % confidence interval, in the unit of the compared numbers."""

    mean_difference: float
    low: float
    high: float


def best_score(prediction: str, answers: Collection[str]) -> tuple[float, float]:
    """SQuAD's exact match and token F1 against the best accepted answer.

    Texts are compared in lower case without punctuation and articles, as in the official SQuAD 1.1 and 2.0 evaluation
    (Rajpurkar et al. 2016, 2018).

    Args:
        prediction: the predicted answer; "" if there is none.
        answers: the accepted texts; none if the question has no answer: then the empty prediction is right.

    >>> best_score("The Cat.", ["dog", "cat"]), best_score("the big cat", ["a cat"])[0]
    ((1.0, 1.0), 0.0)
    >>> best_score("", []), best_score("", ["the"]), best_score("a dog", [])
    ((1.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    """
    if answers and not prediction.strip():
        return 0.0, 0.0
    scores = [_token_score(_normalized(prediction), _normalized(answer)) for answer in answers or ("",)]
    return max(score.em for score in scores), max(score.f1 for score in scores)


def answer_score(prediction: str, gold: str) -> Score:
    """HotpotQA's answer score: as SQuAD's, but yes, no and "noanswer" match only themselves.

    Source: the official HotpotQA evaluation (Yang et al. 2018).

    >>> answer_score("no", "no way").f1, answer_score("No.", "no").em
    (0.0, 1.0)
    """
    predicted, expected = _normalized(prediction), _normalized(gold)
    if predicted != expected and _CLOSED_ANSWERS & {predicted, expected}:
        return Score(0.0, 0.0, 0.0, 0.0)
    return _token_score(predicted, expected)


def paired_bootstrap(a: Sequence[float], b: Sequence[float], *, seed: int = 0, samples: int = 10_000) -> Interval:
    """Mean of ``a - b`` over the examples, with its 95 % percentile interval.

    Args:
        a: one number per example, of the first system.
        b: the numbers of the second system for the same examples, in the same order.
        seed: the seed of the resampling.
        samples: the number of resamplings, with replacement.

    Raises:
        ValueError: the two differ in length or are empty.

    >>> paired_bootstrap([1, 1, 1], [0, 0, 0])
    Interval(mean_difference=1.0, low=1.0, high=1.0)
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"two sequences of one length > 0 are needed, not of {len(a)} and {len(b)}")
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, _BOOTSTRAP_CELLS // len(difference))
    means = [
        difference[rng.integers(len(difference), size=(min(rows, samples - done), len(difference)))].mean(axis=1)
        for done in range(0, samples, rows)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Interval(float(difference.mean()), float(low), float(high))


def _normalized(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _token_score(predicted: str, expected: str) -> Score:
    """The score of two normalized answers as bags of tokens."""
    if not predicted or not expected:
        same = float(predicted == expected)
        return Score(same, same, same, same)
    predicted_tokens, expected_tokens = predicted.split(), expected.split()
    hits = (Counter(predicted_tokens) & Counter(expected_tokens)).total()
    precision, recall = hits / len(predicted_tokens), hits / len(expected_tokens)
    return Score(float(predicted == expected), _harmonic(precision, recall), precision, recall)


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def label_scores(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> dict[str, float]:
    """Micro F1 over all labels of all texts, and macro F1, the mean over the labels that occur.

    Args:
        gold: the labels of each text.
        predicted: the predicted labels of each text.

    >>> label_scores([{"a"}, {"b"}], [{"a"}, {"a"}])
    {'micro_f1': 0.5, 'macro_f1': 0.3333333333333333}
    """
    counts = label_counts(gold, predicted).values()
    if not counts:
        return {"micro_f1": 1.0, "macro_f1": 1.0}
    micro = Score.of_counts(*(sum(numbers) for numbers in zip(*counts, strict=True)))
    return {"micro_f1": micro.f1, "macro_f1": sum(Score.of_counts(*numbers).f1 for numbers in counts) / len(counts)}


def label_counts(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]
) -> dict[str, tuple[int, int, int]]:
    """Numbers of right predictions, predictions and gold occurrences of each label, sorted by name."""
    hits, said, true = Counter[str](), Counter[str](), Counter[str]()
    for expected, found in zip(gold, predicted, strict=True):
        hits.update(set(expected) & set(found))
        said.update(set(found))
        true.update(set(expected))
    return {label: (hits[label], said[label], true[label]) for label in sorted(said | true)}


def entity_scores(
    gold: Sequence[Collection[tuple[int, int, str]]], predicted: Sequence[Collection[tuple[int, int, str]]]
) -> EntityScores:
    """Precision, recall and F1 of entities (start, end, type), right if span and type are exact.

    The definition of seqeval and of CoNLL-2003: counts are summed over all texts (micro).

    Args:
        gold: the entities of each text.
        predicted: the predicted entities of each text.

    >>> entity_scores([{(0, 2, "PER"), (5, 6, "LOC")}], [{(0, 2, "PER"), (5, 7, "LOC")}]).micro
    Score(em=0.0, f1=0.5, precision=0.5, recall=0.5)
    """
    hits, said, true = Counter[str](), Counter[str](), Counter[str]()
    for expected, found in zip(gold, predicted, strict=True):
        hits.update(label for _, _, label in set(expected) & set(found))
        said.update(label for _, _, label in set(found))
        true.update(label for _, _, label in set(expected))
    types = {label: Score.of_counts(hits[label], said[label], true[label]) for label in sorted(said | true)}
    return EntityScores(Score.of_counts(hits.total(), said.total(), true.total()), types, dict(true))
