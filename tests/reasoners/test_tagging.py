"""Tagging: which words a window is about, their tags, losses by hand, the most central window, exact entities."""

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.baselines.sliding_window import _overlapping_runs
from cogltx.blocks import Blocks, split
from cogltx.document import Document, Entity, Example, Segment
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Prediction
from cogltx.reasoners import TaggingConfig, TaggingReasoner
from cogltx.reasoners._crf import OUTSIDE, begin, inside
from cogltx.reasoners.tagging import _word_tags, _words_to_predict

TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 64)
LABELS = ("LOC", "PER")
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
    made = TaggingReasoner(load_encoder(EncoderConfig(name=str(folder), precision="float32")), config)
    assert isinstance(made, TaggingReasoner)
    return made.eval()


def layout(blocks: Blocks = BLOCKS, block: int | None = None) -> Layout:
    return FORM.layout(None if block is None else blocks.as_query(block), blocks)


def window(order: list[int], blocks: Blocks = BLOCKS, block: int | None = None) -> Window:
    return layout(blocks, block).window(order)


def predict(
    reasoner: TaggingReasoner, scores: np.ndarray, blocks: Blocks = BLOCKS, order: list[int] | None = None
) -> Prediction:
    """The prediction from a score per word and tag, read from one window of all blocks or some."""
    one = window(list(range(len(blocks))) if order is None else order, blocks)
    logits = np.zeros((len(one), 5), dtype=np.float32)
    positions, words = _words_to_predict(blocks, one)
    logits[positions] = scores[words]
    return reasoner.predict(layout(blocks), [(one, logits)])


def certain(tags: np.ndarray, sure: float = 30.0) -> np.ndarray:
    """Scores that leave no doubt about the words' tags."""
    return np.eye(5)[tags] * sure


def test_a_block_as_the_query() -> None:
    document = Document(TEXT, segments=(Segment(0, 49, "A report"), Segment(50, len(TEXT))))
    blocks = split(document, TOKENIZER, max_tokens=24)
    with_query = window([1], blocks, block=0)
    query_tokens, block = with_query.target_tokens, blocks[0]
    assert with_query.document_token[query_tokens].tolist() == list(range(block.first_token, block.end_token))
    assert (with_query.token_ids[query_tokens] == blocks.token_ids[block.first_token : block.end_token]).all()
    assert with_query.n_prefix == len(blocks.headings["A report"]) + block.n_tokens + 2
    assert blocks.as_query(0).text == f"A report ; {blocks.text(0)}"
    assert set(with_query.block[: with_query.n_prefix].tolist()) == {-1}
    everything = window([0, 1], blocks)
    assert everything.document_token[everything.target_tokens].tolist() == list(range(blocks.n_tokens))
    with pytest.raises(ConfigError, match=r"capacity is 32; blocks of up to \d+ tokens need at least \d+"):
        WindowFormat(TOKENIZER, 32).layout(blocks.as_query(0), blocks)


def test_tags_of_words() -> None:
    tags = _word_tags("a", GOLD, BLOCKS, LABELS)
    words = [TEXT[start:end] for start, end in zip(BLOCKS.words.starts, BLOCKS.words.ends, strict=True)]
    found = {word: int(tag) for word, tag in zip(words, tags, strict=True) if tag}
    assert found == {
        "Unheardof": begin(1), "Karlsson": inside(1), "Stockholm": begin(0), "Sweden": begin(0), "Paris": begin(0),
    }  # fmt: skip
    assert BLOCKS.n_tokens > len(words), "some words are several tokens"


def test_gold_inside_a_word_takes_the_word() -> None:
    first, second = Entity(2, 4, "PER"), Entity(5, 9, "LOC")
    tags = _word_tags("a", (first, second, Entity(10, 12, "LOC")), BLOCKS, LABELS)
    assert tags[:3].tolist() == [begin(1), begin(0), OUTSIDE], (
        "the first entity has the word; the second begins behind it"
    )


