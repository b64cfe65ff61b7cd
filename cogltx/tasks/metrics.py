"""Scores of answers, sets, labels and entities, all in [0, 1], and a paired bootstrap of their differences."""

import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cogltx.blocks._script import spaced
from cogltx.document import Entity, Example
from cogltx.prediction import PredictedEntity, Prediction

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_HALF = 0.5  # F1 of an answer that counts as right
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})
_BOOTSTRAP_CELLS = 4_000_000  # random indices in memory at once, 32 MB

Fraction: TypeAlias = tuple[float, float]
Fractions: TypeAlias = Mapping[str, Fraction]
"""Numerator and denominator of an example's share in each metric: a metric is a ratio of sums over examples."""

_Items: TypeAlias = set[str | tuple[int, int, str]]
"""Labels of a text, or its entities: start, end and label."""


@dataclass(frozen=True)
class Score:
    """Exact match, F1, precision and recall of one prediction, each in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float

    @classmethod
    def of_counts(cls, hits: int, predicted: int, gold: int) -> "Score":
        """Score numbers of items; an empty side has precision or recall 0."""
        precision, recall = hits / predicted if predicted else 0.0, hits / gold if gold else 0.0
        return cls(float(hits == predicted == gold), _harmonic(precision, recall), precision, recall)

    @classmethod
    def of_sets(cls, predicted: Collection[Hashable], gold: Collection[Hashable]) -> "Score":
        """Score sets of items, such as HotpotQA's supporting facts."""
        return cls.of_counts(len(set(predicted) & set(gold)), len(set(predicted)), len(set(gold)))

    def joint(self, other: "Score") -> "Score":
        """HotpotQA's joint score: exact match, precision and recall are products, F1 is computed from those.

        >>> Score(1, 1, 1, 1).joint(Score(0, 0.5, 0.5, 0.5))
        Score(em=0, f1=0.5, precision=0.5, recall=0.5)
        """
        precision, recall = self.precision * other.precision, self.recall * other.recall
        return Score(self.em * other.em, _harmonic(precision, recall), precision, recall)


def answer_score(prediction: str, answers: Collection[str], *, closed: bool = False) -> Score:
    """Exact match and token F1 with the best accepted answer, in lower case without punctuation and articles.

    A token is a word between spaces or, in scripts without spaces, a character (as for CMRC 2018, Cui et al. 2019).

    Source: the official evaluations of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) and HotpotQA (Yang et al. 2018).
    ``closed`` is HotpotQA's rule: yes, no and "noanswer" match only themselves. In SQuAD's rule an empty prediction is
    wrong if there is any answer, even an article.

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


def is_right(answer: str, gold: Collection[str]) -> bool:
    """Whether an answer shares at least half of its words with a gold answer (F1).

    >>> is_right("the 64 tables", ["64"]), is_right("", ["64"]), is_right("", [])
    (True, False, True)
    """
    return answer_score(answer, gold).f1 >= _HALF


def sums_by_document(fractions: Iterable[tuple[str, Fractions]]) -> dict[str, dict[str, Fraction]]:
    """Sum the fractions of each metric over the examples of a document; returns metric, document, sums."""
    sums: dict[str, dict[str, Fraction]] = defaultdict(dict)
    for document, of_example in fractions:
        for metric, (numerator, denominator) in of_example.items():
            before = sums[metric].get(document, (0.0, 0.0))
            sums[metric][document] = (before[0] + numerator, before[1] + denominator)
    return dict(sums)


def paired_bootstrap(
    a: Sequence[Mapping[str, Fraction]], b: Sequence[Mapping[str, Fraction]], *, seed: int = 0, samples: int = 10_000
) -> dict[str, float]:
    """Mean difference ``a - b`` of a metric over the seeds, with the ends of its 95 % percentile interval.

    Whole documents are resampled, because the questions about one document are not independent, and so are seeds.

    Args:
        a: per seed the sums of every document (see ``sums_by_document``) of one system.
        b: those of the other system, for the same documents and as many seeds.
        seed: seed of the resampling.
        samples: number of resampled sets.

    >>> paired_bootstrap([{"x": (2, 2), "y": (1, 1)}], [{"x": (0, 2), "y": (0, 1)}])
    {'mean_difference': 1.0, 'low': 1.0, 'high': 1.0}
    """
    documents = list(a[0]) if a else []
    if not documents or len(a) != len(b) or any(set(one) != set(documents) for one in (*a, *b)):
        raise ValueError("two systems are compared on the same documents and as many seeds, at least one")
    sums = np.array([[[one[name] for name in documents] for one in system] for system in (a, b)], dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, _BOOTSTRAP_CELLS // len(documents))
    means = []
    for done in range(0, samples, rows):
        chosen = rng.integers(len(documents), size=(min(rows, samples - done), len(documents)))
        seeds = rng.integers(len(a), size=(len(chosen), len(a)))
        differences = _difference(np.stack([sums[:, :, row].sum(axis=2) for row in chosen]))
        means.append(np.take_along_axis(differences, seeds, axis=1).mean(axis=1))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return {"mean_difference": float(_difference(sums.sum(axis=2)).mean()), "low": float(low), "high": float(high)}


@dataclass(frozen=True)
class _Bin:
    """Predictions with similar scores: their number, mean score, and share of right ones."""

    count: int
    mean_score: float
    accuracy: float


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error in [0, 1] (Guo et al. 2017, eq. 3), over ten bins of equal width."""

    error: float
    bins: tuple[_Bin, ...]

    @classmethod
    def of(cls, scored: Iterable[tuple[float, float]]) -> "CalibrationError | None":
        """Measure pairs of a score in [0, 1] and 1 for right or 0 for wrong; None if there are none.

        >>> CalibrationError.of([(0.75, 1), (0.75, 0)])
        CalibrationError(error=0.25, bins=(_Bin(count=2, mean_score=0.75, accuracy=0.5),))
        """
        by_bin: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for score, right in scored:
            by_bin[min(9, int(10 * score))].append((score, right))
        bins = [
            _Bin(len(pairs), *(sum(column) / len(pairs) for column in zip(*pairs, strict=True)))
            for _, pairs in sorted(by_bin.items())
        ]
        distances = sum(one.count * abs(one.mean_score - one.accuracy) for one in bins)
        return cls(distances / sum(one.count for one in bins), tuple(bins)) if bins else None


