"""The span reasoner: exact losses, and answers that are exact slices of the document and of nothing else."""

import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from fakes import sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cogltx.blocks import Blocks, split
from cogltx.blocks._script import expand_to_words
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.prediction import Answer, Evidence, Prediction
from cogltx.reasoners._confidence import Calibration
from cogltx.reasoners.span import (
    NO,
    NO_ANSWER,
    SPAN,
    YES,
    SpanReasoner,
    SpanReasonerConfig,
    _answer_tokens,
    _document_mask,
    _Target,
    _weighed,
)
from cogltx.tasks.metrics import is_right

TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 128)
DOCUMENT = sentences(
    "Anna wrote the report.", "The fox jumps.", "A dog sat.", "Paris.", headings=("People", "", "", "Paris")
)
BLOCKS = split(DOCUMENT, TOKENIZER)


def layout_of(blocks: Blocks = BLOCKS) -> Layout:
    return FORM.layout(Query("Who wrote the report?"), blocks)


def window_of(order: list[int], blocks: Blocks = BLOCKS) -> Window:
    return layout_of(blocks).window(order)


def bare_reasoner(**options: Any) -> SpanReasoner:
    """A reasoner without an encoder, to decode logits."""
    reasoner = SpanReasoner.__new__(SpanReasoner)
    torch.nn.Module.__init__(reasoner)
    reasoner.config = SpanReasonerConfig(**options)
    return reasoner


def outputs_of(
    window: Window, *, kinds: tuple[float, ...] = (9, 0, 0, 0), start: dict[int, float] | None = None,
    end: dict[int, float] | None = None,
) -> np.ndarray:  # fmt: skip
    """Logits that are 0 except where given, by place in the window."""
    outputs = np.zeros((len(window), 6), dtype=np.float32)
    outputs[:, 2:] = kinds
    for column, values in enumerate((start or {}, end or {})):
        for place, value in values.items():
            outputs[place, column] = value
    return outputs


def place(window: Window, word: str, blocks: Blocks = BLOCKS) -> int:
    """Where in the window a word of the document stands."""
    at = blocks.document.text.index(word)
    token = int(np.searchsorted(blocks.token_starts, at))
    return int(np.flatnonzero(window.document_token == token)[0])


def best(
    outputs: np.ndarray, window: Window, blocks: Blocks = BLOCKS, count: int = 3, **options: Any
) -> Prediction:  # fmt: skip
    """The prediction of so many answers, even if no answer is more probable, from the logits of one window."""
    reasoner = bare_reasoner(top_k=count, **{"always_answers": True, **options})
    return reasoner.predict(layout_of(blocks), [(window, outputs)])


def answers_of(prediction: Prediction) -> list[Answer]:
    """The answer and the alternatives, best first."""
    first = Answer(prediction.answer, prediction.start, prediction.end, prediction.confidence)
    return [first, *prediction.alternatives]


def no_answer_confidence(prediction: Prediction) -> float:
    assert prediction.no_answer_confidence is not None
    return prediction.no_answer_confidence


def test_losses_are_log_probabilities() -> None:
    windows = [window_of([0, 1]), window_of([2]), window_of([1, 3])]
    length = max(map(len, windows)) + 3
    outputs = torch.randn(3, length, 6)
    first, last = place(windows[0], "the report"), place(windows[0], "report.")
    other = place(windows[0], "Anna")
    targets = [_Target(SPAN, ((first, last), (other, other))), _Target(YES), _Target(NO_ANSWER)]
    losses = bare_reasoner().losses(outputs, windows, targets)

    numbers = outputs.double().numpy()
    shown = [index for index, token in enumerate(windows[0].document_token) if token >= 0]
    total = [sum(math.exp(numbers[0, index, column]) for index in shown) for column in (0, 1)]
    kinds = [sum(math.exp(value) for value in numbers[row, 0, 2:]) for row in range(3)]

    def chance(start: int, end: int) -> float:
        return math.exp(numbers[0, start, 0]) / total[0] * math.exp(numbers[0, end, 1]) / total[1]

    span = math.exp(numbers[0, 0, 2 + SPAN]) / kinds[0] * (chance(first, last) + chance(other, other))
    expected = [
        -math.log(span),
        *(-(numbers[row, 0, 2 + kind] - math.log(kinds[row])) for row, kind in ((1, YES), (2, NO_ANSWER))),
    ]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-5)


