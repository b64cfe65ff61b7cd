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
from cogltx.config import MemRecallConfig
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import load_encoder, padded_length
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import Judge, Memory
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.judges.bm25 import BM25Judge
from cogltx.memrecall import MemRecall, fill
from cogltx.model import Model
from cogltx.reasoners import SpanReasoner
from cogltx.reasoners.span import NO_ANSWER, SPAN, YES, _Target
from cogltx.training.config import TrainingConfig
from cogltx.training.interventions import ReasonerTarget
from cogltx.training.steps import _document_ranking, _Lesson, _token_labels, _whole_groups
from cogltx.training.windows import (
    _random_run,
    drawn_windows,
    gold_blocks,
    judge_windows,
    random_memory,
    reasoner_windows,
)

TOKENIZER = tiny.make_tokenizer(texts=corpus.TEXTS)
FORM = WindowFormat(TOKENIZER, 48)
MEMRECALL = MemRecall(BM25Judge(), MemRecallConfig(capacity=48), tokenizer=TOKENIZER)
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
    return SpanReasoner(load_encoder(EncoderConfig(name=str(tiny.make_encoder(tmp_path_factory.mktemp("encoder"))))))


def windows_of(
    reasoner: SpanReasoner,
    items: list[Example],
    judge: Judge | None,
    rngs: list[np.random.Generator],
    form: WindowFormat = FORM,
    **options: Any,
) -> tuple[list[ReasonerTarget | None], list[np.ndarray]]:
    layouts = [layout_of(item, form) for item in items]
    relevance = [layout.blocks.relevance_labels(item) for item, layout in zip(items, layouts, strict=True)]
    memrecall = MemRecall(judge or BM25Judge(), MemRecallConfig(capacity=form.capacity, **options), tokenizer=TOKENIZER)
    unknown = [None] * len(items)
    return reasoner_windows(
        reasoner, items, layouts, relevance, memrecall, rngs, unknown, "random" if judge is None else "recall"
    )


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
    assert float(_document_ranking(_Lesson(windows, labels, Memory(layout)), logits)) == pytest.approx(
        expected, rel=1e-4
    )
    nothing = _document_ranking(_Lesson(windows[1:], labels, Memory(layout)), logits[1:].requires_grad_())
    assert nothing.item() == 0
    nothing.backward()


@settings(max_examples=80)
@given(seed=st.integers(0, 1000), relevant=st.integers(0, 3), scored=st.booleans())
def test_judge_windows(seed: int, relevant: int, scored: bool) -> None:
    item = hops(max(1, relevant))
    if not relevant:
        item = Example(id="", document=item.document, query=item.query, relevant=())
    blocks = blocks_of(item)
    scores = np.arange(len(blocks), dtype=np.float32) if scored else None
    retrieval, rehearsal = judge_windows(
        layout_of(item), labels_of(item), rng(seed), scores, TrainingConfig(), MEMRECALL
    )
    gold = [2, 5, 8][:relevant]
    for made in (retrieval, rehearsal):
        assert len(made) <= FORM.capacity
        assert len(shown(made)) == len(set(shown(made)))
    assert shown(rehearsal) == sorted(shown(rehearsal)), "rehearsal shows z in document order"
    assert set(gold) <= set(shown(rehearsal))
    left = [size for index, size in enumerate(blocks.sizes) if index not in shown(rehearsal)]
    assert room_of(item, blocks) - blocks.sizes[shown(rehearsal)].sum() < min(left)
    if scored:
        hardest = [index for index in range(len(blocks))[::-1] if index not in gold]
        assert hardest[0] in shown(rehearsal)
    order = shown(retrieval)
    memory = [index for index in order if index in gold and order.index(index) < len(gold)]
    for first in range(len(memory) + 1):
        run = order[first:]
        candidates = [index for index in range(len(blocks)) if index not in order[:first]]
        if run and run == candidates[candidates.index(run[0]) :][: len(run)]:
            break
    else:
        raise AssertionError(f"{order} is no run of consecutive blocks behind z")


