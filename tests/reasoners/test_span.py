"""The span reasoner: exact losses, and answers that are exact slices of the document and of nothing else."""

import math
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from cogltx.reasoners.answers import NO, NO_ANSWER, SPAN, YES, Reading, read
from fakes import sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import load_encoder, to_batch
from cogltx.encoding.layout import Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.prediction import Answer
from cogltx.reasoners.base import Relevant
from cogltx.reasoners.span import (
    SpanReasoner,
    SpanReasonerConfig,
    SpanTarget,
    answer_tokens,
    readable,
    relevance_losses,
    target,
)
from cogltx.reasoners.span import losses as window_losses

TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 128)
DOCUMENT = sentences(
    "Anna wrote the report.", "The fox jumps.", "A dog sat.", "Paris.", headings=("People", "", "", "Paris")
)
BLOCKS = split(DOCUMENT, TOKENIZER)


def window_of(order: list[int], blocks: Blocks = BLOCKS) -> Window:
    return FORM.window(FORM.prefix(Query("Who wrote the report?"), int(blocks.sizes.max())), blocks, order)


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


def best(outputs: np.ndarray, window: Window, blocks: Blocks = BLOCKS, *, longest: int = 30, top_k: int = 3) -> Reading:
    return read(outputs, window, blocks, max_answer_tokens=longest, top_k=top_k)


def test_losses_are_log_probabilities() -> None:
    windows = [window_of([0, 1]), window_of([2]), window_of([1, 3])]
    length = max(map(len, windows)) + 3
    outputs = torch.randn(3, length, 6)
    first, last = place(windows[0], "the report"), place(windows[0], "report.")
    other = place(windows[0], "Anna")
    targets = [SpanTarget(SPAN, ((first, last), (other, other))), SpanTarget(YES), SpanTarget(NO_ANSWER)]
    losses = window_losses(outputs, windows, targets)

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
    window_losses(outputs, [window], [SpanTarget(SPAN, ((first, first),))]).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
    touched = outputs.grad[0, :, :2].abs().sum(dim=1) > 0
    assert touched.tolist() == readable([window], outputs.shape[1])[0].tolist()


def test_readable_tokens_are_those_of_the_document() -> None:
    windows = [window_of([0, 3]), window_of([1])]
    mask = readable(windows, 64)
    for row, window in enumerate(windows):
        assert np.flatnonzero(mask[row]).tolist() == np.flatnonzero(window.document_token >= 0).tolist()


@settings(max_examples=100)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)), count=st.integers(1, 4))
def test_answers_are_exact_slices_of_the_document(seed: int, order: list[int], count: int) -> None:
    window = window_of(sorted(order[:count]))
    outputs = np.random.default_rng(seed).normal(size=(len(window), 6), scale=6).astype(np.float32)
    reading = best(outputs, window, top_k=8)
    assert 1 <= len(reading.answers) <= 8
    assert len({answer.text.lower() for answer in reading.answers}) == len(reading.answers)
    assert [answer.score for answer in reading.answers] == sorted((a.score for a in reading.answers), reverse=True)
    shown = {int(token) for token in window.document_token if token >= 0}
    for answer in reading.answers:
        assert 0 <= answer.score <= 1
        if answer.start is None:
            assert answer.text in ("yes", "no")
            continue
        assert answer.text == DOCUMENT.text[answer.start : answer.end] == answer.text.strip()
        tokens = np.flatnonzero((BLOCKS.token_starts < answer.end) & (BLOCKS.token_ends > answer.start))
        assert set(tokens.tolist()) <= shown, "an answer from outside the window, or through a gap"
        assert BLOCKS.token_starts[tokens[0]] == answer.start
        assert BLOCKS.token_ends[tokens[-1]] == answer.end


