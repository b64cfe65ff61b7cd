"""Two processes train as one: the same losses and weights, from real launchers; and one of them is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import corpus
import numpy as np
import pytest
import yaml
from command_line import Call
from safetensors.numpy import load_file

from cogltx import _processes as processes
from cogltx.cli._yaml_config import load_yaml
from cogltx.tasks.jsonl import write_examples
from cogltx.training.config import RunConfig
from cogltx.training.run import train_run

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "cogltx")
ACCELERATE = (
    "-m",
    "accelerate.commands.launch",
    "--cpu",
    "--num_processes",
    "2",
    "--num_machines",
    "1",
    "-m",
    "cogltx",
)
# One number added to all scores: its true gradient is 0, so the optimizer follows the rounding.
CANCELLED_BY_SOFTMAX = ("attention.self.key.bias", "reasoner.safetensors:start_end.bias")


def start(launcher: tuple[str, ...], *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, *launcher, *arguments],
        env=environment,
        text=True,
        stdout=-1,
        stderr=-1,
        start_new_session=True,
    )


def run(launcher: tuple[str, ...], *arguments: str) -> str:
    process = start(launcher, *arguments)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors[-3000:]
    return errors


def losses(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, np.ndarray]:
    best = folder / json.loads((folder / "run.json").read_text())["best"]
    return {
        f"{path.name}:{name}": value
        for path in sorted(best.glob("*.safetensors"))
        for name, value in load_file(path).items()
    }


@pytest.fixture(scope="module")
def config(corpus_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    write_examples(folder / "train.jsonl", corpus.make(8, unanswered=True))
    run = {
        "task": {"name": "jsonl"},
        "encoder": {
            "name": str(corpus_encoder),
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "precision": "float32",
        },
        "reasoner": {"name": "span"},
        "memrecall": {"capacity": 96, "strides": [2, 2]},
        "max_block_tokens": 24,
        "data": {"train": str(folder / "train.jsonl"), "held_out": 3},
        "training": {"epochs": 2, "batch_size": 3},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    return folder / "run.yaml"


@pytest.fixture(scope="module")
def alone(config: Path) -> Path:
    folder = config.parent / "alone"
    train_run(load_yaml(RunConfig, config), folder)
    return folder


def test_two_processes_train_as_one(config: Path, alone: Path, tmp_path: Path) -> None:
    said = run(TORCHRUN, "train", str(config), "--output", str(tmp_path / "two"))
    one, two = losses(alone), losses(tmp_path / "two")
    assert [sorted(step) for step in two] == [sorted(step) for step in one]
    for ours, theirs in zip(two, one, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    expected = weights(alone)
    for name, value in weights(tmp_path / "two").items():
        if not name.endswith(CANCELLED_BY_SOFTMAX):
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)
    assert said.count("2 processes share the work") == said.count("training and") == 1, "only the first reports"


def test_masked_lm_in_two_processes(corpus_encoder: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(corpus.TEXTS * 4))
    values = {
        "task": {"name": "masked_lm"},
        "encoder": {"name": str(corpus_encoder), "precision": "float32", "hidden_dropout": 0.0},
        "data": {"train": str(tmp_path / "texts.txt"), "held_out": 3},
        "length": 32,
        "training": {"steps": 4, "batch_size": 4},
    }
    path = tmp_path / "mlm.yaml"
    path.write_text(yaml.safe_dump(values))
    process = start(TORCHRUN, "train", str(path), "--output", str(tmp_path / "two"))
    done = call("train", path, "--output", tmp_path / "one")
    printed, errors = process.communicate(timeout=240)
    assert not done.code, done.err
    assert process.returncode == 0, errors[-3000:]
    assert printed.count("masked accuracy") == done.out.count("masked accuracy") == 1, "only the first prints"
    figures = {
        name: json.loads((tmp_path / name / "mlm.json").read_text())["history"] for name in ("one", "two")
    }  # fmt: skip
    assert len(figures["two"]) == 2
    for ours, theirs in zip(figures["two"], figures["one"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    expected = load_file(tmp_path / "one" / "encoder" / "model.safetensors")
    for name, value in load_file(tmp_path / "two" / "encoder" / "model.safetensors").items():
        if not name.endswith(CANCELLED_BY_SOFTMAX):
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


def test_one_of_two_is_killed(config: Path, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(ACCELERATE, "train", str(config), "--output", str(folder))
    while not list(folder.glob("checkpoints/*/progress.json")):
        assert process.poll() is None
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "SIGKILL" in errors
    train_run(load_yaml(RunConfig, config), folder, resume=True)
    assert losses(folder)[-1] == pytest.approx(losses(alone)[-1], abs=1e-3)


def test_two_with_dropout_resume_to_the_same_weights(config: Path, tmp_path: Path) -> None:
    command = ("train", str(config), "--set", "encoder.hidden_dropout=0.3", "--output")
    run(TORCHRUN, *command, str(tmp_path / "undisturbed"))
    folder = tmp_path / "interrupted"
    process = start(TORCHRUN, *command, str(folder))
    while not (log := folder / "log.jsonl").is_file() or log.read_text().count("loss") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "--resume" in errors
    assert not (folder / "run.json").is_file() or len(losses(folder)) < len(losses(tmp_path / "undisturbed"))
    run(TORCHRUN, *command, str(folder), "--resume")
    assert losses(folder) == losses(tmp_path / "undisturbed")
    expected = weights(tmp_path / "undisturbed")
    assert all(np.array_equal(value, expected[name]) for name, value in weights(folder).items())


def test_shares_are_fair_and_whole() -> None:
    assert processes.share([5.0, 1.0]) == [[0, 1]]
    assert processes.local_share(processes.share([1.0])) == [0]
    assert processes.gather({0: np.ones((2, 3)), 1: np.zeros((1, 3))}, [2, 1], [[0, 1]])[1].shape == (1, 3)
