"""Words are whole runs of letters and digits with their marks; nothing else is joined, and no character is cut."""

import itertools
import re
import unicodedata
from functools import cache
from typing import Any

import pytest
import tiny
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cogltx.blocks import Blocks, split
from cogltx.blocks._script import expand_to_words
from cogltx.document import Document
from cogltx.errors import DataError


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
    count = 9_000  # more tokens than one scan reads
    assert words(part * count) == words(part) * count


def test_words_touching_a_span() -> None:
    found = blocks_of("Anna went to Paris.").words
    assert found.touching(0, 4) == range(0, 1)
    assert found.touching(2, 6) == range(0, 2)
    assert list(found.touching(4, 5)) == []
    assert found.touching(13, 19) == range(3, 5)


TEXT = st.text(st.sampled_from("ab1.,- \n\u0301é猫黎👍\u200dकि"), min_size=1, max_size=40).filter(str.strip)


@settings(max_examples=300)
@example(text=".\u0301\u093f", architecture="bert")
@example(text="a\u0301\u0301", architecture="bert")
@given(text=TEXT, architecture=st.sampled_from(["bert", "roberta", "deberta"]))
def test_words_do_not_overlap_and_cut_no_character(text: str, architecture: str) -> None:
    try:
        blocks = blocks_of(text, architecture)
    except DataError as error:
        assert "the tokenizer finds no token" in str(error)
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


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("the Netherlands won", "therl", "Netherlands"),
        ("the Netherlands won", "Netherlands", "Netherlands"),
        ("the Netherlands won", "e Ne", "the Netherlands"),
        ("pre-B2 cells", "B", "B2"),
        ("pre-B2 cells", "-", "-"),
        ("first, last", "irs", "first"),
        ("first, last", "as", "last"),
        ("one cafe\u0301s more", "caf", "cafe\u0301s"),
        ("one cafe\u0301s more", "\u0301", "cafe\u0301s"),
        ("one cafe\u0301 more", "cafe", "cafe\u0301"),
        ("हिन्दी में", "न", "हिन्दी"),
        ("我在巴黎住", "巴", "巴"),
        ("在2018年", "01", "2018"),
        ("一a", "a", "a"),
        ("猫\u0301咪", "猫", "猫\u0301"),
        ("a \u0301", "\u0301", "\u0301"),
        ("a 👍\u200d b", "👍", "👍\u200d"),
    ],
)
def test_spans_are_extended_to_whole_words(text: str, span: str, expected: str) -> None:
    start = text.index(span)
    first, last = expand_to_words(text, start, start + len(span))
    assert text[first:last] == expected


def test_a_run_of_letters_without_end_is_no_word() -> None:
    assert expand_to_words("a" * 100_000, 50_000, 50_001) == (50_000 - 256, 50_001 + 256)


@settings(max_examples=300)
@given(text=TEXT, data=st.data())
def test_an_extended_span_contains_the_span_and_cuts_no_word(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    first, last = expand_to_words(text, start, end)
    assert 0 <= first <= start < end <= last <= len(text)
    assert expand_to_words(text, first, last) == (first, last)
    assert not re.search(r"\s", text[first:start] + text[end:last])
    for edge in (first, last):
        assert not re.fullmatch("[ab1é]{2}|[^ \\n]\u0301", text[max(edge - 1, 0) : edge + 1])