def test_scores_are_probabilities() -> None:
    """All spans, yes, no and no answer together never exceed 1; here every span is among them."""
    window = window_of([3])
    outputs = np.random.default_rng(0).normal(size=(len(window), 6)).astype(np.float32)
    reading = best(outputs, window, top_k=100)
    texts = {answer.text for answer in reading.answers}
    assert texts == {"yes", "no", "Paris", "Paris.", "."}
    assert sum(answer.score for answer in reading.answers) + math.exp(reading.no_answer) < 1
    kinds = np.exp(outputs[0, 2:].astype(float)) / np.exp(outputs[0, 2:].astype(float)).sum()
    scores = {answer.text: answer.score for answer in reading.answers}
    assert scores["yes"] == pytest.approx(kinds[YES])
    assert scores["no"] == pytest.approx(kinds[NO])
    assert math.exp(reading.no_answer) == pytest.approx(kinds[NO_ANSWER])
    paris, dot = place(window, "Paris"), place(window, "Paris") + 1
    starts, ends = (np.exp(outputs[[paris, dot], column].astype(float)) for column in (0, 1))
    assert scores["Paris"] == pytest.approx(kinds[SPAN] * starts[0] / starts.sum() * ends[0] / ends.sum())
    assert scores["Paris."] == pytest.approx(kinds[SPAN] * starts[0] / starts.sum() * ends[1] / ends.sum())


def test_never_in_query_headings_or_separators() -> None:
    window = window_of([0, 3])
    hidden = np.flatnonzero(window.document_token < 0)
    assert (window.block[hidden] >= 0).any(), "no heading in the window"
    assert (window.block[hidden] < 0).sum() > window.n_prefix, "no separator in the window"
    outputs = outputs_of(window, start=dict.fromkeys(hidden.tolist(), 50.0), end=dict.fromkeys(hidden.tolist(), 50.0))
    at = place(window, "Anna")
    outputs[at, :2] = 9
    reading = best(outputs, window)
    assert reading.answers[0].text == "Anna"
    assert reading.answers[0].score == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("order", "expected"), [([0, 1], "report. The fox"), ([0, 1, 3], "report. The fox")])
def test_across_adjacent_blocks(order: list[int], expected: str) -> None:
    window = window_of(order)
    outputs = outputs_of(window, start={place(window, "report."): 20}, end={place(window, "fox"): 20})
    assert best(outputs, window).answers[0].text == expected


@pytest.mark.parametrize(("order", "word"), [([0, 2], "dog"), ([0, 3], "Paris"), ([1, 0], "fox")])
def test_not_across_a_gap(order: list[int], word: str) -> None:
    """Nor where two adjacent blocks stand in another order."""
    window = window_of(order)
    outputs = outputs_of(window, start={place(window, "report."): 20}, end={place(window, word): 20})
    for answer in best(outputs, window, top_k=20).answers:
        if answer.start is not None and answer.end is not None:
            inside = [block.start <= answer.start and answer.end <= block.end for block in BLOCKS]
            assert any(inside), answer


def test_the_longest_answer() -> None:
    window = window_of([0, 1])
    outputs = outputs_of(window, start={place(window, "Anna"): 20}, end={place(window, "report"): 20})
    assert best(outputs, window, longest=4).answers[0].text == "Anna wrote the report"
    for answer in best(outputs, window, longest=3, top_k=20).answers:
        assert answer.start is None or len(TOKENIZER.tokenize(answer.text)) <= 3


def test_the_same_text_counts_once() -> None:
    blocks = split(sentences("The fox jumps.", "the FOX sat.", "A dog."), TOKENIZER)
    window = window_of([0, 1, 2], blocks)
    second = place(window, "FOX", blocks)
    places = {place(window, "fox", blocks): 8.0, second: 9.0, place(window, "dog", blocks): 7.0}
    reading = best(outputs_of(window, start=places, end=places), window, blocks, longest=1)
    start = blocks.document.text.index("FOX")
    assert (reading.answers[0].text, reading.answers[0].start) == ("FOX", start)
    assert [answer.text.lower() for answer in reading.answers].count("fox") == 1
    assert "dog" in [answer.text for answer in reading.answers]