def test_entities_may_touch_and_come_in_any_order() -> None:
    text = "李明在巴黎法国"
    blocks = split(Document(text), TOKENIZER)
    gold = (entity("法国", "LOC", text), entity("李明", "PER", text), entity("巴黎", "LOC", text))
    expected = [begin(1), inside(1), OUTSIDE, begin(0), inside(0), begin(0), inside(0)]
    assert _word_tags("a", gold, blocks, LABELS).tolist() == expected


def test_types_are_taken_from_the_examples() -> None:
    other = Example(id="b", document=Document("Acme"), entities=(Entity(0, 4, "ORG"),))
    assert TaggingConfig(name="tagging").fitted([other, EXAMPLE]).labels == ("LOC", "ORG", "PER")
    assert TaggingConfig(name="tagging", labels=("PER", "LOC")).fitted([EXAMPLE]).labels == ("PER", "LOC")
    with pytest.raises(DataError, match="no example has an entity, which the reasoner tagging learns"):
        TaggingConfig(name="tagging").fitted([Example(id="c", document=Document("Acme"))])


def test_types_that_a_model_does_not_know() -> None:
    config = TaggingConfig(labels=("LOC",))
    example = Example(id="a", document=Document("Anna in York"), entities=(Entity(0, 4, "PER"), Entity(8, 12, "LOC")))
    assert config.unknown_labels(example) == ["PER"]


def test_what_is_refused(encoder_folder: Path) -> None:
    with pytest.raises(DataError, match="example 'a': the model was not trained on the label 'ORG', only on LOC, PER"):
        _word_tags("a", (Entity(0, 3, "ORG"),), BLOCKS, LABELS)
    with pytest.raises(DataError, match="example 'a': the entity at 2:4 overlaps one that ends at 3"):
        _word_tags("a", (Entity(0, 3, "PER"), Entity(2, 4, "LOC")), BLOCKS, LABELS)
    with pytest.raises(ConfigError, match=r"reasoner\.labels: the data has no entities"):
        reasoner(encoder_folder, labels=())


