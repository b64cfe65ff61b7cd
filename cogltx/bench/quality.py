"""`cogltx bench quality`: train and evaluate several readers with several seeds under one budget, in one table.

Each training and each evaluation is a `cogltx train` or `cogltx evaluate` in a new process, so that seconds and memory
are its own and every row can be repeated by its commands. Finished parts are kept; run the same command to resume.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cogltx.baselines import reader_class
from cogltx.bench.process import run_command
from cogltx.bench.tables import table
from cogltx.cli.predictions import read_predictions
from cogltx.cli.yaml_config import load_yaml, parse_changes, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import changed, check_settings, read_json, write_file, write_json
from cogltx.judges import JudgeConfig
from cogltx.model import ModelConfig
from cogltx.prediction import Prediction
from cogltx.tasks import Split, Task, make_task
from cogltx.tasks.metrics import Interval, paired_bootstrap
from cogltx.training.config import RunConfig
from cogltx.training.data import expand, read_examples
from cogltx.training.optimizer import Seed

_EVIDENCE_METRICS = ("evidence_", "sup_", "joint_")  # measurable for readers with key blocks only


class _ReaderEntry(BaseModel):
    """One row of the table.

    Attributes:
        name: of the row.
        trained: an earlier row whose trained model this one uses; None: it is trained itself.
        changes: `KEY=VALUE` of the run's configuration, or, with `trained`, of the trained model's.
        judge: `bm25` or `package.module:Class`, instead of the trained model's judge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    trained: str | None = None
    changes: tuple[str, ...] = ()
    judge: str | None = None


