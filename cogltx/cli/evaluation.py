"""Measures a model on a file of its task: the official metrics, by label too, and beside another system's predictions.

Knows nothing about the command line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cogltx.baselines import WindowReader
from cogltx.cli.config import load_reader
from cogltx.cli.inference import KeyBlocks, answer, known_labels, read_predictions, with_progress
from cogltx.cli.inspection import draw_confusions, label_results, type_results
from cogltx.cli.plots import check_picture
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import fingerprint
from cogltx.model import model_folder
from cogltx.prediction import Prediction
from cogltx.reasoners import ClassificationConfig
from cogltx.tasks import Split, Task, make_task
from cogltx.tasks.metrics import Interval, paired_bootstrap
from cogltx.training.data import expand, read_examples


@dataclass(frozen=True)
class Comparison:
    """A measure beside another system's: the mean difference in points with its 95 % interval."""

    metric: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Result:
    """What a measurement found.

    Attributes:
        task: whose metrics.
        examples: how many were measured.
        metrics: in percent.
        against: each measure beside the other system's, if there was one.
        labels: precision, recall and F1 of every label, in percent, and how many texts have it, for classification; of
            every type of entity and how many there are, for tagging.
    """

    task: str
    examples: int
    metrics: dict[str, float]
    against: tuple[Comparison, ...] = ()
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The result as plain data for JSON."""
        return asdict(self)

    def table(self) -> str:
        """The result as text."""
        lines = [f"{self.task}, {self.examples} examples"]
        lines += [f"  {name:<20} {value:6.2f}" for name, value in self.metrics.items()]
        if not self.metrics:
            lines.append("  nothing is measured: no example has known answers, labels or relevant spans")
        if self.labels:
            width = max(map(len, self.labels))
            counted = "texts" if "texts" in next(iter(self.labels.values())) else "entities"
            lines.append(f"  {'':<{width}}  precision  recall      f1  {counted:>6}")
            for name, one in self.labels.items():
                shares = f"{one['precision']:9.2f}  {one['recall']:6.2f}  {one['f1']:6.2f}"
                lines.append(f"  {name:<{width}}  {shares}  {one[counted]:{max(6, len(counted))}}")
        if self.against:
            lines.append("difference to the other system (paired bootstrap, 95 %)")
            lines += [f"  {c.metric:<20} {c.difference:+6.2f}  [{c.low:+.2f}, {c.high:+.2f}]" for c in self.against]
        return "\n".join(lines)


def evaluate(
    run: str | Path,
    data: str,
    *,
    split: Split = "test",
    limit: int | None = None,
    longer_than: int | None = None,
    predictions: Path | None = None,
    against: Path | None = None,
    judge: str | None = None,
    key_blocks: KeyBlocks = "recall",
    changes: Sequence[str] = (),
    confusion: Path | None = None,
) -> Result:
    """Measures a model on a file of its task; nothing is dropped from the evaluation that is not asked to.

    Args:
        run: a run, a model folder or a name on the hub.
        data: the file.
        split: where one file holds several.
        limit: only so many examples, drawn at random, always the same.
        longer_than: only documents of more tokens.
        predictions: where predictions are written, a line an example; those it holds are not made again, and those of
            more examples than are measured may be there.
        against: predictions of another system for the same examples.
        judge: ``bm25``, ``embedding`` or ``package.module:Class`` in place of the run's.
        key_blocks: ``gold`` lets the reasoner see the relevant blocks alone.
        changes: ``KEY=VALUE`` of the model's configuration.
        confusion: where a picture of the confused labels goes.

    Raises:
        ConfigError: the predictions were begun by another model, or on other data; or a baseline is given a judge.
        DataError: the file is not in the task's format, or an example has a label that the model does not know.
    """
    others = {prediction.id: prediction for prediction in read_predictions(against)} if against else {}
    if confusion is not None:
        check_picture(confusion)
    wanted = ["judge.args={}", *changes, f"judge.name={judge}"] if judge else list(changes)
    reader = load_reader(run, changes=wanted)
    if judge and not reader.uses_judge:
        raise ConfigError(f"--judge: expected a model that uses a judge, got the baseline {reader.config.reader}")
    labels_one = isinstance(reader.config.reasoner, ClassificationConfig) and not reader.config.reasoner.multi_label
    if confusion is not None and not labels_one:
        raise ConfigError("--confusion: expected a model that gives a text one label, got another")
    task = make_task(reader.config.task.name, reader.config.task.options)
    examples: Iterable[Example] = task.read(expand(data), split=split)
    chosen = limit is not None or longer_than is not None
    if chosen:
        tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
        examples, _ = read_examples(
            reader.config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer
        )
    known = list(known_labels(reader, examples))
    if not known:
        raise DataError(f"{data}: expected examples of task {task.name}, found none")
    missing = next((example.id for example in known if example.id not in others), None)
    if against is not None and missing is not None:
        raise DataError(f"{against}: expected a prediction for every example, found none for {missing!r}")
    settings: dict[str, Any] = {}
    if predictions is not None:
        model = fingerprint(model_folder(run))
        settings = {"model": model, "data": data, "split": split, "blocks": key_blocks, "changes": wanted}
    pairs = answer(
        reader, task, known, key_blocks=key_blocks, written=predictions, selected=chosen, settings=settings
    )  # fmt: skip
    found = list(with_progress(pairs, "evaluate", len(known)))
    compared = _compare(task, found, others) if against else ()
    labelled = any(prediction.labels for _, prediction in found)
    tagged = reader.config.reasoner.name == "tagging"
    labels = type_results(found) if tagged else label_results(found) if labelled else {}
    if confusion is not None:
        draw_confusions(found, confusion)
    return Result(task.name, len(found), task.metrics(found), compared, labels)


def _compare(
    task: Task, found: Sequence[tuple[Example, Prediction]], others: Mapping[str, Prediction]
) -> tuple[Comparison, ...]:
    ours = [task.per_example(example, prediction) for example, prediction in found]
    theirs = [task.per_example(example, others[example.id]) for example, _ in found]
    comparisons = []
    for metric in dict.fromkeys(name for one in ours for name in one):
        shared = [(a[metric], b[metric]) for a, b in zip(ours, theirs, strict=True) if metric in a and metric in b]
        if not shared:
            continue
        interval: Interval = paired_bootstrap([a for a, _ in shared], [b for _, b in shared])
        comparisons.append(
            Comparison(metric, *(100 * value for value in (interval.mean_difference, interval.low, interval.high)))
        )
    return tuple(comparisons)
