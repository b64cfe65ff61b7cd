"""MemRecall retrieves, rehearses and decays as described; results do not depend on the batch."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Checksums, Counting, NoJudge, WordOverlap, sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from searching import FILLER, FIRST, HOPS, QUERY, SECOND, TOKENIZER, Fixed, blocks_of, find, memrecall, room_of

import cogltx
from cogltx.blocks import Blocks, load_tokenizer, split
from cogltx.config import MemRecallConfig
from cogltx.document import Query
from cogltx.encoding.encoder import BatchRunner, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import EncoderJudge, Judge, Memory
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.encoder import WindowJudge
from cogltx.memrecall import MemRecall, fill
from cogltx.recall import Recall


def test_the_second_hop_is_found_through_the_first() -> None:
    blocks = split(HOPS, TOKENIZER)
    assert (blocks.text(FIRST).strip(), blocks.text(SECOND).strip()) == ("alpha beta.", "beta gamma.")
    (once,) = find(memrecall(strides=(1,)), [(QUERY, blocks)])
    (twice,) = find(memrecall(strides=(1, 1)), [(QUERY, blocks)])
    assert FIRST in once.key_blocks
    assert SECOND not in once.key_blocks
    assert {FIRST, SECOND} <= set(twice.key_blocks)
    assert twice.kept == {FIRST, SECOND}
    assert dict(zip(twice.key_blocks, twice.steps, strict=True))[FIRST] == 1
    assert dict(zip(twice.key_blocks, twice.steps, strict=True))[SECOND] == 2


def test_the_trace_of_every_step() -> None:
    blocks = split(HOPS, TOKENIZER)
    (recall,) = find(memrecall(strides=(1, 1)), [(QUERY, blocks)])
    first, second = recall.trace
    assert first.coarse.tolist() == [float(index == FIRST) for index in range(len(blocks))]
    assert first.retrieved[0] == FIRST
    assert (
        first.retrieved[1:]
        == tuple(index for index in range(len(blocks)) if index != FIRST)[: len(first.retrieved) - 1]
    )
    assert set(first.fine) == set(first.retrieved)
    assert first.fine[FIRST] == 1
    assert first.kept == (FIRST,)
    assert set(first.decayed) == set(first.retrieved) - {FIRST}
    assert np.isnan(second.coarse[FIRST])
    assert np.isnan(second.coarse).sum() == 1
    assert second.coarse[SECOND] == 1
    assert second.retrieved[0] == SECOND
    assert set(second.fine) == {FIRST, *second.retrieved}
    assert second.fine[FIRST] == 2
    assert second.fine[SECOND] == 1
    assert second.kept == (FIRST, SECOND)
    assert set(second.kept) | set(second.decayed) == set(recall.key_blocks) == set(second.fine)
    assert recall.scores == tuple(second.fine[index] for index in recall.key_blocks)
    assert list(recall.key_blocks) == sorted(recall.key_blocks)


def test_strides_are_numbers_of_additional_kept_blocks() -> None:
    """After step k at most s_1 + … + s_k blocks are kept, the best by fine score; one kept earlier can fall out."""
    blocks = blocks_of(*["the fox."] * 30)
    coarse = [{3: 9.0, 4: 8.0, 5: 7.0, 6: 6.0}, {10: 5.0, 11: 4.0}, {20: 3.0}]
    fine = [{6: 9.0, 3: 8.0, 4: 7.0}, {3: 9.0, 10: 8.0, 11: 7.0, 6: 1.0}, {20: 9.0, 3: 8.0, 11: 7.0, 10: 6.0}]
    (recall,) = find(memrecall(Fixed(coarse, fine), capacity=48, strides=(2, 1, 1)), [(QUERY, blocks)])
    first, second, third = recall.trace
    assert first.retrieved[:4] == (3, 4, 5, 6)
    assert first.kept == (6, 3)
    assert first.decayed[0] == 4
    assert second.retrieved[:2] == (10, 11)
    assert second.kept == (3, 10, 11)
    assert 6 in second.decayed
    assert third.retrieved[0] == 20
    assert third.kept == (20, 3, 11, 10)
    assert recall.kept == {20, 3, 11, 10}
    steps = dict(zip(recall.key_blocks, recall.steps, strict=True))
    assert [steps[index] for index in (3, 10, 11, 20)] == [1, 2, 2, 3]


def test_a_decayed_block_that_is_retrieved_again_has_the_later_step() -> None:
    blocks = blocks_of(*["the fox."] * 30)
    judge = Fixed([{3: 9.0, 4: 8.0}, {4: 9.0}], [{3: 9.0}, {3: 9.0, 4: 8.0}])
    (recall,) = find(memrecall(judge, strides=(1, 1)), [(QUERY, blocks)])
    assert 4 in recall.trace[0].decayed
    assert dict(zip(recall.key_blocks, recall.steps, strict=True))[4] == 2


def test_the_last_step_fills_the_window() -> None:
    blocks = blocks_of(*["the fox."] * 30)
    (recall,) = find(memrecall(strides=(1,)), [(QUERY, blocks)])
    size = int(blocks.sizes[0])
    assert len(recall.key_blocks) == room_of(recall, 32) // size
    assert len(recall.kept) == 1


@pytest.mark.parametrize("capacity", [62, 63, 64, 65, 66, 67])
def test_z_leaves_half_of_the_room_to_retrieval(capacity: int) -> None:
    """Also where the kept blocks take exactly half."""
    blocks = blocks_of(*["the fox."] * 60)
    (recall,) = find(memrecall(capacity=capacity, strides=(50, 50)), [(QUERY, blocks)])
    size, room = int(blocks.sizes[0]), room_of(recall, capacity)
    assert len(recall.trace[0].kept) == (room // 2) // size
    assert len(recall.trace[1].retrieved) >= len(recall.trace[0].kept)


def test_z_keeps_one_large_block_if_any_other_fits_next_to_it() -> None:
    large, small = "fox " * 14 + "alpha.", ["the fox."] * 9
    blocks = blocks_of(*small[:4], large, *small[4:])
    (recall,) = find(memrecall(strides=(1, 1)), [(QUERY, blocks)])
    assert blocks.sizes[4] > room_of(recall, 32) // 2
    assert recall.trace[0].kept == (4,)
    assert np.isnan(recall.trace[1].coarse[4])
    (crowded,) = find(memrecall(strides=(1, 1)), [(QUERY, blocks_of(*small[:4], large, large))])
    assert crowded.trace[0].kept == ()


def test_without_rehearsal_coarse_scores_decide() -> None:
    blocks = split(HOPS, TOKENIZER)
    judge = WordOverlap()
    (recall,) = find(memrecall(ScoringJudgeAdapter(judge), strides=(1, 1), rehearse=False), [(QUERY, blocks)])
    assert not any(kept == candidates for _, kept, candidates in judge.calls)
    assert recall.kept == {FIRST, SECOND}
    assert recall.trace[0].fine == {index: recall.trace[0].coarse[index] for index in recall.trace[0].retrieved}
    assert recall.trace[1].fine[FIRST] == recall.trace[0].coarse[FIRST]


def test_retrieval_alone_fills_the_window() -> None:
    """The paper's ablation: no second look and no fine scores, one competition of coarse scores."""
    blocks = split(HOPS, TOKENIZER)
    judge = WordOverlap()
    (recall,) = find(memrecall(ScoringJudgeAdapter(judge), strides=(8,), rehearse=False), [(QUERY, blocks)])
    (step,) = recall.trace
    assert len(judge.calls) == 1
    assert recall.key_blocks == tuple(sorted(fill(step.coarse, blocks, recall.layout.room)))


