"""Blocks tile the document within their size limit at the least cost, for any script and tokenizer."""

import functools
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import cogltx
from cogltx.blocks import Blocks, load_tokenizer, split
from cogltx.blocks import _characters as characters
from cogltx.blocks import _cuts as cuts
from cogltx.blocks import _tokens as tokens
from cogltx.document import Document, Segment
from cogltx.errors import ConfigError, DataError, ModelError

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

UNSPACED = set("巴黎是法国谁写了这份报告的首都ひカ\U00020000\u3000。，、！？；：「」（）")
CLOSERS = set("\"')]}”»」）")
PIECES = [
    *(
        "a",
        "the fox",
        "Paris",
        "report",
        "3.14",
        "U.S.",
        "can't",
        "naïve",
        "x" * 9,
        "qzqzqz",
        "e.g.",
        "www.a.com/b?c=d",
    ),
    *(".", "?", "!", ",", ";", ":", '"', ")", "”", "'", "...", '."', '?")', ",'"),
    *(" ", " ", " ", " ", "  ", "\n", "\r\n", "\n\n", "\t", "\r", " \n ", "\u3000"),
    *(
        "巴黎",
        "是法国的",
        "。",
        "，",
        "、",
        "！",
        "「巴",
        "」",
        "ひカ",
        "باريس",
        "هي؟",
        "،",
        "😀",
        "👨‍👩‍👧",
        "e\u0301",
        "\u00ad",
        "\u200b",
    ),
]
MARKS = ("\u0301", "\u00ad", "\u200d")  # belong to the character before them
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=40).map("".join).filter(str.strip)
limits = st.integers(8, 20)


@functools.cache
def tokenizer_of(architecture: str) -> Any:
    return tiny.make_tokenizer(architecture)


@pytest.fixture(params=tiny.ARCHITECTURES)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return tokenizer_of(request.param)


@pytest.fixture
def bert() -> Any:
    return tokenizer_of("bert")


def boundary(text: str, blocks: Blocks, token: int) -> int | None:
    """The cost of a cut after a token by the table of the method's description; None inside a word."""
    start, end, following = blocks.token_starts[token], blocks.token_ends[token], blocks.token_starts[token + 1]
    gap = text[end:following]
    if any(c in gap.replace("\r\n", "\n").removesuffix("\r" if text[following - 1 : following + 1] == "\r\n" else "")
           for c in "\n\r"):  # fmt: skip
        return 0
    mark = text[end - 1] if end > start else ""
    free = end == len(text) or text[end].isspace() or text[end] in CLOSERS
    if mark and (mark in "。？！؟" or (mark in ".?!" and free)):
        return 1
    if mark and (mark in "，；：、،" or (mark in ",;:" and free)):
        return 2
    between_words = any(map(str.isspace, gap)) or end == len(text) or text[end].isspace()
    if not between_words and text[following : following + 1] in MARKS:
        return None
    if between_words or mark in UNSPACED or text[following : following + 1] in UNSPACED:
        return 8
    return None


def inside_character(blocks: Blocks, token: int) -> bool:
    following = blocks.token_starts[token + 1]
    return bool(following < blocks.token_ends[token] or following == blocks.token_starts[token])


def cut_costs(document: Document, blocks: Blocks, max_tokens: int, first: int, last: int) -> dict[int, int]:
    """The cost of each allowed cut among the tokens ``first`` … ``last - 1``, by the token it comes before."""
    costs: dict[int, int | None] = {}
    for token in range(first, last - 1):
        inside = inside_character(blocks, token)
        costs[token + 1] = None if inside else boundary(document.text, blocks, token)
    edges = [first, *(token for token, cost in costs.items() if cost is not None), last]
    for begin, end in itertools.pairwise(edges):
        if end - begin > max_tokens:  # a word longer than a block is cut inside
            costs |= {t: 8 for t in range(begin + 1, end) if not inside_character(blocks, t - 1)}
    return {token: cost for token, cost in costs.items() if cost is not None}


def least_cost(costs: dict[int, int], max_tokens: int, first: int, last: int) -> int:
    """The least sum of 4 + cut over all ways to cut: the best rest of the text behind every place, from its end."""
    rest: dict[int, float] = {last: 0}
    for begin in range(last - 1, first - 1, -1):
        ends = [end for end in range(begin + 1, min(begin + max_tokens, last) + 1) if end == last or end in costs]
        rest[begin] = min((4 + costs.get(end, 0) + rest[end] for end in ends), default=float("inf"))
    return int(rest[first])


