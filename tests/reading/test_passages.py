"""The reasoner reads the passages of the best blocks, which fill the window, the same in training and reading."""

import re

import numpy as np
import pytest
from fakes import WordOverlap, paragraphs, sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from searching import FILLER, QUERY, TOKENIZER, Fixed, blocks_of, find, memrecall

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Segment
from cogltx.encoding.layout import Layout, WindowFormat
from cogltx.errors import ConfigError
from cogltx.reading import passages_of

PARAGRAPHS = (
    (*FILLER[:2], "alpha beta.", FILLER[2]),
    (*FILLER[3:6], "delta delta."),
    (FILLER[6], "beta gamma.", FILLER[7]),
    FILLER[8:],
)
BLOCKS = split(paragraphs(*PARAGRAPHS), TOKENIZER)


def layout_of(blocks: Blocks, capacity: int = 48) -> Layout:
    return WindowFormat(TOKENIZER, capacity).layout(QUERY, blocks)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("alpha beta.\ngamma delta.\nlazy dog.", [0, 1, 2]),
        ("alpha beta.\ngamma delta.\n \t\nlazy dog.", [0, 0, 1]),
        ("alpha beta. gamma delta. lazy dog.", [0, 0, 0]),
    ],
)
def test_paragraphs_end_at_blank_lines_or_else_at_line_breaks(text: str, numbers: list[int]) -> None:
    segments = tuple(Segment(*match.span()) for match in re.finditer(r"\w+ \w+\.", text))
    assert split(Document(text, segments=segments), TOKENIZER).paragraphs.tolist() == numbers


def test_paragraphs_of_joined_documents_are_those_of_each() -> None:
    lines, blank = (
        Document(text, segments=tuple(Segment(*match.span()) for match in re.finditer(r"\w+ \w+\.", text)))
        for text in ("Anna met.\nBert came.", "Anna met.\n\nBert came.\nCara left.")
    )
    alone = [split(one, TOKENIZER).paragraphs.tolist() for one in (lines, blank)]
    together = split(Document.joined([lines, blank]), TOKENIZER).paragraphs.tolist()
    numbers = {number: place for place, number in enumerate(dict.fromkeys(together))}
    assert [numbers[one] for one in together] == [*alone[0], *(one + 2 for one in alone[1])]


def test_short_paragraphs_are_read_whole_the_best_first() -> None:
    layout = layout_of(BLOCKS)
    assert passages_of([9, 2, 5], layout, 1) == [[8, 9, 10]]
    assert passages_of([9, 8, 2], layout, 2) == [[8, 9, 10], [0, 1, 2, 3]], "a passage is read once"
    assert passages_of([], layout, 2, certain=[2, 6]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert passages_of([9], layout, 1, certain=[2, 6]) == [[0, 1, 2, 3], [4, 5, 6, 7]], "those of certain blocks first"
    assert passages_of([9, 2], layout, 2, certain=[3]) == [[0, 1, 2, 3], [8, 9, 10]]


def test_a_long_paragraph_holds_several_passages_that_fill_the_window() -> None:
    layout = layout_of(split(sentences(*FILLER, *FILLER), TOKENIZER))
    (whole,) = passages_of([9], layout, 2)
    smallest, size = int(layout.blocks.sizes.min()), layout.blocks.total_size
    assert layout.room - size(whole) < smallest, "one passage fills the window"
    assert whole == [*range(whole[0], whole[-1] + 1)], "a passage is consecutive"
    first, second = passages_of([9, 10, 20], layout, 2)
    assert (9 in first, 20 in second, 10 in first) == (True, True, True)
    assert layout.room - size([*first, *second]) < smallest
    assert abs(size(first) - size(second)) <= 2 * layout.blocks.max_size, "equal shares"
    asked = WindowFormat(TOKENIZER, 48).layout(layout.blocks.as_query(9), layout.blocks)
    assert 9 not in passages_of([8], asked, 1)[0]


def test_a_short_paragraph_leaves_its_share_to_a_long_one() -> None:
    document = paragraphs(("alpha beta.",), FILLER * 2)
    layout = layout_of(split(document, TOKENIZER))
    short, long = passages_of([0, 10], layout, 2)
    assert short == [0]
    assert layout.blocks.total_size(long) > layout.room // 2
    assert layout.room - layout.blocks.total_size([*short, *long]) < int(layout.blocks.sizes.min())


@settings(max_examples=80)
@given(
    sizes=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=1, max_size=6),
    ranked=st.permutations(range(48)),
    count=st.integers(1, 5),
    n_certain=st.integers(0, 3),
    capacity=st.integers(32, 80),
)
def test_passages_fit_and_fill_the_window(
    sizes: list[list[int]], ranked: list[int], count: int, n_certain: int, capacity: int
) -> None:
    blocks = split(
        paragraphs(*([f"{'fox ' * size}." for size in of_one] for of_one in sizes)), TOKENIZER, max_tokens=16
    )
    layout = layout_of(blocks, capacity)
    order = [block for block in ranked if block < len(blocks)]
    certain = []
    for block in order[:n_certain]:
        certain += [block] if blocks.total_size([*certain, block]) <= layout.room else []
    passages = passages_of(order, layout, count, certain)
    read = [block for passage in passages for block in passage]
    assert len(read) == len(set(read))
    assert set(certain) <= set(read)
    assert blocks.total_size(read) <= layout.room
    assert len(passages) <= max(count, len(certain))
    assert all(len({int(blocks.paragraphs[block]) for block in passage}) == 1 for passage in passages)
    begun = {int(blocks.paragraphs[block]) for block in read}
    rest = [block for block in range(len(blocks)) if int(blocks.paragraphs[block]) in begun and block not in read]
    spare = layout.room - blocks.total_size(read)
    for block in rest:
        near = min(abs(block - other) for other in read if blocks.paragraphs[other] == blocks.paragraphs[block])
        assert near > 1 or blocks.sizes[block] > spare, "a paragraph ends, or the next block does not fit"