def test_yes_and_no() -> None:
    window = window_of([0])
    for kind, text in ((YES, "yes"), (NO, "no")):
        kinds = [0.0] * 4
        kinds[kind] = 9
        answer = best(outputs_of(window, kinds=tuple(kinds)), window).answers[0]
        assert (answer.text, answer.start, answer.end) == (text, None, None)
        assert answer.score > 0.99


def test_white_space_is_no_part_of_an_answer() -> None:
    tokenizer = tiny.make_tokenizer("roberta")
    form = WindowFormat(tokenizer, 64)
    blocks = split(Document("The fox\n\n\n  jumps\n  over"), tokenizer)
    window = form.window(form.prefix(None, int(blocks.sizes.max())), blocks, [0])
    for seed in range(20):
        outputs = np.random.default_rng(seed).normal(size=(len(window), 6), scale=5).astype(np.float32)
        for answer in read(outputs, window, blocks, max_answer_tokens=30, top_k=20).answers:
            assert answer.text == answer.text.strip() != ""
            assert answer.start is None or blocks.document.text[answer.start : answer.end] == answer.text


def test_margin() -> None:
    reading = Reading((Answer("fox", 0, 3, 0.25), Answer("dog", 4, 7, 0.1)), math.log(0.5))
    assert reading.margin == pytest.approx(math.log(2))
    assert Reading((), -1.0).margin == math.inf
    assert math.isfinite(Reading((Answer("fox", 0, 3, 0.0),), -1.0).margin)


def test_gold_tokens_cover_the_span() -> None:
    blocks = split(Document("It cost $1,200 in Zürich."), TOKENIZER)

    def words_of(start: int, end: int) -> str:
        example = Example(id="1", document=blocks.document, answers=("x",), answer_spans=(Span(start, end),))
        ((first, last),) = answer_tokens(example, blocks)
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
        (("yes",), SpanTarget(YES)),
        (("No",), SpanTarget(NO)),
        ((), SpanTarget(NO_ANSWER)),
        (None, None),
        (("none",), None),
        (("somewhere else",), None),
    ],
)
def test_targets_without_a_place(answers: tuple[str, ...] | None, expected: SpanTarget | None) -> None:
    assert target(example_of(answers), window_of([0]), []) == expected


def test_targets_with_a_place() -> None:
    example = example_of(("fox", "dog"), "fox", "dog")
    gold = answer_tokens(example, BLOCKS)
    window = window_of([0, 1, 2])
    fox, dog = place(window, "fox"), place(window, "dog")
    assert target(example, window, gold) == SpanTarget(SPAN, ((fox, fox), (dog, dog)))
    window = window_of([0, 2])
    dog = place(window, "dog")
    assert target(example, window, gold) == SpanTarget(SPAN, ((dog, dog),))
    assert target(example, window_of([0, 3]), gold) == SpanTarget(NO_ANSWER)


def test_an_answer_across_blocks_is_whole_or_nothing() -> None:
    example = example_of(("report. The fox",), "report. The fox")
    gold = answer_tokens(example, BLOCKS)
    window = window_of([0, 1])
    assert target(example, window, gold) == SpanTarget(SPAN, ((place(window, "report."), place(window, "fox")),))
    assert target(example, window_of([0, 2]), gold) == SpanTarget(NO_ANSWER)


def test_the_target_of_a_window_decodes_to_the_answer() -> None:
    for word in ("Anna", "the report", "fox jumps", "Paris"):
        example = example_of((word,), word)
        window = window_of([0, 1, 3])
        found = target(example, window, answer_tokens(example, BLOCKS))
        assert found is not None
        ((first, last),) = found.spans
        reading = best(outputs_of(window, start={first: 30}, end={last: 30}), window)
        assert (reading.answers[0].text, reading.answers[0].start) == (word, DOCUMENT.text.index(word))


