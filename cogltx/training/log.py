"""A run's log: a JSON line a step in ``log.jsonl``, and TensorBoard's files where that is installed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cogltx.errors import TrainingError


class Log:
    """Writes a run's log.

    Args:
        folder: the run's.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self.writer = _writer(folder)

    def add(self, epoch: int, step: int, values: Mapping[str, float]) -> None:
        """Adds numbers of one step.

        Raises:
            TrainingError: the log cannot be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": epoch, "step": step, **values}) + "\n")
        except OSError as error:
            reason = error.strerror
            raise TrainingError(f"{self.path}: expected to save, got: {reason}; the last checkpoint is kept") from error
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    @property
    def size(self) -> int:
        """Bytes of ``log.jsonl``."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def cut(self, size: int) -> None:
        """Takes back what was added to ``log.jsonl`` since it had so many bytes: the steps will be made again."""
        if self.size > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        """Ends TensorBoard's files."""
        if self.writer is not None:
            self.writer.close()


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))
