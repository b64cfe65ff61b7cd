"""Tagging: which words a window is about, their tags, losses by hand, the most central window, exact entities."""

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.baselines.sliding_window import overlapping_runs
from cogltx.blocks import Blocks, split
from cogltx.document import Document, Entity, Example, Segment
from cogltx.encoding.encoder import load_encoder, to_batch
from cogltx.encoding.layout import Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, DataError
from cogltx.reasoners import TaggingConfig, TaggingReasoner, make_reasoner
from cogltx.reasoners.crf import OUTSIDE, begin, inside, runs
from cogltx.reasoners.tagging import TagReading, word_tags

TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 64)
LABELS = ("LOC", "PER")
INDEX = {label: index for index, label in enumerate(LABELS)}
TEXT = "Unheardof Karlsson wrote it in Stockholm, Sweden. Then the fox went to Paris."


def entity(text: str, label: str, within: str = TEXT) -> Entity:
    return Entity(within.index(text), within.index(text) + len(text), label)


GOLD = (
    entity("Unheardof Karlsson", "PER"),
    entity("Stockholm", "LOC"),
    entity("Sweden", "LOC"),
    entity("Paris", "LOC"),
)
EXAMPLE = Example(id="a", document=Document(TEXT), entities=GOLD)
BLOCKS = split(EXAMPLE.document, TOKENIZER, max_tokens=20)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_encoder(tmp_path_factory.mktemp("encoder"))


def reasoner(folder: Path, **options: object) -> TaggingReasoner:
    config = TaggingConfig.model_validate({"name": "tagging", "labels": LABELS} | options)
    made = make_reasoner(config, load_encoder(EncoderConfig(name=str(folder), precision="float32")))
    assert isinstance(made, TaggingReasoner)
    return made.eval()


def window(order: list[int], blocks: Blocks = BLOCKS, block: int | None = None) -> Window:
    query = None if block is None else blocks.query(block)
    return FORM.window(FORM.prefix(query, int(blocks.sizes.max())), blocks, order, query)


def certain(blocks: Blocks, tags: np.ndarray, sure: float = 30.0) -> np.ndarray:
    """Scores that leave no doubt about the words' tags."""
    return np.eye(5)[tags] * sure


def test_a_block_as_the_query() -> None:
    document = Document(TEXT, segments=(Segment(0, 49, "A report"), Segment(50, len(TEXT))))
    blocks = split(document, TOKENIZER, max_tokens=24)
    shown = window([1], blocks, block=0)
    own = blocks[0]
    assert shown.document_token[shown.subject].tolist() == list(range(own.first_token, own.end_token))
    assert (shown.token_ids[shown.subject] == blocks.token_ids[own.first_token : own.end_token]).all()
    assert shown.n_prefix == len(blocks.headings["A report"]) + own.n_tokens + 2
    assert blocks.query(0).text == f"A report ; {blocks.text(0)}"
    assert set(shown.block[: shown.n_prefix].tolist()) == {-1}
    every = window([0, 1], blocks)
    assert every.document_token[every.subject].tolist() == list(range(blocks.n_tokens))
    with pytest.raises(ConfigError, match="capacity: expected at least 67, as blocks take up to 32, got 64"):
        FORM.prefix(blocks.query(0), 32)


def test_tags_of_words() -> None:
    tags = word_tags("a", GOLD, BLOCKS, INDEX)
    words = [TEXT[start:end] for start, end in zip(BLOCKS.words.starts, BLOCKS.words.ends, strict=True)]
    found = {word: int(tag) for word, tag in zip(words, tags, strict=True) if tag}
    assert found == {
        "Unheardof": begin(1), "Karlsson": inside(1), "Stockholm": begin(0), "Sweden": begin(0), "Paris": begin(0),
    }  # fmt: skip
    assert BLOCKS.n_tokens > len(words), "some words are several tokens"


def test_gold_inside_a_word_takes_the_word() -> None:
    first, second = Entity(2, 4, "PER"), Entity(5, 9, "LOC")
    tags = word_tags("a", (first, second, Entity(10, 12, "LOC")), BLOCKS, INDEX)
    assert tags[:3].tolist() == [begin(1), begin(0), OUTSIDE], (
        "the first entity has the word; the second begins behind it"
    )


def test_what_is_refused(encoder_folder: Path) -> None:
    with pytest.raises(DataError, match="example 'a': expected one of the labels LOC, PER, got 'ORG'"):
        word_tags("a", (Entity(0, 3, "ORG"),), BLOCKS, INDEX)
    with pytest.raises(DataError, match="example 'a': expected entities that do not overlap, got one at 2:4 that beg"):
        word_tags("a", (Entity(0, 3, "PER"), Entity(2, 4, "LOC")), BLOCKS, INDEX)
    with pytest.raises(ConfigError, match=r"reasoner\.labels: expected at least 1 in the data, got 0"):
        reasoner(encoder_folder, labels=())