def test_losses_have_gradients_for_what_is_shown_alone() -> None:
    window = window_of([0])
    outputs = torch.randn(1, len(window) + 4, 6, requires_grad=True)
    first = place(window, "Anna")
    bare_reasoner().losses(outputs, [window], [_Target(SPAN, ((first, first),))]).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
    touched = outputs.grad[0, :, :2].abs().sum(dim=1) > 0
    assert touched.tolist() == _document_mask([window], outputs.shape[1])[0].tolist()


def test_readable_tokens_are_those_of_the_document() -> None:
    windows = [window_of([0, 3]), window_of([1])]
    mask = _document_mask(windows, 64)
    for row, window in enumerate(windows):
        assert np.flatnonzero(mask[row]).tolist() == np.flatnonzero(window.document_token >= 0).tolist()


@settings(max_examples=100)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)), count=st.integers(1, 4))
def test_answers_are_exact_slices_of_the_document(seed: int, order: list[int], count: int) -> None:
    window = window_of(sorted(order[:count]))
    outputs = np.random.default_rng(seed).normal(size=(len(window), 6), scale=6).astype(np.float32)
    answers = answers_of(best(outputs, window, count=8))
    assert 1 <= len(answers) <= 8
    assert len({answer.text.lower() for answer in answers}) == len(answers)
    confidences = [answer.confidence for answer in answers]
    assert confidences == sorted(confidences, reverse=True)
    in_window = {int(token) for token in window.document_token if token >= 0}
    places = sorted((answer.start, answer.end) for answer in answers if answer.start is not None)
    assert all(end <= start for (_, end), (start, _) in pairwise(places)), "two answers share a character"
    for answer in answers:
        assert 0 <= answer.confidence <= 1
        if answer.start is None or answer.end is None:
            assert answer.text in ("yes", "no")
            continue
        assert answer.text == DOCUMENT.text[answer.start : answer.end] == answer.text.strip()
        tokens = np.flatnonzero((BLOCKS.token_starts < answer.end) & (BLOCKS.token_ends > answer.start))
        assert set(tokens.tolist()) <= in_window, "an answer from outside the window, or through a gap"
        assert BLOCKS.token_starts[tokens[0]] == answer.start
        assert BLOCKS.token_ends[tokens[-1]] == answer.end
        assert expand_to_words(DOCUMENT.text, answer.start, answer.end) == (answer.start, answer.end)


def test_answers_are_widened_to_whole_words() -> None:
    blocks = split(Document("He left Netherlands."), TOKENIZER)
    window = FORM.layout(None, blocks).window([0])
    inside = np.flatnonzero((blocks.token_starts >= 8) & (blocks.token_ends <= 19))
    assert len(inside) > 1, "the word is a single token"
    first, last = (int(np.flatnonzero(window.document_token == token)[0]) for token in inside[[0, -2]])
    prediction = best(outputs_of(window, start={first: 30}, end={last: 30}), window, blocks)
    assert prediction.answer == "Netherlands"
    assert prediction.start == 8


