"""`cogltx bench quality`: train and evaluate the built-in readers on one data set.

Each training and each evaluation is a `cogltx train` or `cogltx evaluate` in a new process, so that seconds and memory
are its own and every row can be repeated by its commands. Finished parts are kept; run the same command to resume.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from cogltx._files import changed, check_settings, read_json, write_json
from cogltx.baselines import reader_class
from cogltx.bench._origin import origin, sha256
from cogltx.bench._process import run_command
from cogltx.bench._readers import READERS, Row, select_readers
from cogltx.bench._results import save, section
from cogltx.cli._predictions import saved_predictions, task_of
from cogltx.cli._yaml_config import load_yaml, parse_changes, validated
from cogltx.config import ModelConfig
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.tasks import TASKS, Task, make_task
from cogltx.tasks.metrics import Fraction, paired_bootstrap, sums_by_document
from cogltx.training._data import expand, files_of, read_examples
from cogltx.training.config import RunConfig

_EVIDENCE_METRICS = ("evidence_", "sup_", "joint_")  # measurable for readers with key blocks only
_N_TIMED = 5  # questions
_FOR_READER = re.compile(r"(\w+):")  # before `KEY=VALUE`


@dataclass(frozen=True)
class Comparison:
    """The readers to compare, and the data to compare them on.

    Attributes:
        config: YAML file of the run that all readers share.
        data: the file to evaluate on; `$NAME` is replaced by the environment variable.
        output: folder for runs, predictions and results.
        readers: the rows, of which the first is compared with the others; None: those by default that suit the data.
        seeds: each reader is trained and evaluated once per seed.
        limit: evaluate on so many examples, drawn at random.
        longer_than: evaluate on documents of more tokens only.
        changes: `KEY=VALUE` of the run for all readers, or `READER:KEY=VALUE` for one.
        report: receives messages.
    """

    config: Path
    data: str
    output: Path
    readers: tuple[str, ...] | None = None
    seeds: tuple[int, ...] = (0, 1)
    limit: int | None = None
    longer_than: int | None = None
    changes: tuple[str, ...] = ()
    report: Callable[[str], None] = print

    @cached_property
    def run(self) -> RunConfig:
        """Configuration of the run with the changes for all readers."""
        return load_yaml(RunConfig, self.config, self.special(None))

    def special(self, reader: str | None) -> list[str]:
        """Return the changes for one reader, or those for all; raises ConfigError if one is for an unknown reader."""
        split = [_FOR_READER.match(change) for change in self.changes]
        if unknown := [match[1] for match in split if match and match[1] not in READERS]:
            raise ConfigError(f"--set {unknown[0]}:…: not a reader; choose from {', '.join(READERS)}")
        named = [(match[1] if match else None, text) for match, text in zip(split, self.changes, strict=True)]
        return [text.removeprefix(f"{name}:") for name, text in named if name == reader]

    def changes_of(self, reader: Row) -> list[str]:
        """Return the changes that a reader makes, without settings that the run's reasoner or task lacks."""
        known = {
            "reasoner": type(self.run.reasoner).model_fields, "task.options": TASKS[self.run.task.name].model_fields
        }  # fmt: skip
        changes = [*reader.changes, *self.special(reader.name)]
        parts = [re.match(r"(reasoner|task\.options)\.(\w+)", change) for change in changes]
        return [change for change, of in zip(changes, parts, strict=True) if of is None or of[2] in known[of[1]]]

    def model_of(self, reader: Row) -> ModelConfig:
        """Configuration of the model that a reader evaluates; raises ConfigError if a change is wrong."""
        changes = [*self.special(None), *self.changes_of(READERS[reader.trained or reader.name])]
        model = load_yaml(RunConfig, self.config, changes).model_part()
        if reader.trained is None:
            return model
        values = changed(model.model_dump(mode="json"), parse_changes(self.changes_of(reader)))
        return validated(ModelConfig, values, lambda key: "--set")

    def path(self, kind: str, name: str, seed: int, suffix: str = "") -> Path:
        """File or folder of a reader with a seed."""
        return self.output / kind / f"{name}-{seed}{suffix}"

    def commands(self, reader: Row, seed: int) -> tuple[list[str], list[str]]:
        """Arguments of the commands that train a reader, or the one whose model it uses, and evaluate it."""
        trained = READERS[reader.trained or reader.name]
        folder = str(self.path("runs", trained.name, seed))
        changes = _options([*self.special(None), *self.changes_of(trained), f"training.seed={seed}"])
        evaluate = ["evaluate", folder, "--data", self.data, "--split", "test"]
        evaluate += _options(self.changes_of(reader)) if reader.trained else []
        evaluate += ["--limit", str(self.limit)] if self.limit else []
        evaluate += ["--longer-than", str(self.longer_than)] if self.longer_than is not None else []
        evaluate += ["--judge", reader.judge, "--tune"] if reader.judge else []
        evaluate += ["--timed", str(_N_TIMED), "--json"]
        evaluate += ["--predictions", str(self.path("predictions", reader.name, seed, ".jsonl"))]
        return ["train", str(self.config), *changes, "--output", folder, "--resume"], evaluate


