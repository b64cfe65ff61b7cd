"""``cogltx bench quality``: readers trained and measured under one budget, over several seeds, in one table.

Each training and each measurement is a ``cogltx train`` or ``cogltx evaluate`` in a process of its own, so that its
seconds and its memory are its own and every row can be repeated by its command. An interrupted call goes on: what is
finished is kept. Knows nothing about models.
"""

import json
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cogltx.baselines import reader_class
from cogltx.bench.process import cogltx_command
from cogltx.bench.quality_table import Measured, Row, markdown
from cogltx.cli.config import load_run
from cogltx.cli.inference import read_predictions
from cogltx.cli.settings import changed, from_yaml, validated
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import check_settings, read_json, write_file, write_json
from cogltx.judges import JudgeConfig
from cogltx.model import ModelConfig
from cogltx.prediction import Prediction
from cogltx.tasks import Split, Task, make_task
from cogltx.tasks.metrics import paired_bootstrap
from cogltx.training.config import RunConfig
from cogltx.training.data import expand, read_examples
from cogltx.training.optimizer import Seed

_MEASURED = ("data", "split", "limit", "longer_than")  # what all rows are measured on


class ReaderEntry(BaseModel):
    """One row of the table.

    Attributes:
        name: of the row.
        trained: the row whose trained model this one reads with; None: it is trained itself.
        changes: ``KEY=VALUE`` of the run's configuration; where ``trained`` is set, of the trained model's.
        judge: takes the place of the trained model's judge: ``bm25`` or ``package.module:Class``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    trained: str | None = None
    changes: tuple[str, ...] = ()
    judge: str | None = None


class QualityConfig(BaseModel):
    """What is compared, on what.

    Attributes:
        run: the YAML file of the run that all rows share: data, epochs, examples; beside this file.
        changes: ``KEY=VALUE`` of that run, for all rows.
        data: the file that is measured.
        split: where one file holds several.
        limit: measure only so many examples, drawn at random.
        longer_than: measure only documents of more tokens.
        seeds: each row is trained and measured once for each.
        metric: by which rows are compared with the first one; the task's main metric by default.
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
    readers: tuple[ReaderEntry, ...] = Field(min_length=1)


def load_quality(path: Path, changes: Sequence[str] = ()) -> QualityConfig:
    """Reads what to compare from YAML.

    Args:
        path: the file.
        changes: ``KEY=VALUE``, each in place of the file's.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is wrong.
    """
    config, _ = from_yaml(QualityConfig, path, changes)
    if len(set(config.seeds)) < len(config.seeds):
        raise ConfigError(f"{path}: seeds: expected each once, got {', '.join(map(str, config.seeds))}")
    names = [_slug(reader.name) for reader in config.readers]
    for place, reader in enumerate(config.readers):
        if names[place] in names[:place]:
            raise ConfigError(f"{path}: readers.{place}.name: expected a name of its own, got {reader.name!r} again")
        before = [other.name for other in config.readers[:place] if other.trained is None]
        if reader.trained is not None and reader.trained not in before:
            raise ConfigError(f"{path}: readers.{place}.trained: expected a trained row above, got {reader.trained!r}")
    return config


def run(path: Path, output: Path, changes: Sequence[str] = (), *, report: Callable[[str], None] = print) -> list[Row]:
    """Trains and measures every row, or goes on with that.

    Args:
        path: a YAML file, see ``QualityConfig``.
        output: the folder of runs, predictions and tables.
        changes: ``KEY=VALUE`` of that file.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: the configuration is wrong, or the folder began with another. Rows, seeds and metric may change.
        DataError: the file to measure on is wrong; before anything is trained.
        ModelError: a training or a measurement failed; its last words.
    """
    config = load_quality(path, changes)
    base = path.parent / config.run
    shared = load_run(base, config.changes)
    expand(shared.data.train)
    examples = _examples(config, shared)
    kind = make_task(shared.task.name, shared.task.options)
    metric = _metric(config, kind, examples)
    _check_rows(config, base, shared, examples)
    settings = {"run": shared.model_dump(mode="json"), **config.model_dump(mode="json", include=set(_MEASURED))}
    noted = output / "settings.json"
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    write_json(noted, settings)
    bench = _Bench(config, base, output, report)
    measured = {reader.name: [bench.measured(reader, seed) for seed in config.seeds] for reader in config.readers}

    def scores(reader: ReaderEntry) -> list[float] | None:
        return _example_scores(kind, metric, examples, [bench.predictions(reader, seed) for seed in config.seeds])

    first = scores(config.readers[0])
    rows = []
    for place, reader in enumerate(config.readers):
        own = scores(reader) if place else None
        difference = paired_bootstrap(own, first) if own and first else None
        rows.append(Row(reader.name, tuple(measured[reader.name]), difference, tuple(bench.commands(reader))))
    write_json(output / "quality.json", {"metric": metric, "rows": [row.to_dict() for row in rows]})
    write_file(output / "quality.md", markdown(rows, metric))
    return rows


def _examples(config: QualityConfig, run: RunConfig) -> list[Example]:
    return read_examples(run, config.data, config.split, limit=config.limit, longer_than=config.longer_than)[0]


def _metric(config: QualityConfig, task: Task, examples: Sequence[Example]) -> str:
    """The metric that rows are compared by, which the task must have."""
    metric = config.metric or task.main_metric
    silent = Prediction(id="", answer="", start=None, end=None, score=0.0)
    known = task.metrics((example, silent) for example in examples)
    if metric not in known:
        raise ConfigError(f"metric: expected one of {', '.join(known)}, got {metric!r}")
    return metric


