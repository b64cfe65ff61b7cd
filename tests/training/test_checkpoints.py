"""A checkpoint holds everything, appears whole or not at all, and takes the place of the one before."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cogltx.encoding.encoder import BatchRunner, Precision
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.encoding.weights import to_safetensors
from cogltx.errors import ModelError, TrainingError
from cogltx.training.checkpoints import Checkpoints, Progress
from cogltx.training.optimizer import Optimizer, OptimizerConfig

RUNNER = BatchRunner(Precision.of(EncoderConfig()), 99, 0)


def save(checkpoints: Checkpoints, model: nn.Module, progress: Progress | None = None) -> None:
    checkpoints.save(progress or Progress(), {"judge": model}, {}, {"scores": {3: np.float32([1, np.nan])}})


def test_everything_comes_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert not checkpoints.exists()
    model = nn.Linear(3, 2)
    progress = Progress(epoch=2, phase=1, batch=7, history=[{"f1": 50.0}, {"f1": 51.5}], best_epoch=1)
    save(checkpoints, model, progress)
    expected = torch.randn(5)
    other = nn.Linear(3, 2)
    assert checkpoints.exists()
    found, arrays = checkpoints.load({"judge": other}, {})
    assert torch.equal(torch.randn(5), expected)
    assert torch.equal(other.weight, model.weight)
    assert found == progress
    assert list(arrays["scores"]) == [3]
    np.testing.assert_array_equal(arrays["scores"][3], np.float32([1, np.nan]))


def test_only_the_last_one_is_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for epoch in range(3):
        save(checkpoints, nn.Linear(3, 2), Progress(epoch=epoch))
    assert [path.name for path in tmp_path.iterdir()] == ["000002"]
    assert checkpoints.load({}, {})[0].epoch == 2


def test_two_that_a_kill_left_behind(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, nn.Linear(3, 2), Progress(epoch=0))
    (tmp_path / "000000").rename(tmp_path / "kept")
    save(checkpoints, nn.Linear(3, 2), Progress(epoch=1))
    (tmp_path / "000000").rename(tmp_path / "000001")
    (tmp_path / "kept").rename(tmp_path / "000000")
    (tmp_path / ".000002.abc.tmp").mkdir()
    assert checkpoints.load({}, {})[0].epoch == 1
    save(checkpoints, nn.Linear(3, 2), Progress(epoch=2))
    assert {path.name for path in tmp_path.iterdir() if path.name.isdigit()} == {"000002"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, nn.Linear(3, 2), Progress(epoch=0))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TrainingError, match=r"000001: cannot be saved: .*No space left on device; what was saved be"):
        save(checkpoints, nn.Linear(3, 2), Progress(epoch=1))
    assert [path.name for path in tmp_path.iterdir()] == ["000000"]
    assert checkpoints.load({}, {})[0].epoch == 0


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, nn.Linear(3, 2))
    with pytest.raises(ModelError, match=r"judge\.safetensors: not the weights of this Linear: size mismatch"):
        checkpoints.load({"judge": nn.Linear(4, 2)}, {})
    (tmp_path / "000000" / "judge.safetensors").unlink()
    with pytest.raises(ModelError, match=r"judge\.safetensors: file not found"):
        checkpoints.load({"judge": nn.Linear(3, 2)}, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("progress.json", "[]"),
        ("progress.json", '{"epoch": "x"}'),
        ("progress.json", '{"epoch": -1}'),
        ("progress.json", '{"best_epoch": 7}'),
        ("random.safetensors", {}),
        ("random.safetensors", {"cpu": torch.zeros(3)}),
        ("scores.arrays.safetensors", {"x": torch.zeros(3)}),
        ("judge.optimizer.safetensors", {}),
        ("judge.optimizer.safetensors", {"x": torch.zeros(3)}),
        ("judge.optimizer.safetensors", {"0.exp_avg": torch.zeros(5)}),
    ],
)
def test_a_checkpoint_with_something_else_in_it(
    tmp_path: Path, name: str, content: str | dict[str, torch.Tensor]
) -> None:
    checkpoints, model = Checkpoints(tmp_path), nn.Linear(3, 2)
    learner = Optimizer("judge", model, OptimizerConfig(learning_rate=1), 9, RUNNER)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    learner.optimizer.step()
    learner.step = 1
    checkpoints.save(Progress(), {"judge": model}, {"judge": learner}, {"scores": {}})
    (tmp_path / "²").mkdir()
    assert checkpoints.load({"judge": model}, {"judge": learner})[0].steps == {"judge": 1}
    place = tmp_path / "000000" / name
    if isinstance(content, str):
        place.write_text(content)
    else:
        place.write_bytes(to_safetensors(content))
    with pytest.raises(
        ModelError, match="the checkpoint is damaged or of another run|must be one JSON object|not valid JSON"
    ) as error:
        checkpoints.load({"judge": model}, {"judge": learner})
    assert "\n" not in str(error.value)