def test_targets(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    tags = word_tags("a", GOLD, BLOCKS, INDEX)
    whole = made.target(EXAMPLE, BLOCKS, window(list(range(len(BLOCKS)))))
    assert whole is not None
    assert whole.tags.tolist() == tags.tolist()
    assert whole.before == OUTSIDE
    assert not made.says_nothing(whole)
    parts = [made.target(EXAMPLE, BLOCKS, window([0], block=block)) for block in range(1, len(BLOCKS))]
    assert sum(len(part.tags) for part in parts if part) < len(tags)
    joined = np.concatenate([part.tags for part in parts if part])
    assert joined.tolist() == tags[-len(joined) :].tolist()
    unknown = Example(id="b", document=EXAMPLE.document)
    assert made.target(unknown, BLOCKS, window([0])) is None


def test_the_word_before_a_window_counts(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    blocks = split(EXAMPLE.document, TOKENIZER, max_tokens=9)  # the first name ends in the second block
    target = made.target(EXAMPLE, blocks, window([], blocks, block=1))
    assert target is not None
    assert (target.before, target.tags[0]) == (begin(1), inside(1))
    logits = torch.randn(1, 64, 5)
    assert torch.isfinite(made.losses(logits, [window([], blocks, block=1)], [target])).all()


def test_the_loss_without_a_chain_is_cross_entropy(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder, crf=False)
    windows = [window([0, 1]), window([0], block=1)]
    targets = [made.target(EXAMPLE, BLOCKS, one) for one in windows]
    logits = torch.randn(2, 64, 5)
    losses = made.losses(logits, windows, [target for target in targets if target])
    for row, target in enumerate(targets):
        assert target is not None
        expected = torch.nn.functional.cross_entropy(logits[row, target.places], torch.from_numpy(target.tags))
        torch.testing.assert_close(losses[row], expected)


def test_the_chain_begins_as_without_what_it_learned(encoder_folder: Path) -> None:
    """With all transitions alike, the loss is cross-entropy among the sequences that BIO allows: no more than without."""
    windows = [window([0, 1])]
    logits = torch.randn(1, 64, 5)
    with_chain, without = (reasoner(encoder_folder, crf=crf) for crf in (True, False))
    targets = [with_chain.target(EXAMPLE, BLOCKS, windows[0])]
    assert targets[0] is not None
    assert 0 < with_chain.losses(logits, windows, targets) < without.losses(logits, windows, targets)


@pytest.mark.parametrize("crf", [True, False])
def test_gradients_reach_everything(encoder_folder: Path, crf: bool) -> None:
    made = reasoner(encoder_folder, crf=crf)
    windows = [window([0, 1]), window([0], block=1)]
    targets = [target for one in windows if (target := made.target(EXAMPLE, BLOCKS, one))]
    made.losses(made(to_batch(windows, 0, torch.device("cpu"))), windows, targets).sum().backward()
    assert made.head.weight.grad is not None
    assert made.head.weight.grad.abs().sum() > 0
    assert (made.transitions is not None) == crf
    if made.transitions is not None:
        assert made.transitions.grad is not None
        assert torch.isfinite(made.transitions.grad).all()
        assert made.transitions.grad.abs().sum() > 0


@pytest.mark.parametrize("crf", [True, False])
def test_exact_entities(encoder_folder: Path, crf: bool) -> None:
    made = reasoner(encoder_folder, crf=crf)
    scores = certain(BLOCKS, word_tags("a", GOLD, BLOCKS, INDEX))
    words = np.arange(len(BLOCKS.words))
    found = made.conclude(TagReading(BLOCKS, words, scores, words * 0))
    assert [(own.start, own.end, own.label) for own in found.entities] == [
        (g.start, g.end, g.label) for g in sorted(GOLD)
    ]
    assert all(own.text == TEXT[own.start : own.end] for own in found.entities)
    assert all(own.score > 0.99 for own in found.entities)
    assert (found.answer, found.n_unread) == ("", 0)
    nothing = made.conclude(TagReading(BLOCKS, words, certain(BLOCKS, words * 0), words * 0))
    assert (nothing.entities, nothing.score) == ((), 1.0)


@pytest.mark.parametrize("crf", [True, False])
def test_what_bio_forbids_is_never_said(encoder_folder: Path, crf: bool) -> None:
    made = reasoner(encoder_folder, crf=crf)
    words = np.arange(len(BLOCKS.words))
    scores = np.random.default_rng(1).normal(size=(len(words), 5))
    scores[:, [2, 4]] += 2  # I is likely everywhere
    found = made.conclude(TagReading(BLOCKS, words, scores, words * 0)).entities
    assert found
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


def test_words_that_no_window_showed(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    tags = word_tags("a", GOLD, BLOCKS, INDEX)
    words = np.arange(3)
    found = made.conclude(TagReading(BLOCKS, words, certain(BLOCKS, tags)[:3], words * 0))
    assert [own.text for own in found.entities] == ["Unheardof Karlsson"]
    assert found.n_unread == BLOCKS.n_tokens - int(BLOCKS.words.first_tokens[3])


def test_the_most_central_window_counts(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    one = TagReading(BLOCKS, np.array([0, 1, 2]), np.full((3, 5), 1.0), np.array([0, 4, 1]))
    two = TagReading(BLOCKS, np.array([1, 2, 3]), np.full((3, 5), 2.0), np.array([0, 1, 3]))
    merged = made.merged([one, two])
    assert merged.words.tolist() == [0, 1, 2, 3]
    assert merged.scores[:, 0].tolist() == [1, 1, 1, 2], "of equally central windows the first"
    assert merged.centrality.tolist() == [0, 4, 1, 3]


def test_centrality_counts_to_the_nearer_end(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    shown = window([0, 1])
    reading = made.read(np.zeros((len(shown), 5), dtype=np.float32), shown, BLOCKS)
    assert reading.words.tolist() == list(range(len(BLOCKS.words)))
    assert reading.centrality[0] == 0
    assert reading.centrality.max() <= BLOCKS.n_tokens // 2 + 1
    assert reading.centrality[-1] == 0
    own = window([0], block=1)
    assert made.read(np.zeros((len(own), 5), dtype=np.float32), own, BLOCKS).words.tolist() == [
        word for word in BLOCKS.words.of_token[BLOCKS[1].first_token : BLOCKS[1].end_token] if word >= 0
    ]


@cache
def untrained(folder: Path) -> TaggingReasoner:
    return reasoner(folder)


@cache
def tokenizer(architecture: str) -> Any:
    return tiny.make_tokenizer(architecture)


@settings(max_examples=60)
@given(
    text=st.text(st.sampled_from("ab1. \n\u0301猫黎👍"), min_size=8, max_size=120).filter(lambda text: any(c in "ab1猫黎" for c in text)),
    architecture=st.sampled_from(["bert", "roberta", "deberta"]), seed=st.integers(0, 999), overlap=st.integers(0, 30),
)  # fmt: skip
def test_any_scores_give_entities_that_are_slices(
    encoder_folder: Path, text: str, architecture: str, seed: int, overlap: int
) -> None:  # fmt: skip
    made = untrained(encoder_folder)
    form = WindowFormat(tokenizer(architecture), 40)
    blocks = split(Document(text), form.tokenizer, max_tokens=8)
    prefix = form.prefix(None, int(blocks.sizes.max()))
    rng = np.random.default_rng(seed)
    readings = []
    for run in overlapping_runs([int(size) for size in blocks.sizes], form.room(prefix), overlap):
        shown = form.window(prefix, blocks, run)
        readings.append(made.read(rng.normal(size=(len(shown), 5)).astype(np.float32), shown, blocks))
    merged = made.merged(readings)
    assert merged.words.tolist() == list(range(len(blocks.words))), "every word has one place"
    found = made.conclude(merged)
    assert found.n_unread == 0
    end = 0
    for own in found.entities:
        assert end <= own.start < own.end <= len(text)
        assert own.text == text[own.start : own.end] == own.text.strip()
        assert 0 <= own.score <= 1
        end = own.end
    tags = word_tags("a", [Entity(own.start, own.end, own.label) for own in found.entities], blocks, INDEX)
    assert len(runs(tags.tolist())) == len(found.entities), "what is found can be learned"


def test_chinese(encoder_folder: Path) -> None:
    text = "李明在巴黎读书。他从法国来。"
    blocks = split(Document(text), TOKENIZER, max_tokens=8)
    gold = (entity("李明", "PER", text), entity("巴黎", "LOC", text), entity("法国", "LOC", text))
    scores = certain(blocks, word_tags("a", gold, blocks, INDEX))
    words = np.arange(len(blocks.words))
    found = reasoner(encoder_folder).conclude(TagReading(blocks, words, scores, words * 0))
    assert [(own.text, own.label) for own in found.entities] == [("李明", "PER"), ("巴黎", "LOC"), ("法国", "LOC")]
