"""Checkpoints: everything that a killed run needs to end at the same weights as an undisturbed one.

A checkpoint is a folder that appears whole or not at all; the one before goes only when the next is there.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeInt, TypeAdapter
from torch import Tensor, nn

from cogltx.encoding.weights import load_tensors, load_weights, save_tensors
from cogltx.errors import CogltxError, ModelError
from cogltx.files import check_settings, new_folder, read_json, write_json
from cogltx.training.optimizer import Learner

_SHOWN = 200


@dataclass
class Progress:
    """How far a run has come.

    Attributes:
        data: what tells the data that it learns from and is measured on from all other.
        epoch: the epoch under way, from 0.
        phase: index of the phase under way within the epoch.
        batch: batches done in the phase.
        steps: optimiser steps done by each learner.
        history: the validation metrics of every epoch that ended.
        best_epoch: index of the best of them.
        logged: bytes of the run's log.
    """

    data: str = ""
    epoch: NonNegativeInt = 0
    phase: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    steps: dict[str, int] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: NonNegativeInt | None = None
    logged: NonNegativeInt = 0


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: holds one folder a checkpoint, named by number.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def exists(self) -> bool:
        """Whether there is one."""
        return bool(self._numbers())

    def save(
        self,
        progress: Progress,
        models: Mapping[str, nn.Module],
        learners: Mapping[str, Learner],
        arrays: Mapping[str, Mapping[int, np.ndarray]],
    ) -> None:
        """Writes a checkpoint and removes the one before.

        Args:
            progress: how far the run has come.
            models: in training, by name.
            learners: theirs.
            arrays: what else the run knows of its examples: by name, one array an example.

        Raises:
            TrainingError: the disk is full; the checkpoint before is kept.
        """
        before = self._numbers()
        progress.steps = {name: learner.step for name, learner in learners.items()}
        with new_folder(self.folder / f"{(before[-1] + 1 if before else 0):06d}") as target:
            for name, model in models.items():
                save_tensors(target / f"{name}.safetensors", model.state_dict())
            for name, learner in learners.items():
                save_tensors(target / f"{name}.optimizer.safetensors", learner.state())
            for name, own in arrays.items():
                found = {str(index): torch.from_numpy(values) for index, values in own.items()}
                save_tensors(target / f"{name}.arrays.safetensors", found)
            save_tensors(target / "random.safetensors", _random_state())
            write_json(target / "progress.json", asdict(progress))
        for number in before:
            shutil.rmtree(self.folder / f"{number:06d}", ignore_errors=True)

    def load(
        self, models: Mapping[str, nn.Module], learners: Mapping[str, Learner], data: str = ""
    ) -> tuple[Progress, dict[str, dict[int, np.ndarray]]]:
        """Restores the latest checkpoint.

        Args:
            models: take up their weights.
            learners: theirs.
            data: what tells the data at hand from all other; see ``Progress``.

        Raises:
            ConfigError: the run began with other data.
            ModelError: it is damaged or of another model.
        """
        source = self.folder / f"{self._numbers()[-1]:06d}"
        try:
            progress = _progress(source / "progress.json")
            check_settings(self.folder.parent, {"data": data}, {"data": progress.data})
            for name, model in models.items():
                load_weights(model, source / f"{name}.safetensors")
            for name, learner in learners.items():
                learner.restore(load_tensors(source / f"{name}.optimizer.safetensors"), progress.steps[name])
            random = load_tensors(source / "random.safetensors")
            torch.set_rng_state(random["cpu"])
            if torch.cuda.is_available() and "cuda" in random:
                torch.cuda.set_rng_state(random["cuda"])
            arrays = {
                path.name.removesuffix(".arrays.safetensors"): {
                    int(index): found.numpy() for index, found in load_tensors(path).items()
                }
                for path in source.glob("*.arrays.safetensors")
            }
        except CogltxError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            got = f"{type(error).__name__}: {' '.join(str(error).split())[:_SHOWN]}"
            raise ModelError(f"{source}: expected a whole checkpoint of this run, got {got}") from error
        return progress, arrays


def _progress(path: Path) -> Progress:
    progress: Progress = TypeAdapter(Progress).validate_python(read_json(path))
    if progress.best_epoch is not None and progress.best_epoch >= len(progress.history):
        raise ValueError(f"best_epoch: expected one of {len(progress.history)} epochs, got {progress.best_epoch}")
    return progress


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
