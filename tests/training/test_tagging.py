"""Documents to be tagged: each gives all its windows, a tiny model learns them by heart, and a killed run goes on.

Interventions find the context of each block, and a judge and a retriever learn from them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import torch
from torch import Tensor

from cogltx._files import read_json
from cogltx.baselines import SlidingWindow, Truncation, WindowReader, load_reader, reader_class
from cogltx.config import ModelConfig
from cogltx.document import Document, Entity, Example
from cogltx.encoding._weights import load_tensors
from cogltx.errors import ConfigError, DataError
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.tasks import make_task
from cogltx.training import _steps as steps
from cogltx.training._interventions import ReasonerTarget
from cogltx.training._relevance import RelevanceConfig, RelevanceLabels
from cogltx.training._steps import JudgeSteps, ReasonerSteps, RetrieverSteps
from cogltx.training._windows import drawn_windows
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import Optimizer, OptimizerConfig
from cogltx.training.trainer import Trainer

TAGGING = make_task("tagging", {})
FAST = OptimizerConfig(learning_rate=5e-3)


def documents(count: int, sentences: int = 20) -> list[Example]:
    """Names of one or two words and things, in documents that are several windows of 64 tokens long."""
    examples = []
    for number in range(count):
        rng = np.random.default_rng([3, number])
        text = ""
        entities: list[Entity] = []
        for _ in range(sentences):
            name = " ".join(rng.permutation(corpus.NAMES)[: rng.integers(1, 3)].tolist())
            thing = str(rng.choice(corpus.THINGS))
            start, place = len(text), len(text) + len(name) + len(" has the ")
            if rng.random() < 0.5:
                text += f"{rng.choice(corpus.FILLER)} "
                continue
            text += f"{name} has the {thing}. "
            entities += [Entity(start, start + len(name), "PER"), Entity(place, place + len(thing), "THING")]
        examples.append(Example(id=str(number), document=Document(text, str(number)), entities=tuple(entities)))
    return examples


def reader(
    encoder: Path, name: str = "cogltx", *, crf: bool = True, judge: str = "bm25", **options: object
) -> WindowReader:
    torch.manual_seed(0)
    values = fakes.config(encoder, judge=judge, **options).model_dump(mode="json")
    values |= {"reader": name, "reasoner": {"name": "tagging", "labels": ["PER", "THING"], "crf": crf}}
    kind = reader_class(name)
    return kind(Model.create(ModelConfig.model_validate(values), with_judge=kind.uses_judge, device="cpu"))


def trainer(
    made: WindowReader, output: Path, examples: list[Example], report: Callable[[str], None] = lambda line: None, **options: object
) -> Trainer:  # fmt: skip
    settings = {"epochs": 1, "batch_size": 1, "reasoner": FAST} | options
    return Trainer(
        made,
        TrainingConfig.model_validate(settings),
        train=examples,
        validation=examples,
        output=output,
        task=TAGGING,
        report=report,
    )


@pytest.mark.parametrize("crf", [True, False], ids=["crf", "linear"])
@pytest.mark.parametrize("name", ["cogltx", "sliding_window"])
def test_learned_by_heart(corpus_encoder: Path, tmp_path: Path, name: str, crf: bool) -> None:
    if name == "cogltx":
        pytest.importorskip("bm25s")
    examples = documents(2)
    made = reader(corpus_encoder, name, crf=crf)
    assert all(made.model.split(example.document).n_tokens > 64 for example in examples)
    trainer(made, tmp_path, examples, epochs=60 if name == "sliding_window" else 25).run()
    history = read_json(tmp_path / "run.json")["history"]
    assert max(one["entity_f1"] for one in history) == 100
    again = load_reader(tmp_path, device="cpu")
    for example, prediction in zip(examples, again.predict_many(examples), strict=True):
        found = [(own.start, own.end, own.label) for own in prediction.entities]
        assert found == [(own.start, own.end, own.label) for own in example.entities or ()]
        assert all(own.text == example.document.text[own.start : own.end] for own in prediction.entities)
        assert (prediction.n_unread, prediction.evidence) == (0, ())
    if name == "sliding_window":
        truncated = Truncation(again.model)
        predictions = list(truncated.predict_many(examples))
        assert all(0 < own.n_unread < own.n_tokens for own in predictions)
        metrics = TAGGING.metrics(zip(examples, predictions, strict=True))
        assert metrics["tokens_read"] < 60
        assert metrics["entity_recall"] < 60


def generator(index: int) -> np.random.Generator:
    return np.random.default_rng(index)


def reasoner_steps(made: WindowReader, examples: list[Example], **options: object) -> ReasonerSteps:
    config = TrainingConfig.model_validate(options)
    optimizer = Optimizer("reasoner", made.model.reasoner, FAST, 9, made.model.runner)
    return ReasonerSteps(made, optimizer, RelevanceLabels(config.relevance, examples), config)


def asked_windows(made: WindowReader, example: Example, seed: int = 0, **options: object) -> list[ReasonerTarget]:
    made_steps = reasoner_steps(made, [example], **options)
    return made_steps._items([0], lambda index: np.random.default_rng(seed))[0]


def test_every_block_asks_once(corpus_encoder: Path) -> None:
    pytest.importorskip("bm25s")
    made = reader(corpus_encoder)
    assert isinstance(made, CogLTX)
    (example,) = documents(1)
    blocks = made.model.split(example.document)
    items = asked_windows(made, example)
    assert len(items) == len(blocks)
    shown = [item.window.document_token[item.window.target_tokens].tolist() for item in items]
    assert [token for own in shown for token in own] == list(range(blocks.n_tokens))
    for block, item in enumerate(items):
        assert block not in item.window.block
        assert len(item.window) <= 64
        assert (item.window.block >= 0).any(), "there is context"
    interventions = asked_windows(made, example, relevance={"source": "interventions"})
    assert [item.window.token_ids.tolist() for item in interventions] == [
        item.window.token_ids.tolist() for item in items
    ]
    layouts = made.model.reasoner.layouts(made.model.layout(example.document, None))
    for item, recall in zip(items, made.recalls(layouts), strict=True):
        assert item.window.token_ids.tolist() == recall.window.token_ids.tolist()
    some = asked_windows(made, example, windows=3)
    assert len(some) == 3
    every = [item.window.token_ids.tolist() for item in items]
    assert all(item.window.token_ids.tolist() in every for item in some)
    other = asked_windows(made, example, seed=1, windows=3)
    assert [one.window.token_ids.tolist() for one in some] != [one.window.token_ids.tolist() for one in other]


def test_every_window_of_a_baseline(corpus_encoder: Path) -> None:
    made = reader(corpus_encoder, "sliding_window")
    assert isinstance(made, SlidingWindow)
    (example,) = documents(1)
    windows = made.windows(made.model.layout(example.document, None))
    assert len(windows) > 2
    items = drawn_windows(made, example, np.random.default_rng(0), TrainingConfig())
    assert [item.window.token_ids.tolist() for item in items] == [window.token_ids.tolist() for window in windows]
    assert len(drawn_windows(made, example, np.random.default_rng(0), TrainingConfig(windows=2))) == 2
    unknown = Example(id="u", document=example.document)
    assert drawn_windows(made, unknown, np.random.default_rng(0), TrainingConfig()) == []


def test_documents_do_not_depend_on_the_batch(corpus_encoder: Path) -> None:
    pytest.importorskip("bm25s")
    examples = documents(3, sentences=8)
    for name in ("cogltx", "sliding_window"):
        made = reader(corpus_encoder, name)
        together = list(made.predict_many(examples))
        for example, prediction in zip(examples, together, strict=True):
            alone = made.predict(example.document)
            assert [(own.start, own.end, own.label) for own in alone.entities] == [
                (own.start, own.end, own.label) for own in prediction.entities
            ]
            np.testing.assert_allclose(alone.confidence, prediction.confidence, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("name", "judge"), [("cogltx", "bm25"), ("cogltx", "encoder"), ("sliding_window", "bm25")])
def test_killed_equals_undisturbed(
    corpus_encoder: Path, tmp_path: Path, name: str, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cogltx.training._loop.CHECKPOINT_SECONDS", 0)
    pytest.importorskip("bm25s")
    examples = documents(4, sentences=8)
    options = {
        "epochs": 3, "batch_size": 2, "windows": 2, "judge": FAST,
        "relevance": {"raise_threshold": 0.01, "lower_threshold": -0.01},
    }  # fmt: skip

    def started(folder: str) -> Trainer:
        made = reader(corpus_encoder, name, judge=judge, hidden_dropout=0.2)
        return trainer(made, tmp_path / folder, examples, **options)

    started("undisturbed").run()

    class KilledError(Exception):
        pass

    for saves in (1, 2, 4, None):
        run = started("killed")
        real, left = run.loop.save, [saves]

        def save(*arguments: object, real: Callable[..., None] = real, left: list[int | None] = left) -> None:
            real(*arguments)
            if left[0] is not None:
                left[0] -= 1
                if not left[0]:
                    raise KilledError

        run.loop.save = save  # type: ignore[method-assign]
        try:
            run.run(resume=True)
        except KilledError:
            continue
    ends = [next((tmp_path / folder / "checkpoints").iterdir()) for folder in ("undisturbed", "killed")]
    names = sorted(path.name for path in ends[0].glob("*.safetensors"))
    assert names
    assert ("relevance.arrays.safetensors" in names) == (judge == "encoder")
    for file in names:
        first, second = (load_tensors(end / file) for end in ends)
        assert first.keys() == second.keys(), file
        for key in first:
            assert first[key].numpy().tobytes() == second[key].numpy().tobytes(), (file, key)


def test_a_long_encoder_reads_in_one_window(corpus_encoder: Path) -> None:
    (example,) = documents(1, sentences=90)
    options = {"capacity": 1024, "positions": {"length": 1024}, "batch_tokens": 2048}
    made = reader(corpus_encoder, "sliding_window", **options)
    assert isinstance(made, SlidingWindow)
    blocks = made.model.split(example.document)
    assert blocks.n_tokens > 600
    assert len(made.windows(made.model.layout(example.document, None))) == 1
    assert made.predict(example.document).n_unread == 0


def test_what_is_refused(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = documents(2, sentences=8)
    with pytest.raises(
        ConfigError, match=r"relevance\.source: where each block is a query, the judge learns from interventions alone"
    ):
        trainer(reader(corpus_encoder, judge="encoder"), tmp_path, examples, relevance={"source": "data"})
    with pytest.raises(ConfigError, match=r"create labels for a judge that learns, and bm25 does not"):
        trainer(reader(corpus_encoder), tmp_path, examples, relevance={"source": "interventions"})
    with pytest.raises(ConfigError, match=r"retriever learns from interventions, which need a judge that learns"):
        trainer(with_retriever(corpus_encoder, "bm25"), tmp_path, examples)
    unknown = [Example(id="x", document=examples[0].document, entities=(Entity(0, 3, "NEW"),))]
    with pytest.raises(
        DataError, match="example 'x': the model was not trained on the label 'NEW', only on PER, THING"
    ):
        trainer(reader(corpus_encoder, "sliding_window"), tmp_path, unknown).run()
    silent = [Example(id="x", document=examples[0].document)]
    with pytest.raises(DataError, match="no validation example has a known answer, which entity_f1 needs"):
        trainer(reader(corpus_encoder, "sliding_window"), tmp_path, silent)


def test_an_encoder_judge_that_is_not_trained(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = documents(1, sentences=8)
    made = reader(corpus_encoder, judge="encoder")
    trainer(made, tmp_path, examples, judge_epochs=0, windows=2).run()
    (prediction,) = made.predict_many(examples)
    assert prediction.n_unread == 0


def with_retriever(encoder: Path, judge: str = "encoder") -> CogLTX:
    torch.manual_seed(0)
    values = fakes.config(encoder, judge=judge, batch_tokens=4096).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 4, "retriever": "trained"}
    values |= {"reader": "cogltx", "reasoner": {"name": "tagging", "labels": ["PER", "THING"]}}
    return CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))


def query_block(made: WindowReader, item: ReasonerTarget) -> int:
    blocks = item.layout.blocks
    token = item.window.document_token[item.window.target_tokens[0]]
    return int(np.searchsorted(blocks.cuts, token, side="right")) - 1


def test_interventions_find_the_context_of_each_block(corpus_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a block rises only without its partner; the partners that a window held become relevant, alone."""
    (example,) = documents(1)
    made = reader(corpus_encoder, judge="encoder")
    n_blocks = len(made.model.split(example.document))
    partner = np.random.default_rng(7).permutation(n_blocks)
    partner[partner == np.arange(n_blocks)] = 0

    def losses(outputs: Tensor, windows: Sequence[Any], targets: object) -> Tensor:
        items = [ReasonerTarget(made.model.layout(example.document, None), window, None) for window in windows]
        missing = [partner[query_block(made, item)] not in item.window.blocks for item in items]
        return torch.tensor(missing, dtype=torch.float32)

    monkeypatch.setattr(made.model.reasoner, "intervention_losses", losses)
    made_steps = reasoner_steps(made, [example], relevance={"source": "interventions", "budget": None})
    items = asked_windows(made, example, relevance={"source": "interventions"})
    expected = np.zeros((n_blocks, n_blocks), dtype=bool)
    for item in items:
        block = query_block(made, item)
        expected[block, partner[block]] = partner[block] in item.window.blocks
    assert 0 < expected.sum() < n_blocks, "some partners were read, others were not"
    monkeypatch.setattr(steps, "_LAYOUTS_AT_ONCE", 5)
    made_steps.step([0], generator, intervenes=True)
    found = made_steps.relevance.by_query
    assert list(found) == [f"0.{block}" for block in range(n_blocks)]
    np.testing.assert_array_equal(np.stack(list(found.values())), expected)
    assert made_steps.counts["changed"] == expected.sum()
    assert made_steps.counts["tried"] == sum(len(item.window.blocks) for item in items)
    scores = np.stack([made_steps.relevance.scores[key] for key in found])
    assert np.isnan(scores.diagonal()).all(), "no block is context of itself"
    assert not np.isnan(scores[~np.eye(n_blocks, dtype=bool)]).any()

    again = made_steps._items([0], generator)[0]
    for item in again:
        assert set(np.flatnonzero(expected[query_block(made, item)])) <= set(item.window.blocks)
    known = made_steps._items([0], generator, scored=True)[0]
    assert [one.window.token_ids.tolist() for one in known] == [one.window.token_ids.tolist() for one in again]


