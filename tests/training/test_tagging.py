"""Documents to be tagged: each gives all its windows, a tiny model learns them by heart, and a killed run goes on."""

from collections.abc import Callable
from pathlib import Path

import corpus
import fakes
import numpy as np
import pytest
import torch

from cogltx.baselines import SlidingWindow, Truncation, WindowReader, load_reader, reader_class
from cogltx.document import Document, Entity, Example
from cogltx.encoding.weights import load_tensors
from cogltx.errors import ConfigError, DataError
from cogltx.files import read_json
from cogltx.model import Model, ModelConfig
from cogltx.pipeline import CogLTX
from cogltx.tasks import make_task
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Trainer
from cogltx.training.windows import drawn_windows

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
    trainer(made, tmp_path, examples, epochs=80 if name == "sliding_window" else 25, patience=12).run()
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


def test_every_block_asks_once(corpus_encoder: Path) -> None:
    pytest.importorskip("bm25s")
    made = reader(corpus_encoder)
    assert isinstance(made, CogLTX)
    (example,) = documents(1)
    blocks = made.model.split(example.document)
    items = drawn_windows(made, example, np.random.default_rng(0), TrainingConfig())
    assert len(items) == len(blocks)
    shown = [item.window.document_token[item.window.target_tokens].tolist() for item in items]
    assert [token for own in shown for token in own] == list(range(blocks.n_tokens))
    for block, item in enumerate(items):
        assert block not in item.window.block
        assert len(item.window) <= 64
        assert (item.window.block >= 0).any(), "there is context"
    some = drawn_windows(made, example, np.random.default_rng(0), TrainingConfig(windows=3))
    assert len(some) == 3
    every = [item.window.token_ids.tolist() for item in items]
    assert all(item.window.token_ids.tolist() in every for item in some)
    other = drawn_windows(made, example, np.random.default_rng(1), TrainingConfig(windows=3))
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
            np.testing.assert_allclose(alone.score, prediction.score, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["cogltx", "sliding_window"])
def test_killed_equals_undisturbed(corpus_encoder: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("bm25s")
    examples = documents(4, sentences=8)
    options = {"epochs": 2, "batch_size": 2, "checkpoint_steps": 1, "windows": 2}
    trainer(reader(corpus_encoder, name, hidden_dropout=0.2), tmp_path / "undisturbed", examples, **options).run()

    class KilledError(Exception):
        pass

    for saves in (1, 2, None):
        run = trainer(reader(corpus_encoder, name, hidden_dropout=0.2), tmp_path / "killed", examples, **options)
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
        ConfigError, match=r"judge\.name: where each block is a query, the judge cannot be trained; use bm25"
    ):
        trainer(reader(corpus_encoder, judge="encoder"), tmp_path, examples)
    with pytest.raises(ConfigError, match=r"training\.relevance\.source: interventions are not possible"):
        trainer(reader(corpus_encoder), tmp_path, examples, relevance={"source": "interventions"})
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
    trainer(made, tmp_path, examples, judge_passes=0, windows=2).run()
    (prediction,) = made.predict_many(examples)
    assert prediction.n_unread == 0
