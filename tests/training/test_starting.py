"""A run that trains a saved model further: its weights, its settings, and what does not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import corpus
import fakes
import pytest
import torch
from torch import nn

import cogltx
from cogltx.config import ModelConfig, load_config
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import JudgeConfig
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.training.config import RunConfig, TrainingConfig

DATA = {"data": {"train": "training data"}}


@pytest.fixture(scope="module")
def saved(corpus_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model with a retriever and settings of its own."""
    torch.manual_seed(3)
    values = fakes.config(corpus_encoder, strides=(2, 1)).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 4, "retriever": "trained"}
    values["reasoner"] |= {"calibration": {"no_answer": 0.5}}
    folder = tmp_path_factory.mktemp("saved") / "model"
    CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True)).save_pretrained(folder)
    return folder


def run_config(saved: Path, **values: Any) -> RunConfig:
    return RunConfig.model_validate({"init_from": str(saved), **DATA, **values}).started()


def test_settings_are_the_models_except_those_of_the_run(saved: Path) -> None:
    source = load_config(saved)
    run = run_config(saved, memrecall={"shortlist": 3}, reasoner={"max_answer_tokens": 9}, max_block_tokens=12)
    assert run.memrecall == source.memrecall.model_copy(update={"shortlist": 3})
    assert run.encoder == source.encoder
    assert (run.reasoner.max_answer_tokens, run.max_block_tokens) == (9, 12)
    assert run.judge.init_from == run.reasoner.init_from == str(saved)
    assert run_config(saved).max_block_tokens == source.max_block_tokens == 16
    assert run_config(saved, task={"name": "hotpotqa"}).task.name == "hotpotqa", "the task is the run's"
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run, "a run that is resumed is the same"


@pytest.mark.parametrize(
    ("count", "starts", "reasoner", "epochs", "batch_size", "judge_epochs"),
    [
        (999, False, {"name": "span"}, 4, 8, 1.0),
        (1000, False, {"name": "span"}, 4, 32, 1.0),
        (999, True, {"name": "span"}, 3, 8, 0.0),
        (1000, True, {"name": "span"}, 3, 32, 1.0),
        (48, False, {"name": "tagging", "labels": ["A"]}, 14, 8, 1.0),
        (240, False, {"name": "tagging", "labels": ["A"]}, 4, 8, 1.0),
        (48, False, {"name": "classification", "labels": ["A", "B"]}, 4, 8, 1.0),
    ],
)
def test_defaults_by_the_number_of_examples(
    corpus_encoder: Path,
    saved: Path,
    count: int,
    starts: bool,
    reasoner: dict[str, Any],
    epochs: int,
    batch_size: int,
    judge_epochs: float,
) -> None:
    values = fakes.config(corpus_encoder).model_dump(mode="json") | {"reasoner": reasoner}
    if starts:
        values["reasoner"] = {"name": "span", "init_from": str(saved)}
        values["judge"] = {"name": "encoder", "init_from": str(saved)}
    made = CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True))
    examples = corpus.make(1) * count
    config = TrainingConfig().resolved(made, examples)
    assert (config.epochs, config.batch_size, config.judge_epochs) == (epochs, batch_size, judge_epochs)
    given = TrainingConfig(epochs=9, batch_size=5, judge_epochs=0.5).resolved(made, examples)
    assert (given.epochs, given.batch_size, given.judge_epochs) == (9, 5, 0.5)


def test_a_run_outlives_the_model_that_it_started_from(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "source")
    run = run_config(tmp_path / "source")
    shutil.rmtree(tmp_path / "source")
    assert RunConfig.model_validate(run.model_dump(mode="json")).started() == run, "a resumed run reads it again"


def test_judge_retriever_and_reasoner_start_from_its_weights(saved: Path) -> None:
    torch.manual_seed(4)
    started = Model.create(run_config(saved).model_part(), with_judge=True)
    source = CogLTX.from_pretrained(saved).model
    assert set(started.modules) == {"judge", "retriever", "reasoner"}
    for name, part in started.modules.items():
        for one, other in zip(part.parameters(), source.modules[name].parameters(), strict=True):
            assert torch.equal(one, other)


def test_another_judge_and_no_shortlist(saved: Path) -> None:
    run = run_config(saved, judge={"name": "bm25"}, memrecall={"shortlist": None})
    model = Model.create(run.model_part(), with_judge=True)
    assert not isinstance(model.judge, nn.Module)
    assert model.retriever is None
    assert run.judge == JudgeConfig(name="bm25"), "nothing of the other judge"
    assert Model.create(run.model_part(), with_judge=False).judge is None, "a baseline takes the reasoner alone"


def test_a_model_is_trained_further(saved: Path, tmp_path: Path) -> None:
    settings = {"init_from": str(saved), "training": {"epochs": 1, "batch_size": 4}}
    model = cogltx.train(settings, corpus.make(8), output=tmp_path, report=lambda line: None)
    assert model.config.memrecall.strides == (2, 1)
    kept = model.config.reasoner.calibration
    assert kept is not None
    assert 0 < abs(kept.no_answer - 0.5) < 1.0, "one validation example changes it a little"


def test_the_reasoner_alone_is_trained_further(saved: Path, tmp_path: Path) -> None:
    settings = {
        "init_from": str(saved),
        "training": {"epochs": 1, "batch_size": 4, "judge_epochs": 0, "kept_epoch": "last"},
    }
    model = cogltx.train(settings, corpus.make(8), output=tmp_path, report=lambda line: None)
    source = CogLTX.from_pretrained(saved).model
    unchanged = {
        name: all(map(torch.equal, part.parameters(), source.modules[name].parameters()))
        for name, part in model.model.modules.items()
    }
    assert unchanged == {"judge": True, "retriever": True, "reasoner": False}


def test_a_strangers_judge_runs_no_code(saved: Path, tmp_path: Path) -> None:
    values = json.loads((saved / "config.json").read_text())
    values["judge"] |= {"name": "fakes:Checksums", "args": {}}
    shutil.copytree(saved, tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=r"is the class fakes:Checksums, whose code would run; if you trust it, set"):
        run_config(tmp_path / "other")
    assert run_config(tmp_path / "other", judge={"name": "bm25"}).judge == JudgeConfig(name="bm25")
    assert run_config(tmp_path / "other", judge={"name": "fakes:Checksums"}).judge.name == "fakes:Checksums"


def test_what_does_not_fit(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"init_from: .*model has the reasoner span, not tagging; remove one of"):
        run_config(saved, reasoner={"name": "tagging"})
    with pytest.raises(ModelError, match="no such folder"):
        run_config(tmp_path / "nothing")
