"""Joint training (CogLTX algorithm 1): every epoch trains retriever, judge and reasoner in turn, then validates.

The model of the best epoch is the model of the run, or that of the last (``TrainingConfig.kept_epoch``). A killed run
resumes from its last checkpoint.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from more_itertools import chunked
from torch import nn

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
from cogltx.prediction import Prediction
from cogltx.reasoners.classification import fit_words
from cogltx.recall import Recall
from cogltx.tasks import Task, make_task
from cogltx.training._loop import TrainingLoop
from cogltx.training._relevance import FIRST_EPOCH, RelevanceLabels, asks_by_block
from cogltx.training._steps import JudgeSteps, ReasonerSteps, RetrieverSteps
from cogltx.training._thresholds import fitted_fusion, main_metric, tune
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import Optimizer, OptimizerConfig

_EPOCH = re.compile(r"epoch-\d+")
_RETRIEVER = OptimizerConfig(learning_rate=2e-4, head_rate=10.0)


class _Summary(NamedTuple):
    """Validation metrics per epoch, index of the best epoch, and number of examples without a known target."""

    history: list[dict[str, float]]
    best_epoch: int
    skipped: int


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
    ) -> None:
        self.reader, self.validation, self.output, self.report = model, validation, Path(output), report
        self.task = task or make_task(model.config.task.name, model.config.task.options)
        self.main_metric = main_metric(self.task, model, train, validation)
        self.config = config = config.resolved(model, train)
        config.check(model, train)
        _check_questions(model, [*train, *validation])
        self.relevance = RelevanceLabels(config.relevance, train)
        self.trains_judge = config.trains_judge(model)
        self.intervenes = isinstance(model, CogLTX) and config.relevance.source == "interventions"
        self.recalls: list[Recall] = []
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
        self.loop = TrainingLoop(self.output, data, model.model.modules, self.optimizers, arrays)
        self.reasoner_steps = ReasonerSteps(model, self.optimizers["reasoner"], self.relevance, config)

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

    def run(self, *, resume: bool = False) -> _Summary:
        """Train to the end, or continue; the best epoch's model is in the folder of the run.

        Raises:
            TrainingError: a loss is not finite, or the disk is full; the last checkpoint is kept.
        """
        model = self.reader.model
        if model.linear is not None:
            fit_words(model.linear, model.reasoner.config, self.relevance.examples, seed=self.config.seed)
        if model.pairs is not None:
            model.pairs.fit(self._questions_with_relevance())
        resumes = self.loop.start(self.config.seed, resume=resume)
        self._use_fusion()
        self._report_start(resume=resume, resumes=resumes)
        done = self.loop.progress
        self.reasoner_steps.counts |= done.counts
        done.counts = self.reasoner_steps.counts
        while done.epoch < self.config.epochs:
            self._epoch()
        self.loop.log.close()
        if self.trains_judge and not self.optimizers["judge"].step:
            self.report(
                "the judge has learned nothing, as no block was relevant: set training.relevance.initial, lower "
                "training.relevance.raise_threshold, or train for more epochs"
            )
        assert done.best_epoch is not None, "a run has at least one epoch"
        if processes.is_first() and not (folder := self._name_best()).is_dir():
            raise ModelError(f"{folder}: the model of the best epoch is missing; train again in another folder")
        return _Summary(done.history, done.best_epoch, len(self.reasoner_steps.skipped))

    def _report_start(self, *, resume: bool, resumes: bool) -> None:
        """Report from where the run starts, and set the initial relevance labels of a new one."""
        epoch, config = self.loop.progress.epoch, self.config
        if resumes:
            at = f"at epoch {epoch + 1} of {config.epochs}"
            self.report(f"resumed {at if epoch < config.epochs else 'a finished run'}")
        elif resume:
            self.report("no checkpoint to resume from; starting from the beginning")
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

    def _questions_with_relevance(self) -> Iterator[tuple[str, Blocks, Bool[np.ndarray, " blocks"]]]:
        for example in progress(self.relevance.examples, "pairs", unit="examples"):
            blocks = self.reader.model.split(example.document)
            relevant = blocks.relevance_labels(example)
            if example.query is not None and example.relevant is not None and relevant is not None:
                yield example.query.text, blocks, relevant

    def _epoch(self) -> None:
        progress, phases = self.loop.progress, ["reasoner"]
        if progress.epoch < self.recall_epochs:
            phases = [name for name in ("retriever", "judge") if name in self.optimizers] + phases
        for phase in range(progress.phase, len(phases)):
            self._phase(phase, phases[phase])
            progress.phase, progress.batch = phase + 1, 0
        self._validate()
        progress.epoch, progress.phase = progress.epoch + 1, 0
        self._keep_best()
        self.loop.save()

    def _phase(self, phase: int, name: str) -> None:
        epoch, total = self.loop.progress.epoch, len(self.relevance.examples)
        if name == "reasoner" and epoch == 0 and self.loop.progress.batch == 0:
            self._start_from_judge()
        count = total if name == "reasoner" else self.config.judge_examples(total)[epoch]
        order = np.random.default_rng([self.config.seed, epoch, phase]).permutation(total)[:count].tolist()
        batches = list(chunked(order, self.config.batch_size))
        step = self._step(phase, name)
        title = f"epoch {epoch + 1}/{self.config.epochs} {name}"
        losses = self.loop.steps(len(batches), name, title, lambda number: step(batches[number]), lambda _: epoch + 1)
        if losses:
            self.report(f"{title}: loss {np.mean(losses):.4f}")

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

    def _validate(self) -> None:
        """Predict the validation examples, tune thresholds and task, and add the metrics to the history."""
        done, main = self.loop.progress, self.main_metric
        epoch = done.epoch + 1
        if done.epoch < self.recall_epochs and isinstance(self.reader, CogLTX):
            weights = fitted_fusion(self.reader, self.validation)
            self.fusion |= {} if weights is None else {name: np.array(value) for name, value in weights}
            self._use_fusion()
        reasoner = self.reader.model.reasoner
        given = reasoner.config
        reasoner.config = given.without_thresholds()
        predicted = list(progress(self._predictions(), "validation", total=len(self.validation), unit="examples"))
        metrics = tune(self.reader, self.task, self.validation, predicted, main, given)
        best = done.best_epoch
        if self.config.kept_epoch == "last" or best is None or metrics[main] > done.history[best][main]:
            done.best_epoch = done.epoch
        done.history.append(metrics)
        self.loop.log.add(epoch, epoch, {f"validation/{key}": value for key, value in metrics.items()})
        figures = ", ".join(f"{key} {value:.1f}" for key, value in metrics.items())
        self.report(f"epoch {epoch}/{self.config.epochs} validation: {figures}")
        if self.intervenes:
            self._note_labels(epoch)

    def _predictions(self) -> Iterator[Prediction]:
        """Predict the validation examples; after the judge's last epoch, their key blocks stay the same."""
        reader, learns = self.reader, self.loop.progress.epoch + 1 < self.recall_epochs
        if learns or not isinstance(reader, CogLTX) or asks_by_block(reader, self.validation[0]):
            return reader.predict_many(self.validation)
        if not self.recalls:
            self.recalls = list(reader.recall_many(self.validation))
        predictions = zip(self.validation, reader.reason_over(self.recalls), strict=True)
        return (replace(prediction.within(example.document), id=example.id) for example, prediction in predictions)

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
        self.reasoner_steps.begin_epoch()

    def _keep_best(self) -> None:
        """Save the model of the epoch if it is the best so far, and remove the previous best."""
        if not processes.is_first():
            return
        epoch = self.loop.progress.epoch - 1
        if self.loop.progress.best_epoch == epoch:
            self.reader.save_pretrained(self.output / f"epoch-{epoch + 1}")
        best = self._name_best()
        for old in self.output.glob("epoch-*"):
            if _EPOCH.fullmatch(old.name) and old != best:
                shutil.rmtree(old, ignore_errors=True)

    def _name_best(self) -> Path:
        """Write ``run.json``, which names the best epoch's model; returns its folder."""
        best = f"epoch-{(self.loop.progress.best_epoch or 0) + 1}"
        run = {"best": best, "main_metric": self.main_metric, "history": self.loop.progress.history}
        write_json(self.output / "run.json", run | {"data": self.loop.progress.data})
        return self.output / best


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