def test_the_model(architecture_encoder: Path) -> None:
    reasoner = SpanReasoner(load_encoder(EncoderConfig(name=str(architecture_encoder)))).eval()
    windows = [window_of([0, 1, 2, 3]), window_of([0, 1, 2, 3])]
    outputs = reasoner(to_batch(windows, 0, torch.device("cpu")))
    assert outputs.shape == (2, 32, 6)
    assert (outputs[:, :1, 2:] == outputs[:, :, 2:]).all()
    torch.testing.assert_close(outputs[0], outputs[1])


def test_the_judges_scores_weigh_answers() -> None:
    reasoner = SpanReasoner.__new__(SpanReasoner)
    torch.nn.Module.__init__(reasoner)
    reasoner.config = SpanReasonerConfig(top_k=2)
    reading = Reading(
        (Answer("a", 0, 1, 0.5), Answer("yes", None, None, 0.3), Answer("b", 10, 11, 0.2), Answer("c", 30, 31, 0.1)),
        -1.0,
    )
    relevance = [Relevant(0, 5, 0.1), Relevant(5, 20, 0.9), Relevant(20, 25, 0.7)]
    found = reasoner.weighed(reading, relevance)
    assert [(answer.text, round(answer.score, 6)) for answer in found.answers] == [("yes", 0.24), ("b", 0.18)]
    assert found.no_answer == reading.no_answer
    reasoner.config = SpanReasonerConfig(top_k=4, evidence_weight=0.0)
    assert reasoner.weighed(reading, relevance).answers == reading.answers
    reasoner.config = SpanReasonerConfig(top_k=4, evidence_weight=2.0)
    scores = {answer.text: answer.score for answer in reasoner.weighed(reading, relevance).answers}
    assert scores["a"] == pytest.approx(0.5 * 0.1**2)
    assert scores["c"] == 0, "an answer outside the key blocks"


def test_relevance_losses_are_means_over_the_tokens_of_the_document() -> None:
    windows = [window_of([0, 1]), window_of([2])]
    logits = torch.randn(2, max(map(len, windows)) + 2)
    found = relevance_losses(logits, windows, [SpanTarget(SPAN, relevant=(1,)), SpanTarget(NO_ANSWER)])
    each = []
    for place, (block, token) in enumerate(zip(windows[0].block, windows[0].document_token, strict=True)):
        if token >= 0:
            chance = 1 / (1 + math.exp(-float(logits[0, place])))
            each.append(-math.log(chance if block == 1 else 1 - chance))
    assert found[0].item() == pytest.approx(sum(each) / len(each), rel=1e-5)
    assert found[1].item() == 0, "nothing is known of its blocks"


def test_the_second_loss_counts_in_training_alone(tiny_encoder: Path) -> None:
    config = SpanReasonerConfig(relevance_weight=2.0)
    reasoner = SpanReasoner(load_encoder(EncoderConfig(name=str(tiny_encoder))), config)
    start = DOCUMENT.text.index("Paris")
    example = Example(
        id="1", document=DOCUMENT, query=Query("where?"), answers=("Paris",), answer_spans=(Span(start, start + 5),)
    )
    window = window_of([0, 3])
    wanted = reasoner.target(example, BLOCKS, window)
    assert wanted is not None
    assert wanted.relevant == (3,)
    outputs = torch.randn(1, len(window), 7)
    both = reasoner.train().losses(outputs, [window], [wanted])
    alone = reasoner.eval().losses(outputs, [window], [wanted])
    assert torch.equal(alone, window_losses(outputs[..., :6], [window], [wanted]))
    assert torch.allclose(both, alone + 2 * relevance_losses(outputs[..., 6], [window], [wanted]))
    answers = best(outputs[0, :, :6].numpy(), window, top_k=20)
    assert reasoner.read(outputs[0].numpy(), window, BLOCKS) == answers, "reading does without it"
