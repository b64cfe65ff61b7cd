"""The scores against values worked out by hand from the official definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.tasks.metrics import Score, answer_score, paired_bootstrap

NOTHING = Score(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat", "cat"),
        ("a  cat,\tand  an owl.", "cat and owl"),
        ("theatre", "theatre"),
        ("U.S.", "us"),
        ("1,234.5", "12345"),
        ("state-of-the-art", "stateoftheart"),
        ("Ünïcode – dash", "ünïcode – dash"),
    ],
)
def test_normalize_answer(text: str, normal: str) -> None:
    assert answer_score(text, [normal]).em == answer_score(normal, [text]).em == 1.0


@given(st.text())
def test_an_answer_matches_itself(text: str) -> None:
    score = answer_score(text, [text], closed=True)
    assert score.em == score.f1 == 1.0


@pytest.mark.parametrize(
    ("prediction", "gold", "score"),
    [
        ("cat", "cat", 1.0),
        ("the cat sat", "cat sat down", 0.8),
        ("cat cat", "cat", 2 / 3),
        ("dog", "cat", 0.0),
        ("", "", 1.0),
        ("the", "", 1.0),
        ("北京大学", "北京", 2 / 3),
        ("京都の寺", "京都", 2 / 3),
        ("《红楼梦》", "红楼梦", 1.0),
        ("２０１１年", "２０１１ 年。", 1.0),
        ("ในเชียงใหม่", "เชียงใหม่", 10 / 11),
        ("ភ្នំពេញ", "ភ្នំ", 0.5),
        ("서울은", "서울", 0.0),
        ("l'État", "État", 0.0),
        ("", "cat", 0.0),
        ("cat", "", 0.0),
    ],
)
def test_f1(prediction: str, gold: str, score: float) -> None:
    assert answer_score(prediction, [gold], closed=True).f1 == pytest.approx(score)
    assert answer_score(gold, [prediction], closed=True).f1 == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "answers", "em", "f1_score"),
    [
        ("cat", ("dog", "the cat"), 1.0, 1.0),
        ("big cat", ("dog", "cat"), 0.0, 2 / 3),
        ("", (), 1.0, 1.0),
        ("cat", (), 0.0, 0.0),
        ("", ("cat",), 0.0, 0.0),
        (" ", ("the",), 0.0, 0.0),
    ],
)
def test_best(prediction: str, answers: tuple[str, ...], em: float, f1_score: float) -> None:
    best = answer_score(prediction, answers)
    assert (best.em, best.f1) == (em, pytest.approx(f1_score))


@pytest.mark.parametrize(
    ("prediction", "gold", "score"),
    [
        ("yes", "yes", Score(1.0, 1.0, 1.0, 1.0)),
        ("Yes.", "yes", Score(1.0, 1.0, 1.0, 1.0)),
        ("yes", "no", NOTHING),
        ("yes it is", "yes", NOTHING),
        ("no", "no way", NOTHING),
        ("noanswer", "answer", NOTHING),
        ("", "cat", NOTHING),
        ("the big cat", "cat", Score(0.0, 2 / 3, 0.5, 1.0)),
        ("cat", "cat sat on mats", Score(0.0, 0.4, 1.0, 0.25)),
    ],
)
def test_closed_answers(prediction: str, gold: str, score: Score) -> None:
    assert answer_score(prediction, [gold], closed=True) == score


@pytest.mark.parametrize(
    ("predicted", "gold", "score"),
    [
        ([("A", 0), ("B", 1)], [("B", 1), ("A", 0)], Score(1.0, 1.0, 1.0, 1.0)),
        ([("A", 0)], [("A", 0), ("B", 1)], Score(0.0, 2 / 3, 1.0, 0.5)),
        ([("A", 0), ("A", 0), ("A", 1)], [("A", 0)], Score(0.0, 2 / 3, 0.5, 1.0)),
        ([], [("A", 0)], NOTHING),
        ([("A", 0)], [], NOTHING),
        ([], [], Score(1.0, 0.0, 0.0, 0.0)),
    ],
)
def test_facts_score(predicted: list[tuple[str, int]], gold: list[tuple[str, int]], score: Score) -> None:
    assert Score.of_sets(predicted, gold) == score


def test_joint_score() -> None:
    answer, facts = Score(1.0, 0.8, 1.0, 2 / 3), Score(0.0, 0.5, 0.5, 0.5)
    assert answer.joint(facts) == Score(0.0, 2 * 0.5 * (1 / 3) / (0.5 + 1 / 3), 0.5, 1 / 3)
    assert NOTHING.joint(facts) == NOTHING


def means(scores: list[float], per_document: int = 1) -> dict[str, tuple[float, float]]:
    """The sums of a mean over questions; consecutive questions share a document."""
    groups = [scores[first : first + per_document] for first in range(0, len(scores), per_document)]
    return {str(number): (sum(group), float(len(group))) for number, group in enumerate(groups)}


def test_bootstrap_covers_a_known_difference() -> None:
    a, b = means([1.0, 0.0] * 200), means([0.0, 0.0] * 200)
    interval = paired_bootstrap([a], [b], seed=1, samples=2000)
    assert interval["mean_difference"] == 0.5
    # the standard error of the mean is 0.5 / sqrt(400) = 0.025
    assert interval["low"] == pytest.approx(0.5 - 1.96 * 0.025, abs=0.005)
    assert interval["high"] == pytest.approx(0.5 + 1.96 * 0.025, abs=0.005)


def test_questions_about_one_document_are_resampled_together() -> None:
    """Ten questions per document with one result each are worth a single question."""
    a = means([score for score in (1.0, 0.0) * 20 for _ in range(10)], per_document=10)
    b = means([0.0] * 400, per_document=10)
    interval = paired_bootstrap([a], [b], samples=2000)
    assert interval["mean_difference"] == 0.5
    # the standard error of the mean of 40 documents is 0.5 / sqrt(40) = 0.079
    assert interval["high"] - interval["low"] == pytest.approx(2 * 1.96 * 0.079, rel=0.1)


def test_seeds_are_resampled() -> None:
    """Two seeds that differ more than the documents make the interval as wide as the two."""
    good, bad = means([1.0] * 100), means([0.0] * 100)
    interval = paired_bootstrap([good, bad], [bad, bad])
    assert (interval["mean_difference"], interval["low"], interval["high"]) == (0.5, 0.0, 1.0)


def test_bootstrap_of_micro_f1() -> None:
    a = {"x": (2.0, 2.0), "y": (0.0, 6.0)}
    interval = paired_bootstrap([a], [{"x": (0.0, 2.0), "y": (0.0, 6.0)}], samples=500)
    assert interval["mean_difference"] == 0.25, "a ratio of sums, not a mean of ratios"
    assert (interval["low"], interval["high"]) == (0.0, 1.0)
    nothing = {"x": (0.0, 0.0)}
    assert paired_bootstrap([nothing], [nothing], samples=5)["high"] == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_bootstrap_turns_round(pairs: list[tuple[float, float]]) -> None:
    a, b = [means([pair[0] for pair in pairs])], [means([pair[1] for pair in pairs])]
    there, back = paired_bootstrap(a, b, samples=50), paired_bootstrap(b, a, samples=50)
    assert there == paired_bootstrap(a, b, samples=50)
    assert (there["mean_difference"], there["low"]) == (
        pytest.approx(-back["mean_difference"], abs=1e-12),
        pytest.approx(-back["high"], abs=1e-12),
    )
    assert there["low"] <= there["high"]


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [])])
def test_bootstrap_refuses(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="the same documents and as many seeds, at least one"):
        paired_bootstrap([means(a)], [means(b)])
