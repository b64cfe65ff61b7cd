"""A block mentions a heading if it has its words; the best score over mentions is that of a search by hand."""

import re

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from cogltx.blocks import Blocks, split
from cogltx.blocks._mentions import Mentions
from cogltx.document import Document, Segment

TOKENIZER = tiny.make_tokenizer()


def blocks_under(*parts: tuple[str, str]) -> Blocks:
    """The blocks of a document of short parts, each a heading and a text."""
    text, segments = "", []
    for heading, part in parts:
        segments.append(Segment(len(text), len(text) + len(part), heading))
        text += f"{part}\n"
    return split(Document(text, segments=tuple(segments)), TOKENIZER, max_tokens=32)


def pairs(blocks: Blocks) -> set[tuple[int, str]]:
    headings = list(blocks.headings)
    found = blocks.mentions
    return {(block, headings[heading]) for block, heading in zip(found.blocks.tolist(), found.headings, strict=True)}


def test_mentions_of_titles() -> None:
    blocks = blocks_under(
        ("Ed Wood (film)", "ED  WOOD is about Ed Wood."),
        ("Tim Burton", "He directed ed wood, and not Ed Woods."),
        ("Wood", "Tim-Burton likes redwood; wood is nice."),
    )
    assert pairs(blocks) == {(0, "Wood"), (1, "Ed Wood (film)"), (1, "Wood"), (2, "Tim Burton")}


def test_scripts_without_spaces_are_compared_by_character() -> None:
    blocks = blocks_under(("巴黎", "首都。"), ("法国", "首都是巴黎。"), ("Rhône", "la RHÔNE"), ("黎巴", "rhône"))
    assert pairs(blocks) == {(1, "巴黎"), (3, "Rhône")}
    assert pairs(blocks_under(("İzmir", "a town"), ("sea", "near İzmir"))) == {(1, "İzmir")}, "lower case is longer"


@pytest.mark.parametrize("heading", ["", " ", "(1990)", "!"])
def test_a_heading_without_words_is_never_mentioned(heading: str) -> None:
    assert not pairs(blocks_under((heading, "one (1990)!"), ("two", f"three {heading}")))


def test_a_document_without_headings_has_no_mentions() -> None:
    blocks = split("Rain fell. " * 50, TOKENIZER, max_tokens=16)
    assert not blocks.mentions.best(np.ones(len(blocks))).any()


@given(
    heading_of=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    drawn=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), max_size=12),
    scores=st.lists(st.one_of(st.just(np.nan), st.floats(0, 1)), min_size=8, max_size=8),
)
def test_the_best_score_by_hand(heading_of: list[int], drawn: list[tuple[int, int]], scores: list[float]) -> None:
    known = sorted({(b, h) for b, h in drawn if b < len(heading_of) and heading_of[b] != h and h <= max(heading_of)})
    made = Mentions(
        np.array([b for b, _ in known], dtype=int), np.array([h for _, h in known], dtype=int), np.array(heading_of)
    )
    values = np.array(scores[: len(heading_of)])
    for block, best in enumerate(made.best(values)):
        linked = [
            other
            for other in range(len(heading_of))
            if (block, heading_of[other]) in known or (other, heading_of[block]) in known
        ]
        assert best == max((values[other] for other in linked if not np.isnan(values[other])), default=0.0)


@pytest.mark.parametrize(("question", "named"), [("Is ed wood a film?", [0, 2]), ("Is Ed?", []), ("", [])])
def test_headings_that_a_question_mentions(question: str, named: list[int]) -> None:
    blocks = blocks_under(("Ed Wood (film)", "A film."), ("Tim Burton", "A director."), ("Wood", "A thing."))
    assert np.flatnonzero(blocks.mentions.named(question)).tolist() == named


def test_a_long_text_is_searched_once() -> None:
    words = [f"word{number}" for number in range(2000)]
    text = " ".join(words)
    starts = np.array([match.start() for match in re.finditer(r"\S+", text)])
    made = Mentions.of(text, starts, words, np.roll(np.arange(2000), 1))
    assert len(made.blocks) == 2000
