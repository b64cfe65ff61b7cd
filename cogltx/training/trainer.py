"""Joint training (CogLTX algorithm 1): every epoch trains retriever, judge and reasoner in turn, then validates.

The model of the best epoch is the model of the run, or that of the last (``TrainingConfig.keep``). A killed run resumes
from its last checkpoint.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool
from torch import nn

from cogltx import processes
from cogltx.baselines import WindowReader
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import fingerprint, write_json
from cogltx.judges.encoder import EncoderJudge
from cogltx.memrecall import Recall
from cogltx.model import TaskConfig
from cogltx.pipeline import CogLTX, Reader
from cogltx.prediction import Prediction
from cogltx.progress import progress
from cogltx.reasoners import ReasonerConfig
from cogltx.tasks import Task, make_task
from cogltx.training.config import TrainingConfig
from cogltx.training.loop import TrainingLoop
from cogltx.training.optimizer import Optimizer, OptimizerConfig
from cogltx.training.relevance import RelevanceLabels
from cogltx.training.steps import JudgeSteps, ReasonerSteps, RetrieverSteps

_EPOCH = re.compile(r"epoch-\d+")


class _Summary(NamedTuple):
    """Validation metrics per epoch, index of the best epoch, and number of examples without a known target."""

    history: list[dict[str, float]]
    best_epoch: int
    skipped: int


AnyConfig = TypeVar("AnyConfig", bound=ReasonerConfig)


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
        config = config.resolved(model, train)
        self.reader, self.train_examples, self.validation = model, train, validation
        self.task = task or make_task(model.config.task.name, model.config.task.options)
        self.config, self.output, self.report = config, Path(output), report
        self.main_metric = check_examples(self.task, model, train, validation)
        _check_config(config, model, train)
        _check_questions(model, [*train, *validation])
        self.trains_judge = config.trains_judge(model)
        if self.trains_judge and config.relevance.source == "data" and not any(one.has_relevance for one in train):
            raise DataError(
                "training: no example has relevance labels or an answer that occurs in its text, which the judge "
                "learns from; set training.relevance.source: interventions or judge.name: bm25"
            )
        self.relevance = RelevanceLabels(config.relevance)
        self.scores: dict[str, np.ndarray] = {}
        self.recalls: list[Recall] = []
        self.optimizers = self._optimizers()
        self.intervenes = isinstance(model, CogLTX) and config.relevance.source == "interventions"
        arrays = {"scores": self.scores} | ({"relevance": self.relevance.by_query} if self.intervenes else {})
        data = fingerprint([*train, len(train), *validation])  # cogltx relevance checks it
        modules, optimizers = model.model.modules, self.optimizers
        self.loop = TrainingLoop(self.output, data, modules, optimizers, config.checkpoint_steps, arrays)
        self.reasoner_steps = ReasonerSteps(model, optimizers["reasoner"], train, self.relevance, config, self.scores)

    def _optimizers(self) -> dict[str, Optimizer]:
        model, config, runner = self.reader.model, self.config, self.reader.model.runner

        def optimizer(name: str, part: nn.Module, settings: OptimizerConfig, passes: int) -> Optimizer:
            steps = passes * -(-self._n_examples(name) // config.batch_size)
            return Optimizer(name, part, settings, steps, runner)

        optimizers = {"reasoner": optimizer("reasoner", model.reasoner, config.reasoner, config.epochs)}
        epochs = max(1, self._learning_epochs)
        if model.retriever is not None and config.recall_epochs:
            optimizers["retriever"] = optimizer("retriever", model.retriever, config.retriever, epochs)
        if self.trains_judge:
            optimizers["judge"] = optimizer("judge", model.judge, config.judge, epochs * config.judge_passes)
        return optimizers

    def _n_examples(self, name: str) -> int:
        """The number of examples that a part of the model learns from in a pass."""
        total = len(self.train_examples)
        return total if name == "reasoner" else min(total, self.config.judge_examples or total)

    @property
    def _learning_epochs(self) -> int:
        """The epochs in which judge and retriever learn; without initial labels they wait for the interventions."""
        relevance = self.config.relevance
        waits = relevance.source == "interventions" and relevance.initial == "none"
        return max(0, self.config.recall_epochs - relevance.from_epoch * waits)

    @property
    def _recall_epochs(self) -> int:
        """The number of epochs in which key blocks can change; 0 if neither judge nor retriever learns."""
        return self.config.recall_epochs if self.trains_judge or "retriever" in self.optimizers else 0

    def run(self, *, resume: bool = False) -> _Summary:
        """Train to the end, or continue; the best epoch's model is in the folder of the run.

        Raises:
            TrainingError: a loss is not finite, or the disk is full; the last checkpoint is kept.
        """
        if (linear := self.reader.model.linear) is not None:
            self.reader.model.reasoner.config.fit(linear, self.train_examples, seed=self.config.seed)
        if (pairs := self.reader.model.pairs) is not None:
            pairs.fit(self._questions_with_relevance())
        resumes = self.loop.start(self.config.seed, resume=resume)
        if resumes:
            epoch = f"at epoch {self.loop.progress.epoch + 1} of {self.config.epochs}"
            self.report(f"resumed {epoch if self._has_next_epoch else 'a finished run'}")
        elif resume:
            self.report("no checkpoint to resume from; starting from the beginning")
        if self.intervenes and not resumes:
            n_labelled = self.relevance.start(self.train_examples, self.reader)
            if n_labelled is not None:
                name, total = self.config.relevance.initial, len(self.train_examples)
                self.report(f"initial relevance labels by {name}: {n_labelled} of {total} examples")
        if self.trains_judge and not self._learning_epochs:
            self.report(
                "the judge does not learn: without training.relevance.initial it waits for the interventions of epoch "
                f"{self.config.relevance.from_epoch}, and its last epoch is {self.config.recall_epochs}"
            )
        self.reasoner_steps.counts |= self.loop.progress.counts
        self.loop.progress.counts = self.reasoner_steps.counts
        while self._has_next_epoch:
            self._epoch()
        self.loop.log.close()
        if self.trains_judge and not self.optimizers["judge"].step:
            self.report(
                "the judge has learned nothing, as no block was relevant: set training.relevance.initial, lower "
                "training.relevance.raise_threshold, or train for more epochs"
            )
        progress, best = self.loop.progress, self.loop.progress.best_epoch
        assert best is not None, "a run has at least one epoch"
        if processes.is_first() and not (model := self._name_best()).is_dir():
            raise ModelError(f"{model}: the model of the best epoch is missing; train again in another folder")
        return _Summary(progress.history, best, len(self.reasoner_steps.skipped))

    def _questions_with_relevance(self) -> Iterator[tuple[str, Blocks, Bool[np.ndarray, " blocks"]]]:
        for example in progress(self.train_examples, "pairs", unit="examples"):
            blocks = self.reader.model.split(example.document)
            relevant = blocks.relevance_labels(example)
            if example.query is not None and example.relevant is not None and relevant is not None:
                yield example.query.text, blocks, relevant

    @property
    def _has_next_epoch(self) -> bool:
        """Whether another epoch follows: one is left, and the patience is not used up."""
        done, patience = self.loop.progress, self.config.patience or self.config.epochs
        return done.epoch < self.config.epochs and done.epoch - (done.best_epoch or 0) <= patience

    def _epoch(self) -> None:
        progress, phases = self.loop.progress, ["reasoner"]
        if progress.epoch < self._recall_epochs:
            judge = ["judge"] * (self.config.judge_passes if self.trains_judge else 0)
            phases = ["retriever"] * ("retriever" in self.optimizers) + judge + phases
        for phase in range(progress.phase, len(phases)):
            self._phase(phase, phases[phase])
            progress.phase, progress.batch = phase + 1, 0
        self._validate()
        progress.epoch, progress.phase = progress.epoch + 1, 0
        self._keep_best()
        self.loop.save()

    def _phase(self, phase: int, name: str) -> None:
        epoch = self.loop.progress.epoch
        if name == "reasoner" and epoch == 0 and self.loop.progress.batch == 0:
            self._start_from_judge()
        order = np.random.default_rng([self.config.seed, epoch, phase]).permutation(len(self.train_examples))
        order, size = order[: self._n_examples(name)], self.config.batch_size
        batches = [order[first : first + size].tolist() for first in range(0, len(order), size)]
        step = self._step(phase, name)
        title = f"epoch {epoch + 1}/{self.config.epochs} {name}"
        losses = self.loop.steps(len(batches), name, title, lambda number: step(batches[number]), lambda _: epoch + 1)
        if losses:
            self.report(f"{title}: loss {np.mean(losses):.4f}")

    def _step(self, phase: int, name: str) -> Callable[[list[int]], float | None]:
        """The function that trains on a batch in a phase."""
        seed, epoch = self.config.seed, self.loop.progress.epoch

        def random(index: int) -> np.random.Generator:
            return np.random.default_rng([seed, epoch, phase, index, 1])

        if name == "reasoner":
            intervenes = self.intervenes and epoch + 1 >= self.config.relevance.from_epoch
            scored = epoch >= max(1, self._recall_epochs) and not self.intervenes
            return lambda indices: self.reasoner_steps.step(indices, random, intervenes=intervenes, scored=scored)
        if not self.relevance.known(self.train_examples):
            return lambda indices: None  # no block is known to be relevant yet
        assert isinstance(self.reader, CogLTX), "no other reader has a judge"
        shared = self.reader, self.optimizers[name], self.train_examples, self.relevance, self.config
        steps = RetrieverSteps(*shared) if name == "retriever" else JudgeSteps(*shared, self.scores)
        return lambda indices: steps.step(indices, random)

    def _start_from_judge(self) -> None:
        """Initialize the reasoner from the judge after its first passes, if ``init_from`` says so."""
        judge, reasoner = self.reader.model.judge, self.reader.model.reasoner
        if self.reader.config.reasoner.init_from != "judge":
            return
        if not isinstance(judge, EncoderJudge):
            raise ConfigError('reasoner.init_from is "judge", which needs judge.name "encoder"')
        reasoner.encoder.load_state_dict(judge.encoder.state_dict())
        if reasoner.relevance is not None:
            reasoner.relevance.load_state_dict(judge.head.state_dict())

    def _validate(self) -> None:
        """Predict the validation examples, tune thresholds and task, and add the metrics to the history."""
        done, main = self.loop.progress, self.main_metric
        epoch = done.epoch + 1
        reasoner = self.reader.model.reasoner
        reasoner.config = reasoner.config.without_thresholds()
        predicted = list(progress(self._predictions(), "validation", total=len(self.validation), unit="examples"))
        metrics = tune(self.reader, self.task, self.validation, predicted, main)
        keeps_last, best = self.config.keep == "last", done.best_epoch
        if keeps_last or best is None or metrics[main] > done.history[best][main]:
            done.best_epoch = done.epoch
        done.history.append(metrics)
        self.loop.log.add(epoch, epoch, {f"validation/{key}": value for key, value in metrics.items()})
        figures = ", ".join(f"{key} {value:.1f}" for key, value in metrics.items())
        self.report(f"epoch {epoch}/{self.config.epochs} validation: {figures}")
        if self.intervenes:
            self._note_labels(epoch)

    def _predictions(self) -> Iterator[Prediction]:
        """Predict the validation examples; after the judge's last epoch, their key blocks stay the same."""
        reader, learns = self.reader, self.loop.progress.epoch + 1 < self._recall_epochs
        if learns or not isinstance(reader, CogLTX) or reader.model.reasoner.by_block:
            return reader.predict_many(self.validation)
        if not self.recalls:
            self.recalls = list(reader.recall_many(self.validation))
        predictions = zip(self.validation, reader.reason_over(self.recalls), strict=True)
        return (replace(prediction.within(example.document), id=example.id) for example, prediction in predictions)

    def _note_labels(self, epoch: int) -> None:
        """Save the relevance labels of the epoch and report the interventions."""
        if processes.is_first():
            self.relevance.save(self.output / "relevance", epoch, self.scores)
        counts = self.reasoner_steps.counts
        by_block, by_query = self.reader.model.reasoner.by_block, self.relevance.by_query.values()
        relevant = sum(int(labels.sum()) for labels in by_query)
        blocks = sum(len(labels) - by_block for labels in by_query)  # without the block that is the query
        unit = "pairs of blocks" if by_block else "blocks"
        shares = {"relevant": relevant / max(1, blocks), "changed": counts["changed"] / max(1, blocks)}
        seconds = {f"seconds_{name}": counts[name] for name in ("steps", "interventions")}
        self.loop.log.add(epoch, epoch, {f"relevance/{name}": value for name, value in (shares | seconds).items()})
        self.report(
            f"epoch {epoch}/{self.config.epochs} relevance: {relevant} of {blocks} {unit} relevant, "
            f"{counts['changed']:.0f} labels changed by {counts['tried']:.0f} removals; "
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


def tune(
    reader: WindowReader, task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], metric: str
) -> dict[str, float]:
    """Give a reader the thresholds, and its task the options, that suit predictions made without thresholds.

    Returns:
        all metrics with them, in percent.
    """
    model, chosen = reader.model, task.tuned(list(zip(examples, predictions, strict=True)))
    if chosen != task:
        model.task = TaskConfig(name=chosen.name, options=chosen.model_dump(exclude_defaults=True))
    model.reasoner.config, metrics = tuned(model.reasoner.config, chosen, examples, predictions, metric)
    return metrics


