"""Callbacks of ``transformers``: they receive the figures of a training, and may end it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cogltx import _processes as processes


class Callbacks:
    """Calls callbacks as ``transformers.Trainer`` does; only in the first of several processes.

    Args:
        callbacks: ``TrainerCallback`` objects.
        model: what they receive as ``model``.
        output: the folder of the run.
        metric: the metric that selects the best epoch, ``eval_…`` in the metrics.
        epochs: number of epochs.
        steps: number of optimizer steps of the reasoner per epoch.
    """

    def __init__(
        self, callbacks: Sequence[Any], model: Any, *, output: Path, metric: str, epochs: int, steps: int
    ) -> None:
        self._callbacks = [one() if isinstance(one, type) else one for one in callbacks] if processes.is_first() else []
        if not self._callbacks:
            return
        from transformers import TrainerControl, TrainerState, TrainingArguments

        self._model, self._metric, self._n_steps = model, f"eval_{metric}", steps
        self._arguments = TrainingArguments(
            output_dir=str(output), num_train_epochs=epochs, eval_strategy="epoch", save_strategy="epoch",
            load_best_model_at_end=True, metric_for_best_model=self._metric, greater_is_better=True,
            report_to="none", logging_steps=1,
        )  # fmt: skip
        self._state = TrainerState(num_train_epochs=epochs, max_steps=epochs * steps, logging_steps=1)
        self._control = TrainerControl()
        self._call("on_init_end")

    def _call(self, event: str, **values: Any) -> None:
        for one in self._callbacks:
            changed = getattr(one, event)(self._arguments, self._state, self._control, model=self._model, **values)
            self._control = changed or self._control

    def begin(self, start: Mapping[str, float], history: Sequence[Mapping[str, float]], n_steps_done: int) -> None:
        """Begin, or resume after some steps of the reasoner and epochs, whose metrics are not logged again."""
        self._call("on_train_begin")
        for epoch, metrics in enumerate([start, *history] if start else history, start=0 if start else 1):
            self.evaluated(epoch, metrics, logged=True)
        if self._callbacks:
            self._state.global_step = n_steps_done

    def step(self, name: str, epoch: int, loss: float | None) -> bool:
        """Report an optimizer step of a model; return False if a callback stops the training."""
        if not self._callbacks:
            return self._agreed()
        if name == "reasoner":
            self._state.global_step += 1
            self._state.epoch = self._state.global_step / self._n_steps
        if loss is not None:
            logs = {"loss": loss, "epoch": float(epoch)} if name == "reasoner" else {f"{name}_loss": loss}
            self._log(logs)
        self._call("on_step_end")
        return self._agreed()

    def evaluated(self, epoch: int, metrics: Mapping[str, float], *, logged: bool = False) -> bool:
        """Report the metrics of an epoch, 0 for the start; return False if a callback stops the training."""
        if self._callbacks:
            named = {f"eval_{name}": value for name, value in metrics.items()} | {"epoch": float(epoch)}
            self._state.epoch = float(epoch)
            self._state.global_step = max(self._state.global_step, epoch * self._n_steps)
            self._log(named, logged=logged)
            self._call("on_evaluate", metrics=named)
            if self._state.best_metric is None or named[self._metric] > self._state.best_metric:
                self._state.best_metric = named[self._metric]
            if epoch:
                self._call("on_epoch_end")
        return self._agreed()

    def _log(self, logs: dict[str, float], *, logged: bool = False) -> None:
        self._state.log_history.append({**logs, "step": self._state.global_step})
        if not logged:
            self._call("on_log", logs=logs)

    def end(self) -> None:
        """Report the end of the training."""
        self._call("on_train_end")

    def _agreed(self) -> bool:
        """Whether no callback wants the training to end, in all processes."""
        stops = bool(self._callbacks) and self._control.should_training_stop
        return not processes.total([float(stops)])[0]
