"""The joint trainer (paper algorithm 1): every epoch first the judge over all examples, then the reasoner.

After each epoch the whole flow is measured on the validation examples; the best epoch is the run's model. A run that
is killed goes on from its last checkpoint and ends at the same weights.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from tqdm.auto import tqdm

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.errors import ConfigError, ModelError
from cogltx.files import write_json
from cogltx.judges.encoder import EncoderJudge
from cogltx.pipeline import CogLTX
from cogltx.tasks import Task
from cogltx.training.checkpoints import Checkpoints, Progress
from cogltx.training.config import TrainingConfig, check, data_digest
from cogltx.training.log import Log
from cogltx.training.optimizer import Learner, LearnerConfig
from cogltx.training.relevance import RelevanceLabels, save_history
from cogltx.training.similarity import similarity_of
from cogltx.training.steps import JudgeSteps, ReasonerSteps
from cogltx.training.validation import main_metric, validate

_EPOCH = re.compile(r"epoch-\d+")


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
        reader: WindowReader,
        task: Task,
        train: Sequence[Example],
        validation: Sequence[Example],
        config: TrainingConfig,
        output: Path,
        report: Callable[[str], None] = print,
    ) -> None:
        self.reader, self.task, self.train_examples, self.validation = reader, task, train, validation
        config = config.resolved(reader, train)
        self.config, self.output, self.report = config, output, report
        self.main_metric = main_metric(task, reader)
        self.trains_judge = config.trains_judge(reader)
        check(config, reader, task, train, validation)
        precision = reader.model.runner.precision
        self.accelerator = Accelerator(cpu=precision.device.type == "cpu", mixed_precision="no")
        if self.accelerator.num_processes > 1:
            raise ConfigError(f"training: expected one process, got {self.accelerator.num_processes}")
        self.learners = self._learners()
        self.models = reader.model.modules
        self.checkpoints = Checkpoints(output / "checkpoints")
        self.progress = Progress(data=data_digest(train, validation))
        self.relevance = RelevanceLabels(config.relevance)
        self.scores: dict[int, np.ndarray] = {}
        self.log = Log(output)
        self.intervenes = isinstance(reader, CogLTX) and config.relevance.source == "interventions"
        self.reasoner_steps = ReasonerSteps(
            reader, self.learners["reasoner"], train, self.relevance, self.scores,
            by_judge=config.reasoner_blocks == "recall", keeps_scores=self.trains_judge,
            windows=config.windows,
        )  # fmt: skip

    def _learners(self) -> dict[str, Learner]:
        batches = -(-len(self.train_examples) // self.config.batch_size)
        reader, config = self.reader, self.config

        def learner(name: str, model: nn.Module, own: LearnerConfig, passes: int) -> Learner:
            return Learner(
                name, model, own, batches * passes, self.accelerator, reader.model.runner.precision,
                reader.model.runner.batch_tokens, reader.model.runner.padding_id,
            )  # fmt: skip

        learners = {"reasoner": learner("reasoner", reader.model.reasoner, config.reasoner, config.epochs)}
        if self.trains_judge:
            relevance = config.relevance  # without any label to begin with, the judge waits for the first interventions
            waits = relevance.source == "interventions" and relevance.initial == "none"
            epochs = max(1, config.epochs - relevance.from_epoch * waits)
            learners["judge"] = learner("judge", reader.model.judge, config.judge, epochs * config.judge_passes)
        return learners

    def run(self, *, resume: bool = False) -> Summary:
        """Trains to the end and leaves the best epoch's model in the run's folder.

        Args:
            resume: go on from the last checkpoint, if there is one.
        """
        torch.manual_seed(self.config.seed)
        if resume and self.checkpoints.exists():
            self._restore()
        else:
            self.log.cut(0)
            if self.intervenes:
                self._first_labels()
        while self.progress.epoch < self.config.epochs and not self._out_of_patience():
            self._epoch()
        self.log.close()
        best = self.progress.best_epoch
        assert best is not None, "a run has at least one epoch"
        model = self._name_best()
        if not model.is_dir():
            raise ModelError(f"{model}: expected the best epoch's model, found none; train anew in another folder")
        return Summary(tuple(self.progress.history), best, len(self.reasoner_steps.skipped))

    def _restore(self) -> None:
        self.progress, arrays = self.checkpoints.load(self.models, self.learners, self.progress.data)
        self.log.cut(self.progress.logged)
        self.scores.update(arrays["scores"])
        self.relevance.found.update(arrays.get("relevance", {}))
        self.report(f"resumed at epoch {self.progress.epoch + 1} of {self.config.epochs}")

    def _save(self) -> None:
        self.progress.logged = self.log.size
        arrays = {"scores": self.scores} | ({"relevance": self.relevance.found} if self.intervenes else {})
        self.checkpoints.save(self.progress, self.models, self.learners, arrays)

    def _first_labels(self) -> None:
        """What interventions begin with, by similarity."""
        similarity = similarity_of(self.config.relevance, self.reader)
        if similarity is None:
            return
        examples, name = self.train_examples, self.config.relevance.initial
        marked = self.relevance.start(examples, lambda example: self.reader.model.split(example.document), similarity)
        self.report(f"relevance labels to begin with, by {name}: {marked} of {len(examples)} examples")

    def _out_of_patience(self) -> bool:
        best, patience = self.progress.best_epoch, self.config.patience
        return patience is not None and best is not None and self.progress.epoch - best > patience

    def _epoch(self) -> None:
        for phase, name in enumerate(self._phases()):
            if phase < self.progress.phase:
                continue
            self._phase(phase, name)
            self.progress.phase, self.progress.batch = phase + 1, 0
        self._validate()
        self.progress.epoch, self.progress.phase = self.progress.epoch + 1, 0
        self._keep_best()
        self._save()

    def _phases(self) -> list[str]:
        return [*["judge"] * (self.config.judge_passes if self.trains_judge else 0), "reasoner"]

    def _phase(self, phase: int, name: str) -> None:
        epoch = self.progress.epoch
        if name == "reasoner" and epoch == 0 and self.progress.batch == 0:
            self._start_from_judge()
        order = np.random.default_rng([self.config.seed, epoch, phase]).permutation(len(self.train_examples))
        size = self.config.batch_size
        batches = [order[first : first + size].tolist() for first in range(0, len(order), size)]
        step = self._step(phase, name)
        losses: list[float] = []
        title = f"epoch {epoch + 1}/{self.config.epochs} {name}"
        with tqdm(total=len(batches), initial=self.progress.batch, desc=title, disable=None, leave=False) as bar:
            for number in range(self.progress.batch, len(batches)):
                loss = step(batches[number])
                self.progress.batch = number + 1
                if loss is not None:
                    losses.append(loss)
                    self.log.add(epoch + 1, self.learners[name].step, {f"{name}/loss": loss})
                    bar.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}")
                bar.update()
                if self.progress.batch % self.config.checkpoint_steps == 0 and self.progress.batch < len(batches):
                    self._save()
        if losses:
            self.report(f"{title}: loss {np.mean(losses):.4f}")

    def _step(self, phase: int, name: str) -> Callable[[list[int]], float | None]:
        """What a batch goes through in a phase."""
        random = partial(self._rng, phase=phase)
        if name == "reasoner":
            intervenes = self.intervenes and self.progress.epoch + 1 >= self.config.relevance.from_epoch
            return lambda indices: self.reasoner_steps.step(indices, random, intervenes=intervenes)
        if not self.relevance.known(self.train_examples):
            return lambda indices: None  # nothing is known to be relevant yet
        scores = self.scores if self.config.hard_negatives else {}
        judge = JudgeSteps(self.reader, self.learners["judge"], self.train_examples, self.relevance, scores)
        return lambda indices: judge.step(indices, random)

    def _start_from_judge(self) -> None:
        """The reasoner may start from the judge after the judge's first passes."""
        judge, reasoner = self.reader.model.judge, self.reader.model.reasoner
        if self.reader.config.reasoner.init_from != "judge":
            return
        if not isinstance(judge, EncoderJudge):
            raise ConfigError('reasoner.init_from: expected judge.name "encoder" beside "judge", got another judge')
        reasoner.encoder.load_state_dict(judge.encoder.state_dict())
        if reasoner.relevance is not None:
            reasoner.relevance.load_state_dict(judge.head.state_dict())

    def _rng(self, index: int, *, phase: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, self.progress.epoch, phase, index, 1])

    def _validate(self) -> None:
        epoch, main = self.progress.epoch + 1, self.main_metric
        metrics = validate(self.reader, self.task, self.validation, main)
        best = self.progress.best_epoch
        if best is None or metrics[main] > self.progress.history[best][main]:
            self.progress.best_epoch = self.progress.epoch
        self.progress.history.append(metrics)
        self.log.add(epoch, epoch, {f"validation/{key}": value for key, value in metrics.items()})
        shown = ", ".join(f"{key} {value:.1f}" for key, value in metrics.items())
        self.report(f"epoch {epoch}/{self.config.epochs} validation: {shown}")
        if self.intervenes:
            self._note_labels(epoch)

    def _note_labels(self, epoch: int) -> None:
        """Keeps the relevance labels of the epoch and tells what interventions did."""
        save_history(self.output / "relevance", epoch, self.relevance, self.scores)
        steps = self.reasoner_steps
        relevant = sum(int(labels.sum()) for labels in self.relevance.found.values())
        blocks = sum(len(labels) for labels in self.relevance.found.values())
        values = {"relevance/relevant": relevant / max(1, blocks), "relevance/changed": steps.changed / max(1, blocks)}
        values |= {f"relevance/seconds_{name}": spent for name, spent in steps.seconds.items()}
        self.log.add(epoch, epoch, values)
        self.report(
            f"epoch {epoch}/{self.config.epochs} relevance: {relevant} of {blocks} blocks relevant, {steps.changed} "
            f"labels changed by {steps.tried} removals; {steps.seconds['interventions']:.0f} s beside "
            f"{steps.seconds['steps']:.0f} s of training steps"
        )
        steps.begin_epoch()

    def _keep_best(self) -> None:
        """Saves the epoch's model if it is the best so far, and removes the one before."""
        epoch = self.progress.epoch - 1
        if self.progress.best_epoch == epoch:
            self.reader.save_pretrained(self.output / f"epoch-{epoch + 1}")
        best = self._name_best()
        for old in self.output.glob("epoch-*"):
            if _EPOCH.fullmatch(old.name) and old != best:
                shutil.rmtree(old, ignore_errors=True)

    def _name_best(self) -> Path:
        """The best epoch's model, which ``run.json`` names."""
        best = f"epoch-{(self.progress.best_epoch or 0) + 1}"
        run = {"best": best, "main_metric": self.main_metric, "history": self.progress.history}
        write_json(self.output / "run.json", run | {"data": self.progress.data})
        return self.output / best