def scored_predictions(pairs: Iterable[tuple[Example, Prediction]]) -> Iterator[tuple[float, float]]:
    """Yield confidence, and 1 if right, of each answer, chosen label and entity of the examples with gold."""
    for example, prediction in pairs:
        if example.answers is not None:
            yield prediction.confidence, float(is_right(prediction.answer, example.answers))
        elif example.labels is not None:
            chosen = (label for label in prediction.labels if label.chosen)
            yield from ((label.score, float(label.name in example.labels)) for label in chosen)
        elif example.entities is not None:
            gold = _spans(example.entities)
            yield from ((one.score, float((one.start, one.end, one.label) in gold)) for one in prediction.entities)


def gold_and_predicted(
    pairs: Iterable[tuple[Example, Prediction]], *, entities: bool = False
) -> list[tuple[str, _Items, _Items]]:
    """Document, gold and predicted labels, or entities, of every text with gold; label queries are joined."""
    texts: dict[object, tuple[str, _Items, _Items]] = {}
    for number, (example, prediction) in enumerate(pairs):
        document = example.document.text
        if entities and example.entities is not None:
            texts[number] = (document, _spans(example.entities), _spans(prediction.entities))
        elif not entities and example.labels is not None:
            chosen = {label.name for label in prediction.labels if label.chosen}
            text, label = example.extra.get("text"), example.extra.get("label")
            if example.query is not None and isinstance(text, str) and isinstance(label, str):
                _, gold, predicted = texts.setdefault(text, (document, set(), set()))
                gold.update([label] if "yes" in example.labels else [])
                predicted.update([label] if "yes" in chosen else [])
            else:
                texts[number] = (document, set(example.labels), {*chosen})
    return list(texts.values())


def count_labels(texts: Iterable[tuple[str, _Items, _Items]]) -> dict[str, tuple[int, int, int]]:
    """Numbers of right predictions, predictions and gold items per label, from document, gold and predicted items.

    >>> count_labels([("", {"a"}, {"a"}), ("", {"b"}, {"a"})])
    {'a': (1, 2, 1), 'b': (0, 0, 1)}
    """
    n_hits, n_predicted, n_gold = Counter[str](), Counter[str](), Counter[str]()
    for _, gold, predicted in texts:
        for counter, items in ((n_hits, gold & predicted), (n_predicted, predicted), (n_gold, gold)):
            counter.update(item if isinstance(item, str) else item[2] for item in items)
    return {label: (n_hits[label], n_predicted[label], n_gold[label]) for label in sorted(n_predicted | n_gold)}


def _spans(entities: Iterable[Entity | PredictedEntity]) -> _Items:
    return {(one.start, one.end, one.label) for one in entities}


def _difference(sums: np.ndarray) -> np.ndarray:
    """The difference of the ratios of two systems, from sums of shape [..., system, seed, 2]; 0 / 0 counts as 0."""
    numerator, denominator = sums[..., 0], sums[..., 1]
    ratios = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
    return np.asarray(ratios[..., 0, :] - ratios[..., 1, :])


def _normalized(text: str) -> str:
    text = text.lower().translate(_NO_PUNCTUATION)
    apart = spaced(text)
    if apart != text:
        apart = "".join(character for character in apart if not unicodedata.category(character).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", apart).split())


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
