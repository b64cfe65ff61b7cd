"""Masked-LM training learns, goes on after kills as if nothing had been, and leaves encoders that others read."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import corpus
import fakes
import numpy as np
import pytest
import tiny
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from cogltx.blocks import load_tokenizer
from cogltx.encoding._weights import load_tensors
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.positions import PositionsConfig, n_positions, restore_positions
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, ModelError, TrainingError
from cogltx.tasks.jsonl import write_examples
from cogltx.training.masked_lm import MaskedConfig, _load, _MaskedTrainer
from cogltx.training.optimizer import OptimizerConfig


@pytest.fixture(autouse=True)
def _validated_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogltx.training.masked_lm.VALIDATION_STEPS", 2)


def quiet(line: str) -> None:
    pass


def trainer(encoder: Path, output: Path, *, length: int = 64, positions: Any = None, **options: Any) -> _MaskedTrainer:
    settings = EncoderConfig(
        name=str(encoder), precision="float32", hidden_dropout=0.0, freeze_embeddings=False, positions=positions
    )
    texts = output.with_suffix(".jsonl")
    write_examples(texts, corpus.make(12 if length < 100 else 40))
    training = {"steps": 4, "batch_size": 4, "learner": OptimizerConfig(learning_rate=3e-3)} | options
    data = {"train": str(texts), "held_out": 4}
    run = MaskedConfig.model_validate({"encoder": settings, "data": data, "length": length, "training": training})
    return _MaskedTrainer(run, output, quiet)


def train(encoder: Path, output: Path, **options: Any) -> dict[str, Any]:
    return trainer(encoder, output, **options).run()


def test_it_learns(corpus_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogltx.training.masked_lm.VALIDATION_STEPS", 30)
    summary = train(corpus_encoder, tmp_path, steps=60)
    assert [one["step"] for one in summary["history"]] == [0, 30, 60]
    assert summary["new_head"]
    assert summary["history"][0]["accuracy"] < 5
    assert summary["history"][-1]["accuracy"] > 8
    assert summary["history"][-1]["loss"] < summary["history"][0]["loss"] - 1
    figures = json.loads((tmp_path / "mlm.json").read_text())
    assert figures == summary
    assert figures["after"]["accuracy"] == summary["history"][-1]["accuracy"]
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "masked-lm/loss" in line] == list(range(1, 61))
    assert [line["validation/accuracy"] for line in log if "validation/loss" in line] == [
        one["accuracy"] for one in summary["history"]
    ]


def final(run: Path) -> dict[str, Any]:
    (checkpoint,) = [path for path in (run / "checkpoints").iterdir() if path.name.isdigit()]
    return {path.name: load_tensors(path) for path in checkpoint.glob("*.safetensors")}


def test_killed_and_resumed_equals_undisturbed(corpus_encoder: Path, tmp_path: Path) -> None:
    """Twelve steps with dropout, accumulation and extended positions, killed in the middle of several."""

    def run(name: str, *steps: int) -> list[str]:
        command = [
            sys.executable,
            str(Path(__file__).with_name("killed.py")),
            "masked",
            str(corpus_encoder),
            str(tmp_path / name),
        ]
        result = subprocess.run(
            [*command, *map(str, steps)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return result.stdout.split("\n")[:-1]

    assert run("undisturbed", 0) == ["ended 0"]
    assert run("killed", 2, 5, 6, 0) == ["killed"] * 3 + ["ended 0"]
    expected, found = final(tmp_path / "undisturbed"), final(tmp_path / "killed")
    assert set(expected) == {"masked-lm.safetensors", "masked-lm.optimizer.safetensors"}
    for name, tensors in expected.items():
        assert tensors.keys() == found[name].keys()
        assert all(torch.equal(tensors[key], found[name][key]) for key in tensors), name
    for name in ("encoder/model.safetensors", "encoder/config.json"):
        assert (tmp_path / "undisturbed" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    histories = [
        json.loads((tmp_path / name / "mlm.json").read_text())["history"] for name in ("undisturbed", "killed")
    ]
    assert histories[0] == histories[1]
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("undisturbed", "killed")]
    assert logs[0] == logs[1]
    assert [one["step"] for one in histories[0]] == [0, 5, 10, 12]


@pytest.mark.parametrize("method", ["hierarchical", "tiled", "random"])
def test_the_encoder_is_read_with_its_positions(corpus_encoder: Path, tmp_path: Path, method: Any) -> None:
    positions = PositionsConfig(length=700, method=method, alpha=0.3)
    made = trainer(corpus_encoder, tmp_path / "run", length=600, positions=positions, batch_size=1)
    summary = made.run()
    encoder = load_encoder(EncoderConfig(name=summary["encoder"], hidden_dropout=0.0)).eval()
    assert encoder.positions == 700
    assert load_tokenizer(summary["encoder"]).model_max_length == 700
    ids = torch.arange(650)[None] % 100 + 5
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))
    with torch.inference_mode():
        assert torch.equal(encoder(batch), made.model.eval().encoder(batch))
        plain = restore_positions(AutoModelForMaskedLM.from_pretrained(summary["encoder"]).eval())
        assert n_positions(plain) == 700
        chosen = torch.zeros(1, 650, dtype=torch.bool)
        chosen[0, [3, 640]] = True
        torch.testing.assert_close(plain(input_ids=ids).logits[chosen], made.model(batch, chosen))
    config = fakes.config(Path(summary["encoder"]), capacity=650)
    assert fakes.reader(Path(summary["encoder"]), capacity=650).model.form.capacity == config.memrecall.capacity == 650


def test_a_run_goes_on_from_another_with_its_head(corpus_encoder: Path, tmp_path: Path) -> None:
    first = train(corpus_encoder, tmp_path / "short", steps=40)
    encoder = Path(first["encoder"])
    second = train(encoder, tmp_path / "long", positions=PositionsConfig(length=600), length=64, steps=1)
    assert not second["new_head"]
    assert second["history"][0] == {**first["after"], "step": 0}


def test_a_head_rate_is_for_new_heads(corpus_encoder: Path, tmp_path: Path) -> None:
    learner = OptimizerConfig(learning_rate=1e-3, head_rate=7)
    made = trainer(corpus_encoder, tmp_path / "first", learner=learner)
    multiples = {id(p): group["multiple"] for group in made.optimizer.optimizer.param_groups for p in group["params"]}
    names = {name: multiples[id(parameter)] for name, parameter in made.model.named_parameters()}
    assert {value for name, value in names.items() if name.startswith("encoder.")} == {1.0}
    assert {value for name, value in names.items() if name.startswith("head.")} == {7.0}
    assert "encoder.model.embeddings.word_embeddings.weight" in names
    assert not any("decoder.weight" in name for name in names), "the output layer is tied"
    again = trainer(Path(made.run()["encoder"]), tmp_path / "second", learner=learner)
    assert {group["multiple"] for group in again.optimizer.optimizer.param_groups} == {1.0}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_neither_accumulation_nor_checkpointing_changes_the_weights(
    corpus_encoder: Path, tmp_path: Path, checkpointing: bool
) -> None:
    def weights(name: str, **options: Any) -> dict[str, torch.Tensor]:
        made = trainer(corpus_encoder, tmp_path / name, steps=3, **options)
        made.optimizer.runner = replace(made.optimizer.runner, batch_tokens=10_000 if name == "plain" else 64)
        made.run()
        return made.model.state_dict()

    expected, found = weights("plain"), weights("other", gradient_checkpointing=checkpointing)
    assert all(torch.allclose(expected[name], found[name], atol=2e-4) for name in expected)


def test_gradient_checkpointing_runs_layers_twice(corpus_encoder: Path, tmp_path: Path) -> None:
    for checkpointing in (False, True):
        made = trainer(corpus_encoder, tmp_path / str(checkpointing), gradient_checkpointing=checkpointing)
        calls: list[int] = []
        made.model.encoder.model.encoder.layer[0].attention.register_forward_pre_hook(
            lambda *_, calls=calls: calls.append(1)
        )
        made._step(0)
        assert len(calls) == (2 if checkpointing else 1)


def test_masks_are_dynamic_and_every_row_comes_once_an_epoch(corpus_encoder: Path, tmp_path: Path) -> None:
    made = trainer(corpus_encoder, tmp_path)
    count = len(made.rows)
    epochs = [[made._masked(place) for place in range(first, first + count)] for first in (0, count)]
    orders = [made._order(epoch).tolist() for epoch in (0, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(count))
    assert orders[0] != orders[1]
    same = [
        next(one for one, index in zip(rows, order, strict=True) if index == 0)
        for rows, order in zip(epochs, orders, strict=True)
    ]
    assert not np.array_equal(same[0][1], same[1][1])
    assert np.array_equal(made._masked(5)[0], epochs[0][5][0])


@pytest.mark.parametrize("name", tiny.ARCHITECTURES)
def test_every_architecture_has_its_head(name: str, tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / "encoder", name)
    model = _load(EncoderConfig(name=str(folder), hidden_dropout=0.0, freeze_embeddings=False)).eval()
    assert model.new_head
    ids = torch.arange(20)[None] % 100 + 5
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))
    chosen = torch.zeros(1, 20, dtype=torch.bool)
    chosen[0, [2, 19]] = True
    model.save_pretrained(tmp_path / "saved")
    with torch.inference_mode():
        plain = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved").eval()
        torch.testing.assert_close(model(batch, chosen), plain(input_ids=ids).logits[chosen])
        bare = AutoModel.from_pretrained(tmp_path / "saved").eval()
        torch.testing.assert_close(model.encoder(batch), bare(input_ids=ids).last_hidden_state)
    assert not _load(EncoderConfig(name=str(tmp_path / "saved"))).new_head


def test_frozen_embeddings(corpus_encoder: Path) -> None:
    model = _load(EncoderConfig(name=str(corpus_encoder), freeze_embeddings=True))
    fixed = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    assert fixed == ["encoder.model.embeddings.word_embeddings.weight"]


def test_rows_beyond_the_positions(corpus_encoder: Path, tmp_path: Path) -> None:
    wording = "^length is 600, but the encoder has 512 positions; encoder.positions extends them$"
    with pytest.raises(ConfigError, match=wording):
        trainer(corpus_encoder, tmp_path, length=600)


def test_a_checkpoint_without_a_part_of_the_encoder(corpus_encoder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in corpus_encoder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    lost = "encoder.layer.1.output.dense.weight"
    save_file(
        {name: value for name, value in tensors.items() if name != lost},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(ModelError, match=f"the weights of BertModel are incomplete; no {lost}"):
        load_encoder(EncoderConfig(name=str(tmp_path)))
    with pytest.raises(ModelError, match=f"the weights of BertForMaskedLM are incomplete; no bert.{lost}"):
        _load(EncoderConfig(name=str(tmp_path)))


def test_a_full_disk_at_the_end(corpus_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(corpus_encoder, tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(made.model, "save_pretrained", full)
    with pytest.raises(TrainingError, match="encoder: cannot be saved: .*No space left on device"):
        made.run()
    assert not (tmp_path / "encoder").exists()
    monkeypatch.undo()
    assert made.run(resume=True)["after"]["step"] == 4
    assert (tmp_path / "encoder" / "model.safetensors").is_file()
