"""Training and validation examples of a run: files read by its task, limits, and the held-out part."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cogltx._progress import logger, progress
from cogltx.blocks import has_token, load_tokenizer
from cogltx.blocks import split as split_blocks
from cogltx.blocks._tokens import has_letter
from cogltx.config import ModelConfig
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.tasks import ReadReport, Split, make_task
from cogltx.tasks._from_table import training_table
from cogltx.tasks._table import is_table
from cogltx.tasks.jsonl import JsonLines, as_examples
from cogltx.training.config import DataSource, RunConfig

_MAX_HELD_OUT = 100
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")

Item = TypeVar("Item")
Source: TypeAlias = str | Path | Iterable[Example | Mapping[str, Any]]
"""A file, examples, or mappings in the JSON Lines form, such as a ``datasets.Dataset``."""


def expand(path: str) -> Path:
    """Fill in the environment variables and ``~`` of a path; raises ConfigError for a variable that is not set."""
    expanded = os.path.expanduser(os.path.expandvars(path))
    if missing := _VARIABLE.search(expanded):
        raise ConfigError(f"{path}: the environment variable {missing[1]} is not set")
    return Path(expanded)


def read_examples(
    config: ModelConfig,
    source: Source,
    split: Split,
    *,
    limit: int | None = None,
    longer_than: int | None = None,
    tokenizer: Any = None,
    seed: int = 0,
) -> tuple[list[Example], ReadReport]:
    """Read examples with a model's task; also returns what the task could not map.

    The package's own JSON Lines are read whatever the task is.
    At most ``limit`` are drawn at random with ``seed``, in the order of the file; ``longer_than`` counts the tokens of
    ``tokenizer``, by default the encoder's.

    Raises:
        DataError: there are no examples, or they are not in the format of the task.
    """
    report = ReadReport()
    task = make_task(config.task.name, config.task.options)
    if isinstance(source, str | Path):
        name = str(source)
        path = expand(name)
        is_own = not task.reads_json_lines and JsonLines.is_form_of(path)
        examples = list((JsonLines() if is_own else task).read(path, split=split, report=report))
    else:
        name = f"{split} data"
        examples = as_examples(source)
    if not examples:
        raise DataError(f"{name}: no examples of the task {task.name}")
    examples = list(_with_tokens(examples, config, name))
    if longer_than is not None:
        tokenizer = tokenizer or load_tokenizer(config.encoder.name)
        documents = {id(example.document): example.document for example in examples}  # examples may share one
        counted = progress(documents.items(), "count tokens", unit="documents")
        long = {key for key, document in counted if split_blocks(document, tokenizer).n_tokens > longer_than}
        examples = [example for example in examples if id(example.document) in long]
        if not examples:
            raise DataError(f"{name}: no document has more than {longer_than:,} tokens")
    return drawn(examples, limit, seed), report


def _with_tokens(examples: Iterable[Example], config: ModelConfig, name: str) -> Iterator[Example]:
    """Leave out examples whose document has no token, with a line of the log for each."""
    load = cache(load_tokenizer)  # only for a text without a letter
    for example in examples:
        text = example.document.text
        if has_letter(text) or has_token(text, load(config.encoder.name)):
            yield example
        else:
            logger.warning(f"left out: {name}: example {example.id!r}: the tokenizer finds no token in the text")


def drawn(items: list[Item], limit: int | None, seed: int) -> list[Item]:
    """Draw at most ``limit`` items, in their order."""
    if limit is None or limit >= len(items):
        return items
    chosen = np.random.default_rng([seed, 3]).choice(len(items), size=limit, replace=False)
    return [items[index] for index in sorted(chosen.tolist())]


def _read_files(run: RunConfig) -> tuple[list[Example], ReadReport]:
    """Read the training files of a run, one after another."""
    given, examples, total = run.data.train, list[Example](), ReadReport()
    for source in (DataSource(file=given, task=run.task),) if isinstance(given, str) else given:
        config = run.model_copy(update={"task": source.task})
        for file in files_of(source.file):
            given_source = _opened(config, file, total)
            read, report = read_examples(config, given_source, "train", limit=source.limit, seed=run.training.seed)
            examples += read
            total.add(report)
    return examples, total


def _opened(run: RunConfig, source: Source, report: ReadReport) -> Source:
    """Make the examples of a table of questions; other sources stay as they are."""
    if not isinstance(source, str | Path) or not is_table(source) or run.task.name != JsonLines.name:
        return source
    examples, lines = training_table(expand(str(source)), list(map(expand, run.data.documents or ())))
    report.remarks += lines
    return examples


def files_of(name: str) -> list[str]:
    """List the files of a name, in their order if it is a pattern; raises DataError if there is none."""
    if not set("*?[") & set(name) or expand(name).exists():
        return [name]
    found = sorted(glob(str(expand(name))))
    if not found:
        raise DataError(f"{name}: no such file")
    return found


def run_examples(
    run: RunConfig, train: Source | None = None, validation: Source | None = None
) -> tuple[list[Example], list[Example], ReadReport]:
    """Read training and validation examples, the run's by default; also returns what the task could not map.

    Raises:
        DataError: as ``read_examples``; or all examples would be held out.
    """
    data, seed = run.data, run.training.seed
    validation = data.validation if validation is None else validation
    if data.documents and not any(map(is_table, (*data.train_files, train, validation))):
        raise ConfigError("data.documents: only for a table of questions (.csv or .tsv) in data.train")
    total = ReadReport()
    examples, report = _read_files(run) if train is None else read_examples(run, _opened(run, train, total), "train")
    examples = drawn(examples, data.train_limit, seed)
    if validation is not None:
        source = _opened(run, validation, total)
        held_out, _ = read_examples(run, source, "validation", limit=data.validation_limit, seed=seed)
    else:
        examples, held_out = _hold_out(examples, data.held_out, seed)
    report.add(total)
    return examples, held_out, report


def n_held_out(total: int, held_out: int | None) -> int:
    """Return the number of training examples that validate: as configured, or a fifth, at most 100."""
    return min(_MAX_HELD_OUT, max(1, total // 5)) if held_out is None else held_out


def _hold_out(examples: Sequence[Example], held_out: int | None, seed: int) -> tuple[list[Example], list[Example]]:
    """Split examples into training and validation, by whole documents unless there is only one."""
    count = n_held_out(len(examples), held_out)
    by_document: dict[str, list[int]] = {}
    for index, example in enumerate(examples):
        by_document.setdefault(example.document.text, []).append(index)
    documents = list(by_document.values())
    if len(documents) == 1:
        documents = [[index] for index in documents[0]]
    chosen: set[int] = set()
    for number in np.random.default_rng([seed, 7]).permutation(len(documents)):
        if len(chosen) >= count:
            break
        chosen.update(documents[number])
    kept = [example for index, example in enumerate(examples) if index not in chosen]
    if len(examples) == 1:
        raise DataError("there is only one training example; a second one has to validate")
    if not kept:
        raise DataError(
            f"data.held_out: holding out {count} of {len(examples)} examples, by whole documents, leaves none to train "
            "on; hold out fewer, or name a validation file with data.validation (a CoNLL file without -DOCSTART- lines "
            "is one document)"
        )
    return kept, [examples[index] for index in sorted(chosen)]
