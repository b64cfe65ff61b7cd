"""The training loop: log, checkpoints, interrupts and exact resume, for joint and masked-LM training.

A checkpoint has all state from which a killed run ends at the same weights as an uninterrupted one. It is written
atomically; the previous one is removed afterwards.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, TypeAdapter
from torch import Tensor, nn

from cogltx import _processes as processes
from cogltx._files import check_settings, new_folder, read_json, write_json
from cogltx.encoding._weights import load_tensors, load_weights, to_safetensors
from cogltx.errors import CogltxError, ConfigError, Interrupted, ModelError, TrainingError
from cogltx.training._display import Display, Estimate
from cogltx.training._interrupts import Interrupts
from cogltx.training.optimizer import Optimizer

CHECKPOINT_SECONDS = 120.0  # between checkpoints, which are written at the boundary of steps
_MAX_REASON = 200


@dataclass
class Progress:
    """Progress of a run, and its result.

    Attributes:
        epochs: number of epochs of the run, 0 where steps are counted; ``epoch``: number of those that are done.
        phase: number of the phase in the epoch; ``batch``: of the step in the phase.
        before: metrics of the model that the run started from, empty if it was not measured; ``start``: the same
            with tuned thresholds.
        history: metrics of each finished epoch; ``losses``: the mean loss of each model in it.
        means: epochs whose model has the mean of the reasoner's weights then and at the start.
        best_epoch: number of the best epoch, from 1; 0 is the model at the start.
        logged: bytes of the log.
        counts: figures of the epoch so far.
        stopped: a callback ended the training.
        skipped: number of examples without a known target, at the end.
    """

    data: str = ""
    epochs: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    phase: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    steps: dict[str, int] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    start: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)
    means: list[int] = field(default_factory=list)
    best_epoch: NonNegativeInt | None = None
    logged: NonNegativeInt = 0
    counts: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    skipped: NonNegativeInt = 0


class TrainingLoop:
    """Runs optimizer steps with a log and checkpoints; resuming is exact.

    Args:
        output: folder of the run.
        data: fingerprint of the data.
        models: models in training, by name.
        optimizers: their optimizers.
        arrays: other state in each checkpoint: by name, arrays with names.
        seed: seed of dropout, which depends on the step and the process alone.
    """

    def __init__(
        self,
        output: Path,
        data: str,
        models: Mapping[str, nn.Module],
        optimizers: Mapping[str, Optimizer],
        arrays: Mapping[str, dict[str, np.ndarray]] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.folder, self.log, self.progress = output / "checkpoints", _Log(output), Progress(data=data)
        self.models, self.optimizers, self.arrays = models, optimizers, arrays or {}
        self.weights: dict[str, Mapping[str, Tensor]] = {}  # that checkpoints hold in place of those in a model
        self.seed, self.saved_at = seed, monotonic()
        self.display = Display(lambda line: None, Estimate({}), shown=False)
        self.interrupts, self._in_step = Interrupts(), False

    def start(self, *, resume: bool) -> bool:
        """Begin to write the log and, to resume, load the last checkpoint; returns whether there was one.

        Raises:
            ConfigError: the run started with other data, or there is a run that is not to be resumed.
            ModelError: the checkpoint is damaged, or belongs to another model.
        """
        if not resume and self._numbers():
            raise ConfigError(f"{self.folder.parent}: has a run; resume it, or choose another folder")
        numbers = self._numbers()
        if resumes := resume and bool(numbers):
            self._load(self.folder / f"{numbers[-1]:06d}")
            self._remove(numbers[:-1])  # left by a run that was killed before it removed them
        processes.wait()
        self.log.open(self.progress.logged if resumes else 0)
        return resumes

    def _numbers(self) -> list[int]:
        """The numbers of the checkpoints, each the name of a folder."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def _load(self, source: Path) -> None:
        try:
            saved: Progress = TypeAdapter(Progress).validate_python(read_json(source / "progress.json"))
            if saved.best_epoch is not None and saved.best_epoch > len(saved.history):
                raise ValueError(f"best_epoch is {saved.best_epoch}, but only {len(saved.history)} epochs are finished")
            check_settings(self.folder.parent, {"data": self.progress.data}, {"data": saved.data})
            for name, model in self.models.items():
                load_weights(model, source / f"{name}.safetensors")
            for name, optimizer in self.optimizers.items():
                optimizer.restore(load_tensors(source / f"{name}.optimizer.safetensors"), saved.steps[name])
            for name, arrays in self.arrays.items():
                tensors = load_tensors(source / f"{name}.arrays.safetensors")
                arrays.update((key, tensor.numpy()) for key, tensor in tensors.items())
        except CogltxError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:_MAX_REASON]}"
            raise ModelError(f"{source}: the checkpoint is damaged or of another run: {reason}") from error
        self.progress = saved

    def save(self) -> None:
        """Write a checkpoint, then remove the previous one; raises TrainingError if the disk is full."""
        if processes.is_first():
            self._save()
        processes.wait()
        self.saved_at = monotonic()

    def save_if_due(self) -> None:
        """Write a checkpoint if the last one is two minutes old, by the clock of the first process."""
        due = processes.is_first() and monotonic() - self.saved_at >= CHECKPOINT_SECONDS
        if processes.total([float(due)])[0] > 0:
            self.save()

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Defer an interrupt to the end of what changes model and progress together."""
        with self.interrupts.deferred(self.display.report):
            self._in_step = True
            yield
            self._in_step = False
        if processes.total([float(self.interrupts.wanted)])[0]:
            raise Interrupted(signal=self.interrupts.wanted or signal.SIGINT)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Write a checkpoint at an interrupt if no step was in progress."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self.display.close()
            if processes.is_first() and not self._in_step:
                self._save()
            number = interrupt.signal if isinstance(interrupt, Interrupted) else signal.SIGINT
            raise Interrupted(signal=number, is_saved=not self._in_step) from interrupt
        except BaseException:
            self.display.close()
            raise

    def _save(self) -> None:
        previous = self._numbers()
        self.progress.logged = self.log.size
        self.progress.steps = {name: optimizer.step for name, optimizer in self.optimizers.items()}
        files = {name: self.weights.get(name, model.state_dict()) for name, model in self.models.items()}
        files |= {f"{name}.optimizer": optimizer.state() for name, optimizer in self.optimizers.items()}
        for name, arrays in self.arrays.items():
            files[f"{name}.arrays"] = {key: torch.from_numpy(array) for key, array in arrays.items()}
        with new_folder(self.folder / f"{(previous[-1] + 1 if previous else 0):06d}") as target:
            for name, tensors in files.items():
                (target / f"{name}.safetensors").write_bytes(to_safetensors(tensors))
            write_json(target / "progress.json", asdict(self.progress))
        self._remove(previous)

    def _remove(self, numbers: Sequence[int]) -> None:
        if processes.is_first():
            for number in numbers:
                shutil.rmtree(self.folder / f"{number:06d}", ignore_errors=True)

    def steps(
        self,
        total: int,
        name: str,
        step: Callable[[int], float | None],
        epoch: Callable[[int], int],
        after: Callable[[float | None], bool] = lambda loss: True,
        kind: str = "",
    ) -> None:
        """Run the remaining steps of a phase, for which ``display.begin`` was called.

        Args:
            total: number of steps of the phase.
            name: name of the optimizer, for the log.
            step: runs a step; returns the loss, None if there was nothing to learn.
            epoch: the epoch of a step, for the log.
            after: called with the loss after every step, before a checkpoint; False ends the phase.
            kind: kind of work for the estimate; the name by default.

        Raises:
            Interrupted: the training was interrupted after a step.
        """
        goes_on = True
        while self.progress.batch < total and goes_on:
            number = self.progress.batch
            with self.uninterrupted():
                self._seed_step()
                loss = step(number)
                self.progress.batch = number + 1
                if loss is not None:
                    self.log.add(epoch(number), self.optimizers[name].step, {f"{name}/loss": loss})
                goes_on = after(loss)
                self.display.advance(kind or name, loss=loss)
                if self.progress.batch < total and goes_on:
                    self.save_if_due()

    def _seed_step(self) -> None:
        """Seed torch, whose random numbers are those of dropout, for the next step of this process."""
        at = self.progress
        entropy = np.random.SeedSequence([self.seed, at.epoch, at.phase, at.batch, processes.rank()])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0]))


class _Log:
    """The log in the folder of a run: ``log.jsonl`` and, where it is installed, TensorBoard.

    Of several processes, the first keeps it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.jsonl"
        self.writer: Any = None

    def open(self, size: int) -> None:
        """Begin to write; lines beyond ``size`` bytes of ``log.jsonl`` are removed: their steps will be repeated."""
        if not processes.is_first():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.size > size:
            os.truncate(self.path, size)
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.path.with_name("tensorboard")))

    def add(self, epoch: int, step: int, values: Mapping[str, float]) -> None:
        """Add the figures of one step; raises TrainingError if the log cannot be written."""
        if not processes.is_first():
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": epoch, "step": step, **values}) + "\n")
            for name, value in values.items() if self.writer is not None else ():
                self.writer.add_scalar(name, value, step)
        except OSError as error:
            reason = error.strerror
            raise TrainingError(f"{self.path}: cannot be written: {reason}; the last checkpoint is kept") from error

    @property
    def size(self) -> int:
        """Size of ``log.jsonl`` in bytes."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def close(self) -> None:
        """Close the TensorBoard files."""
        if self.writer is not None:
            self.writer.close()
