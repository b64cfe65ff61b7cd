"""Configuration of a run: its model, its data and its training; and the validation of a setup before training."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import nn

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import fingerprint
from cogltx.model import ModelConfig
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.reasoners import REASONER_CONFIGS
from cogltx.tasks import Task
from cogltx.training.optimizer import LearnerConfig, Seed, default_rate
from cogltx.training.relevance import RelevanceConfig
from cogltx.training.similarity import vectors_file
from cogltx.training.validation import main_metric


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
        windows: where several windows of a document can teach the reasoner (tagging, and classification by baselines),
            how many of them it is trained on in an epoch, drawn at random (tagging with ``cogltx``: each is about one
            block); None: all, but one where each classifies by itself (``over_windows: mean`` and ``max``).
        relevance: where relevance labels come from: the data, or interventions.
        patience: epochs without a better validation metric before training stops; None: never.
        checkpoint_steps: optimiser steps between checkpoints.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(4, ge=1)
    batch_size: int = Field(32, ge=1)
    judge: Annotated[LearnerConfig, default_rate(4e-5)] = LearnerConfig(learning_rate=4e-5)
    reasoner: Annotated[LearnerConfig, default_rate(1e-4)] = LearnerConfig(learning_rate=1e-4)
    judge_passes: int = Field(1, ge=0)
    hard_negatives: bool = True
    reasoner_blocks: Literal["recall", "random"] = "recall"
    windows: int | None = Field(None, ge=1)
    relevance: RelevanceConfig = RelevanceConfig()
    patience: int | None = Field(None, ge=1)
    checkpoint_steps: int = Field(100, ge=1)
    seed: Seed = 0

    def trains_judge(self, reader: WindowReader) -> bool:
        """Whether the reader's judge learns, too."""
        return isinstance(reader.model.judge, nn.Module) and self.judge_passes > 0

    def resolved(self, reader: WindowReader, train: Sequence[Example]) -> "TrainingConfig":
        """Replace the source ``auto`` of relevance labels by the one that fits the model and the data."""
        if self.relevance.source != "auto":
            return self
        reasoner = reader.model.reasoner
        needs_labels = self.trains_judge(reader) and not any(example.has_relevance for example in train)
        can_intervene = isinstance(reader, CogLTX) and not reasoner.by_block and reasoner.negative_target() is None
        source = "interventions" if needs_labels and can_intervene else "data"
        return self.model_copy(update={"relevance": self.relevance.model_copy(update={"source": source})})


class DataConfig(BaseModel):
    """The examples of a run. ``$NAME`` in a path is replaced by the environment variable.

    Attributes:
        train: the training file, in the format of the task.
        validation: the validation file; without one, ``held_out`` training examples validate.
        train_limit: maximum number of training examples, drawn at random.
        validation_limit: maximum number of validation examples, drawn at random.
        held_out: number of training examples that validate, by whole documents; None: a fifth, at most 100.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    validation: str | None = None
    train_limit: int | None = Field(None, ge=1)
    validation_limit: int | None = Field(None, ge=1)
    held_out: int | None = Field(None, ge=1)


class RunConfig(ModelConfig):
    """One run: a model, its data and its training. The reasoner determines the task and the judge if none is named."""

    data: DataConfig
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, values: Any) -> Any:
        reasoner = values.get("reasoner") if isinstance(values, Mapping) else None
        name = reasoner.get("name") if isinstance(reasoner, Mapping) else getattr(reasoner, "name", None)
        kind = REASONER_CONFIGS.get(name) if isinstance(name, str) else None
        if kind is None:
            return values
        task = values.get("task", {})
        if isinstance(task, Mapping):
            task = {"name": kind.default_task, **task}
        return {"judge": {"name": kind.default_judge}, **values, "task": task}

    def model_part(self) -> ModelConfig:
        """Return the part that is saved with the model."""
        return ModelConfig.model_validate(self.model_dump(include=set(ModelConfig.model_fields)))


def data_digest(train: Sequence[Example], validation: Sequence[Example]) -> str:
    """What tells the data of a run from all other."""
    return fingerprint([*train, len(train), *validation])


def check(
    config: TrainingConfig,
    reader: WindowReader,
    task: Task,
    train: Sequence[Example],
    validation: Sequence[Example],
) -> None:
    """Before anything is trained: that it can be.

    Raises:
        ConfigError: the reader cannot be trained so.
        DataError: there are no training or no validation examples, the judge has no relevance labels to learn from, no
            validation example has what the task's main metric needs, or a question leaves no room for a block.
    """
    check_examples(task, main_metric(task, reader), train, validation)
    _check_reader(config, reader)
    _check_questions(reader, [*train, *validation])
    labelled = config.relevance.source != "data" or any(example.has_relevance for example in train)
    if config.trains_judge(reader) and not labelled:
        raise DataError(
            "training: expected examples with relevance labels to train the judge, got none; choose "
            "training.relevance.source: interventions or judge.name: bm25"
        )


def check_examples(task: Task, metric: str, train: Sequence[Example], validation: Sequence[Example]) -> None:
    """That there is something to learn from, and something that the metric can measure.

    Raises:
        DataError: there is not.
    """
    if not train or not validation:
        raise DataError(
            f"training: expected examples to train on and to validate on, got {len(train)} and {len(validation)}"
        )
    silent = Prediction(id="", answer="", start=None, end=None, score=0.0)
    if metric not in task.metrics((example, silent) for example in validation):
        raise DataError(f"training: expected validation examples with known answers, for {metric}, got none")


def _check_questions(reader: WindowReader, examples: Sequence[Example]) -> None:
    """Cuts only the documents whose question is so long that their largest block must be known."""
    asked = [example for example in examples if example.query is not None]
    texts = [example.query.text for example in asked if example.query is not None]
    if not texts:
        return
    surely = reader.model.form.capacity - 2 * reader.config.max_block_tokens - 2
    questions = reader.model.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    for example, tokens in zip(asked, questions, strict=True):
        if len(tokens) > surely:
            try:
                reader.model.layout(example.document, example.query)
            except DataError as error:
                raise DataError(f"training: example {example.id!r}: {error}") from error


def _check_reader(config: TrainingConfig, reader: WindowReader) -> None:
    by_block, from_data = reader.model.reasoner.by_block, config.relevance.source == "data"
    if not from_data and config.relevance.initial == "glove":
        vectors_file(config.relevance)
    if by_block and not from_data:
        raise ConfigError(
            "training.relevance.source: expected data for tagging, as each block asks for others, got interventions"
        )
    judge = reader.model.judge
    if isinstance(judge, nn.Module) and config.judge_passes and not any(p.requires_grad for p in judge.parameters()):
        raise ConfigError(
            f"training.judge_passes: expected 0, as the judge has no parameters to train, got {config.judge_passes}"
        )
    if by_block and config.trains_judge(reader):
        raise ConfigError(
            "training: expected a judge that needs no training for tagging; choose judge.name: bm25, or "
            "judge.init_from a trained run and training.judge_passes: 0"
        )
    classifies = reader.config.reasoner.name == "classification"
    several = by_block or (classifies and not isinstance(reader, CogLTX))
    if config.windows is not None and not several:
        raise ConfigError(
            "training.windows: expected null, as the reasoner learns from one window of a document, "
            f"got {config.windows}"
        )
