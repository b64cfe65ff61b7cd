"""Windows keep within their capacity, contain whole blocks, and map back to the document exactly."""

import functools
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Query, Segment
from cogltx.encoding.layout import NONE, WindowFormat, pack
from cogltx.errors import ConfigError, DataError, ModelError

TEXT = "The film was directed by John Smith. Who wrote it? 巴黎是法国的首都。 It cost $1,200 per tonne, and the dog 😀 sat."
quick = settings(max_examples=60)


@functools.cache
def tokenizer_of(architecture: str) -> Any:
    return tiny.make_tokenizer(architecture)


def blocks_of(tokenizer: Any, *, heading: str = "The Film") -> Blocks:
    return split(Document(TEXT * 2, segments=(Segment(0, len(TEXT), heading),)), tokenizer, max_tokens=10)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@pytest.mark.parametrize("query", [None, Query("Who wrote it?")])
@pytest.mark.parametrize("n_separators", [1, 2])
def test_layout(architecture: str, query: Query | None, n_separators: int) -> None:
    tokenizer = tokenizer_of(architecture)
    form = WindowFormat(tokenizer, 128, n_separators)
    blocks = blocks_of(tokenizer)
    layout = form.layout(query, blocks)
    prefix, window = layout.prefix, layout.window([0, 1, len(blocks) - 1])
    expected = [tokenizer.cls_token_id]
    if query:
        asked = tokenizer(query.text, add_special_tokens=False)["input_ids"]
        expected += [*asked, *[tokenizer.sep_token_id] * n_separators]
    for index in (0, 1, len(blocks) - 1):
        block = blocks[index]
        ids = blocks.token_ids[block.first_token : block.end_token].tolist()
        expected += [*blocks.headings[block.heading].tolist(), *ids, tokenizer.sep_token_id]
    assert window.token_ids.tolist() == expected
    assert len(window) == len(prefix) + blocks.sizes[[0, 1, -1]].sum()
    assert window.n_prefix == len(prefix)
    assert len(blocks.headings[blocks[0].heading]) > 0
    assert len(blocks.headings[blocks[len(blocks) - 1].heading]) == 0


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@quick
@given(data=st.data())
def test_tokens_map_back_to_blocks_and_characters(architecture: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(architecture)
    form = WindowFormat(tokenizer, 256)
    blocks = blocks_of(tokenizer)
    order = data.draw(st.permutations(range(len(blocks)))).copy()[: data.draw(st.integers(0, 6))]
    window = form.layout(Query("Who?"), blocks).window(order)
    assert len(window) <= 256
    assert (window.block[: window.n_prefix] == NONE).all()
    assert list(dict.fromkeys(window.block[window.block >= 0].tolist())) == order
    for index in order:
        block = blocks[index]
        shown = window.document_token[(window.block == index) & (window.document_token >= 0)]
        assert shown.tolist() == list(range(block.first_token, block.end_token))
    places = window.document_token >= 0
    assert (window.token_ids[places] == blocks.token_ids[window.document_token[places]]).all()
    assert (window.block[places] >= 0).all()
    separators = (window.block == NONE) & (np.arange(len(window)) >= window.n_prefix)
    assert separators.sum() == len(order)
    assert (window.token_ids[separators] == tokenizer.sep_token_id).all()


def test_tokens_map_back_to_their_characters() -> None:
    tokenizer = tokenizer_of("bert")
    form = WindowFormat(tokenizer, 256)
    blocks = blocks_of(tokenizer)
    window = form.layout(Query("Who?"), blocks).window(range(len(blocks)))
    seen = []
    for token_id, token in zip(window.token_ids.tolist(), window.document_token.tolist(), strict=True):
        if token >= 0:
            piece = tokenizer.convert_ids_to_tokens(token_id).removeprefix("##")
            text = blocks.document.text[blocks.token_starts[token] : blocks.token_ends[token]]
            assert text.lower() == piece or piece == "[UNK]"
            seen.append(text)
    assert "".join(seen) == "".join((TEXT * 2).split())


@quick
@given(values=st.lists(st.floats(-5, 5), min_size=256, max_size=256))
def test_block_means(values: list[float]) -> None:
    tokenizer = tokenizer_of("bert")
    form = WindowFormat(tokenizer, 256)
    blocks = blocks_of(tokenizer)
    window = form.layout(None, blocks).window([2, 0])
    numbers = np.array(values[: len(window)])
    shown, means = window.block_means(numbers)
    assert shown.tolist() == [0, 2]
    for index, mean in zip(shown, means, strict=True):
        own = [value for value, block in zip(numbers, window.block, strict=True) if block == index]
        np.testing.assert_allclose(mean, np.mean(own))


def test_a_window_is_never_over_capacity() -> None:
    tokenizer = tokenizer_of("bert")
    blocks = blocks_of(tokenizer)
    form = WindowFormat(tokenizer, 32)
    with pytest.raises(AssertionError, match=r"\d+ tokens exceed the capacity 32"):
        form.layout(None, blocks).window(range(len(blocks)))


def test_a_query_that_leaves_no_room() -> None:
    form = WindowFormat(tokenizer_of("bert"), 32)
    blocks = split(Document("fox " * 30), form.tokenizer, max_tokens=10)
    assert blocks.max_size == 11
    longest = form.layout(Query("fox " * 19), blocks)
    assert len(longest.prefix) + 11 == 32
    assert longest.room == 11
    with pytest.raises(
        DataError, match=r"the question has 20 tokens; at most 19 fit, because a window of 32 tokens must"
    ):
        form.layout(Query("fox " * 20), blocks)


@pytest.mark.parametrize(("query", "least"), [(None, 33), (Query("Who?"), 35)])
def test_blocks_that_do_not_fit_a_window(query: Query | None, least: int) -> None:
    form = WindowFormat(tokenizer_of("bert"), 32)
    blocks = split(Document("fox " * 40), form.tokenizer, max_tokens=31)
    with pytest.raises(ConfigError, match=f"capacity is 32; blocks of up to 32 tokens need at least {least}"):
        form.layout(query, blocks)


def test_capacity_too_small() -> None:
    with pytest.raises(ConfigError, match="capacity is 31; it must be at least 32 tokens"):
        WindowFormat(tokenizer_of("bert"), 31)


def test_bos_and_eos_replace_missing_cls_and_sep() -> None:
    names = {"cls_token_id": None, "sep_token_id": None, "bos_token_id": 7, "eos_token_id": 8, "pad_token_id": None}
    form = WindowFormat(SimpleNamespace(**names))
    assert (form.start_id, form.separator_id, form.padding_id) == (7, 8, 0)


def test_a_tokenizer_without_separator() -> None:
    names = {"cls_token_id": 1, "sep_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    with pytest.raises(ModelError, match="the tokenizer has neither sep_token_id nor eos_token_id"):
        WindowFormat(SimpleNamespace(**names))


def fewest_runs(sizes: list[int], room: int) -> int:
    """The fewest runs among all ways to cut, tried one after another."""
    ways = itertools.product([False, True], repeat=max(0, len(sizes) - 1))
    best = len(sizes)
    for cuts in ways:
        sums, total = [], 0
        for size, cut in zip(sizes, (*cuts, True), strict=True):
            total += size
            if cut:
                sums.append(total)
                total = 0
        if max(sums) <= room:
            best = min(best, len(sums))
    return best


@quick
@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=9), room=st.integers(8, 20))
def test_pack_needs_the_fewest_runs(sizes: list[int], room: int) -> None:
    runs = pack(sizes, room)
    assert [index for run in runs for index in run] == list(range(len(sizes)))
    assert all(sum(sizes[index] for index in run) <= room for run in runs)
    assert len(runs) == fewest_runs(sizes, room)


def test_pack_nothing() -> None:
    assert pack([], 8) == []
