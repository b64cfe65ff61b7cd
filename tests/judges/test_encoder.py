"""The encoder judge scores every block once, in the fewest windows; scores do not depend on the batch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import Counting, NoGradient, NoTensor, NotFinite, WrongShape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cogltx.blocks import Blocks, load_tokenizer, split
from cogltx.document import Document, Query, Segment
from cogltx.encoding.encoder import Batch, BatchRunner, Precision, load_encoder, padded_length
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ModelError
from cogltx.judges import EncoderJudge, Memory
from cogltx.judges.encoder import WindowJudge, _retrieval_orders

EXACT = Precision(torch.device("cpu"), bfloat16=False)
QUERY = Query("Who wrote the report?")
TEXT = "The fox jumps over the dog. Anna wrote the report in 1969, and Paris is the capital. "


def form_of(folder: Path) -> WindowFormat:
    return WindowFormat(load_tokenizer(folder), 64)


def blocks_of(form: WindowFormat, repeats: int = 4) -> Blocks:
    return split(Document(TEXT * repeats), form.tokenizer, max_tokens=12)


def judge_of(model: nn.Module, batch_tokens: int = 256) -> WindowJudge:
    return WindowJudge(model, BatchRunner(EXACT, batch_tokens, padding_id=0))


def encoder_judge(folder: Path) -> nn.Module:
    torch.manual_seed(1)
    return EncoderJudge(load_encoder(EncoderConfig(name=str(folder), hidden_dropout=0.5)))


def by_hand(judge: WindowJudge, memory: Memory, shown: list[int]) -> np.ndarray:
    """The mean relevance of every block of one window, from the model itself; apart from the question if it is near."""
    layout, total, near = memory.layout, 0, list[int]()
    for index in shown:
        total += len(layout.blocks.headings[layout.blocks[index].heading]) + layout.blocks[index].n_tokens + 1
        if total <= 16 and memory.query is not None:
            near.append(index)
    means = dict(zip(shown, means_of(judge, layout, layout.window(shown), shown), strict=True))
    if near:
        means |= dict(zip(near, means_of(judge, layout, layout.window(near, neutral=True), near), strict=True))
    return np.array(list(means.values()))


def means_of(judge: WindowJudge, layout: Layout, window: Window, shown: list[int]) -> list[float]:
    """The mean relevance of the blocks of a window."""
    batch = Batch.of([window], layout.form.padding_id, EXACT.device)
    judge.model.eval()
    with torch.inference_mode():
        logits = judge.model(batch.input_ids, batch.attention_mask, batch.token_type_ids)[0, : len(window)]
    relevance = (1 / (1 + torch.exp(-logits.double()))).numpy()
    return [relevance[window.block == index].mean() for index in shown]


def test_scores_are_means_over_tokens(architecture_encoder: Path) -> None:
    form = form_of(architecture_encoder)
    judge = judge_of(encoder_judge(architecture_encoder))
    blocks = blocks_of(form)
    memory = Memory(form.layout(QUERY, blocks), (1,))
    (coarse,) = judge.retrieve([memory])
    room = memory.layout.room - int(blocks.sizes[1])
    first = [0]
    while blocks.sizes[[*first, first[-1] + 1 + (first[-1] == 0)]].sum() <= room:
        first.append(first[-1] + 1 + (first[-1] == 0))
    np.testing.assert_allclose(coarse[first], by_hand(judge, memory, [1, *first])[1:], atol=1e-6)
    (fine,) = judge.rehearse([Memory(form.layout(QUERY, blocks), (0, 2))])
    np.testing.assert_allclose(fine, by_hand(judge, memory, [0, 2]), atol=1e-6)


def test_every_candidate_gets_one_score(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    judge = judge_of(encoder_judge(tiny_encoder))
    blocks = blocks_of(form)
    for kept in ((), (0,), (1, 3)):
        memory = Memory(form.layout(QUERY, blocks), kept)
        (scores,) = judge.retrieve([memory])
        assert sorted(np.flatnonzero(np.isnan(scores)).tolist()) == list(kept)
        assert ((scores[memory.candidates] > 0) & (scores[memory.candidates] < 1)).all()
        shown = [index for order in _retrieval_orders(memory) for index in order]
        assert sorted(index for index in shown if index not in kept) == memory.candidates


def least_windows(sizes: list[int], room: int) -> int:
    """The fewest runs of consecutive blocks, over all first runs that fit."""
    least = [0] * (len(sizes) + 1)
    for first in range(len(sizes) - 1, -1, -1):
        ends = [end for end in range(first + 1, len(sizes) + 1) if sum(sizes[first:end]) <= room]
        least[first] = 1 + min(least[end] for end in ends)
    return least[0]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from(["fox ", "Anna. ", "report, ", "Paris ", "\n"]), min_size=5, max_size=120),
    data=st.data(),
)
def test_the_fewest_windows(tiny_encoder: Path, text: list[str], data: st.DataObject) -> None:
    form = form_of(tiny_encoder)
    blocks = split(Document("".join(text) + "end"), form.tokenizer, max_tokens=12)
    kept = data.draw(st.lists(st.integers(0, len(blocks) - 1), unique=True, max_size=2).map(sorted))
    memory = Memory(form.layout(QUERY, blocks), tuple(kept))
    orders = list(_retrieval_orders(memory))
    windows = list(map(memory.layout.window, orders))
    assert all(len(window) <= form.capacity for window in windows)
    sizes = [int(blocks.sizes[index]) for index in memory.candidates]
    room = memory.layout.room - blocks.total_size(kept)
    assert len(orders) == least_windows(sizes, room)
    for order in orders:
        assert order[: len(kept)] == kept
        assert order[len(kept) :] == sorted(order[len(kept) :])


def test_rehearsal_windows_contain_z_in_document_order(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    seen = []
    runner = BatchRunner(EXACT, 256, padding_id=0)
    judge = WindowJudge(Counting(), runner)
    judge._window_means = lambda windows, total: ((seen.append(window), np.zeros(3)) for window in windows)  # type: ignore[assignment, func-returns-value, misc]
    judge.rehearse([Memory(form.layout(None, blocks_of(form)), (0, 2, 5))])
    (window,) = seen
    assert window.blocks == [0, 2, 5]
    assert window.n_prefix == 1


@pytest.mark.parametrize("batch_tokens", [64, 640, 100_000])
def test_batched_equals_one_by_one(architecture_encoder: Path, batch_tokens: int) -> None:
    form = form_of(architecture_encoder)
    judge = judge_of(encoder_judge(architecture_encoder), batch_tokens)
    documents = [blocks_of(form, repeats) for repeats in (1, 3, 2, 6)]
    memories = [
        Memory(form.layout(QUERY if number % 2 else None, blocks), (0,) if number > 1 else ())
        for number, blocks in enumerate(documents)
    ]
    alone = judge_of(judge.model, 64)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        together = judge.retrieve([memories[index] for index in order])
        for index, scores in zip(order, together, strict=True):
            np.testing.assert_allclose(scores, alone.retrieve([memories[index]])[0], atol=1e-6)
    whole = [Memory(form.layout(QUERY, blocks), (0, 1)) for blocks in documents]
    for memory, fine in zip(whole, judge.rehearse(whole), strict=True):
        np.testing.assert_allclose(fine, alone.rehearse([memory])[0], atol=1e-6)


def test_dropout_is_off(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    model = encoder_judge(tiny_encoder).train()
    judge = judge_of(model)
    memory = Memory(form.layout(QUERY, blocks_of(form)))
    assert judge.retrieve([memory])[0].tolist() == judge.retrieve([memory])[0].tolist()


def test_a_users_model(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    judge = judge_of(Counting())
    memory = Memory(form.layout(QUERY, blocks_of(form)), (0, 1))
    np.testing.assert_allclose(judge.rehearse([memory])[0], by_hand(judge, memory, [0, 1]), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "wording"),
    [
        (WrongShape(), r"judge fakes:WrongShape: logits have shape \(1,\), not shape \(1, \d+\) \(windows, tokens\)"),
        (NoTensor(), r"judge fakes:NoTensor: logits have type list, not shape \(1, \d+\) \(windows, tokens\)"),
        (Counting(vocabulary=3), "judge fakes:Counting: forward failed: IndexError: index out of range in self"),
        (NotFinite(), "judge fakes:NotFinite: a logit is NaN; logits must be finite"),
    ],
)
def test_models_with_invalid_outputs(tiny_encoder: Path, model: nn.Module, wording: str) -> None:
    form = form_of(tiny_encoder)
    judge = judge_of(model)
    memory = Memory(form.layout(QUERY, blocks_of(form, 1)), (0,))
    with pytest.raises(ModelError, match=f"^{wording}$"):
        judge.rehearse([memory])
    with pytest.raises(ModelError, match=f"^{wording}$"):
        judge.retrieve([memory])


def test_logits_of_a_batch(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    window = form.layout(QUERY, blocks_of(form)).window([0])
    batch = Batch.of([window, window], form.padding_id, EXACT.device)
    assert WindowJudge.logits(encoder_judge(tiny_encoder), batch).shape == (2, padded_length(len(window)))
    wording = "judge fakes:NoGradient: logits have no gradient in training"
    with pytest.raises(ModelError, match=wording):
        WindowJudge.logits(NoGradient(), batch)


class NearQuestion(Counting):
    """Takes a token for relevant if it is among the first 20 after the question."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        near = (token_type_ids == 1) & (token_type_ids.cumsum(dim=1) <= 20)
        return super().forward(input_ids, attention_mask, token_type_ids) * 0 + near * 20.0 - 10.0


