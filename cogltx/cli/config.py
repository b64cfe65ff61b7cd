"""A run: the configs of its stages, checked as a whole; its examples; and what it takes to build and load it.

Every stage's own config class lives beside the stage.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from tqdm.auto import tqdm

from cogltx.baselines import load_reader as load_reader_of
from cogltx.baselines import reader_class
from cogltx.blocks import load_tokenizer
from cogltx.blocks import split as cut
from cogltx.cli.settings import changed, expand, from_yaml, place_of, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.judges import Judge, ScoringJudge
from cogltx.model import ModelConfig, load_config, model_folder
from cogltx.pipeline import Reader
from cogltx.reasoners import ClassificationConfig, ReasonerConfig, TaggingConfig
from cogltx.tasks import TASKS, ReadReport, Split, make_task
from cogltx.training.config import TrainingConfig
from cogltx.training.masked import MaskedConfig


class DataConfig(BaseModel):
    """Where a run's examples come from. ``$NAME`` in a path stands for an environment variable.

    Attributes:
        train: a file of the task.
        validation: another; without one, ``held_out`` examples of the first are set aside, whole documents at a time.
        train_limit: use only so many examples, drawn at random.
        validation_limit: likewise.
        held_out: examples set aside for validation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    validation: str | None = None
    train_limit: int | None = Field(None, ge=1)
    validation_limit: int | None = Field(None, ge=1)
    held_out: int = Field(100, ge=1)


class RunConfig(ModelConfig):
    """One run: a model, its data and its training."""

    data: DataConfig
    training: TrainingConfig = TrainingConfig()

    def model_part(self) -> ModelConfig:
        """What is saved with the model."""
        return ModelConfig.model_validate(self.model_dump(include=set(ModelConfig.model_fields)))


def load_run(path: Path, changes: Sequence[str] = ()) -> RunConfig:
    """Reads a run from YAML.

    Args:
        path: the file.
        changes: ``KEY=VALUE`` with a dotted key and a YAML value, each in place of the file's.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is wrong; names file, line and key.
    """
    run, places = from_yaml(RunConfig, path, changes)
    _check_names(run, places)
    return run


def load_mlm(path: Path, changes: Sequence[str] = ()) -> MaskedConfig:
    """Reads a run of masked-LM training from YAML; see ``load_run``."""
    return from_yaml(MaskedConfig, path, changes)[0]


def _check_names(run: RunConfig, places: Mapping[tuple[str, ...], str]) -> None:
    """Reader, task and judge are known by these names."""
    checks: dict[tuple[str, ...], Callable[[], object]] = {
        ("reader",): lambda: reader_class(run.reader),
        ("task", "options" if run.task.name in TASKS else "name"): lambda: make_task(run.task.name, run.task.options),
    }
    for key, check in checks.items():
        try:
            check()
        except ConfigError as error:
            raise ConfigError(f"{place_of(key, places) or key[0]}: {error}") from error


def read_examples(
    config: ModelConfig,
    path: str,
    split: Split,
    *,
    limit: int | None = None,
    longer_than: int | None = None,
    tokenizer: Any = None,
    seed: int = 0,
) -> tuple[list[Example], ReadReport]:
    """The examples of a file by a model's task, and what could not be mapped.

    Args:
        config: names the task.
        path: the file.
        split: where one file holds several.
        limit: most examples; drawn at random, kept in the order of the file.
        longer_than: only those whose documents have more tokens.
        tokenizer: counts them; the one of the config's encoder by default.
        seed: of the draw.

    Raises:
        DataError: the file holds no example, or is not in the task's format.
    """
    report = ReadReport()
    task = make_task(config.task.name, config.task.options)
    examples = list(task.read(expand(path), split=split, report=report))
    if not examples:
        raise DataError(f"{path}: expected examples of task {task.name}, found none")
    if longer_than is not None:
        long = _longer_than(longer_than, examples, tokenizer or load_tokenizer(config.encoder.name))
        examples = [example for example in examples if id(example.document) in long]
        if not examples:
            raise DataError(f"{path}: expected documents of more than {longer_than} tokens, found none")
    if limit is not None and limit < len(examples):
        drawn = np.random.default_rng([seed, 3]).choice(len(examples), size=limit, replace=False)
        examples = [examples[index] for index in sorted(drawn.tolist())]
    return examples, report


