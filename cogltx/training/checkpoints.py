"""Checkpoints: all state from which a killed run ends at the same weights as an uninterrupted one.

A checkpoint is written atomically; the previous one is removed afterwards.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeInt, TypeAdapter
from torch import Tensor, nn

from cogltx.encoding.weights import load_tensors, load_weights, to_safetensors
from cogltx.errors import CogltxError, ModelError
from cogltx.files import check_settings, new_folder, read_json, write_json
from cogltx.training.optimizer import Optimizer

_MAX_REASON = 200


@dataclass
class Progress:
    """Progress of a run.

    Attributes:
        data: fingerprint of the training and validation data.
        epoch: index of the current epoch.
        phase: index of the current phase of the epoch.
        batch: finished batches of the phase.
        steps: finished steps of each optimizer.
        history: validation metrics of every finished epoch.
        best_epoch: index of the best epoch.
        logged: size of the log in bytes.
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
        folder: contains one numbered folder per checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def exists(self) -> bool:
        """Check whether there is a checkpoint."""
        return bool(self._numbers())

    def save(
        self,
        progress: Progress,
        models: Mapping[str, nn.Module],
        optimizers: Mapping[str, Optimizer],
        arrays: Mapping[str, Mapping[int, np.ndarray]],
    ) -> None:
        """Write a checkpoint and remove the previous one.

        Args:
            progress: progress of the run.
            models: models in training, by name.
            optimizers: their optimizers.
            arrays: other state: by name, one array per example.

        Raises:
            TrainingError: the disk is full; the previous checkpoint is kept.
        """
        previous = self._numbers()
        progress.steps = {name: optimizer.step for name, optimizer in optimizers.items()}
        with new_folder(self.folder / f"{(previous[-1] + 1 if previous else 0):06d}") as target:
            for name, model in models.items():
                (target / f"{name}.safetensors").write_bytes(to_safetensors(model.state_dict()))
            for name, optimizer in optimizers.items():
                (target / f"{name}.optimizer.safetensors").write_bytes(to_safetensors(optimizer.state()))
            for name, by_example in arrays.items():
                tensors = {str(index): torch.from_numpy(array) for index, array in by_example.items()}
                (target / f"{name}.arrays.safetensors").write_bytes(to_safetensors(tensors))
            (target / "random.safetensors").write_bytes(to_safetensors(_random_state()))
            write_json(target / "progress.json", asdict(progress))
        for number in previous:
            shutil.rmtree(self.folder / f"{number:06d}", ignore_errors=True)

    def load(
        self, models: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], data: str = ""
    ) -> tuple[Progress, dict[str, dict[int, np.ndarray]]]:
        """Load the latest checkpoint; returns the progress and the arrays.

        Args:
            models: receive their weights.
            optimizers: receive their state.
            data: fingerprint of the present data.

        Raises:
            ConfigError: the run started with other data.
            ModelError: the checkpoint is damaged, or belongs to another model.
        """
        source = self.folder / f"{self._numbers()[-1]:06d}"
        try:
            progress = _progress(source / "progress.json")
            check_settings(self.folder.parent, {"data": data}, {"data": progress.data})
            for name, model in models.items():
                load_weights(model, source / f"{name}.safetensors")
            for name, optimizer in optimizers.items():
                optimizer.restore(load_tensors(source / f"{name}.optimizer.safetensors"), progress.steps[name])
            random = load_tensors(source / "random.safetensors")
            torch.set_rng_state(random["cpu"])
            if torch.cuda.is_available() and "cuda" in random:
                torch.cuda.set_rng_state(random["cuda"])
            arrays = {
                path.name.removesuffix(".arrays.safetensors"): {
                    int(index): array.numpy() for index, array in load_tensors(path).items()
                }
                for path in source.glob("*.arrays.safetensors")
            }
        except CogltxError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:_MAX_REASON]}"
            raise ModelError(f"{source}: the checkpoint is damaged or of another run: {reason}") from error
        return progress, arrays


def _progress(path: Path) -> Progress:
    progress: Progress = TypeAdapter(Progress).validate_python(read_json(path))
    if progress.best_epoch is not None and progress.best_epoch >= len(progress.history):
        raise ValueError(f"best_epoch is {progress.best_epoch}, but only {len(progress.history)} epochs are finished")
    return progress


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
