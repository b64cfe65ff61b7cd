"""Configuration of a run: its model, its data and its training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from torch import nn

from cogltx._folders import model_folder
from cogltx.baselines import WindowReader
from cogltx.config import ModelConfig, TaskConfig, load_config
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, describe
from cogltx.pipeline import CogLTX
from cogltx.reasoners import REASONER_CONFIGS
from cogltx.tasks import TASKS
from cogltx.tasks.classification import Classification
from cogltx.training._relevance import FIRST_EPOCH, RelevanceConfig, asks_by_block
from cogltx.training.optimizer import OptimizerConfig, Seed
from cogltx.training.recipes import merged, with_paper

_SMALL = 1000  # training examples, below which batches are small and a trained model changes less
_EPOCHS, _EPOCHS_FURTHER = 4, 3
_BATCH, _BATCH_OF_FEW = 32, 8

ReasonerBlocks: TypeAlias = Literal["recall", "retriever", "random"]


class TrainingConfig(BaseModel):
    """Settings of joint training of judge and reasoner.

    Attributes:
        epochs: passes over the training examples; 0: 4 and, for entities, 80 steps or more; 3 for a model that is
            trained further.
        batch_size: examples per optimizer step; 0: 32, or 8 for fewer than 1,000 examples.
        judge: the judge's optimizer (paper: learning rate 4e-5).
        reasoner: the reasoner's optimizer (paper: learning rate 1e-4).
        ranking_weight: weight of a second loss of the judge, which ranks a document's relevant blocks above its others
            across its windows; 0 is the paper's loss alone.
        judge_epochs: passes over the training examples in which judge and trained retriever learn, from the first epoch
            on; afterwards they are frozen and score each document once. 0.15 is a random 15 % of the examples in the
            first epoch, 0 freezes them from the start; None: all epochs, as in the paper. With interventions, whose
            labels change in every epoch, all other values count as None. ``auto``: 1, or 0 for a model that is trained
            further on fewer than 1,000 examples.
        reasoner_blocks: blocks that fill the reasoner's windows after the relevant ones: those that the judge scores
            best (``recall``, the paper's), that the retriever ranks best for the query (``retriever``), which costs no
            pass of the judge, or random ones (``random``, the paper's ablation of train-test matching).
        judge_windows: windows that the judge learns from per example: as in retrieval and as in rehearsal (``both``,
            the paper's), or the latter alone (``rehearsal``), at half the cost.
        windows: number of windows per document and epoch, drawn at random, for tagging and baselines; None: all if
            they have one loss together (tagging, ``over_windows: mlp`` or ``lstm``), otherwise one. For tagging with
            CogLTX, also the largest number of blocks whose context judge and retriever learn from.
        relevance: source of the relevance labels.
        kept_epoch: the epoch whose model is kept: the ``best`` by the validation metric or, where few validation
            examples would choose by chance, the ``last``.
        seed: seed of all random choices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(0, ge=0)
    batch_size: int = Field(0, ge=0)
    judge: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=4e-5)] = OptimizerConfig(learning_rate=4e-5)
    reasoner: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=1e-4)] = OptimizerConfig(learning_rate=1e-4)
    ranking_weight: float = Field(1.0, ge=0)
    judge_epochs: Annotated[float, Field(ge=0)] | Literal["auto"] | None = "auto"
    reasoner_blocks: ReasonerBlocks = "recall"
    judge_windows: Literal["both", "rehearsal"] = "rehearsal"
    windows: int | None = Field(None, ge=1)
    relevance: RelevanceConfig = RelevanceConfig()
    kept_epoch: Literal["best", "last"] = "best"
    seed: Seed = 0

    def trains_judge(self, reader: WindowReader) -> bool:
        """Whether the reader's judge is trained."""
        return isinstance(reader.model.judge, nn.Module) and self.judge_epochs != 0

    @property
    def recall_epochs(self) -> int:
        """The number of epochs in which a judge and a retriever that can learn do so."""
        return min(self.epochs, math.ceil(self._judge_passes))

    def judge_examples(self, total: int) -> list[int]:
        """Return the number of examples that judge and retriever learn from in each epoch.

        >>> TrainingConfig(epochs=3, judge_epochs=1.25).judge_examples(8)
        [8, 2, 0]
        """
        return [round(total * min(max(self._judge_passes - epoch, 0), 1)) for epoch in range(self.epochs)]

    @property
    def _judge_passes(self) -> float:
        """Passes over the training examples in which judge and retriever learn."""
        if self.judge_epochs is None:
            return self.epochs
        return 1.0 if self.judge_epochs == "auto" else self.judge_epochs

    @property
    def first_judge_epoch(self) -> int:
        """The epoch, from 0, from which the judge has labels: without initial ones, that after the interventions."""
        waits = self.relevance.source == "interventions" and self.relevance.initial == "none"
        return FIRST_EPOCH + 1 if waits else 0

    def resolved(self, reader: WindowReader, train: Sequence[Example]) -> "TrainingConfig":
        """Choose the source of relevance labels that fits the model and the data, epochs, and the batch size."""
        source, is_small, config = self.relevance.source, len(train) < _SMALL, reader.config
        start = None if config.reasoner.init_from == "judge" else config.reasoner.init_from
        if source == "auto":
            needs_labels = self.trains_judge(reader) and not any(example.has_relevance for example in train)
            can_intervene = isinstance(reader, CogLTX) and reader.model.reasoner.negative_target() is None
            source = "interventions" if needs_labels and can_intervene else "data"
        update: dict[str, Any] = {"relevance": self.relevance.model_copy(update={"source": source})}
        update["batch_size"] = batch_size = self.batch_size or (_BATCH_OF_FEW if is_small else _BATCH)
        n_steps = math.ceil(len(train) / batch_size)  # in an epoch
        new = max(_EPOCHS, math.ceil(config.reasoner.least_steps / n_steps))
        update["epochs"] = self.epochs or (new if start is None else _EPOCHS_FURTHER)
        if source == "interventions" and self.judge_epochs:
            update["judge_epochs"] = None
        elif self.judge_epochs == "auto":
            update["judge_epochs"] = 0.0 if refines(config, len(train)) else 1.0
        return self.model_copy(update=update)

    def check(self, reader: WindowReader, train: Sequence[Example]) -> None:
        """Check that the settings fit the model and the examples.

        Raises:
            ConfigError: a setting does not fit the model.
            DataError: the judge has no relevance labels, or there are no word vectors.
        """
        self.relevance.check()
        for problem in self._problems(reader, asks_by_block(reader, train[0]), [one.query is None for one in train]):
            raise ConfigError(problem)
        from_data = self.trains_judge(reader) and self.relevance.source == "data"
        if from_data and not any(example.has_relevance for example in train):
            raise DataError(
                "training: no example has relevance labels or an answer that occurs in its text, which the judge "
                "learns from; set training.relevance.source: interventions or judge.name: bm25"
            )

    def _problems(self, reader: WindowReader, by_block: bool, asks_nothing: Sequence[bool]) -> Iterator[str]:
        """Yield what does not fit a reader whose queries are blocks, or whose examples have no questions."""
        judge, recall, from_data = reader.model.judge, reader.config.memrecall, self.relevance.source == "data"
        if not from_data and judge is not None and not isinstance(judge, nn.Module):
            yield (
                "training.relevance.source: interventions create labels for a judge that learns, and "
                f"{reader.config.judge.name} does not; use source: data, or the judge encoder"
            )
        if self.trains_judge(reader) and not any(one.requires_grad for one in judge.parameters()):
            yield f"training.judge_epochs is {self.judge_epochs}, but the judge has no parameters to train; set it to 0"
        if self.trains_judge(reader) and by_block and from_data:
            yield (
                "training.relevance.source: where each block is a query, the judge learns from interventions alone; "
                "set it to interventions, or judge.name to bm25"
            )
        if reader.uses_judge and recall.retriever == "trained" and not recall.shortlist:
            yield "memrecall.retriever: trained proposes a shortlist; set memrecall.shortlist, for example 32"
        if reader.uses_judge and recall.retriever == "trained" and by_block and from_data and self.judge_epochs != 0:
            yield (
                "memrecall.retriever: where each block is a query, the retriever learns from interventions, which need "
                "a judge that learns; set judge.name to encoder, or memrecall.retriever to bm25"
            )
        if reader.uses_judge and not by_block and self.reasoner_blocks == "retriever" and any(asks_nothing):
            yield "training.reasoner_blocks: retriever needs a question in every example; use recall or random"
        if reader.uses_judge and not by_block and self.windows is not None:
            yield f"training.windows is {self.windows}, but CogLTX reads one window per document; remove it"