def test_a_document_that_fits_is_read_whole() -> None:
    blocks = blocks_of("the fox.", "alpha beta.", "a dog.")
    judge = WordOverlap()
    (recall,) = find(memrecall(ScoringJudgeAdapter(judge)), [(QUERY, blocks)])
    assert recall.key_blocks == (0, 1, 2)
    assert recall.kept == {0, 1, 2}
    assert recall.steps == (0, 0, 0)
    assert recall.scores == (0.0, 1.0, 0.0)
    assert recall.trace == ()
    assert len(judge.calls) == 1


def test_a_document_of_exactly_one_window() -> None:
    form = WindowFormat(TOKENIZER, 32)
    blocks = blocks_of("the fox.", "a dog.", "alpha beta gamma delta.")
    room = form.layout(QUERY, blocks).room
    spare = room - int(blocks.sizes.sum())
    exact = blocks_of("the fox.", "a dog.", "alpha beta gamma delta.", "the " * (spare - 1))
    assert int(exact.sizes.sum()) == room
    assert find(memrecall(), [(QUERY, exact)])[0].trace == ()
    longer = blocks_of("the fox.", "a dog.", "alpha beta gamma delta.", "the " * spare)
    assert len(find(memrecall(), [(QUERY, longer)])[0].trace) == 2