def segment_tokens(blocks: Blocks) -> list[tuple[int, int]]:
    """Token runs between the borders of segments, from the characters of the tokens."""
    document = blocks.document
    borders = sorted({0, len(document.text), *(edge for s in document.segments for edge in (s.start, s.end))})
    edges = np.searchsorted(blocks.token_starts, borders).tolist()
    edges[-1] = blocks.n_tokens
    return [(first, last) for first, last in itertools.pairwise(edges) if first < last]


def assert_tile(blocks: Blocks, max_tokens: int) -> None:
    text = blocks.document.text
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert blocks[0].start == 0
    assert blocks[-1].end == len(text)
    assert (blocks[0].first_token, blocks[-1].end_token) == (0, blocks.n_tokens)
    for before, after in itertools.pairwise(blocks):
        assert before.end == after.start
        assert before.end_token == after.first_token
    assert "".join(blocks.text(block.index) for block in blocks) == text
    for block in blocks:
        assert block.start < block.end
        assert 1 <= block.n_tokens <= max_tokens
        starts = blocks.token_starts[block.first_token : block.end_token]
        ends = blocks.token_ends[block.first_token : block.end_token]
        solid = starts < ends
        assert (block.start <= starts[solid]).all()
        assert (ends[solid] <= block.end).all()


def assert_exact_tokens(blocks: Blocks) -> None:
    """Tokens are in the order of the text, and none starts or ends in white space."""
    text = blocks.document.text
    assert (np.diff(blocks.token_starts) >= 0).all()
    assert (blocks.token_starts <= blocks.token_ends).all()
    for start, end in zip(blocks.token_starts, blocks.token_ends, strict=True):
        assert text[start:end] == text[start:end].strip()


def assert_cheapest(blocks: Blocks, max_tokens: int) -> None:
    cuts = {block.first_token for block in blocks}
    for first, last in segment_tokens(blocks):
        costs = cut_costs(blocks.document, blocks, max_tokens, first, last)
        chosen = sorted(cut for cut in cuts if first < cut < last)
        assert first in cuts
        assert set(chosen) <= set(costs), "a cut inside a word"
        price = 4 + sum(4 + costs[cut] for cut in chosen)
        assert price == least_cost(costs, max_tokens, first, last)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@quick
@given(text=texts, max_tokens=limits)
@example(text="巴黎" * 21 + " " + "巴黎" * 21, max_tokens=8)
@example(text="\U00020000\U00020000 \U00020000\U00020000", max_tokens=8)
@example(text="a b c d e f g h ", max_tokens=8)
@example(text="one\r\ntwo\r\nthree four\r\nfive six seven eight nine", max_tokens=8)
def test_blocks_tile_the_document_at_the_least_cost(architecture: str, text: str, max_tokens: int) -> None:
    tokenizer = tokenizer_of(architecture)
    try:
        blocks = split(Document(text), tokenizer, max_tokens=max_tokens)
    except DataError as error:
        assert str(error) == "document '': the tokenizer finds no token in the text"
        assert not tokenizer(text, add_special_tokens=False)["input_ids"]
        return
    assert_tile(blocks, max_tokens)
    assert_exact_tokens(blocks)
    assert_cheapest(blocks, max_tokens)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@quick
@given(text=texts, max_tokens=limits, data=st.data())
def test_no_block_crosses_a_segment(architecture: str, text: str, max_tokens: int, data: st.DataObject) -> None:
    borders = data.draw(st.lists(st.integers(0, len(text)), unique=True, max_size=8).map(sorted))
    segments = tuple(Segment(first, last, heading=str(first)) for first, last in itertools.pairwise(borders))
    document = Document(text, segments=segments[::2])
    try:
        blocks = split(document, tokenizer_of(architecture), max_tokens=max_tokens)
    except DataError:
        return
    assert_tile(blocks, max_tokens)
    assert_cheapest(blocks, max_tokens)
    for block in blocks:
        spans = [
            (int(blocks.token_starts[t]), int(blocks.token_ends[t])) for t in range(block.first_token, block.end_token)
        ]
        for segment in document.segments:
            inside = {segment.start <= start and end <= segment.end for start, end in spans if start < end}
            assert len(inside) <= 1, "a block on both sides of a border"
            if inside == {True}:
                assert block.heading == segment.heading