def refines(config: ModelConfig, n_examples: int) -> bool:
    """Whether a run trains a whole model further on few examples: its judge stays, and means of weights are tried."""
    start = config.reasoner.init_from
    return n_examples < _SMALL and start is not None and config.judge.init_from == start


class DataSource(BaseModel):
    """One of several training files.

    Attributes:
        file: the path; ``$NAME`` is replaced by the environment variable. A pattern such as ``data/*.json`` names
            several files, which are read in the order of their names.
        task: how a file is read.
        limit: maximum number of examples of each file, drawn at random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    task: TaskConfig = TaskConfig()
    limit: int | None = Field(None, ge=1)


class DataConfig(BaseModel):
    """The examples of a run. ``$NAME`` in a path is replaced by the environment variable.

    Attributes:
        train: the training file, in the format of the task; or several, each with a task that reads it. Of the task
            ``jsonl`` also a table of questions (CSV), with ``documents``.
        validation: the validation file; without one, ``held_out`` training examples validate.
        train_limit: maximum number of training examples, drawn at random.
        validation_limit: maximum number of validation examples, drawn at random.
        held_out: number of training examples that validate, by whole documents; None: a fifth, at most 100.
        documents: files or folders in which the answers of a table are found, as by ``cogltx prepare``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: Annotated[
        Annotated[str, Tag("<file>")] | Annotated[tuple[DataSource, ...], Tag("<files>")],
        Discriminator(lambda given: "<files>" if isinstance(given, list | tuple) else "<file>"),
    ]
    validation: str | None = None
    train_limit: int | None = Field(None, ge=1)
    validation_limit: int | None = Field(None, ge=1)
    held_out: int | None = Field(None, ge=1)
    documents: tuple[str, ...] | None = None

    @property
    def train_files(self) -> tuple[str, ...]:
        """The paths of all training files."""
        return (self.train,) if isinstance(self.train, str) else tuple(source.file for source in self.train)