def test_what_the_judge_is_shown(corpus_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = documents(1)
    made = reader(corpus_encoder, judge="encoder")
    assert isinstance(made, CogLTX)
    config = TrainingConfig(relevance=RelevanceConfig(source="interventions"))
    relevance, n_blocks = RelevanceLabels(config.relevance, [example]), len(made.model.split(example.document))
    for query, found in {2: [5], 4: [1, 3], 6: []}.items():
        relevance.by_query[f"0.{query}"] = np.isin(np.arange(n_blocks), found)
    shown: list[tuple[int, list[int], list[int]]] = []
    real = steps.judge_windows

    def recorded(layout: Any, labels: Any, *rest: Any) -> Any:
        windows = real(layout, labels, *rest)
        for window in windows:
            shown.append((layout.query.block, np.flatnonzero(labels).tolist(), window.blocks))
        return windows

    monkeypatch.setattr(steps, "judge_windows", recorded)
    optimizer = Optimizer("judge", made.model.modules["judge"], FAST, 9, made.model.runner)
    loss = JudgeSteps(made, optimizer, relevance, config).step([0], generator)
    assert loss is not None
    assert {query: labels for query, labels, _ in shown} == {2: [5], 4: [1, 3]}
    assert all(query not in blocks for query, _, blocks in shown)
    assert any(5 in blocks for query, _, blocks in shown if query == 2)


def test_initial_labels_of_each_block(corpus_encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    (example,) = documents(1)
    made = reader(corpus_encoder, judge="encoder")
    n_blocks = len(made.model.split(example.document))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("\n".join(f"{word.lower()} {number} 1" for number, word in enumerate(corpus.NAMES)))
    for initial in ("bm25", "glove"):
        options = {"initial": initial, "initial_blocks": 2, "vectors": str(vectors)}
        labels = RelevanceLabels(RelevanceConfig.model_validate({"source": "interventions", **options}), [example])
        assert labels.start(made) == 1
        found = np.stack(list(labels.by_query.values()))
        assert found.shape == (n_blocks, n_blocks)
        assert not found.diagonal().any()
        counts = found.sum(axis=1)
        assert counts.max() == 2


def test_the_retriever_is_not_shown_the_query(corpus_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = documents(1)
    made = with_retriever(corpus_encoder)
    config = TrainingConfig(relevance=RelevanceConfig(source="interventions"))
    relevance, n_blocks = RelevanceLabels(config.relevance, [example]), len(made.model.split(example.document))
    relevance.by_query["0.2"] = np.arange(n_blocks) == 5
    ranked: list[int] = []
    real = steps._ranking_loss

    def recorded(scores: Tensor, relevant: Any) -> Tensor:
        ranked.append(len(scores))
        return real(scores, relevant)

    monkeypatch.setattr(steps, "_ranking_loss", recorded)
    optimizer = Optimizer("retriever", made.model.modules["retriever"], FAST, 9, made.model.runner)
    taught = RetrieverSteps(made, optimizer, relevance, config)
    for seed in range(8):
        ((_, windows, _),) = taught._lessons(0, np.random.default_rng(seed))
        taught.step([0], lambda index, seed=seed: np.random.default_rng(seed))  # type: ignore[misc]
        blocks = [block for window in windows for block in window.blocks]
        assert ranked.pop() == len(blocks) - (2 in blocks)


def test_a_judge_and_a_retriever_learn_for_tagging(corpus_encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    examples = documents(2, sentences=10)
    made = with_retriever(corpus_encoder)
    before = {name: [one.clone() for one in module.parameters()] for name, module in made.model.modules.items()}
    lines: list[str] = []
    relevance = {"initial": "bm25", "raise_threshold": 0.01, "lower_threshold": -0.01}
    trainer(made, tmp_path, examples, lines.append, epochs=2, relevance=relevance).run()
    for name, module in made.model.modules.items():
        pairs = zip(before[name], module.parameters(), strict=True)
        assert any(not torch.equal(old, new) for old, new in pairs), name
    assert any(line.startswith("initial relevance labels by bm25: 2 of 2 examples") for line in lines)
    assert any("pairs of blocks relevant" in line for line in lines)
    again = load_reader(tmp_path, device="cpu")
    assert all(prediction.n_unread == 0 for prediction in again.predict_many(examples))


def test_a_judge_that_learned_nothing_is_reported(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = documents(1, sentences=10)
    lines: list[str] = []
    made = reader(corpus_encoder, judge="encoder")
    trainer(made, tmp_path, examples, lines.append, epochs=3, windows=2, relevance={"raise_threshold": 1e6}).run()
    assert any(line.startswith("the judge has learned nothing, as no block was relevant") for line in lines)
    assert not any(" judge: loss" in line for line in lines)


def test_no_scores_are_kept_where_no_judge_learns(corpus_encoder: Path) -> None:
    pytest.importorskip("bm25s")
    examples = documents(1)
    made_steps = reasoner_steps(reader(corpus_encoder), examples)
    made_steps.step([0], generator, intervenes=False)
    assert not made_steps.relevance.scores, "they would grow with the square of the document"
