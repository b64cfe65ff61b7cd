"""Training of judge and reasoner, and masked-LM training of encoders.

    model = train({"reasoner": {"name": "classification"}, "training": {"epochs": 2}}, examples)

Each name is imported when it is first used, so that importing the package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cogltx.training.config import DataConfig, RunConfig, TrainingConfig
    from cogltx.training.run import train
    from cogltx.training.trainer import Trainer

__all__ = ["DataConfig", "RunConfig", "Trainer", "TrainingConfig", "train"]


def __getattr__(name: str) -> object:
    modules = {"train": "run", "Trainer": "trainer"}
    if name not in __all__:
        raise AttributeError(f"module 'cogltx.training' has no attribute {name!r}")
    return getattr(import_module(f"cogltx.training.{modules.get(name, 'config')}"), name)