@quick
@given(text=texts, max_tokens=limits)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta"])
def test_long_texts_are_scanned_in_parts(
    monkeypatch: pytest.MonkeyPatch, architecture: str, text: str, max_tokens: int
) -> None:
    document = Document(text + " end")
    with monkeypatch.context() as patch:
        patch.setattr(characters, "_SCAN_TOKENS", 3)
        in_parts = split(document, tokenizer_of(architecture), max_tokens=max_tokens)
    whole = split(document, tokenizer_of(architecture), max_tokens=max_tokens)
    assert list(in_parts) == list(whole)
    assert in_parts.token_ids.tolist() == whole.token_ids.tolist()


@quick
@given(text=texts, max_tokens=limits, part=st.integers(1, 20), steps=st.integers(0, 40))
def test_long_segments_are_cut_in_parts(
    monkeypatch: pytest.MonkeyPatch, bert: Any, text: str, max_tokens: int, part: int, steps: int
) -> None:
    document = Document(text + " end")
    with monkeypatch.context() as patch:
        patch.setattr(cuts, "_CUT_TOKENS", part)
        patch.setattr(cuts, "_ORIGIN_STEPS", steps)
        in_parts = split(document, bert, max_tokens=max_tokens)
    assert list(in_parts) == list(split(document, bert, max_tokens=max_tokens))


@settings(quick, max_examples=300)
@given(
    costs=st.lists(st.sampled_from([0, 1, 2, 8, 8, 8, 254]), max_size=300),
    part=st.integers(1, 40),
    steps=st.integers(0, 400),
)
def test_cuts_in_parts_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, costs: list[int], part: int, steps: int
) -> None:
    boundaries = cuts._allow_cuts_in_long_words(np.array(costs, dtype=np.uint8), 8)
    whole = list(cuts.cheapest_cuts(boundaries, 8))
    with monkeypatch.context() as patch:
        patch.setattr(cuts, "_CUT_TOKENS", part)
        patch.setattr(cuts, "_ORIGIN_STEPS", steps)
        assert list(cuts.cheapest_cuts(boundaries, 8)) == whole


@quick
@given(text=texts, max_tokens=limits)
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_long_segments_are_tokenized_in_pieces(
    monkeypatch: pytest.MonkeyPatch, architecture: str, text: str, max_tokens: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "_PIECE_CHARACTERS", 12)
        blocks = split(Document(text + " end"), tokenizer_of(architecture), max_tokens=max_tokens)
    assert_tile(blocks, max_tokens)
    assert_exact_tokens(blocks)
    assert_cheapest(blocks, max_tokens)


def test_pieces_of_a_long_text_have_its_tokens(bert: Any) -> None:
    text = "The report was written by Anna Karlsson; 12 people read it.\n" * 900
    assert len(text) > 3 * tokens._PIECE_CHARACTERS
    blocks = split(Document(text), bert)
    assert blocks.token_ids.tolist() == bert(text, add_special_tokens=False, verbose=False)["input_ids"]
    assert_tile(blocks, 63)


@pytest.mark.parametrize(
    "text",
    [
        "Anna Karlsson wrote the report in Stockholm. " * 40,
        "巴黎是法国的首都。谁写了这份报告？" * 40,
        "باريس هي عاصمة فرنسا. من كتب هذا التقرير؟ " * 40,
        "😀👨‍👩‍👧 " * 60,
        "x" * 3000,
        "巴" * 3000,
        "alpha beta gamma delta " * 100,
        "first line\r\nsecond line\r\n" * 60,
        "  \n\t leading and trailing \n\n\n",
        " " * 500 + "x" + " " * 500,
        "\n" * 500 + "x" + "\n" * 500,
        "a.b.c,d;e" * 200,
    ],
    ids=["latin", "chinese", "arabic", "emoji", "endless word", "endless chinese word", "no punctuation", "crlf",
         "white space at both ends", "spaces", "line breaks", "no white space"],
)  # fmt: skip
@pytest.mark.parametrize("max_tokens", [8, 63])
def test_any_script(tokenizer: Any, text: str, max_tokens: int) -> None:
    blocks = split(Document(text), tokenizer, max_tokens=max_tokens)
    assert_tile(blocks, max_tokens)
    assert_exact_tokens(blocks)
    assert_cheapest(blocks, max_tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d e f\ng h i j", ["a b c d e f\n", "g h i j"]),
        ("a b c. d e f g h i", ["a b c. ", "d e f g h i"]),
        ("a b c, d e f g h i", ["a b c, ", "d e f g h i"]),
        ("a b, c d. e f g h i", ["a b, c d. ", "e f g h i"]),
        ("3.14 3.14 3.14", ["3.14 ", "3.14 3.14"]),
        ('a b c d." e f g h i', ['a b c d.', '" e f g h i']),
        ("巴黎是法国。巴黎是法国", ["巴黎是法国。", "巴黎是法国"]),
        ("巴黎是法，巴黎是法国", ["巴黎是法，", "巴黎是法国"]),
        ("a b c d e\r\n\r\nf g h i", ["a b c d e\r\n\r\n", "f g h i"]),
    ],
)  # fmt: skip
def test_cuts_prefer_line_sentence_and_clause_ends(bert: Any, text: str, expected: list[str]) -> None:
    blocks = split(Document(text), bert, max_tokens=8)
    assert [blocks.text(block.index) for block in blocks] == expected


