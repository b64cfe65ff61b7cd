"""The confidence of an answer: what is fitted, and that what is shown never contradicts it."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from fakes import sentences
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cogltx._files import write_json
from cogltx.blocks import split
from cogltx.config import ModelConfig, load_config
from cogltx.display import sureness
from cogltx.document import Query
from cogltx.encoding.layout import WindowFormat
from cogltx.prediction import Answer, Evidence, Prediction
from cogltx.reasoners import SpanReasonerConfig
from cogltx.reasoners._confidence import Calibration, Uncalibrated
from cogltx.reasoners.span import SpanReasoner, _apart, _distinct
from cogltx.tasks.metrics import CalibrationError as Measured

TOKENIZER = tiny.make_tokenizer()
BLOCKS = split(sentences("Anna wrote the report.", "The fox jumps.", "A dog sat.", "Paris."), TOKENIZER)
LAYOUT = WindowFormat(TOKENIZER, 128).layout(Query("Who wrote the report?"), BLOCKS)
PROBABILITIES = st.floats(0, 1)
CALIBRATIONS = st.builds(
    Calibration, sharpness=st.floats(0.05, 3), relevance=st.floats(0, 3), no_answer=st.floats(-12, 12),
    wrong=st.floats(-12, 12),
)  # fmt: skip
TRUE = Calibration(sharpness=0.4, relevance=0.7, no_answer=-0.5, wrong=-1.0)
"""The world of the simulation: the reader is too sure, and the judge knows whether there is an answer."""

Known = tuple[Uncalibrated, int | None]


SAID = st.tuples(st.lists(PROBABILITIES, min_size=1, max_size=4), PROBABILITIES, PROBABILITIES)
"""What reader and judge say of a question: of each answer, that there is none, and of the best key block."""


def evident(answers: Sequence[float], no_answer: float, relevance: float) -> Uncalibrated:
    return Uncalibrated(tuple(sorted(answers, reverse=True)), no_answer, relevance)


def simulated(count: int, seed: int) -> list[Known]:
    """Questions with three answers each, whose outcomes are drawn as ``TRUE`` says."""
    rng = np.random.default_rng(seed)

    def known() -> Known:
        *answers, no_answer = rng.dirichlet([0.3] * 4).tolist()
        one = evident(answers, no_answer, rng.uniform(0.02, 0.98))
        chances, none = TRUE.probabilities(one)
        drawn = int(rng.choice(5, p=[*chances, none, max(0.0, 1 - sum(chances) - none)]))
        return one, (0, 1, 2, -1, None)[drawn]

    return [known() for _ in range(count)]


def error(calibration: Calibration | None, known: Sequence[Known]) -> float:
    """The expected calibration error of what is shown."""

    def shown() -> Iterator[tuple[float, float]]:
        for one, right in known:
            answers, none = calibration.probabilities(one) if calibration else (one.answers, one.no_answer)
            confidence, number = max((none, -1), *((chance, number) for number, chance in enumerate(answers)))
            yield confidence, float(number == right)

    measured = Measured.of(shown())
    assert measured is not None
    return measured.error


def test_a_reader_that_is_too_sure_is_calibrated() -> None:
    fitted, others = Calibration.fitted(simulated(800, seed=0)), simulated(4000, seed=1)
    assert fitted is not None
    for name, value in TRUE:
        assert getattr(fitted, name) == pytest.approx(value, abs=0.3), name
    assert error(None, others) > 0.15
    assert error(fitted, others) < 0.04


def test_few_questions_are_not_fitted() -> None:
    known = simulated(20, seed=0)
    assert Calibration.fitted(known[:19]) is None
    assert Calibration.fitted(known) is not None


@pytest.mark.parametrize("right", [0, -1, None])
def test_one_outcome_alone_is_fitted(right: int | None) -> None:
    """Where the same is always right, its probability rises, and none becomes 0 or infinite."""
    known = [(one, right) for one, _ in simulated(60, seed=2)]
    fitted = Calibration.fitted(known)
    assert fitted is not None

    def chance(calibration: Calibration) -> float:
        found = [calibration.probabilities(one) for one, _ in known]
        chances = [none if right == -1 else answers[0] if right == 0 else 1 - sum(answers) - none
                   for answers, none in found]  # fmt: skip
        return float(np.mean(chances))

    assert chance(TRUE) < chance(fitted) < 1


@given(CALIBRATIONS, SAID)
def test_probabilities_are_shares_of_one(calibration: Calibration, said: tuple[list[float], float, float]) -> None:
    one = evident(*said)
    answers, none = calibration.probabilities(one)
    assert len(answers) == len(one.answers)
    assert min(*answers, none) >= 0
    assert sum(answers) + none <= 1 + 1e-9
    assert answers == sorted(answers, reverse=True), "the best answer remains the best"


@given(CALIBRATIONS, SAID, st.data())
def test_an_answer_is_more_probable_if_the_reader_says_so(
    calibration: Calibration, said: tuple[list[float], float, float], data: st.DataObject
) -> None:
    one = evident(*said)
    number = data.draw(st.integers(0, len(one.answers) - 1))
    raised = list(one.answers)
    raised[number] = data.draw(st.floats(raised[number], 1))
    before, none_before = calibration.probabilities(one)
    after, none_after = calibration.probabilities(Uncalibrated(tuple(raised), one.no_answer, one.relevance))
    assert after[number] >= before[number] - 1e-12
    assert none_after <= none_before + 1e-12
    others = set(range(len(raised))) - {number}
    assert all(after[other] <= before[other] + 1e-12 for other in others)


@given(CALIBRATIONS, SAID, PROBABILITIES)
def test_a_relevant_block_makes_no_answer_less_probable(
    calibration: Calibration, said: tuple[list[float], float, float], relevance: float
) -> None:
    answers, no_answer, other = said
    _, of_low = calibration.probabilities(evident(answers, no_answer, min(relevance, other)))
    _, of_high = calibration.probabilities(evident(answers, no_answer, max(relevance, other)))
    assert of_high <= of_low + 1e-12


@settings(max_examples=200)
@given(
    seed=st.integers(0, 10_000), scale=st.floats(0, 8), calibration=st.none() | CALIBRATIONS,
    always_answers=st.booleans(), relevance=st.none() | st.lists(PROBABILITIES, min_size=4, max_size=4),
)  # fmt: skip
def test_no_decision_contradicts_the_numbers(
    seed: int, scale: float, calibration: Calibration | None, always_answers: bool, relevance: list[float] | None
) -> None:
    rng = np.random.default_rng(seed)
    windows = [LAYOUT.window([0, 1]), LAYOUT.window([2, 3])]
    outputs = [(window, rng.normal(size=(len(window), 6), scale=scale).astype(np.float32)) for window in windows]
    evidence = relevance and [
        Evidence(block.start, block.end, "", score, 1) for block, score in zip(BLOCKS, relevance, strict=True)
    ]
    reasoner = SpanReasoner.__new__(SpanReasoner)
    torch.nn.Module.__init__(reasoner)
    reasoner.config = SpanReasonerConfig(calibration=calibration, always_answers=always_answers)
    made = reasoner.predict(LAYOUT, outputs, evidence, relevance=max(relevance or [0.5]))
    none = made.no_answer_confidence
    assert none is not None
    assert all(0 <= one.confidence <= made.confidence <= 1 for one in made.alternatives if made.answer)
    assert all(0 <= one.confidence < made.confidence <= 1 for one in made.alternatives if not made.answer)
    assert made.answer or made.confidence == none
    assert none <= made.confidence or always_answers
    assert made.answer or not always_answers
    percent = [100 * one.confidence for one in made.alternatives]
    shown = f"{100 * made.confidence:.0f} %"
    assert shown in sureness(made.confidence)
    assert all(round(one) <= round(100 * made.confidence) for one in percent), "nor do the printed numbers"


PLACED = st.builds(
    lambda text, start, confidence: Answer(text, start, start + len(text), confidence),
    st.sampled_from(("fox", "Fox", "a dog", "Paris.")), st.integers(0, 40), PROBABILITIES,
)  # fmt: skip


@given(st.lists(PLACED | st.builds(Answer, st.just("yes"), st.none(), st.none(), PROBABILITIES), min_size=1))
def test_the_same_text_at_two_places_is_not_less_probable_than_at_one(answers: list[Answer]) -> None:
    distinct = {answer.text.lower(): answer for answer in _distinct(answers)}
    for text in {answer.text.lower() for answer in answers}:
        alike = [answer for answer in answers if answer.text.lower() == text]
        assert distinct[text].confidence == pytest.approx(min(1, sum(answer.confidence for answer in alike)))
        assert distinct[text].confidence >= max(answer.confidence for answer in alike)
        place = distinct[text].start, distinct[text].end
        assert place in {(one.start, one.end) for one in alike if one.confidence == max(a.confidence for a in alike)}
    best, *others = _apart(_distinct(answers), 3)
    assert best.confidence >= max(answer.confidence for answer in answers)
    assert all(other.confidence <= best.confidence for other in others)


@pytest.fixture(scope="module")
def format_2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("format-2")


def translated(folder: Path, **reasoner: float | None) -> SpanReasonerConfig:
    """The reasoner of a model folder of format 2 with these settings."""
    values = ModelConfig().model_dump(mode="json")
    for name in ("always_answers", "calibration"):
        del values["reasoner"][name]
    write_json(folder / "config.json", {"format": 2, **values, "reasoner": values["reasoner"] | reasoner})
    found = load_config(folder).reasoner
    assert isinstance(found, SpanReasonerConfig)
    return found


def read(answer: float, no_answer: float, relevance: float) -> Prediction:
    return Prediction(
        id="", answer="fox", start=0, end=3, confidence=answer, no_answer_confidence=no_answer, relevance=relevance,
        alternatives=(Answer("dog", 4, 7, answer / 2),),
    )  # fmt: skip


@given(
    threshold=st.floats(-15, 15), weight=st.floats(0, 3), answer=st.floats(1e-4, 1), no_answer=st.floats(1e-4, 1),
    relevance=st.floats(0.001, 0.999),
)  # fmt: skip
def test_a_model_of_format_2_decides_by_its_threshold(
    format_2: Path, threshold: float, weight: float, answer: float, no_answer: float, relevance: float
) -> None:
    margin = math.log(no_answer) - math.log(answer) - weight * math.log(relevance / (1 - relevance))
    assume(abs(margin - threshold) > 1e-6)
    config = translated(format_2, no_answer_threshold=threshold, no_answer_evidence_weight=weight)
    decided = config.apply_thresholds(read(answer, no_answer, relevance))
    assert decided.answer == ("" if margin > threshold else "fox")


def test_a_model_of_format_2_without_a_threshold_always_answers(format_2: Path) -> None:
    for old in ({"no_answer_threshold": None, "no_answer_evidence_weight": 2.0}, {}):
        config = translated(format_2, **old)
        made = read(0.1, 0.9, 0.01)
        assert config.apply_thresholds(made) == made
