"""The training loop: progress bar, log, checkpoints and exact resume, for joint and masked-LM training."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from cogltx.errors import TrainingError
from cogltx.training.checkpoints import Checkpoints, Progress
from cogltx.training.optimizer import Optimizer

_N_AVERAGED = 20  # recent losses in the progress bar


class TrainingLoop:
    """Runs optimizer steps; a killed run that is resumed ends at the same weights.

    Args:
        output: folder of the run.
        data: fingerprint of the data.
        models: models in training, by name.
        optimizers: their optimizers.
        checkpoint_steps: steps between checkpoints.
        arrays: other state in each checkpoint: by name, one array per example.
    """

    def __init__(
        self,
        output: Path,
        data: str,
        models: Mapping[str, nn.Module],
        optimizers: Mapping[str, Optimizer],
        checkpoint_steps: int,
        arrays: Mapping[str, dict[int, np.ndarray]] | None = None,
    ) -> None:
        self.models, self.optimizers, self.checkpoint_steps = models, optimizers, checkpoint_steps
        self.arrays = arrays or {}
        self.checkpoints, self.log = Checkpoints(output / "checkpoints"), _Log(output)
        self.progress = Progress(data=data)

    def start(self, seed: int, *, resume: bool) -> bool:
        """Seed torch and, to resume, load the last checkpoint; returns whether there was one."""
        torch.manual_seed(seed)
        if not resume or not self.checkpoints.exists():
            self.log.truncate(0)
            return False
        self.progress, arrays = self.checkpoints.load(self.models, self.optimizers, self.progress.data)
        self.log.truncate(self.progress.logged)
        for name, saved in self.arrays.items():
            saved.update(arrays.get(name, {}))
        return True

    def save(self) -> None:
        """Write a checkpoint."""
        self.progress.logged = self.log.size
        self.checkpoints.save(self.progress, self.models, self.optimizers, self.arrays)

    def steps(
        self,
        total: int,
        name: str,
        title: str,
        step: Callable[[int], float | None],
        epoch: Callable[[int], int],
        after: Callable[[], None] = lambda: None,
    ) -> list[float]:
        """Run the remaining steps of a phase and return their losses.

        Args:
            total: number of steps in the phase.
            name: name of the model in training.
            title: text of the progress bar.
            step: runs a step, given its number; returns the loss, None if there was nothing to learn.
            epoch: returns the epoch of a step, for the log.
            after: called after every step, before a checkpoint.
        """
        losses: list[float] = []
        with tqdm(total=total, initial=self.progress.batch, desc=title, disable=None, leave=False) as bar:
            for number in range(self.progress.batch, total):
                loss = step(number)
                self.progress.batch = number + 1
                if loss is not None:
                    losses.append(loss)
                    self.log.add(epoch(number), self.optimizers[name].step, {f"{name}/loss": loss})
                    bar.set_postfix(loss=f"{np.mean(losses[-_N_AVERAGED:]):.3f}")
                bar.update()
                after()
                if self.progress.batch % self.checkpoint_steps == 0 and self.progress.batch < total:
                    self.save()
        return losses


class _Log:
    """Writes the log of a run.

    Args:
        folder: folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self.writer = _writer(folder)

    def add(self, epoch: int, step: int, values: Mapping[str, float]) -> None:
        """Add the figures of one step.

        Raises:
            TrainingError: the log cannot be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": epoch, "step": step, **values}) + "\n")
        except OSError as error:
            reason = error.strerror
            raise TrainingError(f"{self.path}: cannot be written: {reason}; the last checkpoint is kept") from error
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    @property
    def size(self) -> int:
        """Size of ``log.jsonl`` in bytes."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def truncate(self, size: int) -> None:
        """Remove the lines of steps that will be repeated; ``size`` is that of ``log.jsonl`` before them."""
        if self.size > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        """Close the TensorBoard files."""
        if self.writer is not None:
            self.writer.close()


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))
