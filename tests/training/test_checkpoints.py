"""A checkpoint holds everything, appears whole or not at all, and takes the place of the one before."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cogltx.encoding._weights import to_safetensors
from cogltx.encoding.encoder import BatchRunner, Precision
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ModelError, TrainingError
from cogltx.training._loop import TrainingLoop
from cogltx.training.optimizer import Optimizer, OptimizerConfig

RUNNER = BatchRunner(Precision.of(EncoderConfig()), 99, 0)


def loop(output: Path, model: nn.Module | None = None, learner: Optimizer | None = None) -> TrainingLoop:
    arrays = {"scores": {"3.7": np.float32([1, np.nan])}}
    optimizers = {} if learner is None else {"judge": learner}
    return TrainingLoop(output, "", {"judge": nn.Linear(3, 2) if model is None else model}, optimizers, arrays)


def save(output: Path, epoch: int = 0) -> None:
    made = loop(output)
    made.progress.epoch = epoch
    made.save()


def loaded_epoch(output: Path) -> int:
    made = loop(output)
    assert made.start(resume=True)
    return made.progress.epoch


def test_everything_comes_back(tmp_path: Path) -> None:
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    made, other = loop(tmp_path, first), loop(tmp_path, second)
    assert not other.start(resume=True)
    made.progress = type(made.progress)(epoch=2, phase=1, batch=7, history=[{"f1": 50.0}, {"f1": 51.5}], best_epoch=1)
    made.save()
    other.arrays["scores"].clear()
    assert other.start(resume=True)
    assert torch.equal(second.weight, first.weight)
    assert other.progress == made.progress
    assert list(other.arrays["scores"]) == ["3.7"]
    np.testing.assert_array_equal(other.arrays["scores"]["3.7"], np.float32([1, np.nan]))


def test_dropout_of_a_step_depends_on_seed_and_step_alone(tmp_path: Path) -> None:
    def drawn(seed: int, first: int) -> list[float]:
        made, numbers = TrainingLoop(tmp_path / f"{seed}-{first}", "", {}, {}, seed=seed), list[float]()
        made.progress.batch = first
        made.steps(4, "judge", lambda _: numbers.append(float(torch.rand(()))), lambda _: 1)
        return numbers

    assert len(set(drawn(0, 0))) == 4
    assert drawn(0, 2) == drawn(0, 0)[2:]
    assert not set(drawn(1, 0)) & set(drawn(0, 0))


def test_only_the_last_one_is_kept(tmp_path: Path) -> None:
    for epoch in range(3):
        save(tmp_path, epoch)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000002"]
    assert loaded_epoch(tmp_path) == 2


def test_two_that_a_kill_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    save(tmp_path, 0)
    (folder / "000000").rename(folder / "kept")
    save(tmp_path, 1)
    (folder / "000000").rename(folder / "000001")
    (folder / "kept").rename(folder / "000000")
    (folder / ".000002.abc.tmp").mkdir()
    assert loaded_epoch(tmp_path) == 1
    assert {path.name for path in folder.iterdir() if path.name.isdigit()} == {"000001"}
    save(tmp_path, 2)
    assert {path.name for path in folder.iterdir() if path.name.isdigit()} == {"000002"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(TrainingError, match=r"000001: cannot be saved: .*No space left on device; what was saved"):
            save(tmp_path, 1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000000"]
    assert loaded_epoch(tmp_path) == 0


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(ModelError, match=r"judge\.safetensors: not the weights of this Linear: size mismatch"):
        loop(tmp_path, nn.Linear(4, 2)).start(resume=True)
    (tmp_path / "checkpoints" / "000000" / "judge.safetensors").unlink()
    with pytest.raises(ModelError, match=r"judge\.safetensors: file not found"):
        loop(tmp_path).start(resume=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("progress.json", "[]"),
        ("progress.json", '{"epoch": "x"}'),
        ("progress.json", '{"epoch": -1}'),
        ("progress.json", '{"best_epoch": 7}'),
        ("judge.optimizer.safetensors", {}),
        ("judge.optimizer.safetensors", {"x": torch.zeros(3)}),
        ("judge.optimizer.safetensors", {"0.exp_avg": torch.zeros(5)}),
    ],
)
def test_a_checkpoint_with_something_else_in_it(
    tmp_path: Path, name: str, content: str | dict[str, torch.Tensor]
) -> None:
    model = nn.Linear(3, 2)
    learner = Optimizer("judge", model, OptimizerConfig(learning_rate=1), 9, RUNNER)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    learner.optimizer.step()
    learner.step = 1
    made = loop(tmp_path, model, learner)
    made.save()
    (tmp_path / "checkpoints" / "²").mkdir()
    assert made.start(resume=True)
    assert made.progress.steps == {"judge": 1}
    place = tmp_path / "checkpoints" / "000000" / name
    if isinstance(content, str):
        place.write_text(content)
    else:
        place.write_bytes(to_safetensors(content))
    with pytest.raises(
        ModelError, match="the checkpoint is damaged or of another run|must be one JSON object|not valid JSON"
    ) as error:
        made.start(resume=True)
    assert "\n" not in str(error.value)