@pytest.mark.parametrize(
    "text", ["one\r\ntwo three four five six seven\r\neight", "one\ntwo three four five six\nseven"]
)
def test_white_space_belongs_to_the_block_before(tokenizer: Any, text: str) -> None:
    for block in split(Document(text), tokenizer, max_tokens=8):
        assert not text[block.start].isspace()


def test_text_between_and_around_segments_forms_segments(bert: Any) -> None:
    text = "before first between second after"
    segments = (Segment(7, 12, "one"), Segment(21, 27, "two"))
    blocks = split(Document(text, segments=segments), bert)
    assert [(blocks.text(block.index), block.heading) for block in blocks] == [
        ("before ", ""),
        ("first", "one"),
        (" between ", ""),
        ("second", "two"),
        (" after", ""),
    ]


def test_segments_without_tokens_belong_to_the_block_before(bert: Any) -> None:
    text = "\x00\x00one\x00\x00two"
    segments = (Segment(0, 2, "none"), Segment(2, 5, "one"), Segment(5, 7, "none"), Segment(7, 10, "two"))
    blocks = split(Document(text, segments=segments), bert)
    assert [(blocks.text(block.index), block.heading) for block in blocks] == [
        ("\x00\x00one\x00\x00", "one"),
        ("two", "two"),
    ]


def test_sizes_count_heading_and_separator(bert: Any) -> None:
    text = "one two three. four"
    long = "word " * 40
    blocks = split(Document(text, segments=(Segment(0, 14, "Anna Karlsson"), Segment(15, 19, long))), bert)
    titled = [len(bert(heading, add_special_tokens=False)["input_ids"]) for heading in ("Anna Karlsson ;", long)]
    assert titled[1] > tokens.MAX_HEADING_TOKENS
    assert blocks.sizes.tolist() == [blocks[0].n_tokens + titled[0] + 1, blocks[1].n_tokens + 16 + 1]
    assert bert.decode(blocks.headings["Anna Karlsson"].tolist()) == "anna karlsson ;"
    assert bert.decode(blocks.headings[long].tolist()).endswith(" ;")


@quick
@given(text=texts, data=st.data())
def test_overlapping_blocks(text: str, data: st.DataObject) -> None:
    blocks = split(Document(text + " end"), tokenizer_of("roberta"), max_tokens=8)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start + 1, len(text) + 4))
    expected = [block.index for block in blocks if block.start < end and start < block.end]
    assert list(blocks.overlapping(start, end)) == expected


@quick
@given(text=texts)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_trimmed_blocks_have_no_white_space_around(architecture: str, text: str) -> None:
    blocks = split(Document("\n" + text + " end\n "), tokenizer_of(architecture), max_tokens=8)
    for block in blocks:
        start, end = blocks.trimmed(block.index)
        assert block.start <= start < end <= block.end
        assert blocks.document.text[start:end] == (blocks.text(block.index).strip() or blocks.text(block.index))


def test_blocks_are_a_sequence(bert: Any) -> None:
    blocks = split(Document("the fox. the dog the fox the dog."), bert, max_tokens=8)
    assert len(blocks) == 2
    assert blocks[-1] == list(blocks)[1] == blocks[1]
    assert blocks[:1] == (blocks[0],)