def test_scores_are_probabilities() -> None:
    """All spans, yes, no and no answer together never exceed 1; here every span is among them.

    Spans that share a character are one answer, whose probability is their sum.
    """
    window = window_of([3])
    outputs = np.random.default_rng(0).normal(size=(len(window), 6)).astype(np.float32)
    outputs[0, 2 + YES] += 1
    prediction = best(outputs, window, count=100)
    candidates, _ = bare_reasoner()._decode(window, outputs, BLOCKS)
    assert {answer.text for answer in candidates} == {"yes", "no", "Paris", "Paris.", "."}
    assert sum(answer.confidence for answer in candidates) + no_answer_confidence(prediction) < 1
    kinds = np.exp(outputs[0, 2:].astype(float)) / np.exp(outputs[0, 2:].astype(float)).sum()
    scores = {answer.text: answer.confidence for answer in candidates}
    assert scores["yes"] == pytest.approx(kinds[YES])
    assert scores["no"] == pytest.approx(kinds[NO])
    assert no_answer_confidence(prediction) == pytest.approx(kinds[NO_ANSWER])
    paris, dot = place(window, "Paris"), place(window, "Paris") + 1
    starts, ends = (np.exp(outputs[[paris, dot], column].astype(float)) for column in (0, 1))
    assert scores["Paris"] == pytest.approx(kinds[SPAN] * starts[0] / starts.sum() * ends[0] / ends.sum())
    assert scores["Paris."] == pytest.approx(kinds[SPAN] * starts[0] / starts.sum() * ends[1] / ends.sum())
    spans = ("Paris", "Paris.", ".")
    better = max(spans, key=scores.__getitem__)
    overlapping = sum(scores[text] for text in spans if text in better or better in text)
    assert {answer.text: answer.confidence for answer in answers_of(prediction)}[better] == pytest.approx(overlapping)


def test_yes_and_no_are_candidates_if_the_question_may_ask_for_them() -> None:
    window = window_of([3])
    for share, texts in ((0.09, {"Paris"}), (0.11, {"Paris", "yes", "no"})):
        outputs = outputs_of(window, start={place(window, "Paris"): 30}, end={place(window, "Paris"): 30})
        outputs[0, 2 + SPAN], outputs[0, 2 + NO_ANSWER] = 0, 5
        outputs[0, 2 + YES], outputs[0, 2 + NO] = np.log(0.7 * share), np.log(0.3 * share)
        candidates, _ = bare_reasoner()._decode(window, outputs, BLOCKS)
        assert {one.text for one in candidates if one.confidence > 1e-9} == texts, "whatever no answer is"


def test_never_in_query_headings_or_separators() -> None:
    window = window_of([0, 3])
    hidden = np.flatnonzero(window.document_token < 0)
    assert (window.block[hidden] >= 0).any(), "no heading in the window"
    assert (window.block[hidden] < 0).sum() > window.n_prefix, "no separator in the window"
    outputs = outputs_of(window, start=dict.fromkeys(hidden.tolist(), 50.0), end=dict.fromkeys(hidden.tolist(), 50.0))
    at = place(window, "Anna")
    outputs[at, :2] = 9
    prediction = best(outputs, window)
    assert prediction.answer == "Anna"
    assert prediction.confidence == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("order", "expected"), [([0, 1], "report. The fox"), ([0, 1, 3], "report. The fox")])
def test_across_adjacent_blocks(order: list[int], expected: str) -> None:
    window = window_of(order)
    outputs = outputs_of(window, start={place(window, "report."): 20}, end={place(window, "fox"): 20})
    assert best(outputs, window).answer == expected


@pytest.mark.parametrize(("order", "word"), [([0, 2], "dog"), ([0, 3], "Paris"), ([1, 0], "fox")])
def test_not_across_a_gap(order: list[int], word: str) -> None:
    """Nor where two adjacent blocks stand in another order."""
    window = window_of(order)
    outputs = outputs_of(window, start={place(window, "report."): 20}, end={place(window, word): 20})
    for answer in answers_of(best(outputs, window, count=20)):
        if answer.start is not None and answer.end is not None:
            inside = [block.start <= answer.start and answer.end <= block.end for block in BLOCKS]
            assert any(inside), answer


def test_the_longest_answer() -> None:
    window = window_of([0, 1])
    outputs = outputs_of(window, start={place(window, "Anna"): 20}, end={place(window, "report"): 20})
    assert best(outputs, window, max_answer_tokens=4).answer == "Anna wrote the report"
    for answer in answers_of(best(outputs, window, max_answer_tokens=3, count=20)):
        assert answer.start is None or len(TOKENIZER.tokenize(answer.text)) <= 3


