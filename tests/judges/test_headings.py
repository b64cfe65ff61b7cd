"""Blocks gain if they name each other's headings, or the question names theirs; their relevance stays the judge's."""

import numpy as np
import pytest
from searching import QUERY, TOKENIZER, Fixed, find, memrecall

from cogltx.blocks import split
from cogltx.document import Document, Query, Segment
from cogltx.encoding.layout import WindowFormat
from cogltx.judges import Headings, Judge, Memory

TITLED = Document(
    "alpha says. delta sings. lazy dog. prices rose.",
    segments=(
        Segment(0, 11, "Quick"),
        Segment(11, 24, "Brown"),
        Segment(24, 34, "Delta (film)"),
        Segment(34, 47, "Over"),
    ),
)
BLOCKS = split(TITLED, TOKENIZER, max_tokens=16)


def memory(query: Query = QUERY, kept: tuple[int, ...] = (), relevance: tuple[float, ...] = ()) -> Memory:
    return Memory(WindowFormat(TOKENIZER, 64).layout(query, BLOCKS), kept, relevance)


def test_candidates_compete_with_the_best_block_that_names_them_or_that_they_name() -> None:
    """Block 1 names the heading of block 2; what is in z counts with its relevance."""
    headings = Headings(Judge(), 0.5)
    coarse = np.array([0.1, 0.8, 0.2, 0.3])
    np.testing.assert_allclose(headings.competition_scores(memory(), coarse), [0.1, 0.9, 0.6, 0.3])
    coarse[1] = np.nan
    in_z = memory(kept=(1,), relevance=(0.8,))
    np.testing.assert_allclose(headings.competition_scores(in_z, coarse), [0.1, np.nan, 0.6, 0.3])


@pytest.mark.parametrize(("query", "gains"), [("alpha", {}), ("over", {3: 0.5}), ("Delta", {2: 0.5})])
def test_in_z_a_heading_that_the_question_names_counts_too(query: str, gains: dict[int, float]) -> None:
    scores = (0.1, 0.8, 0.2, 0.3)
    expected = [0.1, 0.9, 0.6, 0.3]
    for block, gain in gains.items():
        expected[block] += gain
    state = memory(Query(query), (0, 1, 2, 3), scores)
    np.testing.assert_allclose(Headings(Judge(), 0.5).decay_scores(state), expected)
    np.testing.assert_allclose(
        Headings(Judge(), 0.5).competition_scores(memory(Query(query)), np.array(scores)), [0.1, 0.9, 0.6, 0.3]
    )


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_named_blocks_are_found_and_stay(weight: float) -> None:
    coarse, fine = {1: 0.9, 2: 0.1, 3: 0.3}, {1: 0.8, 2: 0.2, 3: 0.4}
    (recall,) = find(memrecall(Fixed([coarse], [fine]), strides=(2,), headings=weight), [(QUERY, BLOCKS)])
    (step,) = recall.trace
    if weight:
        assert step.retrieved[:2] == (1, 2)
        assert step.kept == (1, 2)
        assert dict(zip(recall.key_blocks, recall.scores, strict=True))[2] == pytest.approx(0.2 + 0.5 * 0.8)
    else:
        assert step.retrieved[:2] == (1, 3)
        assert step.kept == (1, 3)
    assert (step.coarse[2], step.fine[1]) == (0.1, 0.8), "the trace has the judge's relevance"


@pytest.mark.parametrize(("probabilities", "best"), [(True, 1.0), (False, 0.9 + 0.5 * 0.8)])
def test_scores_stay_probabilities_and_relevance_has_no_bonus(probabilities: bool, best: float) -> None:
    scores = {1: 0.9, 2: 0.8}
    judge = Fixed([scores], [scores])
    judge.probabilities = probabilities
    (recall,) = find(memrecall(judge, strides=(2,), headings=0.5), [(QUERY, BLOCKS)])
    assert max(recall.scores) == pytest.approx(best)
    assert recall.relevance == 0.9, "no-answer thresholds and rankings compare the judge's own"