def test_targets(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    tags = _word_tags("a", GOLD, BLOCKS, LABELS)
    whole = made.target(EXAMPLE, BLOCKS, window(list(range(len(BLOCKS)))))
    assert whole is not None
    (run,) = whole
    assert run.tags.tolist() == tags.tolist()
    assert run.before == OUTSIDE
    assert not made.is_negative(whole)
    parts = [made.target(EXAMPLE, BLOCKS, window([0], block=block)) for block in range(1, len(BLOCKS))]
    joined = np.concatenate([run.tags for part in parts if part for run in part])
    assert len(joined) < len(tags)
    assert joined.tolist() == tags[-len(joined) :].tolist()
    unknown = Example(id="b", document=EXAMPLE.document)
    assert made.target(unknown, BLOCKS, window([0])) is None


def test_the_word_before_a_window_counts(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    blocks = split(EXAMPLE.document, TOKENIZER, max_tokens=9)  # the first name ends in the second block
    target = made.target(EXAMPLE, blocks, window([], blocks, block=1))
    assert target is not None
    assert (target[0].before, target[0].tags[0]) == (begin(1), inside(1))
    logits = torch.randn(1, 64, 5)
    assert torch.isfinite(made.losses(logits, [window([], blocks, block=1)], [target])).all()


def test_the_chain_does_not_cross_a_gap(encoder_folder: Path) -> None:
    """Both ends of a document in one window: the loss is that of two sequences, each after the tag before it."""
    made = reasoner(encoder_folder)
    assert made.transitions is not None
    torch.nn.init.normal_(made.transitions)
    blocks = split(EXAMPLE.document, TOKENIZER, max_tokens=9)
    ends = [0, len(blocks) - 1]
    assert len(ends) < len(blocks)
    both = window(ends, blocks)
    target = made.target(EXAMPLE, blocks, both)
    assert target is not None
    head, tail = target
    logits = torch.randn(1, 64, 5)
    alone = [made.losses(logits, [both], [(run,)]).item() * len(run.tags) for run in (head, tail)]
    together = made.losses(logits, [both], [target]).item()
    assert together == pytest.approx(sum(alone) / (len(head.tags) + len(tail.tags)), rel=1e-5)


def test_one_missing_word_is_a_gap(encoder_folder: Path) -> None:
    lines = ("The fox jumps", "Stockholm", "The dog runs")
    text = "\n".join(lines)
    document = Document(text, segments=tuple(Segment(text.index(line), text.index(line) + len(line)) for line in lines))
    blocks = split(document, TOKENIZER, max_tokens=20)
    assert len(blocks) == 3
    target = reasoner(encoder_folder).target(
        Example(id="a", document=document, entities=()), blocks, window([0, 2], blocks)
    )
    assert target is not None
    assert [len(run.tags) for run in target] == [3, 3]


def test_the_loss_without_a_chain_is_cross_entropy(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder, crf=False)
    windows = [window([0, 1]), window([0], block=1)]
    targets = [made.target(EXAMPLE, BLOCKS, one) for one in windows]
    logits = torch.randn(2, 64, 5)
    losses = made.losses(logits, windows, [target for target in targets if target])
    for row, target in enumerate(targets):
        assert target is not None
        (run,) = target
        expected = torch.nn.functional.cross_entropy(logits[row, run.positions], torch.from_numpy(run.tags))
        torch.testing.assert_close(losses[row], expected)


@pytest.mark.parametrize("crf", [True, False])
def test_interventions_compare_sums_over_words(encoder_folder: Path, crf: bool) -> None:
    made = reasoner(encoder_folder, crf=crf)
    windows = [window([0, 1]), window([0], block=1)]
    targets = [target for one in windows if (target := made.target(EXAMPLE, BLOCKS, one))]
    logits = torch.randn(2, 64, 5)
    n_words = torch.tensor([len(target[0].tags) for target in targets])
    assert n_words.min() > 1
    expected = made.losses(logits, windows, targets) * n_words
    torch.testing.assert_close(made.intervention_losses(logits, windows, targets), expected)


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
    made.losses(made(Batch.of(windows, 0, torch.device("cpu"))), windows, targets).sum().backward()
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
    found = predict(made, certain(_word_tags("a", GOLD, BLOCKS, LABELS)))
    assert [(own.start, own.end, own.label) for own in found.entities] == [
        (g.start, g.end, g.label) for g in sorted(GOLD)
    ]
    assert all(own.text == TEXT[own.start : own.end] for own in found.entities)
    assert all(own.score > 0.99 for own in found.entities)
    assert (found.answer, found.n_unread) == ("", 0)
    nothing = predict(made, certain(np.zeros(len(BLOCKS.words), dtype=int)))
    assert (nothing.entities, nothing.confidence) == ((), 1.0)


@pytest.mark.parametrize("crf", [True, False])
def test_what_bio_forbids_is_never_said(encoder_folder: Path, crf: bool) -> None:
    made = reasoner(encoder_folder, crf=crf)
    scores = np.random.default_rng(1).normal(size=(len(BLOCKS.words), 5))
    scores[:, [2, 4]] += 2  # I is likely everywhere
    found = predict(made, scores).entities
    assert found
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


def test_words_in_no_window_are_outside(encoder_folder: Path) -> None:
    prediction = predict(reasoner(encoder_folder), certain(_word_tags("a", GOLD, BLOCKS, LABELS)), order=[0])
    end = BLOCKS[0].end_token
    expected = [entity for entity in GOLD if entity.end <= BLOCKS.token_ends[end - 1]]
    assert 0 < len(expected) < len(GOLD)
    assert [(one.start, one.end) for one in prediction.entities] == [(one.start, one.end) for one in expected]
    assert prediction.n_unread == BLOCKS.n_tokens - end


def test_the_most_central_window_counts(encoder_folder: Path) -> None:
    """Each window marks the words that are nearer to its ends than to those of the other window."""
    blocks = split(Document("The fox sat. " * 12), TOKENIZER, max_tokens=8)
    made, middle = reasoner(encoder_folder, crf=False), len(blocks) // 2
    windows = [window(order, blocks) for order in (list(range(middle + 1)), list(range(middle, len(blocks))))]
    outputs = []
    for tag, one in zip((begin(0), begin(1)), windows, strict=True):
        outputs.append((one, np.tile(np.eye(5, dtype=np.float32)[tag] * 9, (len(one), 1))))
    first, second = (one.document_token[one.target_tokens] for one in windows)
    for order in (outputs, outputs[::-1]):
        entities = made.predict(layout(blocks), order).entities
        labels = {entity.start: entity.label for entity in entities}
        assert len(labels) == len(blocks.words)
        for token in np.flatnonzero(blocks.words.of_token >= 0):
            distances = [
                min(token - tokens[0], tokens[-1] - token) if tokens[0] <= token <= tokens[-1] else -1
                for tokens in (first, second)
            ]
            if distances[0] != distances[1]:
                assert labels[int(blocks.token_starts[token])] == LABELS[int(np.argmax(distances))]
    tie = [(windows[0], outputs[0][1]), (windows[0], np.roll(outputs[0][1], 2, axis=1))]
    assert {entity.label for entity in made.predict(layout(blocks), tie).entities} == {LABELS[0]}, "the first wins"


def test_words_to_predict() -> None:
    words = _words_to_predict(BLOCKS, window([0, 1]))[1]
    assert words.tolist() == list(range(len(BLOCKS.words)))
    in_block = BLOCKS.words.of_token[BLOCKS[1].first_token : BLOCKS[1].end_token]
    assert _words_to_predict(BLOCKS, window([0], block=1))[1].tolist() == [word for word in in_block if word >= 0]


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
    layout, rng = form.layout(None, blocks), np.random.default_rng(seed)
    windows = [layout.window(run) for run in _overlapping_runs(blocks.sizes.tolist(), layout.room, overlap)]
    found = made.predict(layout, [(one, rng.normal(size=(len(one), 5)).astype(np.float32)) for one in windows])
    assert found.n_unread == 0, "every word is read"
    end = 0
    for own in found.entities:
        assert end <= own.start < own.end <= len(text)
        assert own.text == text[own.start : own.end] == own.text.strip()
        assert 0 <= own.score <= 1
        end = own.end
    tags = _word_tags("a", [Entity(own.start, own.end, own.label) for own in found.entities], blocks, LABELS)
    assert int((tags % 2).sum()) == len(found.entities), "what is found can be learned"


def test_the_text_form_names_what_was_not_read() -> None:
    config = TaggingConfig(name="tagging", labels=LABELS)
    plain = Prediction(id="a", answer="", start=None, end=None, confidence=0.0, n_tokens=3000)
    assert config.format(plain) == "0 entities"
    assert (
        config.format(replace(plain, n_unread=1200))
        .splitlines()[0]
        .endswith("the last 1,200 tokens of the text were not read")
    )


def test_chinese(encoder_folder: Path) -> None:
    text = "李明在巴黎读书。他从法国来。"
    blocks = split(Document(text), TOKENIZER, max_tokens=8)
    gold = (entity("李明", "PER", text), entity("巴黎", "LOC", text), entity("法国", "LOC", text))
    found = predict(reasoner(encoder_folder), certain(_word_tags("a", gold, blocks, LABELS)), blocks)
    assert [(own.text, own.label) for own in found.entities] == [("李明", "PER"), ("巴黎", "LOC"), ("法国", "LOC")]
