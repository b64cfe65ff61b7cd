"""Extended positions follow the formula, keep the trained positions, and can be saved and loaded."""

import math
from pathlib import Path
from typing import Any

import fakes
import pytest
import tiny
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AlbertConfig, AutoModel, AutoModelForMaskedLM, MPNetConfig, XLMRobertaConfig

from cogltx import CogLTX, extend_positions
from cogltx.encoding.positions import _ComputedPositions, _first_row, n_positions, restore_positions
from cogltx.errors import ConfigError, ModelError

LEARNED = [name for name in tiny.ARCHITECTURES if name not in ("deberta", "modernbert")]
LENGTH = 150
N = 16


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("encoders")
    return {name: tiny.make_encoder(folder / name, name, max_positions=N) for name in tiny.ARCHITECTURES}


def load(folder: Path) -> Any:
    return AutoModel.from_pretrained(folder).eval()


def table_of(model: nn.Module) -> nn.Embedding:
    return next(m.position_embeddings for m in model.modules() if isinstance(getattr(m, "position_embeddings", None), nn.Embedding))  # fmt: skip


def vectors(model: nn.Module, count: int) -> torch.Tensor:
    table = table_of(model)
    with torch.no_grad():
        return table(torch.arange(count) + _first_row(table))


def read(model: nn.Module, length: int) -> torch.Tensor:
    ids = torch.arange(length)[None] % 20 + 5
    with torch.no_grad():
        hidden: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return hidden


@pytest.mark.parametrize("form", ["computed", "table"])
@pytest.mark.parametrize("alpha", [0.2, 0.4, 0.7])
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_every_row_follows_the_formula(folders: dict[str, Path], architecture: str, alpha: float, form: Any) -> None:
    model = load(folders[architecture])
    table = table_of(model)
    assert _first_row(table) == (2 if architecture == "roberta" else 0)
    p = table.weight.detach()[_first_row(table) :].clone()
    n = len(p)
    extend_positions(model, n * n, alpha=alpha, form=form)
    found = vectors(model, n * n)
    assert torch.equal(found[:n], p)
    exact = p.double()
    u = (exact - alpha * exact[0]) / (1 - alpha)
    expected = torch.stack([alpha * u[i] + (1 - alpha) * u[j] for i in range(n) for j in range(n)])
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=1e-5)
    assert len(torch.unique(found.round(decimals=5), dim=0)) == n * n, "no two positions are the same"


def test_tiled_and_random(folders: dict[str, Path]) -> None:
    p = vectors(load(folders["bert"]), N)
    tiled = vectors(extend_positions(load(folders["bert"]), 3 * N, "tiled"), 3 * N)
    assert torch.equal(tiled, p.repeat(3, 1))
    model = extend_positions(load(folders["bert"]), 400, "random")
    drawn = vectors(model, 400)
    assert torch.equal(drawn[:N], p)
    assert drawn[N:].std().item() == pytest.approx(model.config.initializer_range, rel=0.1)


@pytest.mark.parametrize("form", ["computed", "table"])
@pytest.mark.parametrize("architecture", LEARNED)
def test_short_texts_give_the_same_vectors_and_long_ones_work(folders: dict[str, Path], architecture: str, form: Any) -> None:  # fmt: skip
    before = read(load(folders[architecture]), N)
    model = extend_positions(load(folders[architecture]), LENGTH, form=form)
    assert torch.equal(read(model, N), before)
    long = read(model, LENGTH)
    assert long.shape[1] == LENGTH
    assert long.isfinite().all()
    assert n_positions(model) == LENGTH


@pytest.mark.parametrize("architecture", LEARNED)
def test_the_table_is_plain_transformers(folders: dict[str, Path], architecture: str, tmp_path: Path) -> None:
    model = extend_positions(load(folders[architecture]), LENGTH, form="table")
    model.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path).eval()
    assert torch.equal(read(again, LENGTH), read(model, LENGTH))


@pytest.mark.parametrize("architecture", LEARNED)
def test_computed_positions_are_restored(folders: dict[str, Path], architecture: str, tmp_path: Path) -> None:
    model = extend_positions(load(folders[architecture]), LENGTH, alpha=0.3)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    (name,) = [name for name in weights if name.endswith("position_embeddings.weight")]
    assert len(weights[name]) == N + _first_row(table_of(model)), "only the trained rows are saved"
    again = restore_positions(AutoModel.from_pretrained(tmp_path).eval())
    assert isinstance(table_of(again), _ComputedPositions)
    assert torch.equal(read(again, LENGTH), read(model, LENGTH))