def test_the_same_text_is_one_answer() -> None:
    blocks = split(sentences("The fox jumps.", "the FOX sat.", "A dog."), TOKENIZER)
    window = window_of([0, 1, 2], blocks)
    second = place(window, "FOX", blocks)
    places = {place(window, "fox", blocks): 8.0, second: 9.0, place(window, "dog", blocks): 7.0}
    prediction = best(outputs_of(window, start=places, end=places), window, blocks, max_answer_tokens=1)
    start = blocks.document.text.index("FOX")
    assert (prediction.answer, prediction.start) == ("FOX", start)
    assert [answer.text.lower() for answer in answers_of(prediction)].count("fox") == 1
    assert "dog" in [answer.text for answer in answers_of(prediction)]
    total = sum(math.exp(score) for score in places.values()) + (window.document_token >= 0).sum() - len(places)
    both = (math.exp(2 * 8.0) + math.exp(2 * 9.0)) / total**2
    assert prediction.confidence == pytest.approx(both, rel=1e-3), "as probable as both places together"


def test_of_equally_probable_spans_the_shortest_and_earliest_comes_first() -> None:
    window = window_of([0, 1, 2, 3])
    candidates, _ = bare_reasoner()._decode(window, outputs_of(window), BLOCKS)
    words = re.findall(r"\w+|\.", DOCUMENT.text)
    assert [answer.text for answer in candidates if answer.start is not None][: len(words)] == words
    answers = answers_of(best(outputs_of(window), window, count=8, max_answer_tokens=1))
    counts = Counter(word.lower() for word in words)
    assert [answer.text.lower() for answer in answers] == [word for word, _ in counts.most_common(8)], (
        "of answers the most frequent one"
    )


def test_the_same_text_in_two_windows_is_one_answer() -> None:
    blocks = split(sentences("The fox jumps.", "A dog.", "the FOX sat."), TOKENIZER)
    outputs = []
    for order, word, score in (([0], "fox", 8.0), ([2], "FOX", 9.0)):
        window = window_of(order, blocks)
        places = {place(window, word, blocks): score}
        outputs.append((window, outputs_of(window, start=places, end=places)))
    reasoner = bare_reasoner(max_answer_tokens=1)
    prediction = reasoner.predict(layout_of(blocks), outputs)
    assert prediction.answer == "FOX"
    alone = [reasoner.predict(layout_of(blocks), [one]).confidence for one in outputs]
    assert prediction.confidence == pytest.approx(max(alone)), "as in the window that is most sure"
    assert [answer.text.lower() for answer in answers_of(prediction)].count("fox") == 1


def test_an_untrained_reader_expects_spans(tiny_encoder: Path) -> None:
    """A low learning rate hardly moves the bias in a hundred steps; the answers would be yes and no."""
    reasoner = SpanReasoner(load_encoder(EncoderConfig(name=str(tiny_encoder))))
    window = window_of([0, 1, 2, 3])
    with torch.no_grad():
        kinds = reasoner(Batch.of([window], 0, torch.device("cpu")))[0, 0, 2:].softmax(dim=0)
    assert kinds[SPAN] > 0.7


def test_yes_and_no() -> None:
    window = window_of([0])
    for kind, text in ((YES, "yes"), (NO, "no")):
        kinds = [0.0] * 4
        kinds[kind] = 9
        prediction = best(outputs_of(window, kinds=tuple(kinds)), window)
        assert (prediction.answer, prediction.start, prediction.end) == (text, None, None)
        assert prediction.confidence > 0.99


def test_white_space_is_no_part_of_an_answer() -> None:
    tokenizer = tiny.make_tokenizer("roberta")
    form = WindowFormat(tokenizer, 64)
    blocks = split(Document("The fox\n\n\n  jumps\n  over"), tokenizer)
    layout = form.layout(None, blocks)
    window = layout.window([0])
    for seed in range(20):
        outputs = np.random.default_rng(seed).normal(size=(len(window), 6), scale=5).astype(np.float32)
        prediction = bare_reasoner(always_answers=True).predict(layout, [(window, outputs)])
        for answer in answers_of(prediction):
            assert answer.text == answer.text.strip() != ""
            assert answer.start is None or blocks.document.text[answer.start : answer.end] == answer.text


