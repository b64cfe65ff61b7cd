"""Training windows: what judge and reasoner see, drawn alike whatever else is in the batch."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import tiny
import torch
from fakes import Checksums, WordOverlap, config, example, paragraphs, sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.baselines import SlidingWindow
from cogltx.blocks import Blocks, split
from cogltx.config import MemRecallConfig, ModelConfig
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import load_encoder, padded_length
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import BM25Retriever, Judge, Memory, Shortlist
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.judges.bm25 import BM25Judge
from cogltx.memrecall import fill
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.reasoners import SpanReasoner
from cogltx.reasoners.span import NO_ANSWER, SPAN, YES, _Target
from cogltx.training._interventions import ReasonerTarget
from cogltx.training._steps import _document_ranking, _Lesson, _token_labels, _whole_groups
from cogltx.training._windows import _random_run, drawn_windows, gold_blocks, judge_windows, reasoner_windows
from cogltx.training.config import TrainingConfig

TOKENIZER = tiny.make_tokenizer(texts=corpus.TEXTS)
FORM = WindowFormat(TOKENIZER, 48)
BOTH = TrainingConfig(judge_windows="both")
FACTS = [f"{name} has the {thing}." for name, thing in zip(corpus.NAMES, corpus.THINGS, strict=False)]


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng([7, *seed])


def blocks_of(item: Example) -> Blocks:
    return split(item.document, TOKENIZER, max_tokens=16)


def labels_of(item: Example) -> Any:
    return blocks_of(item).relevance_labels(item)


def layout_of(item: Example, form: WindowFormat = FORM) -> Layout:
    return form.layout(item.query, blocks_of(item))


@pytest.fixture(scope="module")
def reasoner(tmp_path_factory: pytest.TempPathFactory) -> SpanReasoner:
    folder = tiny.make_encoder(tmp_path_factory.mktemp("encoder"), texts=corpus.TEXTS)
    return SpanReasoner(load_encoder(EncoderConfig(name=str(folder))))


def windows_of(
    reasoner: SpanReasoner,
    items: list[Example],
    judge: Judge | None,
    rngs: list[np.random.Generator],
    form: WindowFormat = FORM,
    fill_with: Any = "recall",
    **options: Any,
) -> tuple[list[ReasonerTarget | None], list[np.ndarray]]:
    settings = ModelConfig(max_block_tokens=16, memrecall=MemRecallConfig(capacity=form.capacity, **options))
    reader = CogLTX(Model(settings, TOKENIZER, reasoner, judge or BM25Judge(), device="cpu"))
    layouts = [reader.model.layout(item.document, item.query) for item in items]
    relevance = [layout.blocks.relevance_labels(item) for item, layout in zip(items, layouts, strict=True)]
    fill_with = "random" if judge is None else fill_with
    return reasoner_windows(reader, items, layouts, relevance, rngs, [None] * len(items), fill_with)


def shown(window: Window) -> list[int]:
    return window.blocks


def room_of(item: Example, blocks: Blocks) -> int:
    return FORM.layout(item.query, blocks).room


def hops(relevant: int = 2) -> Example:
    """A document of twelve facts; the last relevant one holds the answer."""
    document = sentences(*FACTS, *corpus.FILLER)
    wanted = FACTS[2 : 2 + 3 * relevant : 3]
    return example(document, "what does anna have?", wanted[-1].split()[-1].strip("."), *wanted)


def test_relevance_labels() -> None:
    item = hops()
    blocks = blocks_of(item)
    assert np.flatnonzero(blocks.relevance_labels(item)).tolist() == [2, 5]
    answered = Example(id="", document=item.document, answers=("x",), answer_spans=item.answer_spans)
    assert np.flatnonzero(blocks.relevance_labels(answered)).tolist() == [5]
    none = Example(id="", document=item.document, relevant=())
    found = blocks.relevance_labels(none)
    assert found is not None
    assert not found.any()
    unknown = Example(id="", document=item.document, answers=("x",))
    assert blocks.relevance_labels(unknown) is None
    assert [each.has_relevance for each in (item, answered, none, unknown)] == [True, True, True, False]


def test_token_labels() -> None:
    item = hops()
    blocks = blocks_of(item)
    labels = blocks.relevance_labels(item)
    assert labels is not None
    window = FORM.layout(item.query, blocks).window([1, 2])
    values, counts = _token_labels(window, labels)
    for index, block in enumerate(window.block.tolist()):
        if index < window.n_prefix:
            assert (values[index], counts[index]) == (1, True), "the query is relevant (eq. 4)"
        elif block < 0:
            assert not counts[index], "separators do not count"
        else:
            assert (values[index], counts[index]) == (float(block == 2), True)


def test_ranking_across_the_windows_of_a_document() -> None:
    """−log of the share of e^logit that a relevant block has beside the irrelevant blocks of all windows."""
    item = hops()
    layout, labels = layout_of(item), labels_of(item)
    windows = [layout.window([1, 2]), layout.window([4])]
    score = {1: 0.3, 2: 0.8, 4: 0.6}
    rows = [[score.get(block, 0.5) for block in window.block.tolist()] for window in windows]
    logits = torch.nn.utils.rnn.pad_sequence([torch.tensor(row).logit() for row in rows], batch_first=True)
    odds = {block: one / (1 - one) for block, one in score.items()}
    expected = -math.log(odds[2] / (odds[2] + odds[1] + odds[4]))
    assert float(_document_ranking(_Lesson(layout, windows, labels), logits)) == pytest.approx(expected, rel=1e-4)
    nothing = _document_ranking(_Lesson(layout, windows[1:], labels), logits[1:].requires_grad_())
    assert nothing.item() == 0
    nothing.backward()


@settings(max_examples=80)
@given(seed=st.integers(0, 1000), relevant=st.integers(0, 3))
def test_judge_windows(seed: int, relevant: int) -> None:
    item = hops(max(1, relevant))
    if not relevant:
        item = Example(id="", document=item.document, query=item.query, relevant=())
    blocks = blocks_of(item)
    retrieval, rehearsal = judge_windows(layout_of(item), labels_of(item), rng(seed), BOTH, BM25Judge())
    gold = [2, 5, 8][:relevant]
    for made in (retrieval, rehearsal):
        assert len(made) <= FORM.capacity
        assert len(shown(made)) == len(set(shown(made)))
    assert shown(rehearsal) == sorted(shown(rehearsal)), "rehearsal shows z in document order"
    assert set(gold) <= set(shown(rehearsal))
    left = [size for index, size in enumerate(blocks.sizes) if index not in shown(rehearsal)]
    assert room_of(item, blocks) - blocks.sizes[shown(rehearsal)].sum() < min(left)
    order = shown(retrieval)
    assert order == list(range(order[0], order[-1] + 1)), "a run of consecutive blocks, as in the paper"


def test_runs_are_anywhere() -> None:
    item = hops()
    runs = [
        shown(judge_windows(layout_of(item), labels_of(item), rng(seed), BOTH, BM25Judge())[0]) for seed in range(100)
    ]
    assert len({run[0] for run in runs}) > 6
    assert 0.3 < np.mean([bool({2, 5} & set(run)) for run in runs]) < 0.8


def test_with_a_shortlist_windows_hold_its_blocks() -> None:
    item = hops()
    layout, judge = layout_of(item), Shortlist(BM25Judge(), BM25Retriever(), 6)
    for seed in range(30):
        windows = judge_windows(layout, labels_of(item), rng(seed), BOTH, judge)
        allowed = {2, 5, *judge.shortlisted(Memory(layout)).candidates}
        assert len(allowed) < len(layout.blocks)
        assert all(set(shown(window)) <= allowed for window in windows)


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(1, 16), min_size=10, max_size=30), seed=st.integers(0, 1000))
def test_retrieval_windows_of_blocks_of_any_size(lengths: list[int], seed: int) -> None:
    blocks = split(sentences(*("fox " * length for length in lengths)), TOKENIZER, max_tokens=16)
    room, candidates = FORM.layout(None, blocks).room, [*range(0, len(blocks), 2)]
    run = _random_run(candidates, blocks, room, rng(seed))
    first = candidates.index(run[0])
    end = first + len(run)
    assert run == candidates[first:end], "consecutive candidates"
    spare = room - blocks.total_size(run)
    assert spare >= 0
    assert end == len(candidates) or blocks.sizes[candidates[end]] > spare, "the next block does not fit"


def test_judge_windows_of_rehearsal_alone() -> None:
    item = hops()
    alone = TrainingConfig(judge_windows="rehearsal")
    for seed in range(10):
        (made,) = judge_windows(layout_of(item), labels_of(item), rng(seed), alone, BM25Judge())
        assert {2, 5} < set(made.blocks)


def test_judge_windows_of_other_documents() -> None:
    short = example(sentences(*FACTS[:3]), "what does anna have?", "boat", FACTS[0])
    (made,) = judge_windows(layout_of(short), labels_of(short), rng(), BOTH, BM25Judge())
    assert shown(made) == [0, 1, 2]


def test_the_answers_block_comes_first() -> None:
    item = hops(4)
    blocks = blocks_of(item)
    labels = blocks.relevance_labels(item)
    assert labels is not None
    assert np.flatnonzero(labels).tolist() == [2, 5, 8, 11]
    assert gold_blocks(item, WindowFormat(TOKENIZER, 1000).layout(item.query, blocks), labels) == [11, 2, 5, 8]
    small = WindowFormat(TOKENIZER, 32).layout(item.query, blocks)
    gold = gold_blocks(item, small, np.ones(len(blocks), dtype=bool))
    assert gold[0] == 11
    assert gold[1:] == list(range(len(gold) - 1))
    assert small.room - blocks.total_size(gold) < blocks.sizes.max()


@pytest.mark.parametrize("judge", ["overlap", "random"])
def test_relevant_blocks_overflow_the_window(reasoner: SpanReasoner, judge: str) -> None:
    document = sentences(*FACTS, *corpus.FILLER)
    item = example(document, "what does anna have?", "map", *FACTS)
    blocks = blocks_of(item)
    assert blocks.sizes[: len(FACTS)].sum() > FORM.capacity
    scorer = ScoringJudgeAdapter(WordOverlap()) if judge == "overlap" else None
    (made,), _ = windows_of(reasoner, [item], scorer, [rng()])
    assert made is not None
    assert made.target.kind == SPAN
    (answer,) = blocks.overlapping(item.answer_spans[0].start, item.answer_spans[0].end)
    assert answer in shown(made.window)
    assert len(made.window) <= FORM.capacity
    ((first, last),) = made.target.spans
    tokens = made.window.document_token[first : last + 1]
    assert document.text[blocks.token_starts[tokens[0]] : blocks.token_ends[tokens[-1]]] == "map"


def test_reasoner_windows_hold_the_judges_best_others(reasoner: SpanReasoner) -> None:
    item = hops()
    blocks = blocks_of(item)
    judge = ScoringJudgeAdapter(Checksums())
    (made,), (scores,) = windows_of(reasoner, [item], judge, [rng()])
    (expected,) = judge.retrieve([Memory(layout_of(item), (2, 5))])
    np.testing.assert_array_equal(scores, expected)
    others = fill(expected, blocks, room_of(item, blocks) - int(blocks.sizes[[2, 5]].sum()))
    assert made is not None
    assert shown(made.window) == sorted([2, 5, *others])
    assert set(expected[others]) == set(sorted(expected[~np.isnan(expected)])[-len(others) :])


class Watching(ScoringJudgeAdapter):
    """Remembers z of every retrieval."""

    def __init__(self) -> None:
        super().__init__(Checksums())
        self.kept: list[tuple[int, ...]] = []

    def retrieve(self, memories: Sequence[Memory]) -> list[np.ndarray]:
        self.kept += [memory.kept for memory in memories]
        return super().retrieve(memories)


@pytest.mark.parametrize(("largest", "capacity"), [(1, 48), (16, 32)])
def test_the_judge_scores_the_others_with_relevant_blocks_in_z(
    reasoner: SpanReasoner, largest: int, capacity: int
) -> None:
    """As between two steps of MemRecall, they take at most half of the room, and the largest block still fits."""
    document, judge = sentences(*FACTS, "fox " * largest, *corpus.FILLER), Watching()
    item = example(document, "what does anna have?", "map", *FACTS)
    form = WindowFormat(TOKENIZER, capacity)
    windows_of(reasoner, [item], judge, [rng()], form)
    (kept,) = judge.kept
    layout = layout_of(item, form)
    blocks, half = layout.blocks, layout.room // 2
    assert (layout.room - blocks.max_size < half) == (largest == 16)
    spare = min(half, layout.room - blocks.max_size) - blocks.total_size(kept)
    assert 0 <= spare < min(blocks.sizes[block] for block in range(len(FACTS)) if block not in kept)
    assert kept == tuple(sorted(kept))
    assert blocks.overlapping(item.answer_spans[0].start, item.answer_spans[0].end)[0] in kept


def test_without_relevance_labels_the_judge_alone_fills_the_window(reasoner: SpanReasoner) -> None:
    item = Example(id="", document=hops().document, query=Query("does she?"), answers=("yes",))
    (made,), (scores,) = windows_of(reasoner, [item], ScoringJudgeAdapter(Checksums()), [rng()])
    assert made is not None
    assert shown(made.window) == sorted(fill(scores, blocks_of(item), layout_of(item).room))


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=8), batch_tokens=st.integers(32, 512), seed=st.integers(0, 99)
)  # fmt: skip
def test_windows_of_a_document_share_a_pass(counts: list[int], batch_tokens: int, seed: int) -> None:
    lengths = rng(seed).integers(1, 64, sum(counts)).tolist()
    groups = _whole_groups(counts, list(map(range, lengths)), batch_tokens)
    assert [index for group in groups for index in group] == list(range(sum(counts))), "every window once, in order"
    ends = np.cumsum([0, *counts]).tolist()
    assert {group[0] for group in groups} <= set(ends), "no document is split"

    def cost(group: list[int]) -> int:
        return len(group) * padded_length(max(lengths[index] for index in group))

    for group, after in zip(groups, [*groups[1:], []], strict=True):
        documents = sum(end in group for end in ends[:-1])
        assert cost(group) <= batch_tokens or documents == 1
        if after:
            next_document = [index for index in after if index < ends[ends.index(after[0]) + 1]]
            assert cost(group + next_document) > batch_tokens, "a pass takes as many documents as fit"


def test_reasoner_windows_hold_the_passages_that_will_be_read(reasoner: SpanReasoner) -> None:
    document = paragraphs(FACTS[:4], FACTS[4:8], FACTS[8:10], [*corpus.FILLER, *corpus.FILLER])
    item = example(document, "what does anna have?", FACTS[5].split()[-1].strip("."), FACTS[2], FACTS[5])
    judge = ScoringJudgeAdapter(Checksums())
    for count in (1, 2):
        (made,), _ = windows_of(reasoner, [item], judge, [rng()], WindowFormat(TOKENIZER, 96), passages=count)
        assert made is not None
        assert shown(made.window) == [*range(8)], "the passages of all relevant blocks"
    (made,), (scores,) = windows_of(reasoner, [item], judge, [rng()], WindowFormat(TOKENIZER, 96), passages=3)
    assert made is not None
    best = np.nanargmax(np.where(np.arange(len(scores)) < 8, np.nan, scores))
    assert best in shown(made.window)
    assert set(range(8)) < set(shown(made.window))


def test_no_scores_of_a_document_that_is_read_whole(reasoner: SpanReasoner) -> None:
    item = example(sentences(*FACTS[:2]), "what does anna have?", "anna", FACTS[0])
    judge = Watching()
    (made,), (scores,) = windows_of(reasoner, [item], judge, [rng()])
    assert made is not None
    assert shown(made.window) == [0, 1]
    assert np.isnan(scores).all()
    assert judge.kept == [], "the judge is not asked"


def test_reasoner_windows_do_not_depend_on_the_batch(reasoner: SpanReasoner) -> None:
    items = [
        hops(),
        *corpus.make(4),
        Example(id="y", document=hops().document, query=Query("does she?"), answers=("yes",)),
    ]
    for judge in (ScoringJudgeAdapter(Checksums()), None):
        together, _ = windows_of(reasoner, items, judge, [rng(n) for n in range(6)])
        order = [3, 1, 5, 0]
        some, _ = windows_of(reasoner, [items[n] for n in order], judge, [rng(n) for n in order])
        for index, found in zip(order, some, strict=True):
            expected = together[index]
            assert expected is not None
            assert found is not None
            assert found.window.token_ids.tolist() == expected.window.token_ids.tolist()
            assert found.target == expected.target


def test_targets_of_reasoner_windows(reasoner: SpanReasoner) -> None:
    document = hops().document
    asked = {"id": "", "document": document, "query": Query("?")}
    items = [
        Example(**asked, answers=("yes",), relevant=(Span(0, 4),)),
        Example(**asked, answers=()),
        Example(**asked, answers=("nowhere",)),
        Example(**asked),
    ]
    windows, _ = windows_of(reasoner, items, None, [rng(n) for n in range(4)])
    assert [made and made.target for made in windows] == [_Target(YES), _Target(NO_ANSWER), None, None]
    assert windows[0] is not None
    assert 0 in shown(windows[0].window)


def sliding(encoder: Path) -> SlidingWindow:
    return SlidingWindow(Model.create(config(encoder, capacity=48), with_judge=False, device="cpu"))


def test_windows_of_a_baseline(tiny_encoder: Path) -> None:
    reader = sliding(tiny_encoder)
    item = hops()
    windows = reader.windows(reader.model.layout(item.document, item.query))
    kinds: Counter[int] = Counter()
    for seed in range(200):
        (made,) = drawn_windows(reader, item, rng(seed), TrainingConfig())
        assert isinstance(made, ReasonerTarget)
        assert any(made.window.token_ids.tolist() == window.token_ids.tolist() for window in windows)
        holds = any(made.window.block[first] == 5 for first, _ in made.target.spans)
        assert (made.target.kind == SPAN) == holds
        kinds[made.target.kind] += 1
    assert 0.4 < kinds[SPAN] / 200 < 0.9
    assert kinds[NO_ANSWER] > 20


def test_several_windows_of_a_baseline(tiny_encoder: Path) -> None:
    reader = sliding(tiny_encoder)
    item = hops()
    total = len(reader.windows(reader.model.layout(item.document, item.query)))

    def drawn(seed: int, windows: int) -> list[ReasonerTarget]:
        return drawn_windows(reader, item, rng(seed), TrainingConfig(windows=windows))

    made = drawn(0, total + 5)
    assert len({one.window.token_ids.tobytes() for one in made}) == len(made) == total, "each window once"
    share = np.mean([one.target.kind == SPAN for one in made])
    assert 0 < share < 1
    shares = [drawn(seed, 1)[0].target.kind == SPAN for seed in range(200)]
    assert abs(np.mean(shares) - (0.5 + share / 2)) < 0.1, "half of the windows hold the answer for certain"


def test_windows_of_a_baseline_for_yes_and_no(tiny_encoder: Path) -> None:
    reader = sliding(tiny_encoder)
    document = hops().document
    start = document.text.index(FACTS[5])
    item = Example(id="", document=document, query=Query("?"), answers=("yes",), relevant=(Span(start, start + 9),))
    for seed in range(40):
        (made,) = drawn_windows(reader, item, rng(seed), TrainingConfig())
        assert made.target.kind == (YES if 5 in shown(made.window) else NO_ANSWER)
    unknown = Example(id="", document=Document("anna"), query=Query("?"))
    assert drawn_windows(reader, unknown, rng(), TrainingConfig()) == []


def test_reasoner_windows_hold_the_retrievers_best_others(reasoner: SpanReasoner) -> None:
    item = hops()
    (made,), (scores,) = windows_of(reasoner, [item], Watching(), [rng()], fill_with="retriever")
    assert made is not None
    best = [block for block in np.argsort(-scores, kind="stable").tolist() if block not in (2, 5)]
    others = [block for block in shown(made.window) if block not in (2, 5)]
    assert sorted(best[: len(others)]) == others
    words = BM25Judge().text_scores("what does anna have?", blocks_of(item))
    assert words[others].min() >= words[best[len(others) :]].max()
