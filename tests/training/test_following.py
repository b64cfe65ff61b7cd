"""A training that a person can follow and stop: estimate, callbacks, interrupts in every phase, the model at the start."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import fakes
import pytest
import torch
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, TrainerCallback

import cogltx
from cogltx.config import ModelConfig
from cogltx.errors import ConfigError, Interrupted
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.training import _display as display
from cogltx.training._reporting import likely_faults
from cogltx.training._run_folder import check_folder, interruptible
from cogltx.training._validation import Validation
from cogltx.training.config import RunConfig, TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Progress, Trainer

FAST = OptimizerConfig(learning_rate=1e-3)


def trainer(encoder: Path, output: Path, lines: list[str] | None = None, **options: Any) -> Trainer:
    values = fakes.config(encoder, hidden_dropout=0.2).model_dump(mode="json")
    values["reasoner"] |= {"init_from": options.pop("init_from", None)}
    values["judge"] |= {"init_from": options.pop("judge_from", None)}
    torch.manual_seed(0)
    made = CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))
    settings = {"epochs": 2, "batch_size": 2, "judge": FAST, "reasoner": FAST} | options
    callbacks = settings.pop("callbacks", ())
    examples = corpus.make(8)
    return Trainer(
        made, TrainingConfig.model_validate(settings), train=examples, validation=examples[:6], output=output,
        report=(lines if lines is not None else list[str]()).append, callbacks=callbacks,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _interrupts_of_python() -> Iterator[None]:
    """The handler of a process that runs no command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def saved(corpus_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "model"
    fakes.reader(corpus_encoder).save_pretrained(folder)
    return folder


def test_the_time_left_is_known_from_the_pace() -> None:
    estimate = display.Estimate({"judge": (10, 3.0), "reasoner": (10, 6.0), "validation": (5, 2.0)})
    assert estimate.seconds_left is None
    estimate.add("judge", 5, seconds=10.0)
    assert estimate.seconds_left == pytest.approx(5 * 2 + 10 * 4 + 5 * 4 / 3), "others by their guessed cost"
    estimate.add("judge", 5, seconds=10.0)
    estimate.add("reasoner", 2, seconds=2.0)
    assert estimate.seconds_left == pytest.approx(8 * 1 + 5 * 2 * 22 / 42), "measured ones by their own pace"
    assert estimate.share == pytest.approx(42 / 100)


def test_without_a_terminal_there_is_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 5))
    monkeypatch.setattr(display, "monotonic", lambda: next(clock))
    lines: list[str] = []
    shown = display.Display(lines.append, display.Estimate({"judge": (100, 1.0)}))
    shown.begin("epoch 1/1 judge")
    for _ in range(40):
        shown.advance("judge", loss=0.5)
    shown.close()
    assert lines[0].startswith("about 8 minutes on this machine (")
    assert len(lines) == 4, "200 seconds: an estimate, and a line a minute"
    assert re.fullmatch(r"epoch 1/1 judge: 1\d% of the training, loss 0.500, about [78] minutes left", lines[1])


