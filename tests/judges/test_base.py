"""A user's judge gets the right texts, and its scores are validated."""

from typing import Any

import fakes
import numpy as np
import pytest
import tiny
import torch
from fakes import Checksums, WordOverlap, sentences

from cogltx.blocks import Blocks, split
from cogltx.document import Query
from cogltx.encoding.layout import Layout, WindowFormat
from cogltx.errors import ModelError
from cogltx.judges import Memory
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter

QUERY = Query("Who wrote the report?")


def layout_of(query: Query | None, blocks: Blocks) -> Layout:
    return WindowFormat(tiny.make_tokenizer()).layout(query, blocks)


@pytest.fixture
def blocks() -> Blocks:
    document = sentences("Anna wrote the report.", "The fox jumps.", "A dog wrote.", headings=("Report", "", ""))
    return split(document, tiny.make_tokenizer())


def test_candidates(blocks: Blocks) -> None:
    assert Memory(layout_of(QUERY, blocks), ()).candidates == [0, 1, 2]
    assert Memory(layout_of(QUERY, blocks), (1,)).candidates == [0, 2]
    assert Memory(layout_of(QUERY, blocks), (0, 1, 2)).candidates == []


def test_retrieve_scores_the_blocks_outside_z(blocks: Blocks) -> None:
    judge = WordOverlap()
    first, second, none = ScoringJudgeAdapter(judge).retrieve(
        [
            Memory(layout_of(QUERY, blocks), ()),
            Memory(layout_of(None, blocks), (1,)),
            Memory(layout_of(QUERY, blocks), (0, 1, 2)),
        ]
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
    ((fine),) = ScoringJudgeAdapter(judge).rehearse([Memory(layout_of(QUERY, blocks), (0, 2))])
    ((query, kept, candidates),) = judge.calls
    assert query == QUERY.text
    assert kept == candidates == ["Report ; Anna wrote the report. ", blocks.text(2)]
    assert fine.tolist() == [3, 1]


@pytest.mark.parametrize("made", [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]), np.float32([1, 2, 3])])
def test_any_sequence_of_numbers_is_accepted(blocks: Blocks, made: Any) -> None:
    class Given:
        def score(self, query: str, kept: list[str], candidates: list[str]) -> Any:
            return made

    (scores,) = ScoringJudgeAdapter(Given()).retrieve([Memory(layout_of(QUERY, blocks), ())])
    assert scores.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("made", "wording"),
    [
        ([1.0, 2.0], r"the scores of 3 texts have shape \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"the scores of 3 texts have shape \(3, 1\)"),
        (0.5, r"the scores of 3 texts have shape \(\)"),
        ([1.0, float("nan"), 2.0], "a score is nan; scores must be finite"),
        ([1.0, float("-inf"), 2.0], "a score is -inf; scores must be finite"),
        ([1.0, None, 2.0], "a score is nan; scores must be finite"),
        (["high", "low", "low"], "scoring 3 texts failed: TypeError: str128 values are not numbers"),
        (["1", "2", "3"], "scoring 3 texts failed: TypeError: str32 values are not numbers"),
        (fakes.Unshown(), "scoring 3 texts failed: "),
        ({"a": 1.0}, "scoring 3 texts failed: "),
        ([1.0, [2.0], 3.0], "scoring 3 texts failed: "),
        ((score for score in (1.0, 2.0, 3.0)), "scoring 3 texts failed: "),
        ([1.0, 2.0, 10**400], "scoring 3 texts failed: "),
        ([1.0, 2.0, 3.0 + 1j], "scoring 3 texts failed: "),
        (torch.ones(3, requires_grad=True), "scoring 3 texts failed: "),
    ],
)
def test_invalid_scores(blocks: Blocks, made: Any, wording: str) -> None:
    class Given:
        def score(self, query: str, kept: list[str], candidates: list[str]) -> Any:
            return made

    name = r"judge [\w.]+:test_invalid_scores.<locals>.Given"
    for method in ("retrieve", "rehearse"):
        with pytest.raises(ModelError, match=f"^{name}: {wording}"):
            getattr(ScoringJudgeAdapter(Given()), method)(
                [Memory(layout_of(QUERY, blocks), () if method == "retrieve" else (0, 1, 2))]
            )


def test_a_score_that_fails(blocks: Blocks) -> None:
    wording = "^judge fakes:Failing: scoring 3 texts failed: RuntimeError: the remote model is down$"
    with pytest.raises(ModelError, match=wording):
        ScoringJudgeAdapter(fakes.Failing()).retrieve([Memory(layout_of(QUERY, blocks), ())])


def test_checksums_depend_on_the_text_alone(blocks: Blocks) -> None:
    first = ScoringJudgeAdapter(Checksums()).retrieve([Memory(layout_of(QUERY, blocks), ())])[0]
    second = ScoringJudgeAdapter(Checksums()).retrieve([Memory(layout_of(QUERY, blocks), (0,))])[0]
    assert second[1:].tolist() == first[1:].tolist()
    assert len(set(first.tolist())) == 3