def test_half_of_the_runs_hold_something_relevant() -> None:
    item = hops()
    counts: Counter[str] = Counter()
    firsts = set()
    for seed in range(300):
        retrieval, _ = judge_windows(layout_of(item), labels_of(item), rng(seed), None, TrainingConfig(), MEMRECALL)
        order = shown(retrieval)
        has_memory = order[0] in (2, 5) and order[1:2] != [order[0] + 1]
        counts["memory"] += has_memory
        counts["relevant"] += bool({2, 5} & set(order[has_memory:]))
        firsts.add(order[0])
    assert 0.35 < counts["memory"] / 300 < 0.75
    assert counts["relevant"] / 300 > 0.7, "without the share of runs around a relevant block it is about 0.54"
    assert len(firsts) > 6


def test_shares_of_the_judges_retrieval_windows() -> None:
    item = hops()

    def retrieval(seed: int, **shares: float) -> list[int]:
        return shown(
            judge_windows(layout_of(item), labels_of(item), rng(seed), None, TrainingConfig(**shares), MEMRECALL)[0]
        )

    for seed in range(60):
        paper = retrieval(seed, memory_share=0, relevant_share=0)
        assert paper == list(range(paper[0], paper[-1] + 1)), "the paper's is a run of consecutive blocks"
        memory, *run = retrieval(seed, memory_share=1, relevant_share=1)
        assert {memory} | ({2, 5} & set(run)) == {2, 5}, "one relevant block in z, the other in the run"
    holds = [bool({2, 5} & set(retrieval(seed, memory_share=0, relevant_share=0))) for seed in range(60)]
    assert not all(holds), "the paper's is anywhere"


def test_with_a_shortlist_windows_hold_its_blocks() -> None:
    item = hops()
    layout = layout_of(item)
    memrecall = MemRecall(
        BM25Judge(), MemRecallConfig(capacity=48, shortlist=6, retriever="bm25"), tokenizer=TOKENIZER
    )  # fmt: skip
    for seed in range(30):
        windows = judge_windows(layout, labels_of(item), rng(seed), None, TrainingConfig(memory_share=0), memrecall)
        allowed = {2, 5, *memrecall.shortlisted(Memory(layout)).candidates}
        assert len(allowed) < len(layout.blocks)
        assert all(set(shown(window)) <= allowed for window in windows)


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(1, 16), min_size=10, max_size=30), seed=st.integers(0, 1000))
def test_retrieval_windows_of_blocks_of_any_size(lengths: list[int], seed: int) -> None:
    blocks = split(sentences(*("fox " * length for length in lengths)), TOKENIZER, max_tokens=16)
    room, relevant, random = FORM.layout(None, blocks).room, [*range(0, len(blocks), 3)], rng(seed)
    memory = random_memory(relevant, blocks, room, random, 1.0)
    candidates = [block for block in range(len(blocks)) if block not in memory]
    run = _random_run(relevant, memory, candidates, blocks, room, random, 0.5)
    assert blocks.total_size(memory) + blocks.max_size <= room, "retrieval has room for any block"
    assert blocks.total_size(memory) <= room // 2
    first = candidates.index(run[0])
    end = first + len(run)
    assert run == candidates[first:end], "consecutive"
    spare = room - blocks.total_size([*memory, *run])
    assert spare >= 0
    assert end == len(candidates) or blocks.sizes[candidates[end]] > spare, "the next block does not fit"