def test_a_block_that_does_not_fit_is_skipped() -> None:
    small, large = "the fox.", "beta " * 15
    blocks = blocks_of(small, large, large, "alpha.", *[small] * 9)
    scores = {1: 9.0, 2: 8.0, 3: 7.0}
    (recall,) = find(memrecall(Fixed([scores], [{}]), strides=(1,)), [(QUERY, blocks)])
    retrieved = recall.trace[0].retrieved
    assert room_of(recall, 32) < blocks.sizes[1] + blocks.sizes[2]
    assert retrieved[:2] == (1, 3)
    assert 2 not in retrieved


def test_without_a_query() -> None:
    blocks = split(HOPS, TOKENIZER)
    judge = WordOverlap()
    (recall,) = find(memrecall(ScoringJudgeAdapter(judge), strides=(1, 1)), [(None, blocks)])
    assert {query for query, _, _ in judge.calls} == {""}
    assert recall.query is None
    assert sum(blocks.sizes[list(recall.key_blocks)]) <= 31


def test_a_query_that_leaves_no_room() -> None:
    with pytest.raises(DataError, match=r"the question has 40 tokens; at most \d+ fit"):
        find(memrecall(), [(Query("fox " * 40), blocks_of("the fox."))])


def test_no_documents() -> None:
    assert find(memrecall(), []) == []


class Watched(ScoringJudgeAdapter):
    """Checks that z never exceeds the room, and that retrieval always has room for one more block."""

    def __init__(self) -> None:
        super().__init__(Checksums())

    def check(self, memory: Memory, *, free: bool) -> None:
        sizes = memory.blocks.sizes
        room = memory.layout.room
        assert list(memory.kept) == sorted(set(memory.kept))
        assert sizes[list(memory.kept)].sum() + (sizes[memory.candidates].max() if free else 0) <= room

    def retrieve(self, memories: Sequence[Memory]) -> list[np.ndarray]:
        for memory in memories:
            self.check(memory, free=True)
        return super().retrieve(memories)

    def rehearse(self, memories: Sequence[Memory]) -> list[np.ndarray]:
        for memory in memories:
            self.check(memory, free=False)
        return super().rehearse(memories)


@settings(max_examples=80)
@given(
    lengths=st.lists(st.integers(1, 16), min_size=1, max_size=40),
    capacity=st.integers(32, 80),
    strides=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    query=st.sampled_from([None, QUERY, Query("who wrote the report")]),
)
def test_nothing_ever_exceeds_the_capacity(
    lengths: list[int], capacity: int, strides: tuple[int, ...], query: Query | None
) -> None:
    blocks = blocks_of(*("fox " * length for length in lengths))
    (recall,) = find(memrecall(Watched(), capacity=capacity, strides=strides), [(query, blocks)])
    room = room_of(recall, capacity)
    assert recall.key_blocks
    assert blocks.sizes[list(recall.key_blocks)].sum() <= room
    assert recall.kept <= set(recall.key_blocks)
    left = [size for index, size in enumerate(blocks.sizes) if index not in recall.key_blocks]
    spare = room - blocks.sizes[list(recall.key_blocks)].sum()
    assert not left or spare < min(left), "room for another block"
    for number, step in enumerate(recall.trace):
        assert len(step.kept) <= sum(strides[: number + 1])
        assert sorted((*step.kept, *step.decayed)) == sorted(step.fine)
        assert [step.fine[index] for index in step.kept] == sorted(
            (step.fine[index] for index in step.kept), reverse=True
        )


def items() -> list[tuple[Query | None, Blocks]]:
    return [
        (QUERY, split(HOPS, TOKENIZER)),
        (Query("the fox"), blocks_of("the fox.", "a dog.")),
        (None, blocks_of(*FILLER * 2)),
        (Query("who wrote the report"), blocks_of(*FILLER, "Anna wrote the report.", *FILLER)),
    ]


@pytest.mark.parametrize("judge", ["overlap", "checksums"])
def test_a_permuted_batch_gives_permuted_results(judge: str) -> None:
    documents = items()
    scorer = {"overlap": WordOverlap, "checksums": Checksums}[judge]
    recall = memrecall(ScoringJudgeAdapter(scorer()), strides=(1, 2))
    forwards, backwards = find(recall, documents), find(recall, documents[::-1])[::-1]
    alone = [find(recall, [document])[0] for document in documents]
    for first, second, third in zip(forwards, backwards, alone, strict=True):
        for other in (second, third):
            assert (first.key_blocks, first.scores, first.kept, first.steps) == (
                other.key_blocks, other.scores, other.kept, other.steps,
            )  # fmt: skip