def tuned(
    config: AnyConfig, task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], metric: str
) -> tuple[AnyConfig, dict[str, float]]:
    """Return the configuration whose thresholds give the best metric, of equal ones the highest, and all metrics."""
    best, best_metrics = config, task.metrics(zip(examples, predictions, strict=True))
    for number, candidate in enumerate(config.threshold_candidates(examples, predictions)):
        metrics = task.metrics(zip(examples, map(candidate.apply_thresholds, predictions), strict=True))
        if number == 0 or metrics[metric] >= best_metrics[metric]:
            best, best_metrics = candidate, metrics
    return best, best_metrics


def _main_metric(task: Task, reader: Reader) -> str:
    return task.main_metric if reader.uses_judge else task.answer_metric or task.main_metric


def check_examples(task: Task, reader: Reader, train: Sequence[Example], validation: Sequence[Example]) -> str:
    """Return the metric that selects the best epoch; raises DataError without examples that train and measure it."""
    if not train or not validation:
        raise DataError(
            f"training: there are {len(train)} training and {len(validation)} validation examples; both are needed"
        )
    metric = _main_metric(task, reader)
    silent = Prediction(id="", answer="", start=None, end=None, score=0.0)
    if metric not in task.metrics((example, silent) for example in validation):
        hint = ""
        if any(example.labels is not None for example in validation):
            hint = "; for this data set reasoner.name: classification"
        elif any(example.entities is not None for example in validation):
            hint = "; for this data set reasoner.name: tagging"
        raise DataError(f"training: no validation example has a known answer, which {metric} needs{hint}")
    return metric


