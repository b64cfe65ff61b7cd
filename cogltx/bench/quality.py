"""`cogltx bench quality`: train and evaluate several readers with several seeds under one budget, in one table.

Each training and each evaluation is a `cogltx train` or `cogltx evaluate` in a new process, so that seconds and memory
are its own and every row can be repeated by its commands. Finished parts are kept; run the same command to resume.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cogltx.baselines import reader_class
from cogltx.bench.process import run_command
from cogltx.bench.tables import table
from cogltx.cli.predictions import read_predictions, task_of
from cogltx.cli.yaml_config import load_yaml, parse_changes, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import changed, check_settings, read_json, write_file, write_json
from cogltx.judges import JudgeConfig
from cogltx.model import ModelConfig
from cogltx.prediction import Prediction
from cogltx.tasks import Split, Task, make_task
from cogltx.tasks.metrics import Fraction, paired_bootstrap, sums_by_document
from cogltx.training.config import RunConfig
from cogltx.training.data import expand, read_examples, run_examples
from cogltx.training.optimizer import Seed

_EVIDENCE_METRICS = ("evidence_", "sup_", "joint_")  # measurable for readers with key blocks only
_RESULTS = {"metrics", "train_seconds", "train_bytes", "seconds", "peak_bytes", "seconds_per_question"}
_MEASURED_ON = {"data", "split", "limit", "longer_than", "train_seconds", "total_seconds"}
_N_TIMED = 5  # questions
_N_PILOT, _N_VALIDATED = 40, 8  # examples of a short training


class _ReaderEntry(BaseModel):
    """One row of the table.

    Attributes:
        name: of the row.
        trained: an earlier row whose trained model this one uses; None: it is trained itself.
        changes: `KEY=VALUE` of the run's configuration, or, with `trained`, of the trained model's.
        judge: `bm25`, `embedding`, a model or `package.module:Class`, instead of the trained model's judge; thresholds
            are chosen anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    trained: str | None = None
    changes: tuple[str, ...] = ()
    judge: str | None = None


