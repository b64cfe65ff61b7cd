"""Training and validation examples of a run: files read by its task, limits, and the held-out part."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from cogltx.blocks import load_tokenizer, split
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.model import ModelConfig
from cogltx.tasks import ReadReport, Split, make_task
from cogltx.training.config import RunConfig

_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def expand(path: str) -> Path:
    """Fill in the environment variables and ``~`` of a path.

    Raises:
        ConfigError: a variable is not set, or ``~`` names an unknown user.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(f"{path}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    try:
        return Path(_VARIABLE.sub(value, path)).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: {error}") from error


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
    """Read the examples of a file with a model's task; also returns what the task could not map.

    Args:
        config: names the task.
        path: the file.
        split: which part to read where one file has several.
        limit: maximum number of examples; drawn at random, in the order of the file.
        longer_than: keep only documents with more tokens.
        tokenizer: counts the tokens; that of the encoder by default.
        seed: seed of the draw.

    Raises:
        DataError: the file has no examples, or is not in the format of the task.
    """
    report = ReadReport()
    task = make_task(config.task.name, config.task.options)
    examples = list(task.read(expand(path), split=split, report=report))
    if not examples:
        raise DataError(f"{path}: no examples of the task {task.name}")
    if longer_than is not None:
        long = _longer_than(longer_than, examples, tokenizer or load_tokenizer(config.encoder.name))
        examples = [example for example in examples if id(example.document) in long]
        if not examples:
            raise DataError(f"{path}: no document has more than {longer_than:,} tokens")
    if limit is not None and limit < len(examples):
        drawn = np.random.default_rng([seed, 3]).choice(len(examples), size=limit, replace=False)
        examples = [examples[index] for index in sorted(drawn.tolist())]
    return examples, report


def _longer_than(n_tokens: int, examples: Sequence[Example], tokenizer: Any) -> set[int]:
    """The ids (``id``) of the documents with more tokens; examples may share a document."""
    documents = {id(example.document): example.document for example in examples}
    progress = tqdm(documents.items(), desc="count tokens", unit=" documents", disable=None, leave=False)
    return {key for key, document in progress if split(document, tokenizer).n_tokens > n_tokens}


def run_examples(run: RunConfig) -> tuple[list[Example], list[Example], ReadReport]:
    """Read the training and validation examples of a run; also returns what the task could not map in training."""
    data, seed = run.data, run.training.seed
    train, report = read_examples(run, data.train, "train", limit=data.train_limit, seed=seed)
    if data.validation is not None:
        validation, _ = read_examples(run, data.validation, "validation", limit=data.validation_limit, seed=seed)
        return train, validation, report
    train, validation = hold_out(train, data.held_out, seed)
    return train, validation, report


def hold_out(examples: Sequence[Example], count: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Split examples into training and validation; all examples of a document stay together.

    Args:
        examples: the examples.
        count: minimum number of validation examples.
        seed: seed of the draw.
    """
    by_document: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        by_document.setdefault(id(example.document), []).append(index)
    documents = list(by_document.values())
    chosen: set[int] = set()
    for number in np.random.default_rng([seed, 7]).permutation(len(documents)):
        if len(chosen) >= count:
            break
        chosen.update(documents[number])
    kept = [example for index, example in enumerate(examples) if index not in chosen]
    return kept, [examples[index] for index in sorted(chosen)]