def test_memory_per_token_and_per_block(bert: Any) -> None:
    document = Document("A dog sat on the report. Then the fox went, " * 4000)
    split(document, bert)
    tracemalloc.start()
    try:
        blocks = split(document, bert)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert blocks.n_tokens > 40_000
    assert held < 1.25 * (3 * 4 * blocks.n_tokens + 3 * 8 * len(blocks)) + 20_000


@pytest.mark.parametrize("text", ["\x00\x01", "\u200b\u200e"])
def test_text_that_the_tokenizer_drops(bert: Any, text: str) -> None:
    with pytest.raises(DataError, match="document 'x': the tokenizer finds no token in the text"):
        split(Document(text, "x"), bert)


def test_lone_surrogate(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="document 'x': the text contains a lone surrogate"):
        split(Document("a \ud800 b", "x"), tokenizer)
    with pytest.raises(DataError, match=r"heading 'a \\ud800': the text contains a lone surrogate"):
        split(Document("text", segments=(Segment(0, 4, "a \ud800"),)), tokenizer)


def test_a_tokenizer_that_fails() -> None:
    broken = tiny.make_tokenizer()
    broken.model_max_length = "x"
    with pytest.raises(ModelError, match="document 'x': the tokenizer failed: '>' not supported"):
        split(Document("text", "x"), broken)


def test_a_text_is_split_with_the_bundled_tokenizer_by_default() -> None:
    text = "Anna wrote the report in Stockholm. " * 20
    blocks = cogltx.split(text)
    assert blocks.document == Document(text)
    assert len(blocks) > 1
    assert_tile(blocks, 63)
    assert list(blocks) == list(cogltx.split(Document(text), load_tokenizer("minilm"), max_tokens=63))
    assert len(cogltx.split(text, max_tokens=8)) > len(blocks)


def test_a_tokenizer_is_named_by_its_encoder(tiny_encoder: Path, bert: Any) -> None:
    text = "Anna wrote the report. The fox jumps."
    assert list(cogltx.split(text, str(tiny_encoder), max_tokens=8)) == list(split(Document(text), bert, max_tokens=8))


def test_max_tokens_too_small(bert: Any) -> None:
    with pytest.raises(ConfigError, match="max_tokens is 7; it must be at least 8"):
        split(Document("text"), bert, max_tokens=7)


def test_a_character_of_more_tokens_than_a_block(tmp_path: Path) -> None:
    from tokenizers import normalizers

    tokenizer = tiny.make_tokenizer("deberta")
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("q", "abcdefghijkl")
    with pytest.raises(ConfigError, match="max_tokens is 8; one character of the text has more tokens"):
        split(Document("the q fox"), tokenizer, max_tokens=8)


@pytest.mark.parametrize("splits", [[], [pre_tokenizers.Digits(individual_digits=True)]])
def test_tokenizers_that_begin_words_one_character_late(splits: list[Any]) -> None:
    """The space that they add before a word is cut off its first letter, if only the offsets' part is set so."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    text = "Köln 1932 บ้าน 東京2 x"
    tokenizer.train_from_iterator(
        [text] * 3,
        trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    for written in (text, f" {text}", "1", "a1b"):
        blocks = split(Document(written), PreTrainedTokenizerFast(tokenizer_object=tokenizer))
        covered = {
            place
            for one, other in zip(blocks.token_starts, blocks.token_ends, strict=True)
            for place in range(one, other)
        }
        assert covered == {place for place, character in enumerate(written) if not character.isspace()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ขกข ขกขก ขกขก", ["ขกข ", "ขกขก ขกขก"]),
        ("ก่ก่ก่ก่ก่", ["ก่", "ก่ก่ก่ก่"]),
        ("เกเกเกเกเก", ["เก", "เกเกเกเก"]),
        ("ကခ၊ကခ။ကခကခ", ["ကခ၊ကခ။", "ကခကခ"]),
        ("កខ។កខកខកខ", ["កខ។", "កខកខកខ"]),
        ("ক খ। গ ঘ ক খ গ ঘ", ["ক খ। ", "গ ঘ ক খ গ ঘ"]),
    ],
)
def test_blocks_of_scripts_without_spaces(text: str, expected: list[str]) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={c: n for n, c in enumerate(sorted(set(text)))}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    blocks = split(Document(text), PreTrainedTokenizerFast(tokenizer_object=tokenizer), max_tokens=8)
    assert [blocks.text(block.index) for block in blocks] == expected