class _QualityConfig(BaseModel):
    """Readers to compare, and the data.

    Attributes:
        run: YAML file of the run that all rows share (data, epochs, examples), relative to this file.
        changes: `KEY=VALUE` of that run, for all rows.
        data: file to evaluate on.
        split: split of that file, if it has several.
        limit: evaluate on so many examples, drawn at random.
        longer_than: evaluate on documents of more tokens only.
        train_seconds: train each reader for about so many seconds: short trainings measure its speed, from which
            follows on how many examples it trains for the epochs of its configuration, or for more epochs where all
            examples fit. None: as the configuration says.
        total_seconds: the same for training and reading of the evaluated examples together.
        seeds: each row is trained and evaluated once per seed.
        metric: compares rows with the first one; the task's main metric by default.
        readers: the rows; the first is the reference of all comparisons.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    changes: tuple[str, ...] = ()
    data: str
    split: Split = "test"
    limit: int | None = Field(None, ge=1)
    longer_than: int | None = Field(None, ge=0)
    train_seconds: float | None = Field(None, gt=0)
    total_seconds: float | None = Field(None, gt=0)
    seeds: tuple[Seed, ...] = Field((0, 1), min_length=1)
    metric: str | None = None
    readers: tuple[_ReaderEntry, ...] = Field(min_length=1)

    @classmethod
    def load(cls, path: Path, changes: Sequence[str] = ()) -> "_QualityConfig":
        """Load a YAML file, with `KEY=VALUE` changes.

        Raises:
            ConfigError: file not found, not YAML, or a key or value is wrong.
        """
        config = load_yaml(cls, path, changes)
        if config.train_seconds is not None and config.total_seconds is not None:
            raise ConfigError(f"{path}: train_seconds and total_seconds exclude each other; set one of them to null")
        if len(set(config.seeds)) < len(config.seeds):
            raise ConfigError(f"{path}: seeds: {', '.join(map(str, config.seeds))} has a seed twice")
        for index, reader in enumerate(config.readers):
            before = config.readers[:index]
            if _slug(reader.name) in [_slug(other.name) for other in before]:
                raise ConfigError(f"{path}: readers.{index}.name: {reader.name!r} is also the name of another row")
            if reader.trained and reader.trained not in [other.name for other in before if other.trained is None]:
                raise ConfigError(f"{path}: readers.{index}.trained: no row above trains {reader.trained!r}")
        return config


def run(
    path: Path, output: Path, changes: Sequence[str] = (), *, report: Callable[[str], None] = print
) -> tuple[list[dict[str, Any]], str]:
    """Train and evaluate every row, or resume that; write `quality.json` and `quality.md`.

    Returns:
        The rows and their table. The `runs` of a row, one per seed, have metrics in percent, and seconds (None if
        interrupted) and peak memory of training (None if another row's model is used) and evaluation, loading and
        timing included; `seconds_per_question` has the means of first and further questions about a document.
        `difference` is that from the first row in the compared metric, with its 95 % interval over the examples (paired
        bootstrap of the means over the seeds), None for the first row. `commands` repeat the row with the first seed.

    Raises:
        ConfigError: the configuration is wrong, or differs from that of the folder in more than rows, seeds and metric.
        DataError: the evaluation data is wrong; before anything is trained.
        ModelError: a training or an evaluation failed.
    """
    config = _QualityConfig.load(path, changes)
    base = path.parent / config.run
    shared = load_yaml(RunConfig, base, config.changes)
    for file in shared.data.train_files:
        expand(file)
    task = make_task(shared.task.name, shared.task.options)
    examples = _examples(config, shared)
    metric = config.metric or task.main_metric
    empty = Prediction(id="", answer="", start=None, end=None, score=0.0)
    metrics = task.metrics((example, empty) for example in examples)
    if metric not in metrics:
        raise ConfigError(f"metric: {metric!r} is not measured on this data; choose from {', '.join(metrics)}")
    without_evidence = _check_rows(config, base, shared, examples)
    settings = {"run": shared.model_dump(mode="json"), **config.model_dump(mode="json", include=_MEASURED_ON)}
    noted = output / "settings.json"
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    write_json(noted, settings)
    bench = _Bench(config, base, output, without_evidence, len(examples), report)
    rows: list[dict[str, Any]] = []
    for reader in config.readers:
        runs = [bench.measure(reader, seed) for seed in config.seeds]
        commands = list(map(_shell, bench.commands(reader, config.seeds[0])))
        rows.append({"name": reader.name, "runs": runs, "difference": None, "commands": commands})
    first: list[dict[str, Fraction]] = []
    for reader, row in zip(config.readers, rows, strict=True):
        if all(metric in one["metrics"] for one in row["runs"]):
            predictions = [bench.path("predictions", reader.name, seed, ".jsonl") for seed in config.seeds]
            sums = _document_sums(task, metric, examples, predictions)
            if row is rows[0]:
                first = sums
            elif sums and first:
                row["difference"] = paired_bootstrap(sums, first)
    text = _markdown(rows, metric)
    write_json(output / "quality.json", {"metric": metric, "rows": rows})
    write_file(output / "quality.md", text)
    return rows, text


def _examples(config: _QualityConfig, run: RunConfig) -> list[Example]:
    return read_examples(run, config.data, config.split, limit=config.limit, longer_than=config.longer_than)[0]


def _check_rows(config: _QualityConfig, base: Path, shared: RunConfig, examples: Sequence[Example]) -> set[str]:
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

    config: _QualityConfig
    base: Path
    output: Path
    without_evidence: set[str]
    n_examples: int
    report: Callable[[str], None]

    def path(self, kind: str, name: str, seed: int, suffix: str = "") -> Path:
        return self.output / kind / f"{_slug(name)}-{seed}{suffix}"

    def commands(self, reader: _ReaderEntry, seed: int) -> Iterator[list[str]]:
        """Yield the arguments of the commands that train a row, unless it uses another row's model, and evaluate it."""
        config = self.config
        folder = self.path("runs", reader.trained or reader.name, seed)
        evaluate = ["evaluate", str(folder), "--data", str(expand(config.data)), "--split", config.split]
        if reader.trained is None:
            budget = self._budget(reader) if config.train_seconds or config.total_seconds else ()
            options = _options([*config.changes, *reader.changes, *budget, f"training.seed={seed}"])
            yield ["train", str(self.base), *options, "--output", str(folder), "--resume"]
        else:
            evaluate += _options(reader.changes)
        evaluate += ["--limit", str(config.limit)] if config.limit else []
        evaluate += ["--longer-than", str(config.longer_than)] if config.longer_than is not None else []
        evaluate += ["--judge", reader.judge, "--tune"] if reader.judge else []
        evaluate += ["--timed", str(_N_TIMED)]
        yield [*evaluate, "--predictions", str(self.path("predictions", reader.name, seed, ".jsonl")), "--json"]

    def measure(self, reader: _ReaderEntry, seed: int) -> dict[str, Any]:
        """Train and evaluate a row with one seed, or load the result."""
        *train, evaluate = self.commands(reader, seed)
        record = self.path("results", reader.name, seed, ".json")
        predictions = self.path("predictions", reader.name, seed, ".jsonl")
        commands = {"commands": list(map(_shell, [*train, evaluate]))}
        if record.exists():
            saved = read_json(record)
            check_settings(record, commands, {"commands": saved.pop("commands", None)}, "another name for the row")
            if predictions.exists():
                if set(saved) != _RESULTS:
                    raise ModelError(f"{record}: this is no measurement; remove the file to measure again")
                return saved
        trained = self._trained(reader, seed, train[0]) if train else {"seconds": None, "peak_bytes": None}
        uninterrupted = not predictions.exists()
        self.report(f"{reader.name}, seed {seed}: evaluate")
        printed, seconds, peak_bytes = run_command(evaluate)
        measured = json.loads(printed)
        metrics = measured["metrics"]
        if reader.name in self.without_evidence:
            metrics = {name: value for name, value in metrics.items() if not name.startswith(_EVIDENCE_METRICS)}
        result = {
            "metrics": metrics, "train_seconds": trained["seconds"], "train_bytes": trained["peak_bytes"],
            "seconds": seconds if uninterrupted else None, "peak_bytes": peak_bytes,
            "seconds_per_question": measured["seconds_per_question"],
        }  # fmt: skip
        write_json(record, commands | result)
        return result

    def _budget(self, reader: _ReaderEntry) -> list[str]:
        """Return the changes with which a reader trains, or trains and reads, for the seconds of the comparison."""
        record = self.path("results", reader.name, self.config.seeds[0], ".budget.json")
        if not record.exists():
            run = load_yaml(RunConfig, self.base, (*self.config.changes, *reader.changes))
            examples, validation, _ = run_examples(run)
            n = max(1, min(_N_PILOT, len(examples) // 2))
            n_validation = max(1, min(_N_VALIDATED, len(validation) // 2))
            recall_epochs = run.training.judge_epochs or 1  # later ones may cost less
            judge_share = (run.training.judge_examples or len(examples)) / len(examples)
            sizes = [(n, n_validation, 1), (2 * n, n_validation, 1), (n, 2 * n_validation, 1)]
            pilots = [self._pilot(reader, run, judge_share, *size) for size in sizes]

            def fitting() -> tuple[int, int]:
                rates = _Rates.of(pilots, n, n_validation, recall_epochs)
                seconds = self._train_seconds(rates)
                return rates.fitting(seconds, run.training.epochs, len(examples), len(validation), recall_epochs)

            epochs, n_trained = fitting()
            if epochs > recall_epochs and reader_class(run.reader).uses_judge:
                pilots.append(self._pilot(reader, run, judge_share, n, n_validation, recall_epochs + 1))
                epochs, n_trained = fitting()
            changes = [f"training.epochs={epochs}", *_size(run, judge_share, n_trained, len(validation))]
            write_json(record, {"pilots": pilots, "changes": changes})
        recorded: list[str] = read_json(record)["changes"]
        return recorded

    def _train_seconds(self, rates: "_Rates") -> float:
        """Return the seconds that are left for training."""
        config = self.config
        if config.total_seconds is None:
            return config.train_seconds or 0.0
        left = config.total_seconds - self.n_examples * rates.validation
        if left <= 0:
            spent = config.total_seconds - left
            raise ConfigError(f"total_seconds: reading the {self.n_examples} examples alone takes about {spent:,.0f} s")
        return left

    def _pilot(
        self, reader: _ReaderEntry, run: RunConfig, judge_share: float, n_examples: int, n_validation: int, epochs: int
    ) -> float:
        """Return the seconds of a training on some examples, validated on some others."""
        size_text = f"{n_examples} examples, validate on {n_validation}" + f", {epochs} epochs" * (epochs > 1)
        self.report(f"{reader.name}: train on {size_text}, to measure seconds")
        size = [f"training.epochs={epochs}", *_size(run, judge_share, n_examples, n_validation)]
        options = _options([*self.config.changes, *reader.changes, *size])
        with TemporaryDirectory() as folder:
            return run_command(["train", str(self.base), *options, "--output", folder])[1]

    def _trained(self, reader: _ReaderEntry, seed: int, arguments: list[str]) -> dict[str, Any]:
        """Train a row, or load seconds and memory of the finished training."""
        record = self.path("results", reader.name, seed, ".trained.json")
        if not record.exists():
            uninterrupted = not self.path("runs", reader.name, seed).exists()
            self.report(f"{reader.name}, seed {seed}: train")
            _, seconds, peak_bytes = run_command(arguments)
            write_json(record, {"seconds": seconds if uninterrupted else None, "peak_bytes": peak_bytes})
        return read_json(record)


def _size(run: RunConfig, judge_share: float, n_examples: int, n_validation: int) -> list[str]:
    """Return the changes for training on some examples, the judge on a share of them, and validation on some."""
    if run.data.validation:
        changes = [f"data.train_limit={n_examples}", f"data.validation_limit={n_validation}"]
    else:
        changes = [f"data.train_limit={n_examples + n_validation}", f"data.held_out={n_validation}"]
    if run.training.judge_examples is not None:
        changes.append(f"training.judge_examples={max(1, round(judge_share * n_examples))}")
    return changes


@dataclass(frozen=True)
class _Rates:
    """Seconds that a training takes: to start, per example and per validation example in an epoch.

    Attributes:
        later: an epoch after the judge has learned, as a share of the others.
    """

    start: float
    example: float
    validation: float
    later: float = 1.0

    @classmethod
    def of(cls, pilots: Sequence[float], n: int, n_validation: int, recall_epochs: int) -> "_Rates":
        """Compute the rates from the seconds of short trainings.

        On a busy machine 2n examples may seem faster than n; examples then count for a tenth of the time.

        Args:
            pilots: seconds of an epoch of n examples with n_validation others, of twice as many examples, of twice as
                many others, and perhaps of one epoch more than ``recall_epochs``.
            n: number of examples.
            n_validation: number of validation examples.
            recall_epochs: epochs in which the judge learns.

        >>> _Rates.of((15, 20, 17, 18.5), n=10, n_validation=2, recall_epochs=1)
        _Rates(start=8.0, example=0.5, validation=1.0, later=0.5)
        """
        one, more_examples, more_validation, *more_epochs = pilots
        example = max((more_examples - one) / n, more_examples / (20 * n))
        validation = max((more_validation - one) / n_validation, 0.0)
        epoch = n * example + n_validation * validation
        start = max(one - epoch, 0.0)
        later = [max((seconds - start) / epoch - recall_epochs, 0.1) for seconds in more_epochs]
        return cls(start, example, validation, *later)

    def fitting(
        self, seconds: float, epochs: int, n_all: int, n_validation: int, recall_epochs: int
    ) -> tuple[int, int]:
        """Return the epochs, at least ``epochs``, and examples, 1 to ``n_all``, whose training takes so long.

        >>> rates = _Rates(start=8, example=0.5, validation=1)
        >>> rates.fitting(100, 1, 1000, 12, 1), rates.fitting(100, 1, 70, 12, 1), rates.fitting(1, 1, 80, 12, 1)
        ((1, 160), (2, 68), (1, 1))
        >>> rates.fitting(100, 2, 1000, 12, 1)
        (2, 68)
        >>> _Rates(start=8, example=0.5, validation=1, later=0.5).fitting(100, 1, 70, 12, 1)
        (3, 68)
        """
        while True:
            measured_epochs = min(epochs, recall_epochs) + max(epochs - recall_epochs, 0) * self.later
            n_examples = int(
                ((seconds - self.start) / measured_epochs - n_validation * self.validation) / self.example + 1e-9
            )
            if n_examples <= n_all:
                return epochs, max(1, n_examples)
            epochs += 1


def _shell(arguments: Sequence[str]) -> str:
    return shlex.join(["cogltx", *arguments])


def _options(changes: Sequence[str]) -> list[str]:
    return [part for change in changes for part in ("--set", change)]


def _document_sums(
    task: Task, metric: str, examples: Sequence[Example], predictions: Sequence[Path]
) -> list[dict[str, Fraction]]:
    """Return numerator and denominator of the metric in every document, per seed; empty if it is no ratio."""
    per_seed = []
    for path in predictions:
        by_id = {prediction.id: prediction for prediction in read_predictions(path)}
        missing = next((example.id for example in examples if example.id not in by_id), None)
        if missing is not None:
            raise DataError(f"{path}: no prediction for example {missing!r}; remove the file to predict again")
        pairs = ((example, by_id[example.id]) for example in examples)
        per_seed.append(sums_by_document(task_of(path, task).fractions(pairs)).get(metric, {}))
    return per_seed if all(per_seed) else []


def _markdown(rows: Sequence[dict[str, Any]], metric: str) -> str:
    """Format means over the seeds, with their spread (half the range) if there are several, and the commands."""
    metrics = list(dict.fromkeys(key for row in rows for one in row["runs"] for key in one["metrics"]))
    lines = [
        [
            "",
            *metrics,
            f"{metric}, difference from the first [95 %]",
            "training, s",
            "evaluation, s",
            "first question, s",
            "further, s",
            "MiB",
        ]
    ]
    for row in rows:
        runs, difference = row["runs"], "–"
        if row["difference"] is not None:
            mean, low, high = (100 * row["difference"][key] for key in ("mean_difference", "low", "high"))
            difference = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        lines.append([
            row["name"],
            *(_spread([one["metrics"].get(key) for one in runs]) for key in metrics),
            difference,
            _spread([one["train_seconds"] for one in runs], digits=0),
            _spread([one["seconds"] for one in runs], digits=0),
            *(_spread([one["seconds_per_question"][kind] for one in runs], digits=2) for kind in ("first", "further")),
            f"{max(one['peak_bytes'] for one in runs) / 2**20:,.0f}",
        ])  # fmt: skip
    commands = [f"    {command}" for row in rows for command in row["commands"]]
    return "\n".join([table(lines, markdown=True), "", "Commands of each row, with the first seed:", "", *commands, ""])


def _spread(values: Sequence[float | None], digits: int = 1) -> str:
    defined = [value for value in values if value is not None]
    if not defined:
        return "–"
    mean = f"{fmean(defined):.{digits}f}"
    return f"{mean} ± {(max(defined) - min(defined)) / 2:.{digits}f}" if len(defined) > 1 else mean


def _slug(name: str) -> str:
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
