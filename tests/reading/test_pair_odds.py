"""What decides about a pair of passages: the judge's scores and the rare words that only these two share."""

import math

import numpy as np
import pytest
import tiny
from builders import document_of

from cogltx.blocks import Blocks, split
from cogltx.reading.pairs import PairModel, PassageWords

TOKENIZER = tiny.make_tokenizer()


def passages_with(*texts: str) -> Blocks:
    """Passages without headings, one block each."""
    return split(document_of(*(("", f"{text}.") for text in texts)), TOKENIZER, max_tokens=48)


def test_the_judge_weighs_three_times_the_sum_of_both_scores() -> None:
    """By hand, without trained weights: the odds of two pairs are e^(3 · difference of the sums of their scores)."""
    blocks, scores = passages_with("rain", "rain", "rain"), np.array([0.1, 0.4, 0.9])
    probabilities = PairModel().probabilities("Who?", blocks, scores)
    without = {number: 1 - probability for number, probability in probabilities.items()}  # p(the pair without it)
    assert math.log(without[0] / without[1]) == pytest.approx(3 * (0.4 - 0.1))
    assert math.log(without[1] / without[2]) == pytest.approx(3 * (0.9 - 0.4))


def test_a_rare_word_is_one_of_at_most_three_passages() -> None:
    """Of zebra (two passages), tiger (three), lion (four) and rain (two, but a word of the question)."""
    blocks = passages_with("zebra tiger lion rain", "zebra tiger lion rain", "tiger lion", "lion", "sun")
    shared = PassageWords.of("When did rain fall?", blocks, range(5)).features[:, 12]
    zebra, tiger = (math.log(1 + (5 - count + 0.5) / (count + 0.5)) for count in (2, 3))
    expected = [zebra + tiger, tiger, 0, 0, tiger, 0, 0, 0, 0, 0]  # the pairs (0, 1), (0, 2), … in order
    assert shared.tolist() == pytest.approx(expected)


def test_words_that_no_other_passage_has_count_up_to_ten() -> None:
    letters = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"]
    several = " ".join(letters[:3])
    for words, expected in ((several, 3), (" ".join(letters), 10)):
        blocks = passages_with(f"{words} tiger rain", f"{words} tiger rain", "tiger")
        only_two = PassageWords.of("When did rain fall?", blocks, range(3)).features[:, 13]
        assert only_two.tolist() == [expected, 0, 0], "tiger is in three passages, rain is in the question"