def test_the_encoder_judge_does_not_depend_on_the_batch(architecture_encoder: Path) -> None:
    torch.manual_seed(3)
    form = WindowFormat(load_tokenizer(architecture_encoder), 48)
    model = EncoderJudge(load_encoder(EncoderConfig(name=str(architecture_encoder))))
    judge = WindowJudge(model, BatchRunner(Precision(torch.device("cpu"), bfloat16=False), 256, form.padding_id))
    recall = memrecall(judge, form=form, capacity=48, strides=(1, 2))
    documents = [(query, split(blocks.document, form.tokenizer, max_tokens=16)) for query, blocks in items()]
    together, backwards = find(recall, documents), find(recall, documents[::-1])[::-1]
    for document, first, second in zip(documents, together, backwards, strict=True):
        (alone,) = find(recall, [document])
        for other in (second, alone):
            assert first.key_blocks == other.key_blocks
            assert first.kept == other.kept
            assert first.steps == other.steps
            np.testing.assert_allclose(first.scores, other.scores, atol=1e-6)
            for step, same in zip(first.trace, other.trace, strict=True):
                np.testing.assert_allclose(step.coarse, same.coarse, atol=1e-6)
                assert step.retrieved == same.retrieved


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(2, 16), min_size=1, max_size=12),
    scores=st.lists(st.one_of(st.integers(0, 3), st.just(float("nan"))), min_size=12, max_size=12),
    room=st.integers(0, 60),
)
def test_fill_takes_the_best_that_fit(sizes: list[int], scores: list[float], room: int) -> None:
    blocks = blocks_of(*("fox " * (size - 1) for size in sizes))
    assert blocks.sizes.tolist() == sizes
    expected, left = [], room
    for score, index in sorted((-score, index) for index, score in enumerate(scores[: len(sizes)]) if score == score):
        del score
        if sizes[index] <= left:
            expected.append(index)
            left -= sizes[index]
    assert fill(np.array(scores[: len(sizes)], dtype=float), blocks, room) == expected


def test_earlier_blocks_win_ties() -> None:
    blocks = blocks_of(*["the fox."] * 40)
    scores = np.tile([1.0, 0.0], 20)
    assert fill(scores, blocks, 1000) == [*range(0, 40, 2), *range(1, 40, 2)]


def test_the_default_configuration_is_the_papers() -> None:
    paper = {"capacity": 512, "strides": (3, 5), "rehearse": True}
    extensions = {"shortlist": None, "retriever": "bm25", "headings": 0, "passages": None, "pairs": False}
    assert MemRecallConfig() == MemRecallConfig(**paper, **extensions)


