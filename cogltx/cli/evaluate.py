"""``cogltx evaluate``: measure a model on a file of its task, also per label and against another system."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cogltx.cli.options import DeviceOption, JsonOption, JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.document import Example
    from cogltx.prediction import Prediction
    from cogltx.tasks import Task

Pairs = Sequence[tuple["Example", "Prediction"]]


def evaluate(
    run: RunArgument,
    data: Annotated[str, typer.Option(help="A file of the run's task.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Number of examples, drawn at random.")] = None,
    longer_than: Annotated[int | None, typer.Option(min=0, help="Only documents with more tokens.")] = None,
    split: Annotated[
        Literal["train", "validation", "test"], typer.Option(help="Part of the data, if one file has several.")
    ] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Where predictions go, one JSON object per line; resumable.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Predictions of another system, for a paired bootstrap.")] = None,
    judge: JudgeOption = None,
    blocks: Annotated[
        Literal["recall", "gold"], typer.Option(help="What the reasoner reads; gold blocks are an upper bound.")
    ] = "recall",
    confusion: Annotated[Path | None, typer.Option(help="Draw the confusion matrix, as .png or .svg.")] = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by the official metrics of its task."""
    from cogltx.cli.yaml_config import parse_changes

    result = measure(
        run, data, split=split, limit=limit, longer_than=longer_than, predictions=predictions, against=against,
        judge=judge, key_blocks=blocks, changes=parse_changes(changes or ()), confusion=confusion, device=device,
    )  # fmt: skip
    if not result.metrics:
        note(f"warning: {data} has no answers, labels or relevant spans, so there is nothing to measure")
    print(json.dumps(result.to_dict(), indent=2) if as_json else result.table())


