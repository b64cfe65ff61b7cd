"""Removing blocks tells which of them matter: exact windows and losses, labels that follow, a store that survives."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import tiny
import torch
from fakes import sentences
from torch import Tensor

from cogltx.blocks import Blocks, split
from cogltx.document import Example, Query, Span
from cogltx.encoding._weights import load_tensors
from cogltx.encoding.encoder import Batch, BatchRunner, Precision, load_encoder
from cogltx.encoding.layout import Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, DataError, TrainingError
from cogltx.reasoners import ClassificationConfig, ClassificationReasoner, SpanReasoner
from cogltx.training._interventions import ReasonerTarget, _drawn, _without, intervene
from cogltx.training._relevance import (
    RelevanceConfig,
    RelevanceLabels,
    _query_text,
    _similarity_to,
    _word_vectors,
)
from cogltx.training.config import TrainingConfig
from cogltx.training.trainer import Trainer

TOKENIZER = tiny.make_tokenizer(texts=corpus.TEXTS)
FORM = WindowFormat(TOKENIZER, 64)
CPU = Precision(torch.device("cpu"), bfloat16=False)
DOCUMENT = sentences("anna has the boat.", "the fox jumps.", "bert has the cup.", "a dog.")
EXAMPLE = Example(
    id="a", document=DOCUMENT, query=Query("what does anna have?"), answers=("boat",), answer_spans=(Span(13, 17),)
)
RUNNER = BatchRunner(CPU, 512, 0)


class Words(SpanReasoner):
    """Loses one nat for every word "cup" that the window does not show, and a tenth for every "dog" that it does."""

    def forward(self, batch: Batch) -> Tensor:
        assert not self.training
        cup, dog = (TOKENIZER(word, add_special_tokens=False)["input_ids"][0] for word in ("cup", "dog"))
        loss = 1.0 - (batch.input_ids == cup).any(dim=1).float() + 0.1 * (batch.input_ids == dog).any(dim=1).float()
        return loss[:, None, None].expand(-1, batch.input_ids.shape[1], 6)

    def losses(self, outputs: Tensor, windows: Sequence[Window], targets: Sequence[Any]) -> Tensor:
        return outputs[:, 0, 0]


@pytest.fixture(scope="module")
def reasoner(tmp_path_factory: pytest.TempPathFactory) -> Words:
    folder = tiny.make_encoder(tmp_path_factory.mktemp("encoder"), texts=corpus.TEXTS)
    return Words(load_encoder(EncoderConfig(name=str(folder), precision="float32")))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def item(reasoner: SpanReasoner, blocks: Blocks, shown: Sequence[int]) -> ReasonerTarget:
    layout = FORM.layout(EXAMPLE.query, blocks)
    window = layout.window(shown)
    target = reasoner.target(EXAMPLE, blocks, window)
    assert target is not None
    return ReasonerTarget(layout, window, target)


def test_every_block_is_removed_in_turn(reasoner: Words) -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    made = item(reasoner, blocks, [0, 2, 3])
    assert _drawn([made], 100, rng()) == [(0, 0), (0, 2), (0, 3)]
    assert _without(reasoner, EXAMPLE, made, 0) is None, "the answer is gone"
    for block in (2, 3):
        without = _without(reasoner, EXAMPLE, made, block)
        assert without is not None
        expected = FORM.layout(EXAMPLE.query, blocks).window([one for one in (0, 2, 3) if one != block])
        assert without.window.token_ids.tolist() == expected.token_ids.tolist()
        assert without.target == reasoner.target(EXAMPLE, blocks, without.window)


def test_what_removals_do_to_the_loss(reasoner: Words) -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    items = [item(reasoner, blocks, [0, 2, 3]), item(reasoner, blocks, [0, 1])]
    by_item = intervene(reasoner, [EXAMPLE] * 2, items, 100, rng(), RUNNER)
    assert {number: [block for block, _ in rises] for number, rises in by_item.items()} == {0: [0, 2, 3], 1: [0, 1]}
    rises = [rise for number in (0, 1) for _, rise in by_item[number]]
    assert rises == pytest.approx([math.inf, 1.0, -0.1, math.inf, 0.0])


def test_the_only_block_of_a_window_is_removed_too(reasoner: Words) -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    only = item(reasoner, blocks, [1])
    without = _without(reasoner, EXAMPLE, only, 1)
    assert without is not None
    assert without.window.blocks == []
    assert len(without.window) == without.window.n_prefix
    (rises,) = intervene(reasoner, [EXAMPLE], [only], None, rng(), RUNNER).values()
    assert math.isfinite(rises[0][1])


def test_without_a_budget_every_block_is_removed(reasoner: Words) -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    items = [item(reasoner, blocks, [0, 1, 2, 3]) for _ in range(50)]
    assert len(_drawn(items, None, rng())) == 200


def test_one_label_of_many_raises_the_loss_of_an_intervention(reasoner: Words) -> None:
    """From p = .95 to .05 is a rise of 2.9 nats, whatever the number of labels; their mean hides it."""
    for n_labels in (2, 41):
        config = ClassificationConfig(
            name="classification", labels=tuple(f"label {n}" for n in range(n_labels)), multi_label=True
        )
        made = ClassificationReasoner(reasoner.encoder, config)
        certain = np.log(0.95 / 0.05)
        before = torch.full((1, 1, n_labels), -float(certain))
        before[..., 0] = certain
        after = torch.full((1, 1, n_labels), -float(certain))
        window = FORM.layout(None, split(DOCUMENT, TOKENIZER)).window([0])
        rise = made.intervention_losses(after, [window], [(0,)]) - made.intervention_losses(before, [window], [(0,)])
        assert rise.item() == pytest.approx(math.log(0.95 / 0.05), rel=1e-4)


def tokens_without(items: list[ReasonerTarget], removals: list[tuple[int, int]]) -> int:
    """The tokens of all windows without one of their blocks each."""
    return sum(len(items[number].window) - int(items[number].layout.blocks.sizes[block]) for number, block in removals)


@pytest.mark.parametrize("budget", [0.1, 0.7, 1.5, 2.5])
def test_the_budget_bounds_the_tokens(reasoner: Words, budget: float) -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    items = [item(reasoner, blocks, [0, 1, 2, 3]) for _ in range(5)]
    removed = _drawn(items, budget, rng())
    trained = sum(len(one.window) for one in items)
    assert tokens_without(items, removed) <= budget * trained
    assert bool(removed) == (budget > 0.2)
    assert removed == _drawn(items, budget, rng())


def test_the_budget_is_used_up(reasoner: Words) -> None:
    """A budget of exactly the tokens of all windows without a block removes every block; one token less does not."""
    items = [item(reasoner, split(DOCUMENT, TOKENIZER), [0, 1, 2, 3]) for _ in range(4)]
    needed, trained = tokens_without(items, _drawn(items, None, rng())), sum(len(one.window) for one in items)
    assert needed / trained * trained == needed, "no rounding"
    assert [len(_drawn(items, tokens / trained, rng())) for tokens in (needed, needed - 1)] == [16, 15]


def test_losses_in_bfloat16(reasoner: Words) -> None:
    class Rounding(Words):
        def losses(self, outputs: Tensor, windows: Sequence[Window], targets: Sequence[Any]) -> Tensor:
            return super().losses(outputs, windows, targets).bfloat16()

    items = [item(reasoner, split(DOCUMENT, TOKENIZER), [0, 2, 3])]
    found = intervene(Rounding(reasoner.encoder), [EXAMPLE], items, None, rng(), RUNNER)
    assert dict(found[0]) == pytest.approx({0: math.inf, 2: 1.0, 3: -0.1}, abs=0.01)


def test_labels_follow_the_rises() -> None:
    config = RelevanceConfig(source="interventions", raise_threshold=0.2, lower_threshold=-0.05)
    labels = RelevanceLabels(config, [EXAMPLE] * 8)
    layout = FORM.layout(None, split(DOCUMENT, TOKENIZER))
    assert labels.of(7, layout) is labels.by_query["7"]
    assert not labels.by_query["7"].any()
    assert labels.revise(7, layout, [(0, math.inf), (1, 0.21), (2, 0.2), (3, -0.05)]) == 2
    assert labels.by_query["7"].tolist() == [True, True, False, False]
    assert labels.revise(7, layout, [(0, 0.1), (1, -0.06), (2, -1.0)]) == 1
    assert labels.by_query["7"].tolist() == [True, False, False, False]
    assert labels.known


def test_the_datas_own_labels_count_unless_interventions_are_wanted() -> None:
    layout = FORM.layout(None, split(DOCUMENT, TOKENIZER))
    own = RelevanceLabels(RelevanceConfig(), [EXAMPLE]).of(0, layout)
    assert own is not None
    assert own.tolist() == [True, False, False, False]
    found = RelevanceLabels(RelevanceConfig(source="interventions"), [EXAMPLE]).of(0, layout)
    assert found is not None
    assert not found.any()


def test_labels_and_scores_are_saved_by_epoch(tmp_path: Path) -> None:
    labels = RelevanceLabels(RelevanceConfig(source="interventions"), [])
    labels.by_query["3"] = np.array([True, False])
    labels.save(tmp_path, 1)
    labels.by_query["3"][1] = True
    labels.scores |= {"3": np.float32([0.5, np.nan]), "4": np.float32([1.0])}
    labels.save(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-1.safetensors", "epoch-2.safetensors"]
    first, second = (load_tensors(tmp_path / f"epoch-{epoch}.safetensors") for epoch in (1, 2))
    assert {name: values.tolist() for name, values in first.items()} == {"3.labels": [True, False]}
    assert set(second) == {"3.labels", "3.scores", "4.scores"}
    assert second["3.labels"].tolist() == [True, True]
    np.testing.assert_array_equal(second["3.scores"].numpy(), np.float32([0.5, np.nan]))


def test_the_text_of_a_query() -> None:
    blocks = split(DOCUMENT, TOKENIZER)
    assert _query_text(EXAMPLE, FORM.layout(EXAMPLE.query, blocks)) == "what does anna have?"
    whole = FORM.layout(None, blocks)
    labelled = Example(id="", document=DOCUMENT, labels=("comp.sys.mac", "Rec"))
    assert _query_text(labelled, whole) == "comp sys mac rec"
    assert _query_text(labelled, whole.for_block(1)) == "the fox jumps. "
    assert _query_text(Example(id="", document=DOCUMENT), whole) == ""


def vectors(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines))
    return path


def test_word_vectors(tiny_encoder: Path, tmp_path: Path) -> None:
    path = vectors(tmp_path / "v.txt", "anna 1 0", "boat 0.9 0.1", "fox 0 1", "dog 0 -1", "cup 0.5 0.5")
    blocks = split(DOCUMENT, TOKENIZER)
    config = RelevanceConfig(source="interventions", initial="glove", vectors=str(path))
    similarity = _similarity_to(blocks, _word_vectors(path))
    scores, unlike = similarity("what does anna have?"), similarity("nobody")
    assert scores.argmax() == 0
    assert scores[1] == pytest.approx(0)
    assert not unlike.any()
    other = Example(id="b", document=DOCUMENT, query=Query("nobody"))
    labels = RelevanceLabels(config, [EXAMPLE, other])
    assert labels.start(fakes.reader(tiny_encoder)) == 1
    assert [own.tolist() for own in labels.by_query.values()] == [[True, False, False, False], [False] * 4]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["anna 1 0", "boat 1"], r"v\.txt:2: the word has 1 numbers; it needs 2"),
        (["anna one"], r"v\.txt:1: not a word and its numbers: 'anna one'"),
        (["anna"], r"v\.txt:1: the word has 0 numbers; it needs at least one"),
        ([], r"v\.txt: the file has no word vectors"),
    ],
)
def test_wrong_word_vectors(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        _word_vectors(vectors(tmp_path / "v.txt", *lines))


def test_word_vectors_without_a_file() -> None:
    config = RelevanceConfig(source="interventions", initial="glove")
    with pytest.raises(ConfigError, match=r"training\.relevance\.vectors: initial: glove needs a file of word vectors"):
        config.check()


def test_word_vectors_that_are_not_there_are_told_first(tiny_encoder: Path, tmp_path: Path) -> None:
    relevance = RelevanceConfig(source="interventions", initial="glove", vectors=str(tmp_path / "none.txt"))
    with pytest.raises(DataError, match=r"none\.txt: file of word vectors not found"):
        relevance.check()
    examples = corpus.make(2)
    with pytest.raises(DataError, match=r"none\.txt: file of word vectors not found"):
        Trainer(
            fakes.reader(tiny_encoder), TrainingConfig(relevance=relevance), train=examples, validation=examples,
            output=tmp_path / "run",
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_full_disk_keeps_the_history_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = RelevanceLabels(RelevanceConfig(source="interventions"), [])
    labels.by_query["3"] = np.array([True, False])
    labels.save(tmp_path, 1)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TrainingError, match=r"epoch-2\.safetensors: cannot be saved: .*No space left on device"):
        labels.save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-1.safetensors"]
