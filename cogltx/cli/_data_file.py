"""The configuration of a training that is given a data file in place of a YAML file."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cogltx._files import changed
from cogltx._languages import model_for
from cogltx._messages import counted
from cogltx._progress import logger
from cogltx.cli._yaml_config import parse_changes
from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.tasks._from_table import training_table
from cogltx.tasks._table import is_table
from cogltx.tasks.jsonl import JsonLines
from cogltx.training._data import expand, files_of, n_held_out


def is_data_file(path: Path) -> bool:
    """Check whether a file has examples, by its name: JSON Lines or a table."""
    return is_table(path) or path.name.lower().endswith((".jsonl", ".jsonl.gz"))


def settings_for(
    file: Path, documents: Sequence[Path], changes: Sequence[str]
) -> tuple[list[str], list[Example] | None]:
    """Choose the settings that fit the examples of a file, which ``changes`` replace; the log says what was decided.

    Returns:
        The settings, and the examples if they are made from a table.

    Raises:
        DataError: the file has no examples, or examples of several kinds.
    """
    lines = list[str]()
    if is_table(file):
        examples, lines = training_table(file, documents)
    else:
        examples = [one for name in files_of(str(file)) for one in JsonLines().read(expand(name), split="train")]
    questions = [example for example in examples if example.query]
    labelled = [example.labels for example in examples if example.labels is not None]
    entities = [example.entities for example in examples if example.entities is not None]
    kinds = {"questions": len(questions), "labels": len(labelled), "entities": len(entities)}
    kinds = {kind: count for kind, count in kinds.items() if count}
    if not kinds:
        raise DataError(f"{file}: no example with a question, labels or entities, from which a model learns")
    if len(kinds) > 1:
        mixture = " and ".join(f"{count:,} with {kind}" for kind, count in kinds.items())
        raise DataError(f"{file}: {mixture} together; a model learns one kind, so put each into its own file")
    decided, what = [f"data.train={json.dumps(str(file), ensure_ascii=False)}"], counted(len(questions), "question")
    if questions:
        decided.append(f"init_from={model_for(list({id(one.document): one.document for one in questions}.values()))}")
        if sum(one.has_relevance for one in questions) <= n_held_out(len(questions), None):
            decided.append("training.judge_epochs=0")  # those without might be all that is left to train on
    elif labelled:
        names = Counter(label for labels in labelled for label in labels)
        what = f"{counted(len(labelled), 'text')} with {counted(len(names), 'label')}"
        decided.append("reasoner.name=classification")
        decided += ["reasoner.multi_label=true"] * any(len(labels) != 1 for labels in labelled)
    else:
        what = f"{counted(len(entities), 'text')} with {sum(map(len, entities)):,} entities"
        decided.append("reasoner.name=tagging")
    settings = changed({}, parse_changes([*decided, *changes]))
    start, kind = settings.get("init_from"), changed({"name": "span"}, settings.get("reasoner") or {})["name"]
    model = f"training {start} further" if start else f"training a new {kind} model"
    if "training.judge_epochs=0" in decided:
        model += ", but not its judge, which learns from places of answers"
    logger.info(f"{what}; {model} (--set init_from=MODEL chooses {'another' if start else 'one to train further'})")
    for line in lines:
        logger.info(line)
    return decided, examples if lines else None
