"""``cogltx evaluate``: measure a model by the official metrics of its task."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cogltx.cli.options import DeviceOption, JsonOption, JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.cli.predictions import Pair
    from cogltx.prediction import Prediction
    from cogltx.tasks import Task

Split = Literal["train", "validation", "test"]
KeyBlocks = Literal["recall", "gold"]


def evaluate(
    run: RunArgument,
    data: Annotated[str, typer.Option(help="A data file of the model's task.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate a random sample of so many examples.")] = None,
    longer_than: Annotated[
        int | None, typer.Option(min=0, help="Evaluate only documents of more tokens than this.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Part of the data, where one file has several.")] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Write the predictions here, one JSON object per line; resumable.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Predictions of another system to compare with, by paired bootstrap.")
    ] = None,
    judge: JudgeOption = None,
    blocks: Annotated[
        KeyBlocks, typer.Option(help="What the reasoner reads; gold, the relevant blocks, is an upper bound.")
    ] = "recall",
    confusion: Annotated[
        Path | None, typer.Option(help="Draw the confusion matrix of the labels as .png or .svg.")
    ] = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by the official metrics of its task."""
    result = measure(
        run, data, split=split, limit=limit, longer_than=longer_than, predictions=predictions, against=against,
        judge=judge, key_blocks=blocks, changes=changes or (), confusion=confusion, device=device,
    )  # fmt: skip
    print(json.dumps(asdict(result), indent=2) if as_json else _format(result))


@dataclass(frozen=True)
class _Result:
    """The result of an evaluation.

    Attributes:
        task: name of the task.
        examples: number of examples.
        metrics: the metrics of the task, in percent.
        against: per metric, the difference to the other system in points, with its 95 % interval.
        labels: precision, recall and F1 in percent, and the number of texts or entities, per label or entity type.
    """

    task: str
    examples: int
    metrics: Mapping[str, float]
    against: Sequence[Mapping[str, str | float]] = ()
    labels: Mapping[str, Mapping[str, float]] | None = None


def measure(
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
    device: str | None = None,
) -> _Result:
    """Evaluate a model; arguments as the options of the command.

    Raises:
        ConfigError: the predictions were started with another model or other options, or a baseline is given a judge.
        DataError: the data is not in the format of the task, or an example has a label that the model does not know.
    """
    from cogltx.baselines import WindowReader
    from cogltx.cli.plots import check_picture
    from cogltx.cli.predictions import answer, load_model, read_predictions
    from cogltx.files import fingerprint
    from cogltx.model import model_folder
    from cogltx.tasks import make_task
    from cogltx.training.data import read_examples

    others = {prediction.id: prediction for prediction in read_predictions(against)} if against else {}
    if confusion is not None:
        check_picture(confusion)
    reader = load_model(run, changes, judge, device)
    tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
    examples, _ = read_examples(
        reader.config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer
    )  # fmt: skip
    for example in examples:
        reader.config.reasoner.check_labels(example)
    if confusion is not None and any(len(example.labels or ()) != 1 for example in examples):
        raise DataError(f"{data}: --confusion needs texts with one label each")
    missing = next((example.id for example in examples if example.id not in others), None)
    if against is not None and missing is not None:
        raise DataError(f"{against}: no prediction for example {missing!r}")
    settings: dict[str, object] = {}
    if predictions is not None:
        settings = {"model": fingerprint(model_folder(run)), "changes": list(changes), "judge": judge}
        settings |= {"data": data, "split": split, "blocks": key_blocks}
    pairs = list(
        answer(
            reader, make_task(reader.config.task.name, reader.config.task.options), examples, title="evaluate",
            total=len(examples), key_blocks=key_blocks, written=predictions, settings=settings,
            subset=limit is not None or longer_than is not None,
        )
    )  # fmt: skip
    if confusion is not None:
        _draw_confusion(pairs, confusion)
    return _result(make_task(reader.config.task.name, reader.config.task.options), pairs, others)