class QualityConfig(BaseModel):
    """Readers to compare, and the data.

    Attributes:
        run: YAML file of the run that all rows share (data, epochs, examples), relative to this file.
        changes: `KEY=VALUE` of that run, for all rows.
        data: file to evaluate on.
        split: split of that file, if it has several.
        limit: evaluate on so many examples, drawn at random.
        longer_than: evaluate on documents of more tokens only.
        seeds: each row is trained and evaluated once per seed.
        metric: compares rows with the first one; the task's main metric by default.
        readers: the rows, the method to argue for first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    changes: tuple[str, ...] = ()
    data: str
    split: Split = "test"
    limit: int | None = Field(None, ge=1)
    longer_than: int | None = Field(None, ge=0)
    seeds: tuple[Seed, ...] = Field((0, 1), min_length=1)
    metric: str | None = None
    readers: tuple[_ReaderEntry, ...] = Field(min_length=1)

    @classmethod
    def load(cls, path: Path, changes: Sequence[str] = ()) -> "QualityConfig":
        """Load a YAML file, with `KEY=VALUE` changes.

        Raises:
            ConfigError: file not found, not YAML, or a key or value is wrong.
        """
        config = load_yaml(cls, path, changes)
        if len(set(config.seeds)) < len(config.seeds):
            raise ConfigError(f"{path}: seeds: {', '.join(map(str, config.seeds))} has a seed twice")
        for index, reader in enumerate(config.readers):
            before = config.readers[:index]
            if _slug(reader.name) in [_slug(other.name) for other in before]:
                raise ConfigError(f"{path}: readers.{index}.name: {reader.name!r} is also the name of another row")
            if reader.trained and reader.trained not in [other.name for other in before if other.trained is None]:
                raise ConfigError(f"{path}: readers.{index}.trained: no row above trains {reader.trained!r}")
        return config


@dataclass(frozen=True)
class _Measured:
    """Results of one row with one seed.

    Attributes:
        metrics: in percent.
        train_seconds: of the training; None if another row's model is used, or the training was interrupted.
        train_bytes: peak memory of the training.
        seconds: of the evaluation, loading included; None if it was interrupted.
        peak_bytes: peak memory of the evaluation.
    """

    metrics: dict[str, float]
    train_seconds: float | None
    train_bytes: int | None
    seconds: float | None
    peak_bytes: int


@dataclass(frozen=True)
class _Row:
    """One row of the table.

    Attributes:
        name: of the row.
        runs: one per seed.
        difference: from the first row in the compared metric, with its 95 % interval over the examples (paired
            bootstrap of the means over the seeds); None for the first row.
        commands: that repeat the row with the first seed.
    """

    name: str
    runs: tuple[_Measured, ...]
    difference: Interval | None
    commands: tuple[str, ...]


def run(path: Path, output: Path, changes: Sequence[str] = (), *, report: Callable[[str], None] = print) -> list[_Row]:
    """Train and evaluate every row, or resume that; write `quality.json` and `quality.md`.

    Raises:
        ConfigError: the configuration is wrong, or differs from that of the folder in more than rows, seeds and metric.
        DataError: the evaluation data is wrong; before anything is trained.
        ModelError: a training or an evaluation failed.
    """
    config = QualityConfig.load(path, changes)
    base = path.parent / config.run
    shared = load_yaml(RunConfig, base, config.changes)
    expand(shared.data.train)
    task = make_task(shared.task.name, shared.task.options)
    examples = _examples(config, shared)
    metric = _metric(config, task, examples)
    without_evidence = _check_rows(config, base, shared, examples)
    measured_on = config.model_dump(mode="json", include={"data", "split", "limit", "longer_than"})
    settings = {"run": shared.model_dump(mode="json"), **measured_on}
    noted = output / "settings.json"
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    write_json(noted, settings)
    bench = _Bench(config, base, output, without_evidence, report)
    measured = {reader.name: tuple(bench.measure(reader, seed) for seed in config.seeds) for reader in config.readers}
    scores: dict[str, list[float] | None] = {}
    for reader in config.readers:
        if all(metric in one.metrics for one in measured[reader.name]):
            predictions = [bench.predictions(reader, seed) for seed in config.seeds]
            scores[reader.name] = _example_scores(task, metric, examples, predictions)
    rows = []
    first = scores.get(config.readers[0].name)
    for index, reader in enumerate(config.readers):
        other = scores.get(reader.name)
        difference = paired_bootstrap(other, first) if index and other and first else None
        rows.append(
            _Row(reader.name, measured[reader.name], difference, tuple(bench.commands(reader, config.seeds[0])))
        )
    write_json(output / "quality.json", {"metric": metric, "rows": [asdict(row) for row in rows]})
    write_file(output / "quality.md", _markdown(rows, metric))
    return rows


def _examples(config: QualityConfig, run: RunConfig) -> list[Example]:
    return read_examples(run, config.data, config.split, limit=config.limit, longer_than=config.longer_than)[0]


def _metric(config: QualityConfig, task: Task, examples: Sequence[Example]) -> str:
    """Return the metric that compares rows, which the task must have."""
    metric = config.metric or task.main_metric
    empty = Prediction(id="", answer="", start=None, end=None, score=0.0)
    metrics = task.metrics((example, empty) for example in examples)
    if metric not in metrics:
        raise ConfigError(f"metric: {metric!r} is not measured on this data; choose from {', '.join(metrics)}")
    return metric


def _check_rows(config: QualityConfig, base: Path, shared: RunConfig, examples: Sequence[Example]) -> set[str]:
    """Check each row's configuration and examples, and return the rows whose reader shows no evidence."""
    changes: dict[str, tuple[str, ...]] = {}
    without_evidence = set()
    for reader in config.readers:
        changes[reader.name] = (*changes.get(reader.trained or "", config.changes), *reader.changes)
        run = load_yaml(RunConfig, base, changes[reader.name])
        if reader.trained is not None:
            values = changed(shared.model_part().model_dump(mode="json"), parse_changes(reader.changes))
            validated(ModelConfig, values, lambda key: "--set")
        if not reader_class(run.reader).uses_judge:
            without_evidence.add(reader.name)
        if reader.judge is not None:
            validated(JudgeConfig, {"name": reader.judge}, lambda key: "judge")
            if reader.name in without_evidence:
                raise ConfigError(f"readers: {reader.name}: judge is set, but the reader {run.reader} uses no judge")
        same = run.task == shared.task and (config.longer_than is None or run.encoder.name == shared.encoder.name)
        if not same and [one.id for one in _examples(config, run)] != [one.id for one in examples]:
            raise ConfigError(f"readers: {reader.name}: the row is evaluated on other examples than the first")
    return without_evidence


