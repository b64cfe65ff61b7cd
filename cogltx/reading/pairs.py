"""Pairs of passages: which two a question needs together, as the questions of HotpotQA do.

A log-linear model of what the words show: which passage names the heading of the other, what the question names, how
many of its words a pair has, and which rare words only these two share. It needs no encoder.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Bool, Float

from cogltx._files import read_json, write_json
from cogltx.blocks import Blocks
from cogltx.errors import DataError, ModelError
from cogltx.judges.bm25 import BM25Judge

_MAX_PASSAGES = 16  # passages of a document that are paired, the best by the judge
_MAX_QUESTIONS = 10_000  # questions to train on
_JUDGE_WEIGHT = 3.0  # of the sum of both passages' scores, in the logarithm of a pair's odds

_FEATURES = (
    "one names the other",
    "each names the other",
    "named by the question",
    "both named by the question",
    "one names the other, the question one of them",
    "one names the other, the question neither",
    "the one that the question names names the other",
    "words of the question",
    "words of the question, better passage",
    "words of the question, worse passage",
    "words of the question in headings",
    "words of the question in headings, better passage",
    "words that few passages have",
    "words that no other passage has",
)


class PairModel:
    """Finds the two passages of a document that a question needs together.

    Args:
        weights: the weight of each feature, by name; by default all 0, until ``fit``.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(weights or dict.fromkeys(_FEATURES, 0.0))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what ``save`` wrote.

        Raises:
            ModelError: the file is missing, cut off, or not of this model.
        """
        weights = read_json(folder / "pairs.json")
        if set(weights) != set(_FEATURES) or not all(isinstance(weight, float) for weight in weights.values()):
            raise ModelError(f"{folder / 'pairs.json'}: not the weights of a model of pairs of this version")
        return cls(weights)

    def save(self, folder: Path) -> None:
        """Write the weights to a folder."""
        write_json(folder / "pairs.json", self.weights)

    def fit(self, examples: Iterable[tuple[str, Blocks, Bool[np.ndarray, " blocks"]]]) -> None:
        """Train on questions whose relevant blocks lie in two passages, up to 10,000 of them.

        Args:
            examples: the text of a question, a document, and whether each of its blocks is relevant.

        Raises:
            DataError: there is no such question.
        """
        known = list(islice(_known_pairs(examples), _MAX_QUESTIONS))
        if not known:
            raise DataError(
                "memrecall.pairs: no training question has evidence marked in two passages; set it to false"
            )
        self.learn(*(np.concatenate(values) for values in zip(*known, strict=True)))

    def learn(self, features: Float[np.ndarray, "pairs features"], is_pair: Bool[np.ndarray, " pairs"]) -> None:
        """Train on pairs of passages: a logistic regression on standardized features."""
        from sklearn.linear_model import LogisticRegression

        scale = features.std(axis=0) + 1e-9
        model = LogisticRegression(max_iter=1000).fit((features - features.mean(axis=0)) / scale, is_pair)
        self.weights = dict(zip(_FEATURES, (model.coef_[0] / scale).tolist(), strict=True))

    def probabilities(self, question: str, blocks: Blocks, scores: Float[np.ndarray, " blocks"]) -> dict[int, float]:
        """Compute for each passage the probability that it is one of the two.

        Args:
            question: the text of the question.
            blocks: the blocks of the document.
            scores: how relevant the judge finds each block, in [0, 1]; NaN for blocks that it did not score.

        Returns:
            a probability per passage, by its number in ``Blocks.paragraphs``, the most probable first. At most 16
            passages, those of the best blocks; none if the document has only one.
        """
        passages = PassageWords.of(question, blocks, _best_passages(blocks, scores))
        best = {number: np.nan_to_num(scores[blocks.paragraphs == number]).max() for number in passages.numbers}
        if len(best) < 2:
            return {}
        pairs = list(combinations(passages.numbers, 2))
        judged = np.array([best[one] + best[other] for one, other in pairs])
        odds = passages.features @ [self.weights[name] for name in _FEATURES] + _JUDGE_WEIGHT * judged
        shares = np.exp(odds - odds.max())
        shares /= shares.sum()
        total = dict.fromkeys(passages.numbers, 0.0)
        for pair, share in zip(pairs, shares.tolist(), strict=True):
            for number in pair:
                total[number] += share
        return dict(sorted(total.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class PassageWords:
    """The words of passages, as far as they bear on one question.

    Attributes:
        numbers: the passages, by their number in ``Blocks.paragraphs``.
        names: whether the first names a heading of the second, shape [passages, passages].
        named: whether the question names the passage's heading, shape [passages].
        words: the words of each passage and its heading.
        heading_words: those of its heading.
        question: the words of the question and how rare each is among the blocks of the passages.
        rarity: how rare each word is.
    """

    numbers: tuple[int, ...]
    names: Bool[np.ndarray, "passages passages"]
    named: Bool[np.ndarray, " passages"]
    words: tuple[frozenset[str], ...]
    heading_words: tuple[frozenset[str], ...]
    question: Mapping[str, float]
    rarity: Mapping[str, float]

    @classmethod
    def of(cls, question: str, blocks: Blocks, numbers: Iterable[int]) -> Self:
        """Read the words of passages, given by number."""
        numbers = tuple(numbers)
        passage_of = {
            int(block): index
            for index, number in enumerate(numbers)
            for block in np.flatnonzero(blocks.paragraphs == number)
        }
        words, heading_words = ([set[str]() for _ in numbers] for _ in range(2))
        counts, under = Counter[str](), defaultdict[int, set[int]](set)
        for block, passage in passage_of.items():
            heading, text = (set(BM25Judge.terms(part)) for part in (blocks[block].heading, blocks.text(block)))
            words[passage] |= heading | text
            heading_words[passage] |= heading
            counts.update(text)
            under[int(blocks.heading_of[block])].add(passage)
        asked = set(BM25Judge.terms(question))
        rarity = {
            word: math.log(1 + (len(passage_of) - counts[word] + 0.5) / (counts[word] + 0.5))
            for word in asked.union(*words)
        }
        mentions, is_named = blocks.mentions, blocks.mentions.named(question)
        names, named = np.zeros((len(numbers), len(numbers)), dtype=bool), np.zeros(len(numbers), dtype=bool)
        for mention in np.flatnonzero(np.isin(mentions.blocks, list(passage_of))):
            passage = passage_of[int(mentions.blocks[mention])]
            names[passage, list(under[int(mentions.headings[mention])])] = True
        for block, passage in passage_of.items():
            named[passage] |= is_named[block]
        return cls(
            numbers, names, named, tuple(map(frozenset, words)), tuple(map(frozenset, heading_words)),
            {word: rarity[word] for word in asked}, rarity,
        )  # fmt: skip

    @cached_property
    def features(self) -> Float[np.ndarray, "pairs features"]:
        """The features of all pairs, in the order of ``itertools.combinations``."""
        return np.array([self._features(*pair) for pair in combinations(range(len(self.numbers)), 2)])

    @cached_property
    def _n_passages(self) -> Counter[str]:
        """Number of passages in which each word occurs."""
        return Counter(word for words in self.words for word in words)

    def _features(self, one: int, other: int) -> list[float]:
        names, named = (self.names[one, other], self.names[other, one]), (self.named[one], self.named[other])
        words, heading_words = (
            (self.words[one], self.words[other]),
            (self.heading_words[one], self.heading_words[other]),
        )
        covered, covered_by_headings = list(map(self._covered, words)), list(map(self._covered, heading_words))
        shared = [word for word in words[0] & words[1] if word not in self.question]
        return [
            float(any(names)),
            float(all(names)),
            float(sum(named)),
            float(all(named)),
            float(any(names) and any(named)),
            float(any(names) and not any(named)),
            float((names[0] and named[0] and not named[1]) or (names[1] and named[1] and not named[0])),
            self._covered(words[0] | words[1]),
            max(covered),
            min(covered),
            self._covered(heading_words[0] | heading_words[1]),
            max(covered_by_headings),
            math.fsum(self.rarity[word] for word in shared if self._n_passages[word] <= 3),
            float(min(10, sum(self._n_passages[word] == 2 for word in shared))),
        ]

    def _covered(self, words: frozenset[str]) -> float:
        """The share of the question's words, weighed by how rare they are, that ``words`` have."""
        covered = math.fsum(rarity for word, rarity in self.question.items() if word in words)
        return covered / math.fsum(self.question.values()) if covered else 0.0


def _best_passages(blocks: Blocks, scores: Float[np.ndarray, " blocks"], certain: Iterable[int] = ()) -> list[int]:
    """Select the passages of the best blocks, in document order."""
    ranked = blocks.paragraphs[np.argsort(-np.nan_to_num(scores), kind="stable")].tolist()
    return sorted(list(dict.fromkeys([*certain, *ranked]))[:_MAX_PASSAGES])


def _known_pairs(
    examples: Iterable[tuple[str, Blocks, Bool[np.ndarray, " blocks"]]],
) -> Iterable[tuple[Float[np.ndarray, "pairs features"], Bool[np.ndarray, " pairs"]]]:
    """Yield, for each question that needs two passages, the features of all pairs and which is the one."""
    bm25 = BM25Judge()
    for question, blocks, relevant in examples:
        needed = np.unique(blocks.paragraphs[relevant]).tolist()
        if len(needed) == 2 and len(set(blocks.paragraphs.tolist())) > 2:
            numbers = _best_passages(blocks, bm25.text_scores(question, blocks), certain=needed)
            is_pair = [list(pair) == needed for pair in combinations(numbers, 2)]
            yield PassageWords.of(question, blocks, numbers).features, np.array(is_pair)
