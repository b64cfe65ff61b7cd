"""One model in training: its optimiser, its schedule, one step on a batch of windows.

Knows neither documents nor what the windows hold.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import torch
from accelerate import Accelerator
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, Precision, batches, to_batch
from cogltx.encoding.layout import Window
from cogltx.errors import TrainingError

_ENCODER = "encoder."
_A_PASS = 128  # a pass through the encoder and back costs about as much as so many tokens more in another
FLOOR = 0.1  # the share of the peak that the learning rate decays to

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
"""Of every draw of a training."""


class LearnerConfig(BaseModel):
    """How one model is trained (defaults: the paper's).

    Attributes:
        learning_rate: at its peak.
        head_rate: the learning rate of what is not the pre-trained encoder, as a multiple of that.
        warmup: share of the steps in which the rate rises from zero.
        weight_decay: of AdamW.
        max_gradient_norm: longer gradients are scaled to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate: float = Field(gt=0)
    head_rate: float = Field(1.0, gt=0)
    warmup: float = Field(0.1, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    max_gradient_norm: float = Field(1.0, gt=0)


def default_rate(rate: float) -> BeforeValidator:
    """Fills in the learning rate of a learner of which a configuration names other values alone."""
    return BeforeValidator(lambda given: {"learning_rate": rate, **given} if isinstance(given, Mapping) else given)


def rate(step: int, steps: int, warmup: float) -> float:
    """The learning rate as a share of its peak: linear warm-up, then linear decay to a tenth (paper, appendix).

    >>> [round(rate(step, 20, 0.1), 2) for step in (0, 1, 2, 20)]
    [0.5, 1.0, 1.0, 0.1]
    """
    rising = max(1, round(steps * warmup))
    if step < rising:
        return (step + 1) / rising
    return 1 - (1 - FLOOR) * (step - rising) / max(1, steps - rising)


def _groups(model: nn.Module, config: LearnerConfig) -> list[dict[str, Any]]:
    """Parameters by weight decay (none for biases and norms), and by whether they belong to the encoder."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    pretrained = any(name.startswith(_ENCODER) for name, _ in named)
    groups: list[dict[str, Any]] = []
    for is_head in (False, True):
        own = [p for name, p in named if (pretrained and not name.startswith(_ENCODER)) == is_head]
        multiple = config.head_rate if is_head else 1.0
        groups.append(
            {"params": [p for p in own if p.ndim > 1], "weight_decay": config.weight_decay, "multiple": multiple}
        )
        groups.append({"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, "multiple": multiple})
    return [group for group in groups if group["params"]]


class Learner:
    """Trains one model.

    Args:
        name: for messages.
        model: what is trained.
        config: how.
        steps: optimiser steps of the whole run.
        accelerator: of the run.
        precision: device and arithmetic.
        batch_tokens: most tokens in one forward pass; a batch of windows is gathered from as many as it needs.
        padding_id: vocabulary index of padding.
    """

    def __init__(
        self, name: str, model: nn.Module, config: LearnerConfig, steps: int, accelerator: Accelerator,
        precision: Precision, batch_tokens: int, padding_id: int,
    ) -> None:  # fmt: skip
        self.name, self.config, self.steps = name, config, steps
        self.precision, self.batch_tokens, self.padding_id = precision, batch_tokens, padding_id
        self.accelerator = accelerator
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(_groups(model, config), lr=config.learning_rate, fused=True)
        self.model = accelerator.prepare_model(model)
        self.parameters = trained
        self.step = 0

    def learn(
        self,
        windows: Sequence[Window],
        loss: Callable[[nn.Module, Batch, list[int]], Tensor],
        divisor: float,
        groups: Sequence[list[int]] | None = None,
    ) -> float:
        """One optimiser step on a batch of windows.

        Args:
            windows: of any length and documents.
            loss: the summed loss of the windows with the given indices, from the model and their tensors.
            divisor: what the sum over the whole batch is divided by.
            groups: indices of windows that must share a forward pass; None: any.

        Returns:
            the mean loss.

        Raises:
            TrainingError: the loss is not finite; the model is as it was.
        """
        self.model.train()
        total = 0.0
        groups = batches(windows, self.batch_tokens, _A_PASS) if groups is None else groups
        for number, group in enumerate(groups):
            batch = to_batch([windows[index] for index in group], self.padding_id, self.precision.device)
            with self._synchronised(last=number == len(groups) - 1):
                with self.precision.autocast():
                    value = loss(self.model, batch, group) / divisor
                total += float(value.detach())
                if not torch.isfinite(value):
                    self.optimizer.zero_grad()
                    raise TrainingError(
                        f"{self.name}: expected a finite loss, got {float(value.detach())} at step {self.step + 1}; "
                        "the last checkpoint is kept"
                    )
                self.accelerator.backward(value)
        norm = self.accelerator.clip_grad_norm_(self.parameters, self.config.max_gradient_norm)
        if norm is not None and not torch.isfinite(norm):
            self.optimizer.zero_grad()
            raise TrainingError(
                f"{self.name}: expected finite gradients, got {float(norm)} at step {self.step + 1}; "
                "the last checkpoint is kept"
            )
        for slots in self.optimizer.param_groups:
            slots["lr"] = (
                slots["multiple"] * self.config.learning_rate * rate(self.step, self.steps, self.config.warmup)
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return total

    def _synchronised(self, *, last: bool) -> Any:
        from contextlib import nullcontext

        return nullcontext() if last else self.accelerator.no_sync(self.model)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's state as plain tensors."""
        return {
            f"{index}.{key}": value
            for index, slots in self.optimizer.state_dict()["state"].items()
            for key, value in slots.items()
        }  # fmt: skip

    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """Takes up a saved state.

        Raises:
            ValueError: it is none of this optimiser after so many steps.
        """
        if step and not tensors:
            raise ValueError(f"{self.name}: expected the optimiser's state after {step} steps, got an empty one")
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            index, _, key = name.partition(".")
            slots.setdefault(int(index), {})[key] = value
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for place, own in slots.items():
            if own["exp_avg"].shape != parameters[place].shape:
                raise ValueError(f"{self.name}: expected the optimiser's state of this model, got another's")
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.step = step