@pytest.mark.parametrize("form", ["computed", "table"])
@pytest.mark.parametrize("kind", [AlbertConfig, MPNetConfig, XLMRobertaConfig])
def test_other_architectures(kind: Any, form: Any, tmp_path: Path) -> None:
    offset = 0 if kind is AlbertConfig else 2
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = kind(vocab_size=40, max_position_embeddings=N + offset, **sizes)
    model = AutoModel.from_config(config).eval()
    before = read(model, N)
    extend_positions(model, LENGTH, form=form).save_pretrained(tmp_path)
    assert torch.equal(read(model, N), before)
    again = restore_positions(AutoModel.from_pretrained(tmp_path).eval())
    assert torch.equal(read(again, LENGTH), read(model, LENGTH))


def test_judge_and_reasoner_read_longer_windows(folders: dict[str, Path], tmp_path: Path) -> None:
    positions = {"length": 96}
    with pytest.raises(ConfigError, match=r"memrecall\.capacity is 96, but the encoder has 16 positions"):
        fakes.reader(folders["bert"], capacity=96)
    model = fakes.reader(folders["bert"], capacity=96, positions=positions)
    text = "The fox jumps over the dog. Anna wrote the report in Stockholm. " * 12
    first = model.predict(text, "Who wrote the report?")
    model.save_pretrained(tmp_path / "model")
    again = CogLTX.from_pretrained(tmp_path / "model", device="cpu")
    assert again.model.form.capacity == 96
    assert again.predict(text, "Who wrote the report?") == first


def test_gradients_reach_the_trained_rows(folders: dict[str, Path]) -> None:
    model = extend_positions(load(folders["bert"]), N * N)
    table = table_of(model)
    assert [name for name, _ in model.named_parameters() if "position" in name] == [
        "embeddings.position_embeddings.weight"
    ]
    table(torch.tensor([5 * N + 3])).sum().backward()
    assert table.weight.grad is not None
    touched = torch.nonzero(table.weight.grad.abs().sum(dim=1)).flatten().tolist()
    assert touched == [0, 3, 5]


def test_a_model_with_a_head(folders: dict[str, Path]) -> None:
    model = AutoModelForMaskedLM.from_pretrained(folders["bert"])
    ids = torch.arange(LENGTH)[None] % 20 + 5
    assert extend_positions(model, LENGTH)(input_ids=ids).logits.shape[1] == LENGTH


@pytest.mark.parametrize("alpha", [0.5, 0.0, 1.0, -0.1, 1.5, math.nan])
def test_wrong_alphas(folders: dict[str, Path], alpha: float) -> None:
    with pytest.raises(ConfigError, match=rf"positions\.alpha is {alpha}; it must be between 0 and 1 and not 0\.5"):  # fmt: skip
        extend_positions(load(folders["bert"]), 64, alpha=alpha)


def test_wrong_lengths(folders: dict[str, Path]) -> None:
    with pytest.raises(
        ConfigError, match=r"positions\.length is 257; hierarchical positions reach 256, the square of 16"
    ):
        extend_positions(load(folders["bert"]), 257)
    with pytest.raises(ConfigError, match=r"positions\.length is 15; the encoder already has 16 positions"):
        extend_positions(load(folders["bert"]), 15)
    assert n_positions(extend_positions(load(folders["bert"]), 257, "tiled")) == 257


@pytest.mark.parametrize("architecture", ["deberta", "modernbert"])
def test_rotary_and_relative_positions_are_refused(folders: dict[str, Path], architecture: str) -> None:
    with pytest.raises(ModelError, match="has no table of learned absolute positions; BERT and RoBERTa have one"):
        extend_positions(load(folders[architecture]), 64)


def test_positions_are_extended_once(folders: dict[str, Path]) -> None:
    model = extend_positions(load(folders["bert"]), 64)
    with pytest.raises(ModelError, match="the encoder is already extended to 64 positions"):
        extend_positions(model, 128)
    assert restore_positions(model) is model
