"""The optimizer of one model: parameter groups, learning-rate schedule, and one step on a batch of windows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor, nn

from cogltx import _processes as processes
from cogltx.encoding.encoder import Batch, BatchRunner, batches, padded_length
from cogltx.encoding.layout import Window
from cogltx.errors import TrainingError

_ENCODER = "encoder."
_GROUPS_PER_PROCESS = 2  # forward passes of a step; more share the work better, fewer cost less each
_WARMUP = 0.1  # share of the steps in which the learning rate increases from zero
FLOOR = 0.1  # the learning rate decays to this share of its peak
_WEIGHT_DECAY = 0.01
_MAX_GRADIENT_NORM = 1.0  # larger gradients are scaled down

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
"""Seed of all random choices of a training."""


class OptimizerConfig(BaseModel):
    """Settings of the optimizer of one model.

    Attributes:
        learning_rate: peak learning rate.
        head_rate: learning rate of the parameters outside the pretrained encoder, as a multiple of ``learning_rate``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate: float = Field(gt=0)
    head_rate: float = Field(1.0, gt=0)

    @staticmethod
    def fill(**values: float) -> BeforeValidator:
        """Fill in the values that a configuration does not set."""
        return BeforeValidator(lambda given: {**values, **given} if isinstance(given, Mapping) else given)


def _rate(step: int, steps: int) -> float:
    """Learning rate as a share of its peak: linear warmup, then linear decay to a tenth (CogLTX, appendix).

    >>> [round(_rate(step, 20), 2) for step in (0, 1, 2, 20)]
    [0.5, 1.0, 1.0, 0.1]
    """
    # not transformers.get_wsd_schedule: its warmup begins with a step at rate 0
    n_warmup = max(1, round(steps * _WARMUP))
    if step < n_warmup:
        return (step + 1) / n_warmup
    return 1 - (1 - FLOOR) * (step - n_warmup) / max(1, steps - n_warmup)


def _groups(model: nn.Module, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Parameter groups by weight decay (none for biases and norms) and learning rate (encoder or head)."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    pretrained = any(name.startswith(_ENCODER) for name, _ in named)
    groups: list[dict[str, Any]] = []
    for is_head, multiple in ((False, 1.0), (True, config.head_rate)):
        parameters = [p for name, p in named if (pretrained and not name.startswith(_ENCODER)) == is_head]
        for is_matrix, weight_decay in ((True, _WEIGHT_DECAY), (False, 0.0)):
            chosen = [p for p in parameters if (p.ndim > 1) == is_matrix]
            groups.append({"params": chosen, "weight_decay": weight_decay, "multiple": multiple})
    return [group for group in groups if group["params"]]


class Optimizer:
    """Trains one model with AdamW; gradients of several forward passes of the runner's size are accumulated.

    Several processes share the forward passes of a step (``cogltx._processes``).
    """

    def __init__(self, name: str, model: nn.Module, config: OptimizerConfig, steps: int, runner: BatchRunner) -> None:
        self.name, self.config, self.steps, self.runner = name, config, steps, runner
        self.optimizer = torch.optim.AdamW(_groups(model, config), lr=config.learning_rate, fused=True)
        self.model = model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.step = 0

    def learn(
        self,
        windows: Sequence[Window],
        loss: Callable[[nn.Module, Batch, list[int]], Tensor],
        divisor: float,
        groups: Sequence[list[int]] | None = None,
    ) -> float:
        """Run one optimizer step on a batch of windows; returns the mean loss.

        Args:
            windows: windows of any length and document.
            loss: returns the summed loss of the windows with the given indices, from the model and their tensors.
            divisor: divisor of the sum over the batch.
            groups: indices of windows that share a forward pass; None: any.

        Raises:
            TrainingError: the loss or a gradient is not finite; the model is unchanged.
        """
        self.model.train()
        lengths = [padded_length(len(window)) for window in windows]
        if groups is None:
            tokens = self.runner.batch_tokens
            if processes.count() > 1:
                tokens = min(tokens, sum(lengths) // (_GROUPS_PER_PROCESS * processes.count()))
            groups = batches(windows, tokens, self.runner.training_padding)
        costs, total = [sum(lengths[index] for index in group) for group in groups], 0.0
        for number in processes.local_share(processes.share(costs)):
            batch = self.runner.tensors([windows[index] for index in groups[number]])
            with self.runner.precision.autocast():
                value = loss(self.model, batch, groups[number]) / divisor
            total += float(value.detach())
            if torch.isfinite(value):
                value.backward()
        (total,) = processes.total([total])
        self._check_finite("loss", total)
        processes.add_gradients(self.parameters)
        self._check_finite("gradient norm", float(nn.utils.clip_grad_norm_(self.parameters, _MAX_GRADIENT_NORM)))
        share = _rate(self.step, self.steps)
        for slots in self.optimizer.param_groups:
            slots["lr"] = slots["multiple"] * self.config.learning_rate * share
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return total

    def _check_finite(self, quantity: str, value: float) -> None:
        if not math.isfinite(value):
            self.optimizer.zero_grad()
            raise TrainingError(
                f"{self.name}: the {quantity} is {value} at step {self.step + 1}; the last checkpoint is kept"
            )

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state as plain tensors."""
        state = self.optimizer.state_dict()["state"]
        return {f"{index}.{key}": value for index, slots in state.items() for key, value in slots.items()}

    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """Load a saved state; raises ValueError if it is not of this optimizer after so many steps."""
        if step and not tensors:
            raise ValueError(f"{self.name}: the optimizer's state is empty after {step} steps")
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            number, _, key = name.partition(".")
            slots.setdefault(int(number), {})[key] = value
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for index, slot in slots.items():
            if slot["exp_avg"].shape != parameters[index].shape:
                raise ValueError(f"{self.name}: the optimizer's state belongs to another model")
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.step = step
