"""Special tokens that a text names are plain text, and texts without a token are known."""

from pathlib import Path

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from cogltx.blocks import encode, has_token, load_tokenizer, split
from cogltx.document import Document, Query, Segment
from cogltx.encoding.layout import WindowFormat
from cogltx.judges.embedding import EmbeddingJudge

TOKENIZERS = {name: tiny.make_tokenizer(name) for name in tiny.ARCHITECTURES}
CONTROL = (
    "[SEP]",
    "[CLS]",
    "[MASK]",
    "[PAD]",
    "</s>",
    "<s>",
    "<mask>",
    "<pad>",
    "<|endoftext|>",
    "［ＳＥＰ］",
    "＜/ｓ＞",
)
PIECES = st.one_of(st.sampled_from([*CONTROL, "the fox", " ", "é", "[", "]", "s>", "猫"]), st.text(max_size=3))
architectures = pytest.mark.parametrize("architecture", TOKENIZERS)


def special_ids(architecture: str) -> set[int]:
    tokenizer = TOKENIZERS[architecture]
    return {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}


@architectures
@given(pieces=st.lists(PIECES, min_size=1, max_size=12))
def test_no_text_has_a_special_token(architecture: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    [(ids, spans)] = encode([text], TOKENIZERS[architecture])
    assert not special_ids(architecture).intersection(ids.tolist())
    assert len(ids) == len(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans.tolist())


@architectures
@pytest.mark.parametrize("control", CONTROL)
def test_document_heading_and_question(architecture: str, control: str) -> None:
    tokenizer = TOKENIZERS[architecture]
    text = f"The fox {control} jumps {control}{control} over the dog."
    blocks = split(Document(text, segments=(Segment(0, len(text), f"About {control}"),)), tokenizer)
    window = WindowFormat(tokenizer, 512).layout(Query(f"What is {control}?"), blocks).window(range(len(blocks)))
    used = special_ids(architecture).intersection(window.token_ids.tolist())
    assert used <= {tokenizer.cls_token_id, tokenizer.sep_token_id}
    ids = window.token_ids.tolist()
    assert ids.count(tokenizer.cls_token_id) == 1
    assert ids.count(tokenizer.sep_token_id) == 1 + len(blocks)
    covered = {text[start:end] for start, end in zip(blocks.token_starts, blocks.token_ends, strict=True)}
    assert covered >= {"fox", "dog"} or architecture in ("roberta", "modernbert")


@architectures
def test_ordinary_text_has_the_same_tokens(architecture: str) -> None:
    tokenizer = TOKENIZERS[architecture]
    for text in tiny.CORPUS:
        plain = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        [(ids, spans)] = encode([text], tokenizer)
        assert ids.tolist() == plain["input_ids"]
        assert [tuple(span) for span in spans.tolist()] == plain["offset_mapping"]


def test_the_embedding_judge_reads_them_as_text(tiny_encoder: Path) -> None:
    judge, tokenizer = EmbeddingJudge(str(tiny_encoder)), load_tokenizer(tiny_encoder)
    one, other = judge._embed(["[SEP]", "[ SEP ]"])
    assert one == pytest.approx(other)
    assert tokenizer("[SEP]", add_special_tokens=False)["input_ids"] == [tokenizer.sep_token_id]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True), ("猫", True), ("|", True), ("😀", True), ("[SEP]", True), ("", False), (" \n", False),
        ("\u200b", False), ("\ufeff", False), ("\x00\x01", False), ("\u00ad\u00ad", False), ("\u200d \u200c", False),
        ("\ufe0f", False), ("\U000e0100", False), ("\u0378", True), ("\u2060", False), ("\ufffd", False),
        ("\u200b" * 40_000 + "|", True),
    ],
)  # fmt: skip
def test_texts_without_a_token(text: str, expected: bool) -> None:
    assert has_token(text, load_tokenizer("minilm")) is expected
