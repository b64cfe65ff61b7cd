"""The comparison of positions: every way once, from one checkpoint, and on after an interruption."""

import json
from pathlib import Path
from typing import Any

import corpus
import pytest
import tiny
import yaml
from command_line import Call

from cogltx.bench import positions as module
from cogltx.bench.positions import _runs, _table, compare
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.training.masked_lm import MaskedConfig, _TextsConfig, _TrainingConfig, mlm

NAMES = ["hierarchical-0.2", "hierarchical-0.4", "hierarchical-0.6", "tiled", "random", "own-64"]


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> MaskedConfig:
    """From an encoder with 64 positions that was trained with its head."""
    folder = tmp_path_factory.mktemp("positions")
    encoder = tiny.make_encoder(folder / "tiny", max_positions=64, texts=corpus.TEXTS)
    (folder / "texts.txt").write_text("\n".join(example.document.text for example in corpus.make(8)))
    first = MaskedConfig(
        encoder=EncoderConfig(name=str(encoder), precision="float32"),
        data=_TextsConfig(train=str(folder / "texts.txt"), held_out=3), length=64,
        training=_TrainingConfig(steps=2, batch_size=2, validation_steps=1),
    )  # fmt: skip
    trained = mlm(first, folder / "first", report=quiet)["encoder"]
    return first.model_copy(update={"encoder": EncoderConfig(name=trained, precision="float32"), "length": 128})


def test_every_way_is_a_run(config: MaskedConfig) -> None:
    runs = _runs(config, [0.2, 0.4, 0.6])
    assert list(runs) == NAMES
    for name in NAMES[:3]:
        positions = runs[name].encoder.positions
        assert positions is not None
        assert (positions.method, positions.length, f"{positions.alpha}") == ("hierarchical", 128, name[-3:])
    assert [runs[name].length for name in NAMES] == [128] * 5 + [64]
    own = runs["own-64"]
    assert own.encoder.positions is None
    assert own.training.batch_size == 4, "as many tokens a step"
    assert own.data.held_out == 6
    assert all(runs[name].training == config.training and runs[name].data == config.data for name in NAMES[:5])


def test_a_comparison_and_the_same_again(config: MaskedConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, text = compare(config, tmp_path, [0.4], report=quiet)
    assert [curve["name"] for curve in found["curves"]] == ["hierarchical-0.4", "tiled", "random", "own-64"]
    assert [one["step"] for curve in found["curves"] for one in curve["history"]] == [0, 1, 2] * 4
    assert json.loads((tmp_path / "positions.json").read_text()) == found
    assert (tmp_path / "positions.md").read_text() == text + "\n"
    assert (tmp_path / "positions.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "tiled" / "mlm.json").unlink()
    lines: list[str] = []
    assert compare(config, tmp_path, [0.4], report=lines.append) == (found, text)
    assert [line for line in lines if "resumed" in line] == ["tiled: resumed at step 2 of 2"]
    assert "random: finished before" in lines
    with pytest.raises(ConfigError, match=r"was started with encoder\.positions\.length 128, not 96"):
        compare(config.model_copy(update={"length": 96}), tmp_path, [0.4], report=quiet)

    def missing(*_: Any, **__: Any) -> None:
        raise ConfigError("picture: expected the package matplotlib, which is not installed")

    monkeypatch.setattr(module, "Picture", missing)
    assert compare(config, tmp_path, [0.4], report=lines.append) == (found, text)
    assert lines[-1].startswith("picture: expected the package matplotlib")


def test_the_command(config: MaskedConfig, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "mlm.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))

    options = ["--output", tmp_path / "out", "--alphas", "0.3", "--set", "training.steps=1", "--json"]
    done = call("bench", "positions", path, *options)
    assert done.code == 0
    found = done.json
    assert [curve["name"] for curve in found["curves"]] == ["hierarchical-0.3", "tiled", "random", "own-64"]
    done = call("bench", "positions", path, "--alphas", "0.3;0.4")
    assert done.code == 2
    assert done.err == "cogltx: --alphas: '0.3;0.4' is not a list of numbers, such as 0.2,0.4\n"


def test_the_table() -> None:
    history = [{"step": 0, "accuracy": 38.04}, {"step": 500, "accuracy": 55.0}]
    assert _table([{"name": "tiled", "length": 1024, "history": history}]).splitlines() == [
        "| positions | length | step 0 | step 500 |",
        "|---|---:|---:|---:|",
        "| tiled | 1,024 | 38.0 | 55.0 |",
    ]


def test_what_cannot_be_compared(config: MaskedConfig, tiny_encoder: Path) -> None:
    with pytest.raises(ConfigError, match="the encoder has no trained masked-LM head; train one with cogltx mlm"):
        _runs(config.model_copy(update={"encoder": EncoderConfig(name=str(tiny_encoder))}), [0.4])
    with pytest.raises(ConfigError, match="^length: 64 is not above the 64 positions of the encoder$"):
        _runs(config.model_copy(update={"length": 64}), [0.4])
    with pytest.raises(ConfigError, match="positions.alpha is 0.5; it must be between 0 and 1 and not 0.5"):
        _runs(config, [0.4, 0.5])