def test_the_reasoner_reads_the_passages_of_the_best_blocks() -> None:
    (recall,) = find(memrecall(capacity=48, strides=(1, 1), passages=2), [(QUERY, BLOCKS)])
    (single,) = find(memrecall(capacity=48, strides=(1, 1)), [(QUERY, BLOCKS)])
    assert single.kept == {2, 9}
    assert recall.key_blocks == (0, 1, 2, 3, 8, 9, 10)
    assert [one.kept for one in recall.trace] == [one.kept for one in single.trace]
    assert set(recall.steps) <= {1, 2}
    assert recall.kept == {2, 9}


def test_the_judge_scores_what_is_read_together() -> None:
    second_look = dict.fromkeys(range(len(BLOCKS)), 0.1) | {8: 0.6}
    judge = Fixed([{9: 0.9, 2: 0.8}], [{9: 0.9, 2: 0.8}, second_look])
    (recall,) = find(memrecall(judge, capacity=48, strides=(2,), passages=1), [(QUERY, BLOCKS)])
    assert recall.key_blocks == (8, 9, 10)
    assert recall.scores == (0.6, 0.1, 0.1)
    assert recall.relevance == 0.6


def test_passages_by_coarse_scores_without_rehearsal() -> None:
    judge = Fixed([{2: 0.9, 9: 0.8}], [])
    (recall,) = find(memrecall(judge, capacity=48, strides=(2,), passages=1, rehearse=False), [(QUERY, BLOCKS)])
    assert recall.key_blocks == (0, 1, 2, 3), "around the best block"
    assert recall.scores == tuple(recall.trace[0].coarse[[0, 1, 2, 3]])
    assert recall.kept == {2}


def test_a_short_document_is_read_whole() -> None:
    (recall,) = find(memrecall(strides=(1,), passages=1), [(QUERY, blocks_of("alpha beta.", "lazy dog."))])
    assert recall.key_blocks == (0, 1)


def test_pairs_need_a_trained_model() -> None:
    with pytest.raises(ConfigError, match=r"memrecall\.pairs needs a model that was trained with it; set it to false"):
        memrecall(passages=2, pairs=True)


def test_the_order_of_documents_does_not_matter() -> None:
    from cogltx.judges import _ScoringJudgeAdapter

    documents = [
        (QUERY, BLOCKS),
        (QUERY, blocks_of("alpha.", "dog.")),
        (QUERY, split(paragraphs(*PARAGRAPHS[::-1]), TOKENIZER)),
    ]
    recall = memrecall(_ScoringJudgeAdapter(WordOverlap()), capacity=48, strides=(1, 1), passages=2)
    for one, other in zip(find(recall, documents), find(recall, documents[::-1])[::-1], strict=True):
        assert (one.key_blocks, one.scores) == (other.key_blocks, other.scores)
        assert np.isfinite(one.scores).all()
