"""Training of the retriever: what it is shown, that it learns, and that a killed run ends like any other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import torch

from cogltx.config import ModelConfig
from cogltx.document import Example
from cogltx.encoding._weights import load_tensors
from cogltx.errors import ModelError
from cogltx.judges import Memory
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.training._steps import RetrieverSteps
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Trainer

FAST = OptimizerConfig(learning_rate=2e-3)


def reader(encoder: Path, **options: Any) -> CogLTX:
    torch.manual_seed(0)
    values = fakes.config(encoder, **options).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 4, "retriever": "trained"}
    return CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))


def trainer(made: CogLTX, output: Path, examples: list[Example], **options: Any) -> Trainer:
    settings = TrainingConfig(**({"epochs": 1, "batch_size": 4} | options))
    return Trainer(made, settings, train=examples, validation=examples[:4], output=output, report=lambda line: None)


def steps_of(run: Trainer) -> RetrieverSteps:
    assert isinstance(run.reader, CogLTX)
    return RetrieverSteps(run.reader, run.optimizers["retriever"], run.relevance, run.config)


def mean_place(made: CogLTX, examples: list[Example]) -> float:
    """The mean place of the relevant block among all blocks, from 0, by vectors alone."""
    places = []
    for example in examples:
        layout = made.model.layout(example.document, example.query)
        labels = layout.blocks.relevance_labels(example)
        assert labels is not None
        scores = made.retriever.scores(Memory(layout))
        places.append(int((scores > scores[labels].max()).sum()))
    return float(np.mean(places))


def test_the_relevant_block_is_ranked_first(wide_encoder: Path, tmp_path: Path) -> None:
    examples = corpus.make(16)
    made = reader(wide_encoder)
    steps = steps_of(trainer(made, tmp_path, examples, epochs=20, judge_epochs=None))
    steps.optimizer.config = FAST
    assert made.model.retriever is not None
    with torch.no_grad():
        made.model.retriever.bm25_weight.zero_()
    made.model.retriever.bm25_weight.requires_grad_(False)
    before = mean_place(made, examples)
    losses = [
        steps.step(range(first, first + 4), lambda index, epoch=epoch: np.random.default_rng([epoch, index]))
        for epoch in range(20)
        for first in range(0, 16, 4)
    ]
    assert all(loss is not None and np.isfinite(loss) for loss in losses)
    after = mean_place(made, examples)
    assert after < 0.6 < 3 < before, (before, after)


@pytest.mark.parametrize("seed", range(5))
def test_what_a_step_shows(corpus_encoder: Path, tmp_path: Path, seed: int) -> None:
    (example,) = corpus.make(1, seed=seed, filler=40)
    second = example.document.text.index("the fox")
    two = Example(
        id="two", document=example.document, query=example.query, answers=example.answers,
        answer_spans=example.answer_spans,
        relevant=(*example.relevant, type(example.relevant[0])(second, second + 10)),
    )  # fmt: skip
    made = reader(corpus_encoder)
    steps = steps_of(trainer(made, tmp_path, [two] * 4))
    for number in range(30):
        ((_, windows, labels),) = steps._lessons(0, np.random.default_rng([seed, number]))
        relevant, shown = set(np.flatnonzero(labels).tolist()), {block for window in windows for block in window.blocks}
        assert shown & relevant, "nothing to find"
        assert shown - relevant, "nothing to tell it from"
        assert all(window.n_prefix == 1 for window in windows), "vectors of blocks know no question"


def test_nothing_to_learn(corpus_encoder: Path, tmp_path: Path) -> None:
    absent = corpus.make(3, unanswered=True)[0]
    examples = [absent, *corpus.make(1, filler=0), *corpus.make(4)]
    steps = steps_of(trainer(reader(corpus_encoder), tmp_path, examples))
    assert steps.step([0, 1], lambda index: np.random.default_rng(index)) is None
    assert steps.step([0, 1, 2], lambda index: np.random.default_rng(index)) is not None


def test_it_is_saved_with_the_model(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = corpus.make(8)
    made = reader(corpus_encoder)
    assert made.model.retriever is not None
    start = {name: value.clone() for name, value in made.model.retriever.state_dict().items()}
    trainer(made, tmp_path, examples).run()
    assert len(fakes.logged(tmp_path, "retriever/loss")) == 2
    saved = load_tensors(tmp_path / "epoch-1" / "retriever.safetensors")
    assert saved.keys() == start.keys()
    moved = {name for name in start if not torch.equal(start[name], saved[name])}
    assert {"scale", "bm25_weight"} < moved
    loaded = CogLTX.from_pretrained(tmp_path, device="cpu")
    assert [*loaded.predict_many(examples)] == [*made.predict_many(examples)]
    (tmp_path / "epoch-1" / "retriever.safetensors").unlink()
    with pytest.raises(ModelError, match=r"retriever\.safetensors: file not found"):
        CogLTX.from_pretrained(tmp_path, device="cpu")


def test_killed_equals_undisturbed(corpus_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogltx.training._loop.CHECKPOINT_SECONDS", 0)
    examples, options = corpus.make(8), {"epochs": 2, "batch_size": 4, "judge_epochs": None}
    trainer(reader(corpus_encoder, hidden_dropout=0.2), tmp_path / "undisturbed", examples, **options).run()

    class KilledError(Exception):
        pass

    for saves in (1, 2, 3, 5, None):
        run = trainer(reader(corpus_encoder, hidden_dropout=0.2), tmp_path / "killed", examples, **options)
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
    assert "retriever.safetensors" in names
    for file in names:
        first, second = (load_tensors(end / file) for end in ends)
        assert first.keys() == second.keys(), file
        assert all(first[key].numpy().tobytes() == second[key].numpy().tobytes() for key in first), file
