"""Words: whole runs of letters and digits with their marks; nothing else is joined; no character is cut."""

import itertools
import unicodedata
from functools import cache
from typing import Any

import pytest
import tiny
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cogltx.blocks import Blocks, split
from cogltx.document import Document


@cache
def tokenizer(architecture: str) -> Any:
    return tiny.make_tokenizer(architecture)


def blocks_of(text: str, architecture: str = "bert") -> Blocks:
    return split(Document(text), tokenizer(architecture), max_tokens=8)


def words(text: str, architecture: str = "bert") -> list[str]:
    found = blocks_of(text, architecture).words
    return [text[start:end] for start, end in zip(found.starts, found.ends, strict=True)]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta", "modernbert"])
def test_words_of_some_scripts(architecture: str) -> None:
    assert words("Unheardof words, pre-B2 cells.", architecture) == [
        "Unheardof", "words", ",", "pre", "-", "B2", "cells", ".",
    ]  # fmt: skip
    if architecture != "deberta":  # its tiny vocabulary has no single Chinese characters
        assert words("我在巴黎 in 2018年", architecture) == ["我", "在", "巴", "黎", "in", "2018", "年"]
    assert words("cafe\u0301 ole\u0301.", architecture)[:2] == ["cafe\u0301", "ole\u0301"]


def test_a_long_text_has_the_words_of_its_parts() -> None:
    part = "pre-B2 cafe\u0301 (Anna) 巴黎 "
    count = 9_000  # more tokens than are looked at together
    assert words(part * count) == words(part) * count


def test_words_that_a_span_touches() -> None:
    found = blocks_of("Anna went to Paris.").words
    assert found.touching(0, 4) == range(0, 1)
    assert found.touching(2, 6) == range(0, 2)
    assert list(found.touching(4, 5)) == []
    assert found.touching(13, 19) == range(3, 5)


TEXT = st.text(st.sampled_from("ab1.,- \n\u0301é猫黎👍\u200dकि"), min_size=1, max_size=40)


@settings(max_examples=300)
@example(text=".\u0301\u093f", architecture="bert")
@example(text="a\u0301\u0301", architecture="bert")
@given(text=TEXT, architecture=st.sampled_from(["bert", "roberta", "deberta"]))
def test_words_share_nothing_and_cut_nothing(text: str, architecture: str) -> None:
    try:
        blocks = blocks_of(text, architecture)
    except Exception as error:
        assert "expected text" in str(error)
        return
    found = blocks.words
    spans = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    assert all(start < end <= len(text) for start, end in spans)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    for start, end in spans:
        assert text[start:end] == text[start:end].strip()
        assert end == len(text) or not unicodedata.category(text[end]).startswith("M"), "marks stay with their letter"
    assert [found.of_token[token] for token in found.first_tokens] == list(range(len(found)))
    assert (found.of_token >= 0).sum() == len(found)
