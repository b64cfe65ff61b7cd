"""Joint training (CogLTX algorithm 1): every epoch trains retriever, judge and reasoner in turn, then validates.

The model of the best epoch is the model of the run, or that of the last (``TrainingConfig.kept_epoch``). A killed run
resumes from its last checkpoint.

Where a trained model learns from few examples, the mean of the reasoner's weights after an epoch and at the start is
measured, too: it forgets less (WiSE-FT with coefficient 0.5: Wortsman et al. 2022, section 3). The better one is the
model of the epoch.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from more_itertools import chunked
from torch import Tensor, nn

from cogltx import _processes as processes
from cogltx._files import fingerprint, write_json
from cogltx._progress import progress
from cogltx.baselines import WindowReader
from cogltx.blocks import Blocks, encode
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import FusionWeights
from cogltx.judges.encoder import EncoderJudge
from cogltx.pipeline import CogLTX
from cogltx.reasoners.classification import fit_words
from cogltx.tasks import Task, make_task
from cogltx.training._callbacks import Callbacks
from cogltx.training._costs import AGAIN, unit_costs
from cogltx.training._display import Display, Estimate
from cogltx.training._loop import Progress, TrainingLoop
from cogltx.training._relevance import FIRST_EPOCH, RelevanceLabels, asks_by_block
from cogltx.training._reporting import epoch_line, final_lines, likely_faults
from cogltx.training._steps import JudgeSteps, ReasonerSteps, RetrieverSteps
from cogltx.training._thresholds import fitted_fusion, main_metric
from cogltx.training._validation import Validation
from cogltx.training.config import TrainingConfig, refines
from cogltx.training.optimizer import Optimizer, OptimizerConfig

_EPOCH = re.compile(r"epoch-\d+")
_RETRIEVER = OptimizerConfig(learning_rate=2e-4, head_rate=10.0)


class Trainer:
    """Trains judge and reasoner of a model in place.

    Args:
        model: a CogLTX model or a baseline, such as ``CogLTX.create(ModelConfig(...))``.
        config: settings of the training.
        train: training examples.
        validation: validation examples, which select the best epoch and the thresholds.
        output: folder of the run.
        task: computes the metrics; the task of the model's configuration by default.
        report: receives lines of progress.
        callbacks: callbacks of ``transformers``, such as ``EarlyStoppingCallback(1)``.

    Raises:
        ConfigError: a setting does not fit the model.
        DataError: training or validation examples are missing, the judge has no relevance labels, or no validation
            example can be measured.

    Example:
        trainer = Trainer(model, TrainingConfig(epochs=2), train=examples, validation=others, output="runs/mine")
        trainer.run()
    """

    def __init__(
        self,
        model: WindowReader,
        config: TrainingConfig,
        *,
        train: Sequence[Example],
        validation: Sequence[Example],
        output: str | Path,
        task: Task | None = None,
        report: Callable[[str], None] = print,
        callbacks: Sequence[Any] = (),
    ) -> None:
        self.reader, self.output = model, Path(output)
        self.task = task or make_task(model.config.task.name, model.config.task.options)
        self.main_metric = main_metric(self.task, model, train, validation)
        self.config = config = config.resolved(model, train)
        config.check(model, train)
        _check_questions(model, [*train, *validation])
        self.validation = Validation(model, self.task, self.main_metric, validation, self.output)
        self.relevance = RelevanceLabels(config.relevance, train)
        self.trains_judge = config.trains_judge(model)
        self.intervenes = isinstance(model, CogLTX) and config.relevance.source == "interventions"
        self.optimizers = self._optimizers(len(train))
        learns = self.trains_judge or "retriever" in self.optimizers
        self.recall_epochs = config.recall_epochs if learns else 0  # in which key blocks can change
        self.fusion: dict[str, np.ndarray] = {}  # its weights
        arrays = {"scores": self.relevance.scores}
        if "retriever" in self.optimizers:
            arrays["fusion"] = self.fusion
        if self.intervenes:
            arrays["relevance"] = self.relevance.by_query
        data = fingerprint([*train, len(train), *validation])
        self.loop = TrainingLoop(self.output, data, model.model.modules, self.optimizers, arrays, seed=config.seed)
        self.start_weights = _copied(model.model.reasoner) if refines(model.config, len(train)) else None
        self.reasoner_steps = ReasonerSteps(model, self.optimizers["reasoner"], self.relevance, config)
        self._report = report
        self.callbacks = Callbacks(
            callbacks, model.model.reasoner.encoder.model, output=self.output, metric=self.main_metric,
            epochs=config.epochs, steps=self._n_steps("reasoner", 0),
        )  # fmt: skip

    def _optimizers(self, n_examples: int) -> dict[str, Optimizer]:
        model, config = self.reader.model, self.config
        learned_from = self.config.judge_examples(n_examples)[config.first_judge_epoch :]
        parts: dict[str, tuple[nn.Module, OptimizerConfig, list[int]]] = {
            "reasoner": (model.reasoner, config.reasoner, [n_examples] * config.epochs)
        }
        if model.retriever is not None and config.recall_epochs:
            parts["retriever"] = (model.retriever, _RETRIEVER, learned_from)
        if self.trains_judge:
            parts["judge"] = (model.judge, config.judge, learned_from)
        return {
            name: Optimizer(name, part, settings, sum(-(-n // config.batch_size) for n in counts), model.runner)
            for name, (part, settings, counts) in parts.items()
        }

    def run(self, *, resume: bool = False) -> Progress:
        """Train to the end, or continue; the best epoch's model is in the folder of the run.

        Raises:
            TrainingError: a loss is not finite, or the disk is full; the last checkpoint is kept.
            KeyboardInterrupt: the training was interrupted; the last step is saved.
        """
        model = self.reader.model
        if model.linear is not None:
            fit_words(model.linear, model.reasoner.config, self.relevance.examples, seed=self.config.seed)
        if model.pairs is not None:
            model.pairs.fit(self._questions_with_relevance())
        resumes = self.loop.start(resume=resume)
        with self.loop.interruptible():
            self._start(resume=resume, resumes=resumes)
            done = self.loop.progress
            while done.epoch < self.config.epochs and not (done.stopped and not done.phase and not done.batch):
                self._epoch()
        self.loop.display.close()
        self.callbacks.end()
        self.loop.log.close()
        self._report_end()
        assert done.best_epoch is not None, "a run has at least one epoch"
        if processes.is_first() and not (folder := self._name_best()).is_dir():
            raise ModelError(f"{folder}: the model of the best epoch is missing; train again in another folder")
        done.skipped = len(self.reasoner_steps.skipped)
        return done

    def report(self, line: str) -> None:
        """Report a line of progress, above the bar."""
        self.loop.display.report(line)

    def _start(self, *, resume: bool, resumes: bool) -> None:
        """Begin to show the training; set the first relevance labels of a new run, and measure its model."""
        done = self.loop.progress
        done.epochs = self.config.epochs
        with self.loop.uninterrupted():
            self.loop.display = Display(self._report, self._estimate(), "starting")
            self._use_fusion()
            self.reasoner_steps.counts |= done.counts
            done.counts = self.reasoner_steps.counts
            self._report_start(resume=resume, resumes=resumes)
            if not resumes:
                self.validation.forget()
            if not resumes and self._measures_start:
                self.loop.save()
        self.callbacks.begin(done.start, done.history, self._n_reasoner_steps_done())
        if self._measures_start and not done.start:
            self._validate(0)

    @property
    def _measures_start(self) -> bool:
        """Whether the run starts from a trained reasoner, which is measured before and kept if no epoch is better."""
        return self.reader.config.reasoner.init_from not in (None, "judge")

    @property
    def _n_candidates(self) -> int:
        """Number of models that an epoch gives: with its own weights, and with their mean with those at the start."""
        return 1 if self.start_weights is None else 2

    def _phases(self, epoch: int) -> list[str]:
        """Names of the optimizers whose models learn in an epoch, in order."""
        learned = ("retriever", "judge") if epoch < self.recall_epochs else ()
        return [name for name in learned if name in self.optimizers] + ["reasoner"]

    def _n_examples(self, name: str, epoch: int) -> int:
        """Number of examples that a model learns from in an epoch."""
        total = len(self.relevance.examples)
        return total if name == "reasoner" else self.config.judge_examples(total)[epoch]

    def _n_steps(self, name: str, epoch: int) -> int:
        """Number of optimizer steps of a model in an epoch."""
        return -(-self._n_examples(name, epoch) // self.config.batch_size)

    def _n_reasoner_steps_done(self) -> int:
        """Number of optimizer steps of the reasoner that are done."""
        done, n_steps = self.loop.progress, self._n_steps("reasoner", 0)
        last = len(self._phases(done.epoch)) - 1
        return done.epoch * n_steps + (done.batch if done.phase == last else n_steps if done.phase > last else 0)

    def _recalls_stay(self, number: int) -> bool:
        """Whether key blocks can no longer change after epoch ``number``, from 1; 0 is the start."""
        return number >= self.recall_epochs

    def _kind(self, name: str, number: int) -> str:
        """Kind of work for the estimate; validation and reasoner are cheaper where key blocks or scores are known."""
        first = {
            "validation": self.recall_epochs if self._measures_start else max(1, self.recall_epochs),
            "reasoner": max(1, self.recall_epochs),
        }.get(name, self.config.epochs)
        return f"{name}{AGAIN}" if number > first else name

    def _estimate(self) -> Estimate:
        """The work that is left."""
        done, costs = self.loop.progress, unit_costs(self.reader, self.config, self.relevance.examples)
        work = dict.fromkeys(costs, 0)
        if self._measures_start and not done.start:
            work["validation"] += len(self.validation.examples)
        for epoch in range(done.epoch, self.config.epochs):
            for phase, name in enumerate(self._phases(epoch)):
                if epoch > done.epoch or phase >= done.phase:
                    n_done = done.batch if (epoch, phase) == (done.epoch, done.phase) else 0
                    work[self._kind(name, epoch + 1)] += self._n_steps(name, epoch) - n_done
            work[self._kind("validation", epoch + 1)] += len(self.validation.examples) * self._n_candidates
        return Estimate({kind: (count, costs[kind]) for kind, count in work.items()})

    def _report_start(self, *, resume: bool, resumes: bool) -> None:
        """Report from where the run starts, and set the initial relevance labels of a new one."""
        epoch, config = self.loop.progress.epoch, self.config
        if resumes:
            at = f"at epoch {epoch + 1} of {config.epochs}"
            self.report(f"resumed {at if epoch < config.epochs else 'a finished run'}")
        elif resume:
            self.report("no checkpoint to resume from; starting from the beginning")
        if self.start_weights is not None:
            self.report("few examples: the mean of the weights after an epoch and before training is measured, too")
        if self.intervenes and not resumes:
            n_labelled = self.relevance.start(self.reader)
            if n_labelled is not None:
                name, total = config.relevance.initial, len(self.relevance.examples)
                self.report(f"initial relevance labels by {name}: {n_labelled} of {total} examples")
        if self.trains_judge and config.recall_epochs <= config.first_judge_epoch:
            self.report(
                "the judge does not learn: without training.relevance.initial it waits for the interventions of epoch "
                f"{FIRST_EPOCH + 1}, and its last epoch is {config.recall_epochs}"
            )

    def _report_end(self) -> None:
        """Report the figures of all epochs, what was kept and why, and what may have gone wrong."""
        done, optimizer = self.loop.progress, self.optimizers["reasoner"]
        for line in final_lines(done, self.main_metric, len(self.validation.examples), self.config.kept_epoch):
            self._report(line)
        for line in likely_faults(done, self.main_metric, len(self.relevance.examples), optimizer):
            self._report(line)
        if self.trains_judge and not self.optimizers["judge"].step:
            self._report(
                "the judge has learned nothing, as no block was relevant: set training.relevance.initial, lower "
                "training.relevance.raise_threshold, or train for more epochs"
            )

    def _questions_with_relevance(self) -> Iterator[tuple[str, Blocks, Bool[np.ndarray, " blocks"]]]:
        for example in progress(self.relevance.examples, "pairs", unit="examples"):
            blocks = self.reader.model.split(example.document)
            relevant = blocks.relevance_labels(example)
            if example.query is not None and example.relevant is not None and relevant is not None:
                yield example.query.text, blocks, relevant

    def _epoch(self) -> None:
        progress = self.loop.progress
        phases = self._phases(progress.epoch)
        for phase in range(progress.phase, len(phases)):
            if not progress.stopped:
                self._phase(phase, phases[phase])
                progress.phase, progress.batch = phase + 1, 0
                self.loop.save_if_due()
        self._validate(progress.epoch + 1)

    def _phase(self, phase: int, name: str) -> None:
        epoch = self.loop.progress.epoch
        if name == "reasoner" and epoch == 0 and self.loop.progress.batch == 0:
            self._start_from_judge()
        order = np.random.default_rng([self.config.seed, epoch, phase]).permutation(len(self.relevance.examples))
        batches = list(chunked(order[: self._n_examples(name, epoch)].tolist(), self.config.batch_size))
        step = self._step(phase, name)
        self.loop.display.begin(f"epoch {epoch + 1}/{self.config.epochs} {name}")

        def after(loss: float | None) -> bool:
            counts = self.loop.progress.counts
            if loss is not None:
                counts[f"{name}_loss"] = counts.get(f"{name}_loss", 0.0) + loss
                counts[f"{name}_steps"] = counts.get(f"{name}_steps", 0) + 1
            self.loop.progress.stopped = not self.callbacks.step(name, epoch + 1, loss)
            return not self.loop.progress.stopped

        kind = self._kind(name, epoch + 1)
        self.loop.steps(len(batches), name, lambda number: step(batches[number]), lambda _: epoch + 1, after, kind=kind)

    def _step(self, phase: int, name: str) -> Callable[[list[int]], float | None]:
        """The function that trains on a batch in a phase."""
        config, epoch = self.config, self.loop.progress.epoch

        def random(index: int) -> np.random.Generator:
            return np.random.default_rng([config.seed, epoch, phase, index, 1])

        if name == "reasoner":
            intervenes = self.intervenes and epoch >= FIRST_EPOCH and config.relevance.budget != 0
            scored = epoch >= max(1, self.recall_epochs) and not self.intervenes
            return lambda indices: self.reasoner_steps.step(indices, random, intervenes=intervenes, scored=scored)
        if not self.relevance.known:
            return lambda indices: None  # no block is known to be relevant yet
        assert isinstance(self.reader, CogLTX), "no other reader has a judge"
        kind = RetrieverSteps if name == "retriever" else JudgeSteps
        steps = kind(self.reader, self.optimizers[name], self.relevance, config)
        return lambda indices: steps.step(indices, random)

    def _start_from_judge(self) -> None:
        """Initialize the reasoner's encoder from the judge after its first epoch, if ``init_from`` says so."""
        if self.reader.config.reasoner.init_from == "judge":
            judge = self.reader.model.judge
            if not isinstance(judge, EncoderJudge):
                raise ConfigError('reasoner.init_from is "judge", which needs judge.name "encoder"')
            if self.reader.config.judge.layers is not None:
                raise ConfigError('reasoner.init_from is "judge", which needs all layers; remove judge.layers')
            self.reader.model.reasoner.encoder.load_state_dict(judge.encoder.state_dict())

    def _use_fusion(self) -> None:
        """Let the model use the weights of the latest validation, if there are any."""
        if self.fusion and isinstance(self.reader, CogLTX):
            self.reader.use_fusion(FusionWeights(**{name: float(value) for name, value in self.fusion.items()}))

    def _validate(self, number: int) -> None:
        """Predict the validation examples, tune thresholds and task, and keep the model if it is the best so far.

        ``number`` is that of the epoch, from 1; 0 measures the model at the start.
        """
        display, kind = self.loop.display, self._kind("validation", number)
        display.begin(f"epoch {number}/{self.config.epochs} validation" if number else "before training: validation")
        if 0 < number <= self.recall_epochs and isinstance(self.reader, CogLTX):
            weights = fitted_fusion(self.reader, self.validation.examples)
            self.fusion |= {} if weights is None else {name: np.array(value) for name, value in weights}
            self._use_fusion()
        candidates, stay = [], self._recalls_stay(number)
        for mean in (False, True)[: self._n_candidates if number else 1]:
            name = f"{number}{' mean' * mean}"
            with self._weights(mean=mean):
                predicted = self.validation.predict(
                    name, recalls_stay=stay, advance=lambda count: display.advance(kind, count)
                )
            candidates.append(predicted)
        with self.loop.uninterrupted():
            if not number:
                self.loop.progress.before = self.validation.metrics(candidates[0])
            metrics = [self.validation.tune(predicted) for predicted in candidates]
            values = [one[self.main_metric] for one in metrics]
            if values[-1] < values[0]:
                metrics.append(self.validation.tune(candidates[0]))  # its thresholds again
            elif len(candidates) > 1:
                self.loop.progress.means.append(number)
            self._finish_epoch(number, metrics[-1], min(values) if len(values) > 1 else None)

    @contextmanager
    def _weights(self, *, mean: bool) -> Iterator[None]:
        """Give the reasoner the mean of its weights and those at the start, if wanted, then its own again."""
        if self.start_weights is None or not mean:
            yield
            return
        reasoner = self.reader.model.reasoner
        self.loop.weights["reasoner"] = trained = _copied(reasoner)
        try:
            for name, tensor in reasoner.state_dict().items():
                if tensor.is_floating_point():
                    tensor.lerp_(self.start_weights[name], 0.5)
            yield
        finally:
            reasoner.load_state_dict(trained)
            del self.loop.weights["reasoner"]

    def _finish_epoch(self, number: int, metrics: dict[str, float], other: float | None) -> None:
        """Note the metrics with tuned thresholds, keep the best model, and save a checkpoint.

        ``other`` is the main metric of the worse one of the weights and their mean with the first.
        """
        done, main = self.loop.progress, self.main_metric
        means = {
            f"{name}_loss": done.counts[f"{name}_loss"] / done.counts[f"{name}_steps"]
            for name in self.optimizers if done.counts.get(f"{name}_steps")
        }  # fmt: skip
        if number:
            done.history.append(metrics)
            done.losses.append(means)
            done.epoch, done.phase, done.batch = number, 0, 0
        else:
            done.start = metrics
        rows = [done.start, *done.history]
        is_last = self.config.kept_epoch == "last"
        if done.best_epoch is None or is_last or metrics[main] > rows[done.best_epoch][main]:
            done.best_epoch = number
        figures = {f"validation/{key}": value for key, value in metrics.items()}
        self.loop.log.add(number, number, figures | {f"training/{key}": value for key, value in means.items()})
        self.report(epoch_line(done, number, metrics, means, main, other))
        if self.intervenes and number:
            self._note_labels(number)
        self.reasoner_steps.begin_epoch()
        done.stopped = not self.callbacks.evaluated(number, metrics) or done.stopped
        with self._weights(mean=number in done.means):
            self._keep_best(number)
        self.loop.save()
        self.validation.forget()

    def _note_labels(self, epoch: int) -> None:
        """Save the relevance labels of the epoch and report the interventions."""
        if processes.is_first():
            self.relevance.save(self.output / "relevance", epoch)
        counts, by_query = self.reasoner_steps.counts, self.relevance.by_query.values()
        by_block = asks_by_block(self.reader, self.relevance.examples[0])
        relevant = sum(int(labels.sum()) for labels in by_query)
        blocks = sum(len(labels) - by_block for labels in by_query)  # without the block that is the query
        shares = {"relevant": relevant / max(1, blocks), "changed": counts["changed"] / max(1, blocks)}
        seconds = {f"seconds_{name}": counts[name] for name in ("steps", "interventions")}
        self.loop.log.add(epoch, epoch, {f"relevance/{name}": value for name, value in (shares | seconds).items()})
        self.report(
            f"epoch {epoch}/{self.config.epochs} relevance: {relevant} of {blocks} {'pairs of ' * by_block}blocks "
            f"relevant, {counts['changed']:.0f} labels changed by {counts['tried']:.0f} removals; "
            f"{counts['interventions']:.0f} s, training steps {counts['steps']:.0f} s"
        )

    def _keep_best(self, number: int) -> None:
        """Save the model of the epoch if it is the best so far, and remove the previous best."""
        if not processes.is_first():
            return
        if self.loop.progress.best_epoch == number:
            self.reader.save_pretrained(self.output / f"epoch-{number}")
        best = self._name_best()
        for old in self.output.glob("epoch-*"):
            if _EPOCH.fullmatch(old.name) and old != best:
                shutil.rmtree(old, ignore_errors=True)

    def _name_best(self) -> Path:
        """Write ``run.json``, which names the best epoch's model; returns its folder."""
        done = self.loop.progress
        best = f"epoch-{done.best_epoch or 0}"
        metrics = [done.start, *done.history][done.best_epoch or 0]
        run: dict[str, Any] = {"best": best, "main_metric": self.main_metric, "metrics": metrics, "before": done.before}
        run |= {"start": done.start, "history": done.history, "means": done.means, "losses": done.losses}
        run["data"] = done.data
        write_json(self.output / "run.json", run)
        return self.output / best


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _check_questions(reader: WindowReader, examples: Sequence[Example]) -> None:
    """Check that every question leaves room for a block; splits only documents with a long question."""
    if reader.model.pairs is not None and any(example.query is None for example in examples):
        raise ConfigError("memrecall.pairs needs a question in every example; set it to false")
    queries = {id(example): example.query.text for example in examples if example.query is not None}
    if not queries:
        return
    n_safe = reader.model.form.capacity - 2 * reader.config.max_block_tokens - 2
    questions = encode(list(queries.values()), reader.model.tokenizer)
    n_tokens = {key: len(ids) for key, (ids, _) in zip(queries, questions, strict=True)}
    for example in examples:
        if n_tokens.get(id(example), 0) > n_safe:
            try:
                reader.model.layout(example.document, example.query)
            except DataError as error:
                raise DataError(f"training: example {example.id!r}: {error}") from error
