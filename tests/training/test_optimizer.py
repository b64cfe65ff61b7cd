"""One optimiser step: the schedule, accumulation, clipping, and losses that are no numbers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, BatchRunner, Precision
from cogltx.encoding.layout import Window
from cogltx.errors import TrainingError
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import FLOOR, Optimizer, OptimizerConfig, _rate

EXACT = Precision(torch.device("cpu"), bfloat16=False)
Loss = Callable[[nn.Module, Batch, list[int]], Tensor]


def windows(*lengths: int) -> list[Window]:
    nothing = [np.full(length, -1, dtype=np.int32) for length in lengths]
    return [Window(np.arange(len(own), dtype=np.int32) % 7, own, own, 1) for own in nothing]


class Table(nn.Module):
    """One number a token."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Embedding(8, 1)
        nn.init.constant_(self.values.weight, 0.5)

    def forward(self, batch: Batch) -> Tensor:
        found: Tensor = self.values(batch.input_ids).squeeze(-1) * batch.attention_mask
        return found


def squared(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
    return (model(batch) ** 2).sum()


def learner(model: nn.Module, *, batch_tokens: int = 4096, steps: int = 20, **options: float) -> Optimizer:
    config = OptimizerConfig(**({"learning_rate": 0.1} | options))
    return Optimizer("table", model, config, steps, BatchRunner(EXACT, batch_tokens, 7))


def test_the_rate_rises_and_falls_to_a_tenth() -> None:
    rates = [_rate(step, 100) for step in range(101)]
    assert rates[:3] == [0.1, 0.2, pytest.approx(0.3)]
    assert max(rates) == rates[9] == rates[10] == 1
    assert np.allclose(np.diff(rates[10:]), -(1 - FLOOR) / 90)
    assert rates[100] == pytest.approx(FLOOR)
    assert [_rate(step, 1) for step in range(2)] == [1, 1]


def test_every_step_sets_the_rate() -> None:
    model = Table()
    made = learner(model, steps=10)
    found = []
    for _ in range(10):
        made.learn(windows(5), squared, 1.0)
        found.append(made.optimizer.param_groups[0]["lr"])
    assert found == [pytest.approx(0.1 * _rate(step, 10)) for step in range(10)]
    assert made.step == 10


def test_a_batch_in_parts_equals_a_batch_at_once() -> None:
    results = []
    for batch_tokens in (64, 128, 4096):
        model = Table()
        made = learner(model, batch_tokens=batch_tokens)
        losses = [made.learn(windows(5, 60, 100, 3, 70), squared, 238.0) for _ in range(4)]
        results.append((losses, model.values.weight.detach().clone()))
    for losses, weight in results[1:]:
        assert losses == pytest.approx(results[0][0])
        torch.testing.assert_close(weight, results[0][1])
    assert results[0][0] == sorted(results[0][0], reverse=True)


def test_long_gradients_are_clipped() -> None:
    def gradient(scale: float) -> float:
        made = learner(Table(), learning_rate=1.0)
        norms = []
        real = made.optimizer.step

        def step() -> None:
            norms.append(float(sum((p.grad**2).sum() for p in made.parameters) ** 0.5))
            real()

        made.optimizer.step = step  # type: ignore[method-assign]
        made.learn(windows(60), squared, scale)
        return norms[0]

    assert gradient(1.0) == pytest.approx(1.0, rel=1e-3)
    assert gradient(1e3) < 0.1


def test_biases_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    made = learner(model)
    decays = {id(p): group["weight_decay"] for group in made.optimizer.param_groups for p in group["params"]}
    assert {name: decays[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.01, "0.bias": 0.0, "1.weight": 0.0, "1.bias": 0.0,
    }  # fmt: skip


def test_frozen_weights_stay() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    made = learner(model)
    assert {id(p) for p in made.parameters} == {id(p) for p in model[1].parameters()}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite(value: float) -> None:
    model = Table()
    made = learner(model, batch_tokens=8)
    made.learn(windows(5), squared, 1.0)
    before = model.values.weight.detach().clone()
    calls = []

    def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
        calls.append(group)
        return squared(model, batch, group) * (value if len(calls) == 2 else 1.0)

    wording = f"^table: the loss is {value} at step 2; the last checkpoint is kept$"
    with pytest.raises(TrainingError, match=wording):
        made.learn(windows(5, 6), loss, 1.0)
    assert torch.equal(model.values.weight, before)
    assert made.step == 1


def test_a_gradient_that_is_not_finite() -> None:
    model = Table()
    nn.init.zeros_(model.values.weight)
    made = learner(model)

    def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
        return model(batch).abs().sqrt().sum()

    with pytest.raises(TrainingError, match="^table: the gradient norm is (nan|inf) at step 1; the last checkp"):
        made.learn(windows(5), loss, 1.0)
    assert not model.values.weight.any()


def test_the_state_comes_back() -> None:
    first, second = Table(), Table()
    one, two = learner(first), learner(second)
    for _ in range(3):
        one.learn(windows(5, 9), squared, 1.0)
    second.load_state_dict(first.state_dict())
    two.restore({name: value.clone() for name, value in one.state().items()}, one.step)
    for made in (one, two):
        made.learn(windows(7), squared, 1.0)
    assert torch.equal(first.values.weight, second.values.weight)
    assert one.step == two.step == 4


def test_what_a_configuration_does_not_set_has_its_default() -> None:
    config = TrainingConfig(reasoner={"head_rate": 10}, judge={"learning_rate": 1e-3})
    assert (config.reasoner.learning_rate, config.reasoner.head_rate) == (1e-4, 10)
    assert (config.judge.learning_rate, config.judge.head_rate) == (1e-3, 1)