def test_a_block_next_to_the_question_is_scored_apart_from_it(tiny_encoder: Path) -> None:
    form, judge = form_of(tiny_encoder), judge_of(NearQuestion())
    lines = Document(
        "The\n\nAnna wrote the report in 1969, and Paris is the capital and the largest city of France.",
        "",
        (Segment(0, 5),),
    )
    blocks = split(lines, form.tokenizer, max_tokens=24)
    assert np.diff(blocks.cuts).tolist() == [1, 19]
    for scores in (judge.rehearse([Memory(form.layout(QUERY, blocks), (0, 1))]), judge.retrieve([Memory(form.layout(QUERY, blocks))])):  # fmt: skip
        assert scores[0][0] < 0.01 < 0.5 < scores[0][1]
    (without_question,) = judge.rehearse([Memory(form.layout(None, blocks), (0, 1))])
    assert without_question[0] > 0.5


@given(n_kept=st.integers(0, 3), long_question=st.integers(1, 40))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_neutral_text_takes_what_room_there_is(tiny_encoder: Path, n_kept: int, long_question: int) -> None:
    form = form_of(tiny_encoder)
    blocks = split(Document("The fox.\nAnna.\nParis is it.\n"), form.tokenizer, max_tokens=8)
    layout = form.layout(Query("who " * long_question), blocks)
    order = list(range(min(n_kept, len(blocks))))
    if layout.room < blocks.total_size(order):
        return
    window, plain = layout.window(order, neutral=True), layout.window(order)
    assert len(plain) <= len(window) <= form.capacity
    assert window.blocks == plain.blocks
    assert window.token_ids[window.block >= 0].tolist() == plain.token_ids[plain.block >= 0].tolist()
