"""Scores of answers, sets, labels and entities, all in [0, 1], and a paired bootstrap of their differences."""

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cogltx.document import Example
from cogltx.prediction import Prediction

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})
_BOOTSTRAP_CELLS = 4_000_000  # random indices in memory at once, 32 MB

_Item: TypeAlias = str | tuple[int, int, str]
"""A label of a text, or an entity: start, end and label."""


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

    @classmethod
    def micro(cls, counts: Mapping[str, tuple[int, int, int]]) -> "Score":
        """Score over all labels: the counts of ``count_labels`` are summed (seqeval, CoNLL-2003)."""
        return cls.of_counts(*(sum(column) for column in zip((0, 0, 0), *counts.values(), strict=True)))

    def joint(self, other: "Score") -> "Score":
        """HotpotQA's joint score: exact match, precision and recall are products, F1 is computed from those.

        >>> Score(1, 1, 1, 1).joint(Score(0, 0.5, 0.5, 0.5))
        Score(em=0, f1=0.5, precision=0.5, recall=0.5)
        """
        precision, recall = self.precision * other.precision, self.recall * other.recall
        return Score(self.em * other.em, _harmonic(precision, recall), precision, recall)


@dataclass(frozen=True)
class Interval:
    """A difference of means and its 95 % confidence interval, in the unit of the compared numbers."""

    mean_difference: float
    low: float
    high: float


def answer_score(prediction: str, answers: Collection[str], *, closed: bool = False) -> Score:
    """Exact match and token F1 with the best accepted answer, in lower case without punctuation and articles.

    Source: the official evaluations of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) and HotpotQA (Yang et al. 2018).

    Args:
        prediction: the predicted answer; "" if there is none.
        answers: the accepted texts; none if the question has no answer.
        closed: HotpotQA's rule, where yes, no and "noanswer" match only themselves, in place of SQuAD's, where an empty
            prediction is wrong if there is any answer, even an article.

    >>> answer_score("The Cat.", ["dog", "cat"]).em, answer_score("the big cat", ["a cat"]).em
    (1.0, 0.0)
    >>> answer_score("", []).f1, answer_score("", ["the"]).f1, answer_score("a dog", []).f1
    (1.0, 0.0, 0.0)
    >>> answer_score("no", ["no way"], closed=True).f1, answer_score("No.", ["no"], closed=True).em
    (0.0, 1.0)
    """
    if answers and not prediction.strip() and not closed:
        return Score(0.0, 0.0, 0.0, 0.0)
    scores = [_token_score(_normalized(prediction), _normalized(answer), closed) for answer in answers or ("",)]
    return max(scores, key=lambda score: (score.em, score.f1))


def paired_bootstrap(a: Sequence[float], b: Sequence[float], *, seed: int = 0, samples: int = 10_000) -> Interval:
    """Mean of ``a - b``, numbers of two systems for the same examples, with its 95 % percentile interval.

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


def _token_score(predicted: str, expected: str, closed: bool) -> Score:
    """The score of two normalized answers as bags of tokens."""
    same = float(predicted == expected)
    if same or not predicted or not expected or (closed and _CLOSED_ANSWERS & {predicted, expected}):
        return Score(same, same, same, same)
    tokens, expected_tokens = predicted.split(), expected.split()
    hits = (Counter(tokens) & Counter(expected_tokens)).total()
    return replace(Score.of_counts(hits, len(tokens), len(expected_tokens)), em=0.0)


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def gold_and_predicted(
    pairs: Iterable[tuple[Example, Prediction]], *, entities: bool = False
) -> tuple[list[set[_Item]], list[set[_Item]]]:
    """Gold and predicted labels, or entities, of every text with gold; joins the examples of label queries."""
    gold: dict[str, set[_Item]] = {}
    predicted: dict[str, set[_Item]] = {}
    for number, (example, prediction) in enumerate(pairs):
        if entities and example.entities is not None:
            gold[str(number)] = {(entity.start, entity.end, entity.label) for entity in example.entities}
            predicted[str(number)] = {(entity.start, entity.end, entity.label) for entity in prediction.entities}
        elif not entities and example.labels is not None:
            chosen = {label.name for label in prediction.labels if label.chosen}
            text, label = example.extra.get("text"), example.extra.get("label")
            if isinstance(text, str) and isinstance(label, str):
                gold.setdefault(text, set()).update([label] if "yes" in example.labels else [])
                predicted.setdefault(text, set()).update([label] if "yes" in chosen else [])
            else:
                gold[example.id], predicted[example.id] = set(example.labels), {*chosen}
    return list(gold.values()), list(predicted.values())


def count_labels(
    gold: Sequence[Collection[_Item]], predicted: Sequence[Collection[_Item]]
) -> dict[str, tuple[int, int, int]]:
    """Numbers of right predictions, predictions and gold items per label, sorted by label.

    Args:
        gold: the labels or entities of each text; an entity is right if its span and label are exact.
        predicted: the predicted ones of each text.

    >>> count_labels([{"a"}, {"b"}], [{"a"}, {"a"}])
    {'a': (1, 2, 1), 'b': (0, 0, 1)}
    """
    hits, said, true = Counter[str](), Counter[str](), Counter[str]()
    for expected, found in zip(gold, predicted, strict=True):
        for counter, items in ((hits, set(expected) & set(found)), (said, set(found)), (true, set(expected))):
            counter.update(item if isinstance(item, str) else item[2] for item in items)
    return {label: (hits[label], said[label], true[label]) for label in sorted(said | true)}