def compare(comparison: Comparison, results: Path | None = None) -> tuple[dict[str, Any], str]:
    """Train and evaluate readers, or resume that; write `quality.json`, in the folder of `results` too.

    Returns:
        The measurement and its table. The `runs` of a row, one per seed, have metrics in percent, and seconds (None if
        interrupted) and peak memory of training (None if another reader's model is used) and evaluation, loading and
        timing included; `seconds_per_question` has the means of first and further questions about a document.
        `difference` has the differences from the first row in points, with 95 % intervals over the examples (paired
        bootstrap of the means over the seeds). `commands` repeat the row with the first seed.

    Raises:
        ConfigError: a setting, change or reader is wrong, or differs from what the folder was started with.
        DataError: the evaluation data is wrong; before anything is trained.
        ModelError: a training or an evaluation failed.
    """
    run, data, limit, longer_than = comparison.run, comparison.data, comparison.limit, comparison.longer_than
    examples = read_examples(run, data, "test", limit=limit, longer_than=longer_than)[0]
    readers = select_readers(comparison.readers, examples)
    for reader in readers:
        comparison.model_of(reader)  # checks its changes
    files = [data, *chain.from_iterable(map(files_of, run.data.train_files)), *filter(None, [run.data.validation])]
    settings = {
        "run": run.model_dump(mode="json"), "data": data, "limit": limit, "longer_than": longer_than,
        "sha256": {name: sha256(expand(name)) for name in files},
    }  # fmt: skip
    noted = comparison.output / "settings.json"
    if noted.exists():
        check_settings(comparison.output, settings, read_json(noted))
    write_json(noted, settings)
    rows = [_row(comparison, reader) for reader in readers]
    _add_differences(comparison, examples, rows)
    name = comparison.config.stem.removesuffix("-minilm") + (f"-over-{longer_than}" if longer_than else "")
    if results is not None and results.suffix == ".json":
        results, name = results.parent, results.stem
    measured: dict[str, Any] = {
        "title": name, "by_default": [reader.name for reader in select_readers(None, examples)],
        "command": _shell(sys.argv[1:]), "config": str(comparison.config), **origin(), **settings,
        "examples": len(examples), "rows": rows,
    }  # fmt: skip
    write_json(comparison.output / "quality.json", measured)
    if results is not None:
        save(results / f"{name}.json", measured)
    return measured, "\n".join(section(measured))


def _row(comparison: Comparison, reader: Row) -> dict[str, Any]:
    """Measure a reader with every seed; the row's origin is that of its oldest run."""
    runs = [_measure(comparison, reader, seed) for seed in comparison.seeds]
    origins = [one.pop("origin") for one in runs]
    return {
        "reader": reader.name, "label": reader.label, "notes": comparison.special(reader.name),
        "changes": comparison.changes_of(reader), "judge": reader.judge, "seeds": list(comparison.seeds),
        **min(origins, key=lambda one: str(one["date"])), "runs": runs, "difference": {},
        "commands": list(map(_shell, comparison.commands(reader, comparison.seeds[0]))),
    }  # fmt: skip