def _longer_than(n_tokens: int, examples: Sequence[Example], tokenizer: Any) -> set[int]:
    """Which documents have more tokens, by identity: questions may share one."""
    documents = {id(example.document): example.document for example in examples}
    shown = tqdm(documents.items(), desc="count tokens", unit=" documents", disable=None, leave=False)
    return {key for key, document in shown if cut(document, tokenizer).n_tokens > n_tokens}


def run_examples(run: RunConfig) -> tuple[list[Example], list[Example], ReadReport]:
    """Training and validation examples of a run, and what could not be mapped in the training file."""
    data, seed = run.data, run.training.seed
    train, report = read_examples(run, data.train, "train", limit=data.train_limit, seed=seed)
    if data.validation is not None:
        validation, _ = read_examples(run, data.validation, "validation", limit=data.validation_limit, seed=seed)
        return train, validation, report
    held_out = _held_out(train, data.held_out, seed)
    validation = [example for index, example in enumerate(train) if index in held_out]
    return [example for index, example in enumerate(train) if index not in held_out], validation, report


def _held_out(examples: Sequence[Example], count: int, seed: int) -> set[int]:
    """Indices of all examples of randomly drawn documents, at least ``count`` of them in all."""
    by_document: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        by_document.setdefault(id(example.document), []).append(index)
    documents = list(by_document.values())
    chosen: set[int] = set()
    for number in np.random.default_rng([seed, 7]).permutation(len(documents)):
        if len(chosen) >= count:
            break
        chosen.update(documents[number])
    return chosen


def with_labels(run: RunConfig, examples: Sequence[Example]) -> RunConfig:
    """The run with the labels of its examples, and their weights in the loss, filled in; others have none.

    Args:
        run: of a classification or tagging reasoner, or any other.
        examples: for training and validation.

    Raises:
        DataError: no example has a label.
    """
    reasoner = run.reasoner
    if isinstance(reasoner, TaggingConfig):
        types = {entity.label for example in examples for entity in example.entities or ()}
        if not types:
            raise DataError(f"{run.data.train}: expected examples with entities for reasoner tagging, got none")
        filled: ReasonerConfig = reasoner.model_copy(update={"labels": reasoner.labels or tuple(sorted(types))})
        return run.model_copy(update={"reasoner": filled})
    if not isinstance(reasoner, ClassificationConfig):
        return run
    counts = Counter(label for example in examples for label in example.labels or ())
    labels = reasoner.labels or tuple(sorted(counts))
    if not counts:
        raise DataError(f"{run.data.train}: expected examples with labels for reasoner classification, got none")
    weights: tuple[float, ...] = ()
    if reasoner.class_weights:
        inverse = np.array([1 / max(1, counts[label]) for label in labels])
        weights = tuple((inverse / inverse.mean()).tolist())
    filled = reasoner.model_copy(update={"labels": labels, "weights": weights})
    return run.model_copy(update={"reasoner": filled})


def new_reader(run: RunConfig) -> Reader:
    """An untrained reader for a run; the same seed gives the same weights."""
    torch.manual_seed(run.training.seed)
    return reader_class(run.reader).create(run.model_part())


def load_reader(
    name: str | Path,
    *,
    changes: Sequence[str] = (),
    device: str | None = None,
    judge: Judge | ScoringJudge | None = None,
) -> Reader:
    """A trained reader of any kind: CogLTX or a baseline.

    Args:
        name: a run, a model folder, or a name on the Hugging Face hub.
        changes: ``KEY=VALUE`` in place of the model's own configuration, such as ``memrecall.strides=[8]``.
        device: where it runs.
        judge: takes the place of the model's own judge.

    Raises:
        ModelError: the folder is missing, half-written or holds something else.
        ConfigError: a change is wrong.
    """
    folder = model_folder(name)
    config = load_config(folder)
    if changes:
        config = validated(ModelConfig, changed(config.model_dump(mode="json"), changes), "--set", {})
    return load_reader_of(name, config=config, device=device, judge=judge)
