"""The joint trainer (paper algorithm 1): every epoch first the judge over all examples, then the reasoner.

After each epoch the whole flow is measured on the validation examples; the best epoch is the run's model. A run that
is killed goes on from its last checkpoint and ends at the same weights.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.baselines import SlidingWindow
from cogltx.document import Example
from cogltx.encoder import Batch
from cogltx.errors import ConfigError, DataError, TrainingError
from cogltx.judges.encoder import EncoderJudge, relevance_logits
from cogltx.pipeline import CogLTX, ReadDocument, Reader, batched
from cogltx.prediction import Prediction
from cogltx.reasoners.span import SpanReasoner
from cogltx.storage import write_json
from cogltx.tasks import Task
from cogltx.training.checkpoints import Checkpoints, Progress
from cogltx.training.learner import Learner, LearnerConfig
from cogltx.training.sampling import (
    JudgeTarget,
    ReasonerTarget,
    baseline_window,
    has_relevance,
    judge_windows,
    reasoner_windows,
)


class TrainingConfig(BaseModel):
    """How judge and reasoner are trained.

    Attributes:
        epochs: passes over the training examples.
        batch_size: examples an optimiser step.
        judge: the judge's optimiser (paper: 4e-5).
        reasoner: the reasoner's optimiser (paper: 1e-4).
        judge_passes: passes of the judge within one epoch, each over windows of its own; 0 leaves the judge as it is.
        hard_negatives: whether half of a rehearsal window's irrelevant blocks are, from the second epoch on, those
            that the judge scored highest; random ones only, as in the paper, otherwise.
        reasoner_blocks: what fills the reasoner's windows beside the relevant blocks: the judge's best-scoring
            (``recall``) or any (``random``, the paper's ablation of train-test matching).
        patience: epochs without a better validation metric before training stops; None: never.
        checkpoint_steps: optimiser steps between checkpoints.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(4, ge=1)
    batch_size: int = Field(32, ge=1)
    judge: LearnerConfig = LearnerConfig(learning_rate=4e-5)
    reasoner: LearnerConfig = LearnerConfig(learning_rate=1e-4)
    judge_passes: int = Field(1, ge=0)
    hard_negatives: bool = True
    reasoner_blocks: Literal["recall", "random"] = "recall"
    patience: int | None = Field(None, ge=1)
    checkpoint_steps: int = Field(100, ge=1)
    seed: int = Field(0, ge=0)


@dataclass(frozen=True)
class Summary:
    """What training came to.

    Attributes:
        history: validation metrics after each epoch.
        best_epoch: index of the best.
        skipped: training examples without a known target for the reasoner.
    """

    history: tuple[dict[str, float], ...]
    best_epoch: int
    skipped: int


class Trainer:
    """Trains a reader.

    Args:
        reader: CogLTX or a baseline; its models are trained in place.
        task: measures validation predictions.
        train: training examples.
        validation: examples that choose the best epoch and the threshold for no answer.
        config: how.
        output: the run's folder.
        report: takes one line of progress at a time.

    Raises:
        DataError: there are no training or no validation examples, the judge has no relevance labels to learn from, or
            no validation example has what the task's main metric needs.
    """

    def __init__(
        self,
        reader: Reader,
        task: Task,
        train: Sequence[Example],
        validation: Sequence[Example],
        config: TrainingConfig,
        output: Path,
        report: Callable[[str], None] = print,
    ) -> None:
        self.reader, self.task, self.train_examples, self.validation = reader, task, train, validation
        self.config, self.output, self.report = config, output, report
        self.trains_judge = isinstance(reader.parts.judge, nn.Module) and config.judge_passes > 0
        self._check()
        precision = reader.parts.precision
        self.accelerator = Accelerator(cpu=precision.device.type == "cpu", mixed_precision="no")
        if self.accelerator.num_processes > 1:
            raise ConfigError(f"training: expected one process, got {self.accelerator.num_processes}")
        self.learners = self._learners()
        self.models: dict[str, nn.Module] = {"reasoner": reader.reasoner}
        if isinstance(reader.parts.judge, nn.Module):
            self.models["judge"] = reader.parts.judge
        self.checkpoints = Checkpoints(output / "checkpoints")
        self.progress = Progress()
        self.scores: dict[int, np.ndarray] = {}
        self.skipped: set[str] = set()
        self.writer = _writer(output)

    def _check(self) -> None:
        if not self.train_examples or not self.validation:
            raise DataError(
                "training: expected examples to train on and to validate on, "
                f"got {len(self.train_examples)} and {len(self.validation)}"
            )
        if self.trains_judge and not any(has_relevance(example) for example in self.train_examples):
            raise DataError(
                "training: expected examples with relevance labels to train the judge, got none; "
                "choose judge.name: bm25"
            )
        silent = Prediction(id="", answer="", start=None, end=None, score=0.0)
        if self.task.main_metric not in self.task.metrics((example, silent) for example in self.validation):
            raise DataError(
                f"training: expected validation examples with known answers, for {self.task.main_metric}, got none"
            )

    def _learners(self) -> dict[str, Learner]:
        batches = -(-len(self.train_examples) // self.config.batch_size)
        reader, config = self.reader, self.config

        def learner(name: str, model: nn.Module, own: LearnerConfig, passes: int) -> Learner:
            return Learner(
                name, model, own, batches * config.epochs * passes, self.accelerator, reader.parts.precision,
                reader.config.encoder.batch_tokens, reader.form.padding_id,
            )  # fmt: skip

        learners = {"reasoner": learner("reasoner", reader.reasoner, config.reasoner, 1)}
        if isinstance(reader.parts.judge, nn.Module) and self.trains_judge:
            learners["judge"] = learner("judge", reader.parts.judge, config.judge, config.judge_passes)
        return learners

    def run(self, *, resume: bool = False) -> Summary:
        """Trains to the end and leaves the best epoch's model in the run's folder.

        Args:
            resume: go on from the last checkpoint, if there is one.
        """
        torch.manual_seed(self.config.seed)
        if resume and self.checkpoints.exists():
            self.progress, self.scores = self.checkpoints.load(self.models, self.learners)
            self.report(f"resumed at epoch {self.progress.epoch + 1} of {self.config.epochs}")
        while self.progress.epoch < self.config.epochs and not self._out_of_patience():
            self._epoch()
        if self.writer is not None:
            self.writer.close()
        best = self.progress.best_epoch
        assert best is not None, "a run has at least one epoch"
        return Summary(tuple(self.progress.history), best, len(self.skipped))

    def _out_of_patience(self) -> bool:
        best, patience = self.progress.best_epoch, self.config.patience
        return patience is not None and best is not None and self.progress.epoch - best > patience

    def _epoch(self) -> None:
        for phase, (name, work) in enumerate(self._phases()):
            if phase < self.progress.phase:
                continue
            self._phase(phase, name, work)
            self.progress.phase, self.progress.batch = phase + 1, 0
        self._validate()
        self.progress.epoch, self.progress.phase = self.progress.epoch + 1, 0
        self._keep_best()
        self.checkpoints.save(self.progress, self.models, self.learners, self.scores)

    def _phases(self) -> list[tuple[str, Callable[[list[int], int], float | None]]]:
        judge = [("judge", self._judge_batch)] * (self.config.judge_passes if self.trains_judge else 0)
        return [*judge, ("reasoner", self._reasoner_batch)]

    def _phase(self, phase: int, name: str, work: Callable[[list[int], int], float | None]) -> None:
        epoch = self.progress.epoch
        if name == "reasoner" and epoch == 0 and self.progress.batch == 0:
            self._start_from_judge()
        order = np.random.default_rng([self.config.seed, epoch, phase]).permutation(len(self.train_examples))
        size = self.config.batch_size
        batches = [order[first : first + size].tolist() for first in range(0, len(order), size)]
        losses: list[float] = []
        title = f"epoch {epoch + 1}/{self.config.epochs} {name}"
        with tqdm(total=len(batches), initial=self.progress.batch, desc=title, disable=None, leave=False) as bar:
            for number in range(self.progress.batch, len(batches)):
                loss = work(batches[number], phase)
                self.progress.batch = number + 1
                if loss is not None:
                    losses.append(loss)
                    self._log({f"{name}/loss": loss}, self.learners[name].step)
                    bar.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}")
                bar.update()
                if self.progress.batch % self.config.checkpoint_steps == 0 and self.progress.batch < len(batches):
                    self.checkpoints.save(self.progress, self.models, self.learners, self.scores)
        if losses:
            self.report(f"{title}: loss {np.mean(losses):.4f}")

    def _start_from_judge(self) -> None:
        """The reasoner may start from the judge's encoder after the judge's first passes."""
        judge = self.reader.parts.judge
        if self.reader.config.reasoner.init_from != "judge":
            return
        if not isinstance(judge, EncoderJudge):
            raise ConfigError('reasoner.init_from: expected judge.name "encoder" beside "judge", got another judge')
        self.reader.reasoner.encoder.load_state_dict(judge.encoder.state_dict())

    def _rng(self, index: int, phase: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, self.progress.epoch, phase, index, 1])

    def _judge_batch(self, indices: list[int], phase: int) -> float | None:
        items: list[JudgeTarget] = []
        for index in indices:
            example = self.train_examples[index]
            scores = self.scores.get(index) if self.config.hard_negatives else None
            blocks = self.reader.split(example.document)
            items += judge_windows(example, blocks, self.reader.form, self._rng(index, phase), scores)
        if not items:
            return None
        labels = [item.token_labels() for item in items]
        tokens = sum(float(counts.sum()) for _, counts in labels)

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            logits = relevance_logits(model, batch).float()
            wanted = torch.zeros_like(logits)
            weights = torch.zeros_like(logits)
            for row, index in enumerate(group):
                wanted[row, : len(labels[index][0])] = torch.from_numpy(labels[index][0])
                weights[row, : len(labels[index][0])] = torch.from_numpy(labels[index][1]).float()
            return nn.functional.binary_cross_entropy_with_logits(logits, wanted, weight=weights, reduction="sum")

        return self.learners["judge"].learn([item.window for item in items], loss, tokens)

    def _reasoner_batch(self, indices: list[int], phase: int) -> float | None:
        items = self._reasoner_items(indices, phase)
        if not items:
            return None

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            windows = [items[index].window for index in group]
            return SpanReasoner.losses(model(batch), windows, [items[index].target for index in group]).sum()

        return self.learners["reasoner"].learn([item.window for item in items], loss, len(items))

    def _reasoner_items(self, indices: list[int], phase: int) -> list[ReasonerTarget]:
        reader = self.reader
        examples = [self.train_examples[index] for index in indices]
        rngs = [self._rng(index, phase) for index in indices]
        found: list[ReasonerTarget | None]
        if isinstance(reader, CogLTX):
            judge = reader.judge if self.config.reasoner_blocks == "recall" else None
            documents = [reader.split(example.document) for example in examples]
            found, scores = reasoner_windows(examples, documents, reader.form, judge, rngs)
            if judge is not None and self.trains_judge:
                self.scores.update((index, own.astype(np.float32)) for index, own in zip(indices, scores, strict=True))
        else:
            assert isinstance(reader, SlidingWindow)
            found = [baseline_window(reader, example, rng) for example, rng in zip(examples, rngs, strict=True)]
        self.skipped |= {example.id for example, item in zip(examples, found, strict=True) if item is None}
        return [item for item in found if item is not None]

    def _validate(self) -> None:
        results: list[ReadDocument] = []
        with tqdm(total=len(self.validation), desc="validation", disable=None, leave=False) as bar:
            for batch in batched(self.validation):
                results += self.reader.read(batch)
                bar.update(len(batch))
        self.reader.with_threshold(best_threshold(self.reader, self.task, self.validation, results))
        metrics = self.task.metrics(self._pairs(results))
        main = self.task.main_metric
        best = self.progress.best_epoch
        if best is None or metrics[main] > self.progress.history[best][main]:
            self.progress.best_epoch = self.progress.epoch
        self.progress.history.append(metrics)
        self._log({f"validation/{key}": value for key, value in metrics.items()}, self.progress.epoch + 1)
        shown = ", ".join(f"{key} {value:.1f}" for key, value in metrics.items())
        self.report(f"epoch {self.progress.epoch + 1}/{self.config.epochs} validation: {shown}")

    def _pairs(self, results: Sequence[ReadDocument]) -> Iterator[tuple[Example, Prediction]]:
        for example, result in zip(self.validation, results, strict=True):
            yield example, self.reader.prediction(example, result)

    def _keep_best(self) -> None:
        """Saves the epoch's model if it is the best so far; ``run.json`` names it."""
        epoch = self.progress.epoch - 1
        if self.progress.best_epoch == epoch:
            self.reader.save_pretrained(self.output / f"epoch-{epoch + 1}")
        best = f"epoch-{(self.progress.best_epoch or 0) + 1}"
        run = {"best": best, "main_metric": self.task.main_metric, "history": self.progress.history}
        write_json(self.output / "run.json", run)
        for old in self.output.glob("epoch-*"):
            if old.name != best:
                shutil.rmtree(old, ignore_errors=True)

    def _log(self, values: dict[str, float], step: int) -> None:
        log = self.output / "log.jsonl"
        try:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": self.progress.epoch + 1, "step": step, **values}) + "\n")
        except OSError as error:
            reason = error.strerror
            raise TrainingError(f"{log}: expected to save, got: {reason}; the last checkpoint is kept") from error
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)


def best_threshold(
    reader: Reader, task: Task, examples: Sequence[Example], results: Sequence[ReadDocument]
) -> float | None:
    """The threshold for no answer that gives the best main metric; None where every example has an answer."""
    if all(example.answers != () for example in examples):
        return None
    margins = np.array([result.reading.margin for result in results])
    quantiles = np.quantile(margins[np.isfinite(margins)], np.linspace(0, 1, 51))
    candidates = np.unique([quantiles[0] - 1, *quantiles])  # from never an answer to always one
    scored = []
    for threshold in candidates.tolist():
        reader.with_threshold(threshold)
        pairs = [(example, reader.prediction(example, own)) for example, own in zip(examples, results, strict=True)]
        scored.append((task.metrics(pairs)[task.main_metric], threshold))
    return float(max(scored)[1])


def _writer(output: Path) -> Any:
    output.mkdir(parents=True, exist_ok=True)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(output / "tensorboard"))
