"""`cogltx average`: the mean of the weights and the thresholds of models, and one line for models that do not fit."""

from pathlib import Path

import pytest
import torch
from command_line import invoke
from fakes import reader

from cogltx import CogLTX
from cogltx.averaging import average
from cogltx.encoding.weights import load_tensors
from cogltx.errors import ConfigError, ModelError

PARTS = ("judge", "reasoner")


def save(encoder: Path, folder: Path, seed: int, **changes: object) -> Path:
    """An untrained model whose weights and threshold depend on the seed."""
    model = reader(encoder)
    torch.manual_seed(seed)
    for module in model.model.modules.values():
        for weights in module.parameters():
            weights.data.normal_()
    settings = {"no_answer_threshold": seed / 4, **changes}
    model.model.reasoner.config = model.model.reasoner.config.model_copy(update=settings)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def models(tiny_encoder: Path, tmp_path: Path) -> list[Path]:
    return [save(tiny_encoder, tmp_path / f"model-{seed}", seed) for seed in range(3)]


def test_weights_and_thresholds_are_the_means(models: list[Path], tmp_path: Path) -> None:
    assert not invoke("average", *models, "--output", tmp_path / "mean")
    for part in PARTS:
        mean = load_tensors(tmp_path / "mean" / f"{part}.safetensors")
        states = [load_tensors(model / f"{part}.safetensors") for model in models]
        assert mean.keys() == states[0].keys()
        for key, tensor in mean.items():
            assert torch.allclose(tensor, torch.stack([state[key] for state in states]).mean(dim=0), atol=1e-6)
    config = CogLTX.from_pretrained(tmp_path / "mean").config
    assert config.reasoner.model_dump()["no_answer_threshold"] == pytest.approx(0.25)
    assert "the mean of 3 trainings" in (tmp_path / "mean" / "README.md").read_text()


def test_the_mean_of_a_model_with_itself_is_the_model(models: list[Path], tmp_path: Path) -> None:
    average([models[1]] * 3).save(tmp_path / "same")
    for part in PARTS:
        same, model = (load_tensors(folder / f"{part}.safetensors") for folder in (tmp_path / "same", models[1]))
        assert all(torch.equal(same[key], tensor) for key, tensor in model.items())


def test_models_that_differ_in_more_than_the_seed(models: list[Path], tiny_encoder: Path, tmp_path: Path) -> None:
    other = save(tiny_encoder, tmp_path / "other", 3, max_answer_tokens=7)
    with pytest.raises(ConfigError, match=r"reasoner\.max_answer_tokens is 30 and 7; average models that differ"):
        average([models[0], other])


def test_a_threshold_that_one_training_could_not_choose(models: list[Path], tiny_encoder: Path, tmp_path: Path) -> None:
    never = save(tiny_encoder, tmp_path / "never", 4, no_answer_threshold=None)
    mean = average([never, models[1], models[2]])
    assert mean.config.reasoner.model_dump()["no_answer_threshold"] == pytest.approx(0.375)


def test_one_model_and_no_model(models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("average", models[0], "--output", tmp_path / "mean") == 2
    assert "name at least two models" in capsys.readouterr().err
    with pytest.raises(ModelError, match="nowhere"):
        average([models[0], tmp_path / "nowhere"])
    assert not (tmp_path / "mean").exists()