def _check_rows(config: QualityConfig, base: Path, shared: RunConfig, examples: Sequence[Example]) -> None:
    """Every row's configuration, and that it is measured on the same examples."""
    changes: dict[str, tuple[str, ...]] = {}
    for reader in config.readers:
        changes[reader.name] = (*changes.get(reader.trained or "", config.changes), *reader.changes)
        own = load_run(base, changes[reader.name])
        if reader.trained is not None:
            validated(ModelConfig, changed(shared.model_part().model_dump(mode="json"), reader.changes), "--set", {})
        if reader.judge is not None:
            JudgeConfig(name=reader.judge)
            if not reader_class(own.reader).uses_judge:
                raise ConfigError(f"readers: {reader.name}: expected a reader that uses a judge, got {own.reader}")
        same = own.task == shared.task and (config.longer_than is None or own.encoder.name == shared.encoder.name)
        if not same and [one.id for one in _examples(config, own)] != [one.id for one in examples]:
            raise ConfigError(f"readers: {reader.name}: expected the examples that all rows share, got others")


@dataclass(frozen=True)
class _Bench:
    """Where everything lies, and what it takes to make it."""

    config: QualityConfig
    base: Path
    output: Path
    report: Callable[[str], None]

    def folder(self, name: str, seed: int) -> Path:
        return self.output / "runs" / f"{_slug(name)}-{seed}"

    def predictions(self, reader: ReaderEntry, seed: int) -> Path:
        return self.output / "predictions" / f"{_slug(reader.name)}-{seed}.jsonl"

    def commands(self, reader: ReaderEntry, seed: int | None = None) -> Iterator[str]:
        """What repeats a row."""
        seed = self.config.seeds[0] if seed is None else seed
        if reader.trained is None:
            yield shlex.join(["cogltx", *self._train(reader, seed)])
        yield shlex.join(["cogltx", *self._evaluate(reader, seed)])

    def measured(self, reader: ReaderEntry, seed: int) -> Measured:
        record = self.output / "results" / f"{_slug(reader.name)}-{seed}.json"
        commands = {"commands": list(self.commands(reader, seed))}
        if record.exists():
            known = read_json(record)
            check_settings(record, commands, {"commands": known.pop("commands", None)}, "another name for the row")
            if self.predictions(reader, seed).exists():
                return _measured(record, known)
        trained = self._trained(reader, seed) if reader.trained is None else {}
        written = self.predictions(reader, seed)
        whole = not written.exists()
        self.report(f"{reader.name}, seed {seed}: evaluate")
        said, seconds, peak = cogltx_command(self._evaluate(reader, seed))
        metrics = json.loads(said)["metrics"]
        result = Measured(
            metrics=metrics,
            train_seconds=trained.get("seconds"),
            train_bytes=trained.get("peak_bytes"),
            seconds=seconds if whole else None,
            peak_bytes=peak,
        )
        write_json(record, commands | asdict(result))
        return result

    def _trained(self, reader: ReaderEntry, seed: int) -> Mapping[str, Any]:
        record = self.output / "results" / f"{_slug(reader.name)}-{seed}.trained.json"
        if not record.exists():
            whole = not self.folder(reader.name, seed).exists()
            self.report(f"{reader.name}, seed {seed}: train")
            _, seconds, peak = cogltx_command(self._train(reader, seed))
            write_json(record, {"seconds": seconds if whole else None, "peak_bytes": peak})
        return read_json(record)

    def _train(self, reader: ReaderEntry, seed: int) -> list[str]:
        changes = [*self.config.changes, *reader.changes, f"training.seed={seed}"]
        options = [part for change in changes for part in ("--set", change)]
        return ["train", str(self.base), *options, "--output", str(self.folder(reader.name, seed)), "--resume"]

    def _evaluate(self, reader: ReaderEntry, seed: int) -> list[str]:
        config = self.config
        changes = reader.changes if reader.trained is not None else ()
        options = [part for change in changes for part in ("--set", change)]
        options += ["--limit", str(config.limit)] if config.limit else []
        options += ["--longer-than", str(config.longer_than)] if config.longer_than is not None else []
        options += ["--judge", reader.judge] if reader.judge else []
        folder = self.folder(reader.trained or reader.name, seed)
        written = self.predictions(reader, seed)
        data = ["--data", str(expand(config.data)), "--split", config.split]
        return ["evaluate", str(folder), *data, *options, "--predictions", str(written), "--json"]


def _example_scores(
    task: Any, metric: str, examples: Sequence[Example], predictions: Sequence[Path]
) -> list[float] | None:
    """The metric of each example, its mean over the seeds; None where the metric is not one of examples."""
    seeds = []
    for path in predictions:
        found = {prediction.id: prediction for prediction in read_predictions(path)}
        missing = next((example.id for example in examples if example.id not in found), None)
        if missing is not None:
            raise DataError(f"{path}: expected a prediction for {missing!r}, found none; remove it to make it again")
        own = [task.per_example(example, found[example.id]).get(metric) for example in examples]
        seeds.append(own)
    if any(value is None for own in seeds for value in own):
        return None
    return [statistics.fmean(values) for values in zip(*seeds, strict=True)]


def _measured(record: Path, known: Mapping[str, Any]) -> Measured:
    try:
        return Measured(**known)
    except TypeError as error:
        raise ModelError(f"{record}: expected a measurement, got something else; remove it to measure again") from error


def _slug(name: str) -> str:
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
