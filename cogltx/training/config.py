"""Configuration of a run: its model, its data and its training."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from torch import nn

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.folders import model_folder
from cogltx.memrecall import MemRecallConfig
from cogltx.model import ModelConfig, TaskConfig
from cogltx.pipeline import CogLTX
from cogltx.reasoners import REASONER_CONFIGS
from cogltx.tasks import TASKS
from cogltx.tasks.classification import Classification
from cogltx.training.optimizer import OptimizerConfig, Seed
from cogltx.training.relevance import RelevanceConfig

ReasonerBlocks: TypeAlias = Literal["recall", "retriever", "random"]


class TrainingConfig(BaseModel):
    """Settings of joint training of judge and reasoner.

    Attributes:
        epochs: passes over the training examples.
        batch_size: examples per optimizer step.
        judge: the judge's optimizer (paper: learning rate 4e-5).
        reasoner: the reasoner's optimizer (paper: learning rate 1e-4).
        retriever: the optimizer of a trained retriever (``memrecall.retriever: trained``).
        ranking_weight: weight of a second loss of the judge, which ranks a document's relevant blocks above its others
            across its windows; 0 is the paper's loss alone.
        judge_passes: passes of the judge per epoch, each over new windows; 0 freezes judge and trained retriever.
        judge_epochs: epochs in which judge and trained retriever learn; afterwards they are frozen and score each
            document once, which costs less. None: all, as in the paper.
        hard_negatives: fill half of the irrelevant part of a rehearsal window with the blocks that the judge scored
            highest in the epoch before, from the second epoch on, and only with ``reasoner_blocks: recall``, which
            computes these scores; otherwise with random blocks only, as in the paper.
        judge_examples: number of training examples in each pass of the judge and of the trained retriever, drawn anew
            at random; None: all, as in the paper.
        reasoner_blocks: blocks that fill the reasoner's windows after the relevant ones: those that the judge scores
            best (``recall``, the paper's), that the retriever ranks best for the query (``retriever``), which costs no
            pass of the judge, or random ones (``random``, the paper's ablation of train-test matching).
        judge_windows: windows that the judge learns from per example: ``both``, as in retrieval and as in rehearsal
            (the paper's), or the latter alone (``rehearsal``), at half the cost.
        memory_share: share of the judge's retrieval windows with some relevant blocks in z, as in later steps of
            MemRecall; in the paper 0.
        relevant_share: share of the judge's retrieval windows that hold a relevant block for certain; the others are
            anywhere in the document, as all are in the paper.
        windows: number of windows per document and epoch, drawn at random, for tagging and baselines; None: all if
            they have one loss together (tagging, ``over_windows: mlp``, ``lstm``, ``transformer``), otherwise one. For
            tagging with CogLTX, also the largest number of blocks whose context judge and retriever learn from.
        answer_share: share of a baseline's windows that hold the answer for certain; the others are any.
        relevance: source of the relevance labels.
        keep: the epoch whose model is kept: the ``best`` by the validation metric or, where few validation examples
            would choose by chance, the ``last``.
        patience: epochs without a better validation metric before training stops; None: never.
        checkpoint_steps: optimizer steps between checkpoints.
        seed: seed of all random choices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(4, ge=1)
    batch_size: int = Field(32, ge=1)
    judge: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=4e-5)] = OptimizerConfig(learning_rate=4e-5)
    reasoner: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=1e-4)] = OptimizerConfig(learning_rate=1e-4)
    retriever: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=2e-4, head_rate=10.0)] = OptimizerConfig(
        learning_rate=2e-4, head_rate=10.0
    )
    ranking_weight: float = Field(0.0, ge=0)
    judge_passes: int = Field(1, ge=0)
    judge_epochs: int | None = Field(None, ge=1)
    hard_negatives: bool = True
    judge_examples: int | None = Field(None, ge=1)
    reasoner_blocks: ReasonerBlocks = "recall"
    judge_windows: Literal["both", "rehearsal"] = "both"
    memory_share: float = Field(0.5, ge=0, le=1)
    relevant_share: float = Field(0.5, ge=0, le=1)
    windows: int | None = Field(None, ge=1)
    answer_share: float = Field(0.5, ge=0, le=1)
    relevance: RelevanceConfig = RelevanceConfig()
    keep: Literal["best", "last"] = "best"
    patience: int | None = Field(None, ge=1)
    checkpoint_steps: int = Field(100, ge=1)
    seed: Seed = 0

    def trains_judge(self, reader: WindowReader) -> bool:
        """Whether the reader's judge is trained."""
        return isinstance(reader.model.judge, nn.Module) and self.judge_passes > 0

    @property
    def recall_epochs(self) -> int:
        """The number of epochs in which a judge and a retriever that can learn do so."""
        return min(self.epochs, self.judge_epochs or self.epochs) if self.judge_passes else 0

    def resolved(self, reader: WindowReader, train: Sequence[Example]) -> "TrainingConfig":
        """Replace the source ``auto`` of relevance labels by the one that fits the model and the data."""
        if self.relevance.source != "auto":
            return self
        reasoner = reader.model.reasoner
        needs_labels = self.trains_judge(reader) and not any(example.has_relevance for example in train)
        can_intervene = isinstance(reader, CogLTX) and reasoner.negative_target() is None
        source = "interventions" if needs_labels and can_intervene else "data"
        return self.model_copy(update={"relevance": self.relevance.model_copy(update={"source": source})})