def test_no_answer_is_as_probable_as_in_the_window_that_doubts_it_most() -> None:
    windows = [window_of([0, 1]), window_of([2, 3])]
    outputs = [outputs_of(windows[0], kinds=(1, 0, 0, 3)), outputs_of(windows[1], kinds=(3, 0, 0, 1))]
    expected = math.e / (math.e**3 + 1 + 1 + math.e)
    for order in (1, -1):
        prediction = bare_reasoner().predict(layout_of(), list(zip(windows, outputs, strict=True))[::order])
        assert no_answer_confidence(prediction) == pytest.approx(expected)


def predicted(answer: float, no_answer: float, relevance: float = 0.5) -> Prediction:
    """The reader's "fox" with the given probability, and "dog" with a third of it."""
    return Prediction(
        id="", answer="fox", start=0, end=3, confidence=answer, no_answer_confidence=no_answer, relevance=relevance,
        alternatives=(Answer("dog", 4, 7, answer / 3),),
    )  # fmt: skip


def test_no_answer_is_shown_if_it_is_more_probable_than_every_answer() -> None:
    answered, equal, unanswered = predicted(0.3, 0.2), predicted(0.3, 0.3), predicted(0.3, 0.4)
    for prediction in (answered, equal):
        assert SpanReasonerConfig().apply_thresholds(prediction) == prediction
    negative = SpanReasonerConfig().apply_thresholds(unanswered)
    assert (negative.answer, negative.start, negative.end, negative.confidence) == ("", None, None, 0.4)
    assert negative.alternatives == (Answer("fox", 0, 3, 0.3), Answer("dog", 4, 7, 0.3 / 3)), "no candidate is lost"
    assert SpanReasonerConfig(always_answers=True).apply_thresholds(unanswered) == unanswered
    plain = Prediction(id="", answer="", start=None, end=None, confidence=1.0)
    assert SpanReasonerConfig().apply_thresholds(plain) == plain, "a text without a token"


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10_000), no_answer=st.none() | st.floats(-12, 12), always_answers=st.booleans(),
    relevance=st.none() | st.lists(st.floats(0, 1), min_size=4, max_size=4),
)  # fmt: skip
def test_thresholds_may_be_applied_later(
    seed: int, no_answer: float | None, always_answers: bool, relevance: list[float] | None
) -> None:
    rng = np.random.default_rng(seed)
    windows = [window_of([0, 1]), window_of([2, 3])]
    outputs = [(window, rng.normal(size=(len(window), 6), scale=4).astype(np.float32)) for window in windows]
    evidence = relevance and [
        Evidence(block.start, block.end, "", score, 1) for block, score in zip(BLOCKS, relevance, strict=True)
    ]
    calibration = None if no_answer is None else Calibration(sharpness=0.6, relevance=0.4, no_answer=no_answer)
    reasoner = bare_reasoner(calibration=calibration, always_answers=always_answers)
    tuned, expected = reasoner.config, reasoner.predict(layout_of(), outputs, evidence)
    reasoner.config = reasoner.config.without_thresholds()
    assert reasoner.config == tuned.model_copy(update={"calibration": None}), "to answer always is no threshold"
    prediction = reasoner.predict(layout_of(), outputs, evidence)
    assert tuned.apply_thresholds(prediction) == expected