@dataclass(frozen=True)
class _Bench:
    """Files and commands of a comparison."""

    config: QualityConfig
    base: Path
    output: Path
    without_evidence: set[str]
    report: Callable[[str], None]

    def folder(self, name: str, seed: int) -> Path:
        return self.output / "runs" / f"{_slug(name)}-{seed}"

    def predictions(self, reader: _ReaderEntry, seed: int) -> Path:
        return self.output / "predictions" / f"{_slug(reader.name)}-{seed}.jsonl"

    def commands(self, reader: _ReaderEntry, seed: int) -> Iterator[str]:
        """Yield the commands that repeat a row."""
        if reader.trained is None:
            yield shlex.join(["cogltx", *self._train_arguments(reader, seed)])
        yield shlex.join(["cogltx", *self._evaluate_arguments(reader, seed)])

    def measure(self, reader: _ReaderEntry, seed: int) -> _Measured:
        """Train and evaluate a row with one seed, or load the result."""
        record = self.output / "results" / f"{_slug(reader.name)}-{seed}.json"
        commands = {"commands": list(self.commands(reader, seed))}
        path = self.predictions(reader, seed)
        if record.exists():
            saved = read_json(record)
            check_settings(record, commands, {"commands": saved.pop("commands", None)}, "another name for the row")
            if path.exists():
                try:
                    return _Measured(**saved)
                except TypeError as error:
                    raise ModelError(f"{record}: this is no measurement; remove the file to measure again") from error
        trained = self._trained(reader, seed) if reader.trained is None else {}
        uninterrupted = not path.exists()
        self.report(f"{reader.name}, seed {seed}: evaluate")
        printed, seconds, peak_bytes = run_command(self._evaluate_arguments(reader, seed))
        metrics = json.loads(printed)["metrics"]
        if reader.name in self.without_evidence:
            metrics = {name: value for name, value in metrics.items() if not name.startswith(_EVIDENCE_METRICS)}
        result = _Measured(
            metrics=metrics, train_seconds=trained.get("seconds"), train_bytes=trained.get("peak_bytes"),
            seconds=seconds if uninterrupted else None, peak_bytes=peak_bytes,
        )  # fmt: skip
        write_json(record, commands | asdict(result))
        return result

    def _trained(self, reader: _ReaderEntry, seed: int) -> dict[str, Any]:
        """Train a row, or load seconds and memory of the finished training."""
        record = self.output / "results" / f"{_slug(reader.name)}-{seed}.trained.json"
        if not record.exists():
            uninterrupted = not self.folder(reader.name, seed).exists()
            self.report(f"{reader.name}, seed {seed}: train")
            _, seconds, peak_bytes = run_command(self._train_arguments(reader, seed))
            write_json(record, {"seconds": seconds if uninterrupted else None, "peak_bytes": peak_bytes})
        return read_json(record)

    def _train_arguments(self, reader: _ReaderEntry, seed: int) -> list[str]:
        options = _options([*self.config.changes, *reader.changes, f"training.seed={seed}"])
        return ["train", str(self.base), *options, "--output", str(self.folder(reader.name, seed)), "--resume"]

    def _evaluate_arguments(self, reader: _ReaderEntry, seed: int) -> list[str]:
        config = self.config
        options = _options(reader.changes if reader.trained is not None else ())
        options += ["--limit", str(config.limit)] if config.limit else []
        options += ["--longer-than", str(config.longer_than)] if config.longer_than is not None else []
        options += ["--judge", reader.judge] if reader.judge else []
        folder, path = self.folder(reader.trained or reader.name, seed), self.predictions(reader, seed)
        data = ["--data", str(expand(config.data)), "--split", config.split]
        return ["evaluate", str(folder), *data, *options, "--predictions", str(path), "--json"]


def _options(changes: Sequence[str]) -> list[str]:
    return [part for change in changes for part in ("--set", change)]


def _example_scores(
    task: Task, metric: str, examples: Sequence[Example], predictions: Sequence[Path]
) -> list[float] | None:
    """Return the metric per example, averaged over the seeds; None if the metric is not defined per example."""
    per_seed = []
    for path in predictions:
        by_id = {prediction.id: prediction for prediction in read_predictions(path)}
        missing = next((example.id for example in examples if example.id not in by_id), None)
        if missing is not None:
            raise DataError(f"{path}: no prediction for example {missing!r}; remove the file to predict again")
        per_seed.append([task.per_example(example, by_id[example.id]).get(metric) for example in examples])
    means = []
    for scores in zip(*per_seed, strict=True):
        defined = [score for score in scores if score is not None]
        if len(defined) < len(scores):
            return None
        means.append(fmean(defined))
    return means


def _markdown(rows: Sequence[_Row], metric: str) -> str:
    """Format means over the seeds, with their spread (half the range) if there are several, and the commands."""
    metrics = list(dict.fromkeys(key for row in rows for one in row.runs for key in one.metrics))
    lines = [["", *metrics, f"{metric}, difference from the first [95 %]", "training s", "s", "MiB"]]
    for row in rows:
        difference = "–"
        if row.difference is not None:
            mean, low, high = (
                100 * each for each in (row.difference.mean_difference, row.difference.low, row.difference.high)
            )
            difference = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        lines.append([
            row.name,
            *(_spread([one.metrics.get(key) for one in row.runs]) for key in metrics),
            difference,
            _spread([one.train_seconds for one in row.runs], digits=0),
            _spread([one.seconds for one in row.runs], digits=0),
            f"{max(one.peak_bytes for one in row.runs) / 2**20:,.0f}",
        ])  # fmt: skip
    commands = [f"    {command}" for row in rows for command in row.commands]
    return "\n".join([table(lines, markdown=True), "", "Commands of each row, with the first seed:", "", *commands, ""])


def _spread(values: Sequence[float | None], digits: int = 1) -> str:
    defined = [value for value in values if value is not None]
    if not defined:
        return "–"
    mean = f"{fmean(defined):.{digits}f}"
    return f"{mean} ± {(max(defined) - min(defined)) / 2:.{digits}f}" if len(defined) > 1 else mean


def _slug(name: str) -> str:
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
