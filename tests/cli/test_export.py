"""`cogltx export`: a smaller folder with the same answers, and a model card that says what the run knows."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from command_line import Call, Files

from cogltx import CogLTX
from cogltx.config import ModelConfig
from cogltx.display import model_card
from cogltx.encoding._weights import load_tensors, to_safetensors

QUESTION = "Where does the person live ?"


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def best(run: Path) -> Path:
    return run / json.loads((run / "run.json").read_text())["best"]


def test_a_small_folder_with_the_same_answers(files: Files, call: Call, tmp_path: Path) -> None:
    done = call("export", files.run, "--output", tmp_path / "small", "--int8")
    assert not done.code
    assert "MB in" in done.err
    assert size(tmp_path / "small") < 0.6 * size(best(files.run))
    before, after = (CogLTX.from_pretrained(folder) for folder in (files.run, tmp_path / "small"))
    text = files.document.read_text()
    one, two = before.predict(text, QUESTION), after.predict(text, QUESTION)
    assert two.no_answer_confidence == pytest.approx(one.no_answer_confidence, abs=0.02)
    scores = [{block.start: block.score for block in found.evidence} for found in (one, two)]
    assert scores[1] == pytest.approx(scores[0], abs=0.02)


def test_weights_are_the_same_without_int8(files: Files, call: Call, tmp_path: Path) -> None:
    assert not call("export", files.run, "--output", tmp_path / "model").code
    for part in ("judge", "reasoner"):
        name = f"{part}.safetensors"
        assert (tmp_path / "model" / name).read_bytes() == (best(files.run) / name).read_bytes()


def test_the_card_says_what_the_run_knows(files: Files, call: Call, tmp_path: Path) -> None:
    (tmp_path / "more.md").write_text("## Licences\n\nThe data is our own.\n")
    assert not call("export", files.run, "--output", tmp_path / "my-model", "--about", tmp_path / "more.md").code
    card = (tmp_path / "my-model" / "README.md").read_text()
    _, front, text = card.split("---\n", 2)
    assert yaml.safe_load(front)["pipeline_tag"] == "question-answering"
    assert text.startswith("\n# my-model\n")
    assert f"`{files.data}`" in text
    metrics = json.loads((files.run / "run.json").read_text())["history"][0]
    assert all(f"| {name} | {value:.1f} |" in text for name, value in metrics.items())
    assert text.endswith("## Licences\n\nThe data is our own.\n")
    assert "\n\n\n" not in card


def test_exporting_an_exported_model(files: Files, call: Call, tmp_path: Path) -> None:
    for source, target in ((files.run, "one"), (tmp_path / "one", "two")):
        assert not call("export", source, "--output", tmp_path / target, "--int8").code
    one, two = (load_tensors(tmp_path / name / "reasoner.safetensors") for name in ("one", "two"))
    assert all(torch.allclose(one[name], two[name], atol=1e-6) for name in one | two)


def test_rows_are_stored_as_integers_and_a_factor(tmp_path: Path) -> None:
    tensors = {
        "big": torch.randn(80, 64) * torch.logspace(-3, 2, 80)[:, None],
        "small": torch.randn(3, 3),
        "zero": torch.zeros(80, 64),
    }
    (tmp_path / "a.safetensors").write_bytes(to_safetensors(tensors, int8=True))
    read = load_tensors(tmp_path / "a.safetensors")
    assert read.keys() == tensors.keys()
    assert torch.equal(read["small"], tensors["small"])
    assert torch.equal(read["zero"], tensors["zero"])
    errors = (read["big"] - tensors["big"]).abs().amax(dim=1)
    assert (errors <= tensors["big"].abs().amax(dim=1) / 127 / 2 * 1.001).all()
    assert errors.max() > 0


def test_the_card_names_the_model_that_training_started_from() -> None:
    started = {"reasoner": {"init_from": "qa-minilm"}, "judge": {"init_from": "reasoner"}}
    values = ModelConfig().model_dump(mode="json")
    for part, settings in started.items():
        values[part] |= settings
    card = model_card("mine", ModelConfig.model_validate(values))
    assert "Started from `qa-minilm`; what is said there about data and licences holds here, too." in card
    assert "Started from" not in model_card("mine", ModelConfig())


def test_a_changed_setting_is_exported(files: Files, call: Call, tmp_path: Path) -> None:
    changed = "reasoner.evidence_weight=1.5"
    assert not call("export", files.run, "--set", changed, "--output", tmp_path / "model").code
    assert json.loads((tmp_path / "model" / "config.json").read_text())["reasoner"]["evidence_weight"] == 1.5
    metrics = json.loads((files.run / "run.json").read_text())["history"][0]
    card = (tmp_path / "model" / "README.md").read_text()
    assert not any(f"| {name} |" in card for name in metrics), "they are of the model before the change"
    wrong = call("export", files.run, "--set", "reasoner.threshold=1.5", "--output", tmp_path / "other")
    assert (wrong.code, (tmp_path / "other").exists()) == (2, False)