def _measure(comparison: Comparison, reader: Row, seed: int) -> dict[str, Any]:
    """Train and evaluate a reader with one seed, or load the result."""
    train, evaluate = comparison.commands(reader, seed)
    record = comparison.path("results", reader.name, seed, ".json")
    predictions = comparison.path("predictions", reader.name, seed, ".jsonl")
    commands = {"commands": list(map(_shell, [train, evaluate]))}
    if record.exists():
        saved = read_json(record)
        check_settings(record, commands, {"commands": saved.pop("commands", None)})
        if predictions.exists():
            return saved
    trained = _train(comparison, reader.trained or reader.name, seed, train)
    uninterrupted = not predictions.exists()
    comparison.report(f"{reader.name}, seed {seed}: evaluate")
    printed, seconds, peak_bytes = run_command(evaluate)
    measured = json.loads(printed)
    has_evidence = reader_class(comparison.model_of(reader).reader).uses_judge
    metrics = {
        name: value for name, value in measured["metrics"].items()
        if has_evidence or not name.startswith(_EVIDENCE_METRICS)
    }  # fmt: skip
    result = {
        "metrics": metrics, "seconds": seconds if uninterrupted else None, "peak_bytes": peak_bytes,
        "seconds_per_question": measured["seconds_per_question"], "origin": origin(),
        **(dict.fromkeys(trained) if reader.trained else trained),
    }  # fmt: skip
    write_json(record, commands | result)
    return result


def _train(comparison: Comparison, name: str, seed: int, command: list[str]) -> dict[str, Any]:
    """Train a reader, or load seconds and memory of the finished training."""
    record = comparison.path("results", name, seed, ".trained.json")
    if not record.exists():
        uninterrupted = not comparison.path("runs", name, seed).exists()
        comparison.report(f"{name}, seed {seed}: train")
        _, seconds, peak_bytes = run_command(command)
        write_json(record, {"train_seconds": seconds if uninterrupted else None, "train_bytes": peak_bytes})
    return read_json(record)


def _add_differences(comparison: Comparison, examples: Sequence[Example], rows: Sequence[dict[str, Any]]) -> None:
    """Compare the rows with the first in the task's main metric, and in that of readers without evidence."""
    task = make_task(comparison.run.task.name, comparison.run.task.options)
    for metric in dict.fromkeys([task.answer_metric or task.main_metric, task.main_metric]):
        first: list[dict[str, Fraction]] = []
        for row in rows:
            if not all(metric in one["metrics"] for one in row["runs"]):
                continue
            predictions = [comparison.path("predictions", row["reader"], seed, ".jsonl") for seed in comparison.seeds]
            sums = _document_sums(task, metric, examples, predictions)
            if row is rows[0]:
                first = sums
            elif sums and first:
                found = paired_bootstrap(sums, first)
                points, low, high = (100 * found[key] for key in ("mean_difference", "low", "high"))
                row["difference"][metric] = {"points": points, "low": low, "high": high}


def _document_sums(
    task: Task, metric: str, examples: Sequence[Example], predictions: Sequence[Path]
) -> list[dict[str, Fraction]]:
    """Return numerator and denominator of the metric in every document, per seed; empty if it is no ratio."""
    per_seed = []
    for path in predictions:
        by_id = {prediction.id: prediction for prediction, _ in saved_predictions(path)}
        missing = next((example.id for example in examples if example.id not in by_id), None)
        if missing is not None:
            raise DataError(f"{path}: no prediction for example {missing!r}; remove the file to predict again")
        pairs = ((example, by_id[example.id]) for example in examples)
        per_seed.append(sums_by_document(task_of(path, task).fractions(pairs)).get(metric, {}))
    return per_seed if all(per_seed) else []


def _shell(arguments: Sequence[str]) -> str:
    return shlex.join(["cogltx", *arguments])


def _options(changes: Sequence[str]) -> list[str]:
    return [part for change in changes for part in ("--set", change)]