def test_threshold_candidates() -> None:
    """The reader says "fox" with 0.6 of every question; the judge finds a block only where that is right."""
    config, answered, unanswered = SpanReasonerConfig(top_k=2), example_of(("fox",), "fox"), example_of(())
    known = [(answered, predicted(0.6, 0.3, 0.9)), (unanswered, predicted(0.6, 0.3, 0.1))] * 50
    examples, predictions = map(list, zip(*known, strict=True))
    for fewer in (examples[:19], [*examples[:19], example_of(None)]):
        assert config.threshold_candidates(fewer, predictions[: len(fewer)], is_right) == [], "too few are known"
    [found] = config.threshold_candidates(examples, predictions, is_right)
    assert found == config.model_copy(update={"calibration": found.calibration})
    assert [found.apply_thresholds(one).answer for one in predictions] == ["fox", ""] * 50
    assert all(found.apply_thresholds(one).confidence > 0.6 for one in predictions)
    shown = [config.apply_thresholds(one) for one in predictions]
    assert config.threshold_candidates(examples, shown, is_right) == [found], "whatever was shown"
    [strict] = config.threshold_candidates(examples, predictions, lambda answer, gold: False)
    assert strict.apply_thresholds(predictions[0]).confidence < 0.3, "what is right, the caller decides"


def test_gold_tokens_cover_the_span() -> None:
    blocks = split(Document("It cost $1,200 in Zürich."), TOKENIZER)

    def words_of(start: int, end: int) -> str:
        example = Example(id="1", document=blocks.document, answers=("x",), answer_spans=(Span(start, end),))
        ((first, last),) = _answer_tokens(example, blocks)
        return blocks.document.text[blocks.token_starts[first] : blocks.token_ends[last]]

    assert words_of(8, 14) == "$1,200"
    assert words_of(9, 14) == "1,200"
    assert words_of(7, 15) == "$1,200"
    assert words_of(18, 24) == "Zürich"


def example_of(answers: tuple[str, ...] | None, *words: str) -> Example:
    spans = tuple(Span(DOCUMENT.text.index(word), DOCUMENT.text.index(word) + len(word)) for word in words)
    return Example(id="1", document=DOCUMENT, query=Query("Who?"), answers=answers, answer_spans=spans)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("yes",), _Target(YES)),
        (("No",), _Target(NO)),
        ((), _Target(NO_ANSWER)),
        (None, None),
        (("none",), None),
        (("somewhere else",), None),
    ],
)
def test_targets_without_a_place(answers: tuple[str, ...] | None, expected: _Target | None) -> None:
    assert bare_reasoner().target(example_of(answers), BLOCKS, window_of([0])) == expected
    assert expected is None or bare_reasoner().is_negative(expected) == (answers == ())


def test_targets_with_a_place() -> None:
    example = example_of(("fox", "dog"), "fox", "dog")
    window = window_of([0, 1, 2])
    fox, dog = place(window, "fox"), place(window, "dog")
    assert bare_reasoner().target(example, BLOCKS, window) == _Target(SPAN, ((fox, fox), (dog, dog)))
    window = window_of([0, 2])
    dog = place(window, "dog")
    assert bare_reasoner().target(example, BLOCKS, window) == _Target(SPAN, ((dog, dog),))
    assert bare_reasoner().target(example, BLOCKS, window_of([0, 3])) == _Target(NO_ANSWER)


def test_an_answer_across_blocks_is_whole_or_nothing() -> None:
    example = example_of(("report. The fox",), "report. The fox")
    window = window_of([0, 1])
    assert bare_reasoner().target(example, BLOCKS, window) == _Target(
        SPAN, ((place(window, "report."), place(window, "fox")),)
    )
    assert bare_reasoner().target(example, BLOCKS, window_of([0, 2])) == _Target(NO_ANSWER)


def test_the_target_of_a_window_decodes_to_the_answer() -> None:
    for word in ("Anna", "the report", "fox jumps", "Paris"):
        example = example_of((word,), word)
        window = window_of([0, 1, 3])
        found = bare_reasoner().target(example, BLOCKS, window)
        assert found is not None
        ((first, last),) = found.spans
        prediction = best(outputs_of(window, start={first: 30}, end={last: 30}), window)
        assert (prediction.answer, prediction.start) == (word, DOCUMENT.text.index(word))