@dataclass(frozen=True)
class Result:
    """The result of an evaluation.

    Attributes:
        task: the task whose metrics these are.
        examples: number of examples.
        metrics: in percent.
        against: per metric the mean difference to the other system in points, with its 95 % interval.
        labels: precision, recall and F1 per label (of texts) or type (of entities), in percent, and their number.
    """

    task: str
    examples: int
    metrics: dict[str, float]
    against: tuple[dict[str, Any], ...] = ()
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Convert to plain data for JSON."""
        return asdict(self)

    def table(self) -> str:
        """Format as text."""
        lines = [f"{self.task}, {self.examples:,} examples"]
        lines += [f"  {name:<20} {value:6.2f}" for name, value in self.metrics.items()]
        if self.labels:
            width = max(map(len, self.labels))
            counted = "texts" if "texts" in next(iter(self.labels.values())) else "entities"
            lines.append(f"  {'':<{width}}  precision  recall      f1  {counted:>6}")
            for name, row in self.labels.items():
                shares = f"{row['precision']:9.2f}  {row['recall']:6.2f}  {row['f1']:6.2f}"
                lines.append(f"  {name:<{width}}  {shares}  {row[counted]:{max(6, len(counted))}}")
        if self.against:
            lines.append("difference to the other system (paired bootstrap, 95 %)")
            lines += [
                f"  {row['metric']:<20} {row['difference']:+6.2f}  [{row['low']:+.2f}, {row['high']:+.2f}]"
                for row in self.against
            ]
        return "\n".join(lines)


def measure(
    run: str | Path,
    data: str,
    *,
    split: Literal["train", "validation", "test"] = "test",
    limit: int | None = None,
    longer_than: int | None = None,
    predictions: Path | None = None,
    against: Path | None = None,
    judge: str | None = None,
    key_blocks: Literal["recall", "gold"] = "recall",
    changes: Mapping[str, Any] | None = None,
    confusion: Path | None = None,
    device: str | None = None,
) -> Result:
    """Measure a model; arguments as the options of the command.

    Raises:
        ConfigError: the predictions were made by another model or on other data, or an option does not fit the model.
        DataError: the file is not in the task's format, or an example has a label that the model does not know.
    """
    from cogltx.baselines import WindowReader
    from cogltx.cli.plots import check_picture, draw_confusion
    from cogltx.cli.predictions import answer, load_model, read_predictions, settings_of
    from cogltx.tasks import make_task
    from cogltx.training.data import read_examples

    others = {prediction.id: prediction for prediction in read_predictions(against)} if against else {}
    if confusion is not None:
        check_picture(confusion)
    reader = load_model(run, changes or {}, judge, device)
    config = reader.config
    if confusion is not None and not config.reasoner.single_label:
        raise ConfigError("--confusion needs a model that gives each text one label")
    task = make_task(config.task.name, config.task.options)
    tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
    examples, _ = read_examples(config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer)
    for example in examples:
        config.reasoner.check_labels(example)
    missing = next((example.id for example in examples if against and example.id not in others), None)
    if missing is not None:
        raise DataError(f"{against}: no prediction for example {missing!r}")
    settings: dict[str, Any] = {}
    if predictions is not None:
        settings = {**settings_of(run, changes or {}, judge), "data": data, "split": split, "blocks": key_blocks}
    pairs = list(
        answer(
            reader, task, examples, title="evaluate", total=len(examples), key_blocks=key_blocks, written=predictions,
            settings=settings, subset=limit is not None or longer_than is not None,
        )
    )  # fmt: skip
    if confusion is not None:
        draw_confusion(confusion, *_confusion(pairs))
    return Result(
        task.name, len(pairs), task.metrics(pairs), _compare(task, pairs, others) if others else (), _labels(pairs)
    )


def _compare(task: "Task", pairs: Pairs, others: Mapping[str, "Prediction"]) -> tuple[dict[str, Any], ...]:
    """The difference to another system per metric that both have."""
    from cogltx.tasks.metrics import paired_bootstrap

    ours = [task.per_example(example, prediction) for example, prediction in pairs]
    theirs = [task.per_example(example, others[example.id]) for example, _ in pairs]
    rows = []
    for metric in dict.fromkeys(name for scores in ours for name in scores):
        shared = [(a[metric], b[metric]) for a, b in zip(ours, theirs, strict=True) if metric in a and metric in b]
        if shared:
            interval = paired_bootstrap([a for a, _ in shared], [b for _, b in shared])
            numbers = {"difference": interval.mean_difference, "low": interval.low, "high": interval.high}
            rows.append({"metric": metric} | {name: 100 * value for name, value in numbers.items()})
    return tuple(rows)


def _labels(pairs: Pairs) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 per label of texts or type of entities, in percent."""
    from cogltx.tasks.classification import gold_and_predicted
    from cogltx.tasks.metrics import label_counts
    from cogltx.tasks.tagging import entity_results

    if any(example.entities is not None for example, _ in pairs):
        results = entity_results(pairs)
        return {
            label: {"precision": 100 * score.precision, "recall": 100 * score.recall, "f1": 100 * score.f1}
            | {"entities": results.gold.get(label, 0)}
            for label, score in results.types.items()
        }
    table = {}
    for label, (hits, predicted, gold) in label_counts(*gold_and_predicted(pairs)).items():
        precision, recall = (100 * hits / total if total else 0.0 for total in (predicted, gold))
        table[label] = {"precision": precision, "recall": recall, "f1": 200 * hits / (predicted + gold), "texts": gold}
    return table


def _confusion(pairs: Pairs) -> tuple[list[str], Any]:
    """The labels, and how often texts of one label were given another, shape [gold, predicted]."""
    import numpy as np

    from cogltx.tasks.classification import gold_and_predicted

    gold, predicted = gold_and_predicted(pairs)
    if not gold or any(len(labels) != 1 for labels in (*gold, *predicted)):
        raise DataError("--confusion needs texts with one label each")
    names = sorted({labels[0] for labels in (*gold, *predicted)})
    counts = np.zeros((len(names), len(names)), dtype=int)
    for own, other in zip(gold, predicted, strict=True):
        counts[names.index(own[0]), names.index(other[0])] += 1
    return names, counts
