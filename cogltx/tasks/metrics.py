"""Scores of answers and evidence, and whether a difference between two systems is more than chance.

SQuAD's exact match and token F1, HotpotQA's answer, supporting-fact and joint scores, entities, a paired bootstrap.
Knows nothing about documents, tasks or files; every score is in [0, 1].
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})
_BOOTSTRAP_CELLS = 4_000_000  # random indices held at once, 32 MB


@dataclass(frozen=True)
class Score:
    """How well one prediction matches one gold answer or set of facts; every number in [0, 1].

    Attributes:
        em: 1 where they are the same.
        f1: harmonic mean of the next two.
        precision: share of the predicted that is gold.
        recall: share of the gold that is predicted.
    """

    em: float
    f1: float
    precision: float
    recall: float


@dataclass(frozen=True)
class EntityScores:
    """How well predicted entities match the gold ones.

    Attributes:
        micro: over all types.
        types: of each type that occurs, sorted by name.
        gold: how many gold entities each type has.
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


def normalize_answer(text: str) -> str:
    """An answer as SQuAD compares it: lower case, no punctuation, no articles, single spaces.

    Source: the official SQuAD 1.1 and 2.0 evaluation (Rajpurkar et al. 2016, 2018).

    >>> normalize_answer("The  U.S. dollar, a currency")
    'us dollar currency'
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, gold: str) -> float:
    """1 if both are the same after ``normalize_answer``, else 0.

    >>> exact_match("the Cat.", "cat"), exact_match("a dog", "cat")
    (1.0, 0.0)
    """
    return float(normalize_answer(prediction) == normalize_answer(gold))


def f1(prediction: str, gold: str) -> float:
    """F1 of the bags of normalised tokens; if either is empty, 1 where both are (SQuAD 2.0), else 0.

    >>> round(f1("the big cat", "a cat"), 3), f1("", ""), f1("", "cat")
    (0.667, 1.0, 0.0)
    """
    return _token_score(normalize_answer(prediction), normalize_answer(gold)).f1


def best(metric: Callable[[str, str], float], prediction: str, answers: Collection[str]) -> float:
    """The best score of a prediction over the accepted answers.

    Args:
        metric: ``exact_match`` or ``f1``.
        prediction: the answer given; "" says that there is none.
        answers: the accepted texts; none if the question has no answer: then the empty prediction is right.

    Returns:
        A score in [0, 1]; 0 for an empty prediction where there is an answer.

    >>> best(f1, "cat", ["dog", "cat"]), best(exact_match, "", []), best(exact_match, "", ["the"])
    (1.0, 1.0, 0.0)
    """
    if not answers:
        return metric(prediction, "")
    if not prediction.strip():
        return 0.0
    return max(metric(prediction, answer) for answer in answers)


def answer_score(prediction: str, gold: str) -> Score:
    """HotpotQA's answer score: as SQuAD's, but yes, no and "noanswer" match nothing except themselves.

    Source: the official HotpotQA evaluation (Yang et al. 2018).

    >>> answer_score("no", "no way").f1, answer_score("No.", "no").em
    (0.0, 1.0)
    """
    said, true = normalize_answer(prediction), normalize_answer(gold)
    if said != true and _CLOSED_ANSWERS & {said, true}:
        return Score(0.0, 0.0, 0.0, 0.0)
    return _token_score(said, true)


def facts_score(predicted: Collection[Hashable], gold: Collection[Hashable]) -> Score:
    """HotpotQA's score of supporting facts, compared as sets; an empty side has precision or recall 0.

    >>> facts_score([("A", 0), ("B", 1)], [("A", 0), ("C", 2)])
    Score(em=0.0, f1=0.5, precision=0.5, recall=0.5)
    """
    said, true = set(predicted), set(gold)
    hits = len(said & true)
    precision = hits / len(said) if said else 0.0
    recall = hits / len(true) if true else 0.0
    return Score(float(said == true), _harmonic(precision, recall), precision, recall)


def joint_score(answer: Score, facts: Score) -> Score:
    """HotpotQA's joint score: precision, recall and exact match are the products, F1 is of those.

    >>> joint_score(Score(1, 1, 1, 1), Score(0, 0.5, 0.5, 0.5))
    Score(em=0, f1=0.5, precision=0.5, recall=0.5)
    """
    precision, recall = answer.precision * facts.precision, answer.recall * facts.recall
    return Score(answer.em * facts.em, _harmonic(precision, recall), precision, recall)


def paired_bootstrap(a: Sequence[float], b: Sequence[float], *, seed: int = 0, samples: int = 10_000) -> Interval:
    """Mean of ``a - b`` over the examples, with its 95 % percentile interval.

    Args:
        a: one number per example, of the first system.
        b: the numbers of the second system for the same examples, in the same order.
        seed: of the resampling.
        samples: how often the examples are drawn anew, with replacement.

    Raises:
        ValueError: the two differ in length or are empty, or ``samples`` is below 1.

    >>> paired_bootstrap([1, 1, 1], [0, 0, 0])
    Interval(mean_difference=1.0, low=1.0, high=1.0)
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"paired_bootstrap: expected two equally long, non-empty sequences, got {len(a)} and {len(b)}")
    if samples < 1:
        raise ValueError(f"paired_bootstrap: expected samples >= 1, got {samples}")
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, _BOOTSTRAP_CELLS // len(difference))
    means = [
        difference[rng.integers(len(difference), size=(min(rows, samples - done), len(difference)))].mean(axis=1)
        for done in range(0, samples, rows)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Interval(float(difference.mean()), float(low), float(high))


def _token_score(said: str, true: str) -> Score:
    """The score of two normalised answers as bags of tokens."""
    em = float(said == true)
    if not said or not true:
        return Score(em, em, em, em)
    said_tokens, true_tokens = said.split(), true.split()
    same = (Counter(said_tokens) & Counter(true_tokens)).total()
    precision, recall = same / len(said_tokens), same / len(true_tokens)
    return Score(em, _harmonic(precision, recall), precision, recall)


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def label_scores(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> dict[str, float]:
    """Micro and macro F1 of sets of labels, each in [0, 1].

    Args:
        gold: the labels of each text.
        predicted: those that a model gives it.

    Returns:
        ``micro_f1`` over all labels of all texts, and ``macro_f1``, the mean over the labels that occur.

    >>> label_scores([{"a"}, {"b"}], [{"a"}, {"a"}])
    {'micro_f1': 0.5, 'macro_f1': 0.3333333333333333}
    """
    counts = label_counts(gold, predicted)
    hits, said, true = (sum(count[place] for count in counts.values()) for place in range(3))
    every = [2 * count[0] / (count[1] + count[2]) for count in counts.values()]
    micro = 2 * hits / (said + true) if said + true else 1.0
    return {"micro_f1": micro, "macro_f1": sum(every) / len(every) if every else 1.0}


def entity_scores(
    gold: Sequence[Collection[tuple[int, int, str]]], predicted: Sequence[Collection[tuple[int, int, str]]]
) -> EntityScores:
    """Precision, recall and F1 of entities, each (start, end, type): right are those with the exact place and type.

    The definition of seqeval and of CoNLL-2003: counts are summed over all texts (micro); an empty side has precision
    or recall 0.

    Args:
        gold: the entities of each text.
        predicted: those that a model finds in it.

    >>> entity_scores([{(0, 2, "PER"), (5, 6, "LOC")}], [{(0, 2, "PER"), (5, 7, "LOC")}]).micro
    Score(em=0.0, f1=0.5, precision=0.5, recall=0.5)
    """
    hits, said, true = Counter[str](), Counter[str](), Counter[str]()
    for own, found in zip(gold, predicted, strict=True):
        hits.update(label for _, _, label in set(own) & set(found))
        said.update(label for _, _, label in set(found))
        true.update(label for _, _, label in set(own))
    types = {label: _count_score(hits[label], said[label], true[label]) for label in sorted(said | true)}
    return EntityScores(_count_score(hits.total(), said.total(), true.total()), types, dict(true))


def _count_score(hits: int, said: int, true: int) -> Score:
    precision, recall = (hits / whole if whole else 0.0 for whole in (said, true))
    return Score(float(hits == said == true), _harmonic(precision, recall), precision, recall)


def label_counts(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]
) -> dict[str, tuple[int, int, int]]:
    """How often each label was rightly predicted, was predicted, and is gold; sorted by name."""
    hits, said, true = Counter[str](), Counter[str](), Counter[str]()
    for own, found in zip(gold, predicted, strict=True):
        hits.update(set(own) & set(found))
        said.update(set(found))
        true.update(set(own))
    return {label: (hits[label], said[label], true[label]) for label in sorted(said | true)}