def _result(task: "Task", pairs: Sequence["Pair"], others: Mapping[str, "Prediction"]) -> _Result:
    n_unlabelled = sum(
        example.answers is None and example.labels is None and example.entities is None and example.relevant is None
        for example, _ in pairs
    )
    if n_unlabelled == len(pairs):
        note("warning: nothing is measured: no example has gold answers, labels, entities or relevant passages")
        return _Result(task.name, len(pairs), {})
    if n_unlabelled:
        note(f"warning: {n_unlabelled:,} of {len(pairs):,} examples have no gold labels; the metrics leave them out")
    return _Result(task.name, len(pairs), task.metrics(pairs), _compare(task, pairs, others), _per_label(pairs))


def _compare(
    task: "Task", pairs: Sequence["Pair"], others: Mapping[str, "Prediction"]
) -> list[Mapping[str, str | float]]:
    """The difference to the other system in each metric that both have, in points."""
    from cogltx.tasks.metrics import paired_bootstrap

    scores = [
        (task.per_example(example, prediction), task.per_example(example, others[example.id]))
        for example, prediction in pairs
        if example.id in others
    ]
    comparisons: list[Mapping[str, str | float]] = []
    for metric in dict.fromkeys(name for score, _ in scores for name in score):
        shared = [(score[metric], other[metric]) for score, other in scores if metric in score and metric in other]
        if shared:
            interval = paired_bootstrap(*zip(*shared, strict=True))
            comparisons.append(
                {
                    "metric": metric,
                    "difference": 100 * interval.mean_difference,
                    "low": 100 * interval.low,
                    "high": 100 * interval.high,
                }
            )
    return comparisons


def _per_label(pairs: Sequence["Pair"]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and number of texts per label, or of entities per type."""
    from cogltx.tasks.metrics import Score, count_labels, gold_and_predicted

    entities = any(example.entities is not None for example, _ in pairs)
    if not entities and not any(prediction.labels for _, prediction in pairs):
        return {}
    rows: dict[str, dict[str, float]] = {}
    for label, counts in count_labels(*gold_and_predicted(pairs, entities=entities)).items():
        score = Score.of_counts(*counts)
        rows[label] = {"precision": 100 * score.precision, "recall": 100 * score.recall, "f1": 100 * score.f1}
        rows[label]["entities" if entities else "texts"] = counts[2]
    return rows


def _draw_confusion(pairs: Sequence["Pair"], path: Path) -> None:
    import numpy as np

    from cogltx.cli.plots import draw_confusion
    from cogltx.tasks.metrics import gold_and_predicted

    gold, predicted = gold_and_predicted(pairs)
    if any(len(labels) != 1 for labels in predicted):
        raise ConfigError("--confusion needs a model that predicts exactly one label per text")
    names = sorted({str(label) for labels in (*gold, *predicted) for label in labels})
    counts = np.zeros((len(names), len(names)), dtype=int)
    for (gold_label,), (predicted_label,) in zip(gold, predicted, strict=True):
        counts[names.index(str(gold_label)), names.index(str(predicted_label))] += 1
    draw_confusion(path, names, counts)


def _format(result: _Result) -> str:
    lines = [f"{result.task}, {result.examples:,} examples"]
    lines += [f"  {name:<20} {value:6.2f} %" for name, value in result.metrics.items()]
    if result.labels:
        width = max(map(len, result.labels))
        unit = "texts" if "texts" in next(iter(result.labels.values())) else "entities"
        lines += ["", f"  {'':<{width}}  precision  recall      f1  {unit:>8}"]
        for label, row in result.labels.items():
            scores = f"{row['precision']:9.2f}  {row['recall']:6.2f}  {row['f1']:6.2f}"
            lines.append(f"  {label:<{width}}  {scores}  {row[unit]:8,}")
    if result.against:
        lines += ["", "difference to the other system, in points (paired bootstrap, 95 %)"]
        lines += [
            f"  {row['metric']:<20} {row['difference']:+6.2f}  [{row['low']:+.2f}, {row['high']:+.2f}]"
            for row in result.against
        ]
    return "\n".join(lines)
