"""The log of a run: one JSON line per step in ``log.jsonl``, and TensorBoard files if it is installed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cogltx.errors import TrainingError


class Log:
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