def test_z_takes_up_to_half_of_the_room_in_training() -> None:
    blocks = split(sentences(*["the fox."] * 30), TOKENIZER, max_tokens=16)
    room, everything = FORM.layout(None, blocks).room, list(range(30))
    sizes = [len(random_memory(everything, blocks, room, rng(seed), 1.0)) for seed in range(100)]
    assert (min(sizes), max(sizes)) == (1, room // 2 // int(blocks.sizes[0]))


def test_judge_windows_of_rehearsal_alone() -> None:
    item = hops()
    alone = TrainingConfig(judge_windows="rehearsal")
    for seed in range(10):
        (made,) = judge_windows(layout_of(item), labels_of(item), rng(seed), None, alone, MEMRECALL)
        assert {2, 5} < set(made.blocks)


def test_judge_windows_of_other_documents() -> None:
    short = example(sentences(*FACTS[:3]), "what does anna have?", "boat", FACTS[0])
    (made,) = judge_windows(layout_of(short), labels_of(short), rng(), None, TrainingConfig(), MEMRECALL)
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
    groups = _whole_groups(counts, lengths, batch_tokens)
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


@pytest.mark.parametrize(("most", "others"), [(1, 0), (2, 0), (3, 1)])
def test_reasoner_windows_hold_as_many_blocks_as_will_be_read(reasoner: SpanReasoner, most: int, others: int) -> None:
    item = hops()
    judge = ScoringJudgeAdapter(Checksums())
    (made,), (scores,) = windows_of(reasoner, [item], judge, [rng()], most_blocks=most)
    assert made is not None
    best = [int(block) for block in np.argsort(-scores) if not np.isnan(scores[block])][:others]
    assert shown(made.window) == sorted([2, 5, *best])


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


def test_half_of_the_reasoner_windows_are_of_the_second_reading(reasoner: SpanReasoner) -> None:
    document = paragraphs(FACTS[:4], FACTS[4:8], FACTS[8:10], [*corpus.FILLER, *corpus.FILLER])
    item = example(document, "what does anna have?", FACTS[5].split()[-1].strip("."), FACTS[2], FACTS[5])
    judge, form = ScoringJudgeAdapter(Checksums()), WindowFormat(TOKENIZER, 96)

    def window(seed: int, **options: int) -> list[int]:
        (made,), _ = windows_of(reasoner, [item], judge, [np.random.default_rng(seed)], form, **options)
        assert made is not None
        return shown(made.window)

    for name, first, again in (("most_blocks", 5, 3), ("passages", 3, 2)):
        both = [window(0, **{name: first}), window(0, **{name: again})]
        assert len(both[0]) > len(both[1])
        drawn = [window(seed, reread=again, **{name: first}) for seed in range(60)]
        assert all(one in both for one in drawn)
        assert 15 <= drawn.count(both[1]) <= 45


def test_words_of_the_query_count_in_reasoner_windows_too(reasoner: SpanReasoner) -> None:
    item = hops()
    blocks = blocks_of(item)
    judge = ScoringJudgeAdapter(Checksums())
    (made,), (scores,) = windows_of(reasoner, [item], judge, [rng()], lexical_bonus=9.0)
    (expected,) = judge.retrieve([Memory(layout_of(item), (2, 5))])
    np.testing.assert_array_equal(scores, expected)  # hard negatives are by the judge alone
    words = BM25Judge().text_scores("what does anna have?", blocks)
    competing = expected + 9 * words / words.max()
    others = fill(competing, blocks, room_of(item, blocks) - int(blocks.sizes[[2, 5]].sum()))
    assert made is not None
    assert shown(made.window) == sorted([2, 5, *others])
    assert others != fill(expected, blocks, room_of(item, blocks) - int(blocks.sizes[[2, 5]].sum()))


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

    def drawn(seed: int, windows: int, share: float) -> list[ReasonerTarget]:
        return drawn_windows(reader, item, rng(seed), TrainingConfig(windows=windows, answer_share=share))

    for share in (0.0, 0.5, 1.0):
        made = drawn(0, total + 5, share)
        assert len({one.window.token_ids.tobytes() for one in made}) == len(made) == total, "each window once"
    n_answering = sum(one.target.kind == SPAN for one in made)
    assert 0 < n_answering < total
    for seed in range(40):
        assert all(one.target.kind == SPAN for one in drawn(seed, n_answering, 1.0))
    shares = [drawn(seed, 1, 0.0)[0].target.kind == SPAN for seed in range(200)]
    assert abs(np.mean(shares) - n_answering / total) < 0.1, "with a share of 0, a window is any of the document's"


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
    layout = layout_of(item)
    memrecall = MemRecall(BM25Judge(), MEMRECALL.config, tokenizer=TOKENIZER)
    (made,), (scores,) = reasoner_windows(
        reasoner, [item], [layout], [labels_of(item)], memrecall, [rng()], [None], "retriever"
    )
    assert made is not None
    best = [block for block in np.argsort(-scores, kind="stable").tolist() if block not in (2, 5)]
    others = [block for block in shown(made.window) if block not in (2, 5)]
    assert sorted(best[: len(others)]) == others
    words = memrecall.retriever.bm25.text_scores("what does anna have?", layout.blocks)
    assert words[others].min() >= words[best[len(others) :]].max()