def _check_config(config: TrainingConfig, reader: WindowReader, train: Sequence[Example]) -> None:
    """Check that the settings fit the model and the examples."""
    by_block, from_data = reader.model.reasoner.by_block, config.relevance.source == "data"
    if not from_data and config.relevance.initial == "glove":
        config.relevance.vectors_file()
    judge = reader.model.judge
    if config.relevance.source == "interventions" and judge is not None and not isinstance(judge, nn.Module):
        raise ConfigError(
            "training.relevance.source: interventions create labels for a judge that learns, and "
            f"{reader.model.config.judge.name} does not; use source: data, or the judge encoder"
        )
    if config.trains_judge(reader) and not any(p.requires_grad for p in reader.model.judge.parameters()):
        raise ConfigError(
            f"training.judge_passes is {config.judge_passes}, but the judge has no parameters to train; set it to 0"
        )
    if by_block and from_data and config.trains_judge(reader):
        raise ConfigError(
            "training.relevance.source: where each block is a query, the judge learns from interventions alone; set it "
            "to interventions, or judge.name to bm25"
        )
    if reader.config.memrecall.retriever == "trained" and reader.uses_judge:
        if not reader.config.memrecall.shortlist:
            raise ConfigError(
                "memrecall.retriever: trained proposes a shortlist; set memrecall.shortlist, for example 32"
            )
        if by_block and from_data and config.judge_passes:
            raise ConfigError(
                "memrecall.retriever: where each block is a query, the retriever learns from interventions, which need "
                "a judge that learns; set judge.name to encoder, or memrecall.retriever to bm25"
            )
    reads_one_window = isinstance(reader, CogLTX) and not by_block
    if config.reasoner_blocks == "retriever" and reads_one_window and any(example.query is None for example in train):
        raise ConfigError("training.reasoner_blocks: retriever needs a question in every example; use recall or random")
    if config.windows is not None and reads_one_window:
        raise ConfigError(f"training.windows is {config.windows}, but CogLTX reads one window per document; remove it")


def _check_questions(reader: WindowReader, examples: Sequence[Example]) -> None:
    """Check that every question leaves room for a block; splits only documents with a long question."""
    if reader.model.pairs is not None and any(example.query is None for example in examples):
        raise ConfigError("memrecall.pairs needs a question in every example; set it to false")
    queries = {id(example): example.query.text for example in examples if example.query is not None}
    if not queries:
        return
    n_safe = reader.model.form.capacity - 2 * reader.config.max_block_tokens - 2
    questions = reader.model.tokenizer(list(queries.values()), add_special_tokens=False, verbose=False)["input_ids"]
    n_tokens = dict(zip(queries, map(len, questions), strict=True))
    for example in examples:
        if n_tokens.get(id(example), 0) > n_safe:
            try:
                reader.model.layout(example.document, example.query)
            except DataError as error:
                raise DataError(f"training: example {example.id!r}: {error}") from error
