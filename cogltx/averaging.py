"""The mean of the weights of several trained models: one model that reads as fast as each of them.

Models that started from the same weights and differ in the seed of their training make different errors; their mean
makes fewer ("model soup", Wortsman et al. 2022, arXiv:2203.05482).
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from cogltx.errors import ConfigError, shorten
from cogltx.model import Model, ModelConfig
from cogltx.progress import progress

_CHOSEN = ("threshold", "linear_weight")  # settings that training chooses, on validation examples


def average(folders: Sequence[Path]) -> Model:
    """Average the weights of models, and the thresholds that their trainings have chosen.

    Args:
        folders: model folders, two or more. A linear model of words and one of pairs are those of the first.

    Raises:
        ConfigError: there are less than two models, or their configurations differ in what was given to their
            trainings.
        ModelError: a folder is incomplete, or its model has other labels or weights of other shapes.
    """
    if len(folders) < 2:
        raise ConfigError("average: name at least two models; they may differ in the seed of their training")
    configs = [ModelConfig.load(folder).model_dump(mode="json") for folder in folders]
    mean = Model.load(folders[0], ModelConfig.model_validate(_mean_config(configs)))
    states = {name: module.state_dict() for name, module in mean.modules.items()}
    for count, folder in enumerate(progress(folders[1:], "average", unit="models"), start=2):
        for name, module in Model.load(folder).modules.items():
            states[name] = {
                key: torch.lerp(states[name][key], value, 1 / count) if value.is_floating_point() else value
                for key, value in module.state_dict().items()
            }
    for name, module in mean.modules.items():
        module.load_state_dict(states[name])
    return mean


def _mean_config(values: Sequence[Any], setting: str = "") -> Any:
    """Merge configurations that differ only in what training has chosen, of which the mean is taken."""
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
        return {key: _mean_config([value[key] for value in values], f"{setting}.{key}") for key in first}
    chosen = [value for value in values if value is not None]  # None: nothing to choose it on
    if any(name in setting for name in _CHOSEN) and all(isinstance(value, float) for value in chosen):
        return fmean(chosen)
    given = " and ".join(dict.fromkeys(map(shorten, values)))
    raise ConfigError(
        f"{setting.removeprefix('.')} is {given}; average models that differ in the seed of their training alone"
    )
