"""A judge of a user's own gets the right texts, and its answers are checked."""

from typing import Any

import fakes
import numpy as np
import pytest
import tiny
import torch
from fakes import Checksums, WordOverlap, sentences

from cogltx.blocks import Blocks, split
from cogltx.document import Query
from cogltx.errors import ModelError
from cogltx.judges import Memory, ScoredBlocks

QUERY = Query("Who wrote the report?")


@pytest.fixture
def blocks() -> Blocks:
    document = sentences("Anna wrote the report.", "The fox jumps.", "A dog wrote.", headings=("Report", "", ""))
    return split(document, tiny.make_tokenizer())


def test_candidates(blocks: Blocks) -> None:
    assert Memory(QUERY, blocks, ()).candidates == [0, 1, 2]
    assert Memory(QUERY, blocks, (1,)).candidates == [0, 2]
    assert Memory(QUERY, blocks, (0, 1, 2)).candidates == []


def test_retrieve_scores_the_blocks_outside_z(blocks: Blocks) -> None:
    judge = WordOverlap()
    first, second, none = ScoredBlocks(judge).retrieve(
        [Memory(QUERY, blocks, ()), Memory(None, blocks, (1,)), Memory(QUERY, blocks, (0, 1, 2))]
    )
    assert judge.calls == [
        (QUERY.text, [], ["Report ; Anna wrote the report. ", "The fox jumps. ", "A dog wrote."]),
        ("", ["The fox jumps. "], ["Report ; Anna wrote the report. ", "A dog wrote."]),
    ]
    assert first.tolist() == [3, 1, 1]
    np.testing.assert_array_equal(second, [1, np.nan, 0])
    assert np.isnan(none).all()


def test_rehearse_scores_the_blocks_in_z(blocks: Blocks) -> None:
    judge = WordOverlap()
    ((fine),) = ScoredBlocks(judge).rehearse([Memory(QUERY, blocks, (0, 2))])
    ((query, kept, candidates),) = judge.calls
    assert query == QUERY.text
    assert kept == candidates == ["Report ; Anna wrote the report. ", blocks.text(2)]
    assert fine.tolist() == [3, 1]


@pytest.mark.parametrize("made", [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]), np.float32([1, 2, 3])])
def test_any_list_of_numbers_will_do(blocks: Blocks, made: Any) -> None:
    class Given:
        def score(self, query: str, kept: list[str], candidates: list[str]) -> Any:
            return made

    (scores,) = ScoredBlocks(Given()).retrieve([Memory(QUERY, blocks, ())])
    assert scores.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("made", "wording"),
    [
        ([1.0, 2.0], r"expected 3 scores, got shape \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"expected 3 scores, got shape \(3, 1\)"),
        (0.5, r"expected 3 scores, got shape \(\)"),
        ([1.0, float("nan"), 2.0], "expected finite scores, got nan"),
        ([1.0, float("-inf"), 2.0], "expected finite scores, got -inf"),
        ([1.0, None, 2.0], "expected finite scores, got nan"),
        (["high", "low", "low"], "expected a list of 3 numbers, got list: TypeError: str128 values"),
        (["1", "2", "3"], "expected a list of 3 numbers, got list: TypeError: str32 values"),
        (fakes.Unshown(), "expected a list of 3 numbers, got Unshown"),
        ({"a": 1.0}, "expected a list of 3 numbers, got dict"),
        ([1.0, [2.0], 3.0], "expected a list of 3 numbers, got list"),
        ((score for score in (1.0, 2.0, 3.0)), "expected a list of 3 numbers, got generator"),
        ([1.0, 2.0, 10**400], "expected a list of 3 numbers, got list"),
        ([1.0, 2.0, 3.0 + 1j], "expected a list of 3 numbers, got list"),
        (torch.ones(3, requires_grad=True), "expected a list of 3 numbers, got Tensor"),
    ],
)
def test_scores_that_are_none(blocks: Blocks, made: Any, wording: str) -> None:
    class Given:
        def score(self, query: str, kept: list[str], candidates: list[str]) -> Any:
            return made

    name = r"judge [\w.]+:test_scores_that_are_none.<locals>.Given"
    for method in ("retrieve", "rehearse"):
        with pytest.raises(ModelError, match=f"^{name}: {wording}"):
            getattr(ScoredBlocks(Given()), method)([Memory(QUERY, blocks, () if method == "retrieve" else (0, 1, 2))])


def test_a_score_that_fails(blocks: Blocks) -> None:
    wording = "^judge fakes:Failing: expected scores, got RuntimeError: the remote model is down$"
    with pytest.raises(ModelError, match=wording):
        ScoredBlocks(fakes.Failing()).retrieve([Memory(QUERY, blocks, ())])


def test_checksums_depend_on_the_text_alone(blocks: Blocks) -> None:
    first = ScoredBlocks(Checksums()).retrieve([Memory(QUERY, blocks, ())])[0]
    second = ScoredBlocks(Checksums()).retrieve([Memory(QUERY, blocks, (0,))])[0]
    assert second[1:].tolist() == first[1:].tolist()
    assert len(set(first.tolist())) == 3