class DataSource(BaseModel):
    """One of several training files.

    Attributes:
        file: the path; ``$NAME`` is replaced by the environment variable.
        task: how the file is read.
        limit: maximum number of its examples, drawn at random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    task: TaskConfig = TaskConfig()
    limit: int | None = Field(None, ge=1)


class DataConfig(BaseModel):
    """The examples of a run. ``$NAME`` in a path is replaced by the environment variable.

    Attributes:
        train: the training file, in the format of the task; or several, each with a task that reads it.
        validation: the validation file; without one, ``held_out`` training examples validate.
        train_limit: maximum number of training examples, drawn at random.
        validation_limit: maximum number of validation examples, drawn at random.
        held_out: number of training examples that validate, by whole documents; None: a fifth, at most 100.
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

    @property
    def train_files(self) -> tuple[str, ...]:
        """The paths of all training files."""
        return (self.train,) if isinstance(self.train, str) else tuple(source.file for source in self.train)


_INHERITED = ("encoder", "max_block_tokens", "judge", "memrecall", "reasoner", "overlap")
_RECALL_SETTINGS = set(MemRecallConfig.model_fields)


class RunConfig(ModelConfig):
    """One run: a model, its data and its training.

    The reasoner determines the task if none is named, and with the task the judge: ``linear`` for labelled texts,
    unless interventions train a judge.

    Attributes:
        init_from: a run, a model folder, a released model, or a name on the Hugging Face hub, that this run trains
            further: judge, retriever and reasoner start from its weights, and what the run does not set is as there.
        data: training and validation examples.
        training: how they are trained on.
    """

    init_from: str | None = None
    data: DataConfig
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, values: Any) -> Any:
        if (
            isinstance(name := _get(values, "init_from"), str)
            and isinstance(values, Mapping)
            and not _is_filled(values)
        ):
            values = _started_from(name, values)
        name = _get(_get(values, "reasoner"), "name")
        kind = REASONER_CONFIGS.get(name) if isinstance(name, str) else None
        if kind is None or not isinstance(values, Mapping):
            return values
        task = values.get("task", {})
        if isinstance(task, Mapping):
            task = {"name": kind.default_task, **task}
        intervenes = _get(_get(values.get("training"), "relevance"), "source") == "interventions"
        judge = "linear" if _is_classification(task) and not intervenes else kind.default_judge
        return {"judge": {"name": judge}, **values, "task": task}

    @model_validator(mode="after")
    def _check_judge(self) -> "RunConfig":
        starts_anew = self.judge.init_from in (None, "reasoner")
        is_new = self.reader == "cogltx" and self.judge.name == "encoder" and starts_anew
        if is_new and not self.training.judge_passes:
            raise ValueError(
                "training.judge_passes is 0, but the judge is new; name a trained one with judge.init_from, or use bm25"
            )
        return self

    def model_part(self) -> ModelConfig:
        """Return the part that is saved with the model."""
        return ModelConfig.model_validate(self.model_dump(include=set(ModelConfig.model_fields)))


def _is_filled(values: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a run's folder, which holds without the model that the run started from."""
    recall = values.get("memrecall")
    return values.keys() >= set(_INHERITED) and isinstance(recall, Mapping) and recall.keys() >= _RECALL_SETTINGS


def _started_from(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what a run does not set from the model that it starts from.

    A judge that is a class of somebody's own is not taken over unless the run names it, since its code would run.

    Raises:
        ConfigError: that model has another reasoner, or its judge is a class that the run does not name.
        ModelError: there is no such model.
    """
    source = ModelConfig.load(model_folder(name))
    model = source.model_dump(mode="json", include=set(_INHERITED))
    reasoner, judge = (_get(values.get(part), "name") for part in ("reasoner", "judge"))
    if reasoner not in (None, source.reasoner.name):
        its_reasoner = source.reasoner.name
        raise ConfigError(
            f"init_from: {name} has the reasoner {its_reasoner}, not {reasoner}; remove one of the two settings"
        )
    if judge is None and source.judge.is_class:
        raise ConfigError(
            f"init_from: the judge of {name} is the class {source.judge.name}, whose code would run; if you trust it, "
            f"set judge.name: {source.judge.name}"
        )
    for part in ("judge", "reasoner"):
        model[part]["init_from"] = name
    if source.judge.is_model:
        model["judge"]["init_from"] = None  # it is not trained
    if judge not in (None, source.judge.name):
        del model["judge"]
    filled = dict(values)
    for part, setting in model.items():
        set_here = values.get(part, {})
        if isinstance(set_here, Mapping):  # others are complete: a number, or a configuration object
            filled[part] = {**setting, **set_here} if isinstance(setting, Mapping) else setting
    return filled


def _is_classification(task: Any) -> bool:
    """Whether a task, of a configuration that is not checked yet, labels texts."""
    kind = TASKS.get(str(_get(task, "name")))
    return kind is not None and issubclass(kind, Classification)


def _get(values: Any, name: str) -> Any:
    """A setting of a part of a configuration that is not checked yet."""
    return values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)
