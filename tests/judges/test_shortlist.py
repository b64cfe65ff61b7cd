"""The judge scores only what a retriever proposes."""

import numpy as np
import pytest
from searching import FIRST, HOPS, QUERY, SECOND, TOKENIZER, blocks_of, find, memrecall

from cogltx.blocks import split
from cogltx.encoding.layout import WindowFormat
from cogltx.errors import ConfigError
from cogltx.judges import BM25Retriever, Judge, Memory, Shortlist

BLOCKS = split(HOPS, TOKENIZER, max_tokens=16)
LAYOUT = WindowFormat(TOKENIZER, 64).layout(QUERY, BLOCKS)


def test_the_best_by_the_retriever_for_the_question_and_z_in_document_order() -> None:
    shortlist = Shortlist(Judge(), BM25Retriever(), 1)
    assert shortlist.shortlisted(Memory(LAYOUT)).candidates == [FIRST]
    assert shortlist.shortlisted(Memory(LAYOUT, (FIRST,))).candidates == [SECOND], "only the first fact points to it"
    two = Shortlist(Judge(), BM25Retriever(), 2).shortlisted(Memory(LAYOUT, (FIRST,))).candidates
    assert two == sorted(two)
    assert len(two) == 2


def test_places_of_the_candidates() -> None:
    ranking = BM25Retriever().ranking(Memory(LAYOUT, (0,)))
    assert ranking[FIRST] == 1
    assert np.isnan(ranking[0])
    assert sorted(1 / ranking[1:]) == list(range(1, len(BLOCKS)))
    others = [index for index in range(1, len(BLOCKS)) if index != FIRST]
    assert ranking[others].tolist() == sorted(ranking[others], reverse=True), "equal scores in document order"


def test_a_shortlist_of_all_blocks_changes_nothing() -> None:
    (whole,) = find(memrecall(strides=(1, 1)), [(QUERY, BLOCKS)])
    (listed,) = find(memrecall(strides=(1, 1), shortlist=len(BLOCKS)), [(QUERY, BLOCKS)])
    assert (listed.key_blocks, listed.scores, listed.steps) == (whole.key_blocks, whole.scores, whole.steps)
    for one, other in zip(listed.trace, whole.trace, strict=True):
        np.testing.assert_array_equal(one.coarse, other.coarse)


def test_the_judge_scores_only_the_shortlist() -> None:
    (recall,) = find(memrecall(strides=(1, 1), shortlist=1), [(QUERY, BLOCKS)])
    judged = [np.flatnonzero(~np.isnan(step.coarse)).tolist() for step in recall.trace]
    assert judged == [[FIRST], [SECOND]]
    assert recall.key_blocks == (FIRST, SECOND)


def test_a_shortlist_needs_a_question() -> None:
    with pytest.raises(
        ConfigError, match=r"^give a question, which the shortlist needs; for tasks without, memrecall\."
    ):
        find(memrecall(shortlist=3), [(None, BLOCKS)])


def test_a_question_that_shares_no_word() -> None:
    blocks = blocks_of(*["the fox."] * 20)
    (recall,) = find(memrecall(strides=(1,), shortlist=3), [(QUERY, blocks)])
    assert recall.key_blocks == (0, 1, 2)