@pytest.mark.parametrize(
    "values",
    [
        {"strides": ()},
        {"strides": (3, 0)},
        {"passages": 0},
        {"pairs": True},
        {"pairs": True, "passages": 1},
        {"shortlist": 0},
        {"retriever": "both"},
        {"headings": -0.1},
        {"capacity": 31},
        {"stride": 3},
        {"strides": "many"},
    ],
)
def test_wrong_options(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MemRecallConfig(**values)


def test_a_block_query_is_not_a_candidate() -> None:
    blocks = split(HOPS, TOKENIZER, max_tokens=16)
    finder = memrecall(capacity=40)
    asked = [(blocks.as_query(block), blocks) for block in (FIRST, SECOND)]
    for block, found in zip((FIRST, SECOND), find(finder, asked), strict=True):
        assert block not in found.key_blocks
        assert all(np.isnan(step.coarse[block]) for step in found.trace)
        window = found.window
        assert len(window) <= 40
        assert window.document_token[window.target_tokens].tolist() == list(
            range(blocks[block].first_token, blocks[block].end_token)
        )
    first, second = find(finder, asked)
    assert SECOND in first.key_blocks, "they share a word"
    assert FIRST in second.key_blocks


@pytest.mark.parametrize("kind", ["words", "bm25", "encoder"])
def test_a_document_of_one_block_has_no_context_for_that_block(tiny_encoder: Path, kind: str) -> None:
    form = WindowFormat(load_tokenizer(tiny_encoder), 40)
    if kind == "bm25":
        pytest.importorskip("bm25s")
    judges: dict[str, Callable[[], Judge]] = {
        "words": lambda: ScoringJudgeAdapter(WordOverlap()),
        "bm25": BM25Judge,
        "encoder": lambda: WindowJudge(
            EncoderJudge(load_encoder(EncoderConfig(name=str(tiny_encoder)))),
            BatchRunner(Precision(torch.device("cpu"), False), 256, form.padding_id),
        ),
    }  # fmt: skip
    blocks = split(sentences("alpha beta."), form.tokenizer, max_tokens=16)
    (found,) = find(memrecall(judges[kind](), form=form, capacity=40), [(blocks.as_query(0), blocks)])
    assert (found.key_blocks, found.scores) == ((), ())
    long = split(HOPS, form.tokenizer, max_tokens=16)
    (found,) = find(memrecall(judges[kind](), form=form, capacity=40), [(long.as_query(FIRST), long)])
    assert FIRST not in found.key_blocks
    assert found.key_blocks


TEXT = "Rain fell on the hills. " * 90 + "  Anna Karlsson wrote the report.\n" + "The dog sat on the sofa. " * 90


def assert_exact_evidence(recall: Recall, text: str) -> None:
    assert recall.trace
    assert len(recall.evidence) == len(recall.key_blocks)
    for found in recall.evidence:
        assert text[found.start : found.end] == found.text == found.text.strip()


def test_key_blocks_of_a_text_with_the_default_tokenizer() -> None:
    pytest.importorskip("bm25s")
    recall = cogltx.MemRecall(judge="bm25").recall(TEXT, "Who wrote the report?")
    assert_exact_evidence(recall, TEXT)
    assert "Anna Karlsson wrote the report." in recall.evidence[0].text
    scores = [found.score for found in recall.evidence]
    assert scores == sorted(scores, reverse=True)
    assert len(recall.window) <= 512


@pytest.mark.parametrize("judge", [WordOverlap(), ScoringJudgeAdapter(WordOverlap()), Counting(), "fakes:WordOverlap"])
def test_any_judge_finds_key_blocks(judge: object) -> None:
    finder = cogltx.MemRecall(judge, MemRecallConfig(capacity=64), tokenizer=TOKENIZER, max_block_tokens=16)
    recall = finder.recall(TEXT, "Who wrote the report?")
    assert_exact_evidence(recall, TEXT)
    assert max(block.n_tokens for block in recall.blocks) <= 16
    if not isinstance(judge, Counting):
        assert any("report" in found.text for found in recall.evidence)


def test_key_blocks_without_a_question() -> None:
    finder = memrecall(ScoringJudgeAdapter(Checksums()), capacity=128)
    assert_exact_evidence(finder.recall(TEXT), TEXT)
    assert finder.recall(TEXT).query is None


@pytest.mark.parametrize(
    ("judge", "error", "wording"),
    [
        (
            "bm26",
            ConfigError,
            "'bm26' is not a judge; use encoder, bm25, embedding, linear, a model or package.module:Class",
        ),
        ("encoder", ConfigError, 'judge "encoder" needs a trained run'),
        ("fakes:Missing", ModelError, "judge fakes:Missing: cannot be imported"),
        (NoJudge(), ModelError, "judge: NoJudge is not a judge"),
    ],
)
def test_wrong_judges(judge: object, error: type[Exception], wording: str) -> None:
    with pytest.raises(error, match=wording) as caught:
        cogltx.MemRecall(judge, tokenizer=TOKENIZER)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "query", "wording"),
    [
        ("", "Who?", "the text is empty"),
        (TEXT, " ", "the question is empty"),
        (TEXT, "fox " * 600, r"the question has 600 tokens; at most \d+ fit"),
    ],
)
def test_texts_and_questions_that_cannot_be_read(text: str, query: str, wording: str) -> None:
    with pytest.raises(DataError, match=wording):
        cogltx.MemRecall(WordOverlap(), tokenizer=TOKENIZER).recall(text, query)


class CountingTokenizer:
    """A tokenizer that records the texts that it is called with."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    def __call__(self, texts: list[str], **options: object) -> Any:
        self.texts.append(texts)
        return TOKENIZER(texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(TOKENIZER, name)


@pytest.mark.parametrize("judge", [WordOverlap(), Counting()])
def test_a_query_is_tokenized_once(judge: object) -> None:
    """Retrieval and rehearsal of all steps, and the reasoner's window, use one layout."""
    tokenizer = CountingTokenizer()
    finder = MemRecall(judge, MemRecallConfig(capacity=32, strides=(1, 1, 1)), tokenizer=tokenizer)
    documents = [split(HOPS, TOKENIZER), blocks_of(*FILLER * 2)]
    queries = [QUERY, Query("who wrote the report")]
    recalls = find(finder, list(zip(queries, documents, strict=True)))
    for recall in recalls:
        assert len(recall.trace) == 3
        assert len(recall.window) <= 32
    asked = [text for texts in tokenizer.texts for text in texts if not text.startswith("The weather")]
    assert asked == [query.text for query in queries]