def test_the_model(architecture_encoder: Path) -> None:
    reasoner = SpanReasoner(load_encoder(EncoderConfig(name=str(architecture_encoder)))).eval()
    windows = [window_of([0, 1, 2, 3]), window_of([0, 1, 2, 3])]
    outputs = reasoner(Batch.of(windows, 0, torch.device("cpu")))
    assert outputs.shape == (2, 32, 6)
    assert (outputs[:, :1, 2:] == outputs[:, :, 2:]).all()
    torch.testing.assert_close(outputs[0], outputs[1])


def test_the_judges_scores_weigh_answers() -> None:
    answers = [
        Answer("a", 4, 5, 0.5),  # the next block begins where it ends
        Answer("yes", None, None, 0.3),
        Answer("b", 10, 11, 0.2),
        Answer("c", 30, 31, 0.1),
    ]
    evidence = [Evidence(0, 5, "", 0.1, 1), Evidence(5, 20, "", 0.9, 1), Evidence(20, 25, "", 0.7, 1)]
    weighed = {answer.text: answer.confidence for answer in _weighed(answers, evidence, 1.0)}
    assert weighed == pytest.approx({"a": 0.05, "yes": 0.24, "b": 0.18, "c": 0})
    assert _weighed(answers, evidence, 0.0) == answers
    twice = {answer.text: answer.confidence for answer in _weighed(answers, evidence, 2.0)}
    assert twice["a"] == pytest.approx(0.5 * 0.1**2)
    assert twice["c"] == 0, "an answer outside the key blocks"


def test_evidence_changes_the_answer_and_only_by_calibration_no_answer() -> None:
    window = window_of([0, 1])
    places = {place(window, "Anna"): 20.0, place(window, "fox"): 19.0}
    outputs = outputs_of(window, start=places, end=places)
    evidence = [
        Evidence(block.start, block.end, "", score, 1) for block, score in zip(BLOCKS, (0.1, 0.9, 0, 0), strict=True)
    ]
    plain = best(outputs, window, max_answer_tokens=1)
    reasoner = bare_reasoner(max_answer_tokens=1)
    weighed = reasoner.predict(layout_of(), [(window, outputs)], evidence, relevance=0.9)
    assert (plain.answer, weighed.answer) == ("Anna", "fox")
    assert weighed.confidence < plain.confidence
    assert (plain.relevance, weighed.relevance) == (0.5, 0.9), "without a judge, nothing is known"
    assert weighed.no_answer_confidence == plain.no_answer_confidence
    reasoner.config = reasoner.config.model_copy(update={"calibration": Calibration(relevance=0.5, wrong=-30)})
    high, low = (reasoner.predict(layout_of(), [(window, outputs)], evidence, relevance=score) for score in (0.9, 0.2))
    odds = [no_answer_confidence(one) / one.confidence for one in (high, low)]
    assert odds[1] / odds[0] == pytest.approx(math.sqrt(9 / (1 / 4)))


@pytest.mark.parametrize(
    "values",
    [
        {"max_answer_tokens": 0},
        {"evidence_weight": -0.1},
        {"calibration": {"no_answer": math.nan}},
        {"calibration": {"sharpness": 0}},
        {"calibration": {"relevance": -0.1}},
    ],
)
def test_wrong_options(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SpanReasonerConfig(**values)


def test_an_answer_elsewhere_is_an_alternative_however_many_spans_overlap_the_best() -> None:
    window = window_of([0, 1, 2])
    shown = np.flatnonzero(window.document_token >= 0)
    places = {int(place): 8.0 for place in shown[:-4]}  # every span of the first two blocks is better
    dog = place(window, "dog")
    outputs = outputs_of(window, start={**places, dog: 6.0}, end={**places, dog: 6.0})
    prediction = best(outputs, window, count=2)
    [alternative] = prediction.alternatives
    assert prediction.end is not None
    assert alternative.start is not None
    assert alternative.start >= prediction.end
    many = answers_of(best(outputs, window, count=30))
    assert "dog" in {answer.text for answer in many}
