"""The encoder judge scores every block once, in the fewest windows; scores do not depend on the batch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import Counting, NoGradient, NoTensor, NotFinite, WrongShape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from cogltx.blocks import Blocks, load_tokenizer, split
from cogltx.document import Document, Query
from cogltx.encoding.encoder import Batch, BatchRunner, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ModelError
from cogltx.judges import EncoderJudge, Memory
from cogltx.judges.encoder import WindowJudge, _retrieval_windows

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
    """The mean relevance of every block of one window, from the model itself."""
    window = memory.layout.window(shown)
    batch = Batch.of([window], memory.layout.form.padding_id, EXACT.device)
    judge.model.eval()
    with torch.inference_mode():
        logits = judge.model(batch.input_ids, batch.attention_mask, batch.token_type_ids)[0, : len(window)]
    relevance = (1 / (1 + torch.exp(-logits.double()))).numpy()
    return np.array([relevance[window.block == index].mean() for index in shown])


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
        shown = [index for window in _retrieval_windows(memory) for index in window.blocks]
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
    windows = list(_retrieval_windows(memory))
    assert all(len(window) <= form.capacity for window in windows)
    sizes = [int(blocks.sizes[index]) for index in memory.candidates]
    room = memory.layout.room - blocks.total_size(kept)
    assert len(windows) == least_windows(sizes, room)
    for window in windows:
        order = window.blocks
        assert order[: len(kept)] == kept
        assert order[len(kept) :] == sorted(order[len(kept) :])


def test_rehearsal_windows_contain_z_in_document_order(tiny_encoder: Path) -> None:
    form = form_of(tiny_encoder)
    seen = []
    runner = BatchRunner(EXACT, 256, padding_id=0)
    judge = WindowJudge(Counting(), runner)
    judge._block_means = lambda windows: ((seen.append(window), np.zeros(3)) for window in windows)  # type: ignore[func-returns-value]
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
        (WrongShape(), r"judge fakes:WrongShape: logits have shape \(1,\), not shape \(1, 32\) \(windows, tokens\)"),
        (NoTensor(), r"judge fakes:NoTensor: logits have type list, not shape \(1, 32\) \(windows, tokens\)"),
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
    assert WindowJudge.logits(encoder_judge(tiny_encoder), batch).shape == (2, 32)
    wording = "judge fakes:NoGradient: logits have no gradient in training"
    with pytest.raises(ModelError, match=wording):
        WindowJudge.logits(NoGradient(), batch)