def test_the_model_at_the_start_is_measured_and_kept(
    corpus_encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every epoch is worse than the start, the model of the start is that of the run."""
    lines: list[str] = []
    real, falling = Validation.tune, iter((50.0, 40.0, 30.0))
    monkeypatch.setattr(Validation, "tune", lambda *given: real(*given) | {"f1": next(falling)})
    summary = trainer(corpus_encoder, tmp_path, lines, init_from=str(saved)).run()
    assert set(summary.before) == set(summary.start) == set(summary.history[0])
    assert summary.best_epoch == 0
    kept, first = load_file(tmp_path / "epoch-0" / "reasoner.safetensors"), load_file(saved / "reasoner.safetensors")
    assert all(torch.equal(kept[name], first[name]) for name in first), "its weights are those of the start"
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["best"], run["metrics"], run["before"]) == ("epoch-0", summary.start, summary.before)
    assert [path.name for path in tmp_path.glob("epoch-*")] == ["epoch-0"]
    table = next(line for line in lines if "metrics in percent" in line).split("\n")
    assert [row[:18].rstrip() for row in table[2:]] == ["before training", "thresholds tuned *", "epoch 1", "epoch 2"]
    assert "* the model at the start, with tuned thresholds, is kept: its f1 is the highest" in lines


@pytest.mark.parametrize("metrics", [(50.0, 10.0, 20.0, 40.0, 40.0), (50.0, 10.0, 20.0, 41.0, 40.0, 41.0)])
def test_a_model_refined_on_few_examples_may_stay_halfway_to_its_start(
    corpus_encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: tuple[float, ...]
) -> None:
    """The better one of an epoch's weights and their mean with the first is kept; training goes on from its own.

    Where its own are better, their thresholds are tuned once more.
    """
    lines: list[str] = []
    real, is_mean = Validation.tune, len(metrics) == 5
    options = {"init_from": str(saved), "judge_from": str(saved), "kept_epoch": "last"}

    def scripted(first: int) -> None:
        values = iter(metrics[first:])
        monkeypatch.setattr(Validation, "tune", lambda *given: real(*given) | {"f1": next(values)})

    scripted(0)
    summary = trainer(corpus_encoder, tmp_path / "whole", lines, **options).run()
    assert "few examples: the mean of the weights after an epoch and before training is measured, too" in lines
    assert f"* epoch 2{' (mean)' * is_mean} is kept: the last one" in lines
    (second,) = [line for line in lines if line.startswith("epoch 2/2")]
    other = f"f1 {'without' if is_mean else 'with'} the mean: 40.0"
    assert re.fullmatch(rf"epoch 2/2{re.escape(' (mean)' * is_mean)}: .*f1 4[01]\.0.* \({other}\); .*", second), second
    assert json.loads((tmp_path / "whole" / "run.json").read_text())["means"] == [1, 2][: 1 + is_mean]
    start = load_file(saved / "reasoner.safetensors")
    kept = load_file(tmp_path / "whole" / "epoch-2" / "reasoner.safetensors")
    (checkpoint,) = (tmp_path / "whole" / "checkpoints").iterdir()
    trained = load_file(checkpoint / "reasoner.safetensors")
    assert any(not torch.equal(trained[name], start[name]) for name in trained)
    expected = {name: trained[name].lerp(start[name], 0.5) if is_mean else trained[name] for name in trained}
    assert all(torch.equal(kept[name], expected[name]) for name in kept)

    scripted(0)
    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        interrupted_at(3, patched, CogLTX, "reason_over")  # while the mean of the first epoch is measured
        trainer(corpus_encoder, tmp_path / "cut", **options).run()
    scripted(1)
    assert trainer(corpus_encoder, tmp_path / "cut", **options).run(resume=True) == summary
    resumed = load_file(tmp_path / "cut" / "epoch-2" / "reasoner.safetensors")
    assert all(torch.equal(resumed[name], kept[name]) for name in kept)


def test_what_went_wrong_is_named(corpus_encoder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    still = {"reasoner": {"learning_rate": 1e-12}, "judge": {"learning_rate": 1e-12}}
    made = trainer(corpus_encoder, tmp_path, lines, **still)
    made.run()
    assert any(line.startswith("warning: the reasoner's loss does not fall (epoch 1: ") for line in lines)
    done = made.loop.progress
    done.history, done.best_epoch = [{"f1": 0.0}, {"f1": 4.0}], 2
    faults = likely_faults(done, "f1", 8, made.optimizers["reasoner"])
    (last,) = [line for line in faults if "not useful" in line]
    assert last == (
        "warning: the model is not useful yet: f1 4.0 % after 8 steps on 8 examples; more examples help most, then more "
        "epochs (training.epochs: 6)"
    )


class Recorder(TrainerCallback):
    def __init__(self) -> None:
        self.events: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            self.events.append(name)
        return super().__getattribute__(name)


def test_callbacks_of_transformers(corpus_encoder: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    trainer(corpus_encoder, tmp_path, callbacks=[recorder]).run()
    per_epoch = [*["on_log", "on_step_end"] * 4, "on_log", "on_evaluate", "on_epoch_end"]
    judge = ["on_log", "on_step_end"] * 4
    assert recorder.events == ["on_init_end", "on_train_begin", *judge, *per_epoch, *per_epoch, "on_train_end"]


class Worse(EarlyStoppingCallback):  # type: ignore[misc]
    """Sees a metric that falls with every epoch."""

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **values: Any) -> Any:
        return super().on_evaluate(args, state, control, {"eval_f1": -metrics["epoch"]}, **values)


def test_a_training_ends_early_and_stays_ended(corpus_encoder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    summary = trainer(corpus_encoder, tmp_path, lines, epochs=5, callbacks=[Worse(1)]).run()
    assert "a callback ended the training after epoch 2 of 5" in lines
    assert len(summary.history) == 2
    recorder = Recorder()
    again = trainer(corpus_encoder, tmp_path, epochs=5, callbacks=[Worse(1), recorder]).run(resume=True)
    assert again == summary
    assert "on_log" not in recorder.events, "a tracker has the earlier epochs already"


def interrupted_at(calls: int, monkeypatch: pytest.MonkeyPatch, target: Any, name: str) -> None:
    """Send SIGINT to this process at one of the calls of a method, which goes on as it would."""
    real, left = getattr(target, name), [calls]

    def method(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given, **named)

    monkeypatch.setattr(target, name, method)


@pytest.fixture(scope="module")
def undisturbed(corpus_encoder: Path, saved: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Progress, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    summary = trainer(corpus_encoder, folder, init_from=str(saved), kept_epoch="last").run()
    return summary, (folder / "epoch-2" / "reasoner.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("name", "calls", "where"),
    [
        ("predict", 1, "epoch 1 of 2"), ("_save", 1, "epoch 1 of 2"), ("tune", 1, "epoch 1 of 2"),
        ("predict", 2, "epoch 1 of 2"), ("tune", 2, "epoch 2 of 2"), ("_save", 3, "epoch 2 of 2"),
        ("tune", 3, "finished after epoch 2"),
    ],
)  # fmt: skip
def test_interrupted_in_validation(
    corpus_encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int,
    where: str, undisturbed: tuple[Progress, bytes],
) -> None:  # fmt: skip
    options = {"init_from": str(saved), "kept_epoch": "last"}
    with monkeypatch.context() as patched:
        interrupted_at(calls, patched, Validation, name)
        with (
            pytest.raises(Interrupted, match=f"interrupted, {where}; everything is saved in "),
            interruptible(tmp_path),
        ):
            trainer(corpus_encoder, tmp_path, **options).run()
    summary = trainer(corpus_encoder, tmp_path, **options).run(resume=True)
    assert summary == undisturbed[0]
    assert (tmp_path / "epoch-2" / "reasoner.safetensors").read_bytes() == undisturbed[1]


@pytest.mark.parametrize("calls", [1, 5, 8])
def test_interrupted_in_a_step(
    corpus_encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int,
    undisturbed: tuple[Progress, bytes],
) -> None:  # fmt: skip
    """The step is finished, and the checkpoint has it."""
    lines: list[str] = []
    options = {"init_from": str(saved), "kept_epoch": "last"}
    with monkeypatch.context() as patched:
        interrupted_at(calls, patched, torch.nn.utils, "clip_grad_norm_")
        made = trainer(corpus_encoder, tmp_path, lines, **options)
        with pytest.raises(Interrupted, match="everything is saved"), interruptible(tmp_path):
            made.run()
    assert "stopping after this step; interrupt again to stop at once" in lines
    log = (tmp_path / "log.jsonl").read_text().splitlines()
    assert sum("/loss" in line for line in log) == calls
    resumed = made if calls == 5 else trainer(corpus_encoder, tmp_path, **options)
    assert resumed.run(resume=True) == undisturbed[0]
    assert (tmp_path / "epoch-2" / "reasoner.safetensors").read_bytes() == undisturbed[1]


def test_interrupted_twice_in_a_step(
    corpus_encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    undisturbed: tuple[Progress, bytes],
) -> None:  # fmt: skip
    """The second one ends the step where it is; the last checkpoint stays."""
    options = {"init_from": str(saved), "kept_epoch": "last"}
    with monkeypatch.context() as patched:
        interrupted_at(3, patched, torch.nn.utils, "clip_grad_norm_")
        interrupted_at(3, patched, torch.optim.AdamW, "step")
        with pytest.raises(Interrupted, match="interrupted, epoch 1 of 2; the state of "), interruptible(tmp_path):
            trainer(corpus_encoder, tmp_path, **options).run()
    assert trainer(corpus_encoder, tmp_path, **options).run(resume=True) == undisturbed[0]


def test_a_line_that_a_kill_cut_short(corpus_encoder: Path, saved: Path, tmp_path: Path) -> None:
    """Its batch is predicted again."""
    validation = trainer(corpus_encoder, tmp_path, init_from=str(saved)).validation
    whole = validation.predict("0", recalls_stay=False, advance=lambda count: None)
    written = validation.path.read_text()
    validation.path.write_text(written[: len(written) // 2])
    assert list(validation._saved("0")) == []
    assert validation.path.read_text() == ""
    for _ in range(2):
        assert validation.predict("0", recalls_stay=False, advance=lambda count: None) == whole
    assert validation.path.read_text() == written
    assert [len(batch) for batch in validation._saved("0")] == [6]
    assert list(validation._saved("1")) == [], "of another model"


def test_interrupted_without_a_folder(corpus_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(1, monkeypatch, Validation, "predict")
    config = {"encoder": {"name": str(corpus_encoder)}, "training": {"epochs": 1}}
    with pytest.raises(Interrupted, match="^interrupted; nothing is saved, since the training has no output folder$"):
        cogltx.train(config, corpus.make(8), report=lambda line: None)


def test_interrupted_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="before the first checkpoint; nothing is saved in "), interruptible(tmp_path):
        raise KeyboardInterrupt
    check_folder(RunConfig.model_validate({"data": {"train": "a.jsonl"}}), tmp_path, resume=False)


def test_a_folder_says_how_far_its_run_is(corpus_encoder: Path, tmp_path: Path) -> None:
    run = RunConfig.model_validate({"data": {"train": "a.jsonl"}})
    (tmp_path / "run-config.json").write_text(run.model_dump_json())
    trainer(corpus_encoder, tmp_path, epochs=1).run()
    with pytest.raises(ConfigError, match="has a run, finished after epoch 1; continue it with --resume, or choose"):
        check_folder(run, tmp_path, resume=False)