_INHERITED = ("encoder", "max_block_tokens", "judge", "memrecall", "reasoner")


class RunConfig(ModelConfig):
    """One run: a model, its data and its training.

    The reasoner determines the task if none is named, and with the task the judge: ``linear`` for labelled texts,
    unless interventions train a judge.

    Attributes:
        init_from: a run, a model folder, a released model, or a name on the Hugging Face hub, that this run trains
            further: judge, retriever and reasoner start from its weights, and what the run does not set is as there.
        recipe: the values of what the run does not set: the defaults, or those of the ``paper``; see ``recipes``.
        data: training and validation examples.
        training: how they are trained on.
    """

    init_from: str | None = None
    recipe: Literal["default", "paper"] = "default"
    data: DataConfig
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if values.get("recipe") == "paper":
            values = with_paper(values)
        name = _get(values.get("reasoner"), "name")
        kind = REASONER_CONFIGS.get(name) if isinstance(name, str) else None
        if kind is None:
            return values
        task = values.get("task", {})
        if isinstance(task, Mapping):
            task = {"name": kind.default_task, **task}
        if values.get("init_from") is not None:
            return {**values, "task": task}  # the judge is that model's
        intervenes = _get(_get(values.get("training"), "relevance"), "source") == "interventions"
        judge = "linear" if _is_classification(task) and not intervenes else kind.default_judge
        return {"judge": {"name": judge}, **values, "task": task}

    @model_validator(mode="after")
    def _check_judge(self) -> "RunConfig":
        starts_anew = self.judge.init_from in (None, "reasoner") and self.init_from is None
        is_new = self.reader == "cogltx" and self.judge.name == "encoder" and starts_anew
        if is_new and self.training.judge_epochs == 0:
            raise ValueError(
                "training.judge_epochs is 0, but the judge is new; name a trained one with judge.init_from, or use bm25"
            )
        return self

    def model_part(self) -> ModelConfig:
        """Return the part that is saved with the model."""
        return ModelConfig.model_validate(self.model_dump(include=set(ModelConfig.model_fields)))

    def started(self) -> "RunConfig":
        """Fill in what the run does not set from the model that it starts from.

        A judge that is a class of somebody's own is not taken over unless the run names it, since its code would run.

        Raises:
            ConfigError: that model has another reasoner, or its judge is a class that the run does not name.
            ModelError: there is no such model.
        """
        given, name = self.model_dump(mode="json", exclude_unset=True), self.init_from
        if name is None or given == self.model_dump(mode="json"):
            return self
        source = load_config(model_folder(name))
        model = source.model_dump(mode="json", include=set(_INHERITED))
        reasoner, judge = (given.get(part, {}).get("name") for part in ("reasoner", "judge"))
        if reasoner not in (None, source.reasoner.name):
            its_reasoner = source.reasoner.name
            raise ConfigError(
                f"init_from: {name} has the reasoner {its_reasoner}, not {reasoner}; remove one of the two settings"
            )
        if judge is None and source.judge.is_class:
            raise ConfigError(
                f"init_from: the judge of {name} is the class {source.judge.name}, whose code would run; if you trust "
                f"it, set judge.name: {source.judge.name}"
            )
        model["reasoner"]["init_from"] = name
        model["judge"]["init_from"] = None if source.judge.is_model else name  # another model's judge is not trained
        if judge not in (None, source.judge.name):
            del model["judge"]
        try:
            filled = RunConfig.model_validate(merged(model, given)).model_dump(mode="json")
            return RunConfig.model_validate(filled)
        except ValidationError as error:
            raise ConfigError(describe(error, RunConfig)) from error


def _is_classification(task: Any) -> bool:
    """Whether a task, of a configuration that is not checked yet, labels texts."""
    kind = TASKS.get(str(_get(task, "name")))
    return kind is not None and issubclass(kind, Classification)


def _get(values: Any, name: str) -> Any:
    """A setting of a part of a configuration that is not checked yet."""
    return values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)
