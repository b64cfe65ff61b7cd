"""``cogltx evaluate``: measure a model by the official metrics of its task."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx.cli.options import DeviceOption, JsonOption, JudgeOption, KeyBlocks, RunArgument, SetOption, Split
from cogltx.errors import ConfigError, DataError
from cogltx.progress import logger

if TYPE_CHECKING:
    from cogltx.cli.plots import Picture
    from cogltx.cli.predictions import Pair
    from cogltx.prediction import Prediction
    from cogltx.tasks import Task


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
    timed: Annotated[
        int | None, typer.Option(min=1, help="Measure seconds per question on so many of the documents, one at a time.")
    ] = None,
    judge: JudgeOption = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Choose the thresholds anew for this judge, on the run's validation examples."),
    ] = False,
    blocks: Annotated[
        KeyBlocks, typer.Option(help="What the reasoner reads; gold, the relevant blocks, is an upper bound.")
    ] = "recall",
    confusion: Annotated[
        Path | None, typer.Option(help="Draw the confusion matrix of the labels as .png or .svg.")
    ] = None,
    reliability: Annotated[
        Path | None, typer.Option(help="Draw the share of right predictions by score as .png or .svg.")
    ] = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by the official metrics of its task."""
    from cogltx.baselines import WindowReader
    from cogltx.cli.plots import Picture
    from cogltx.cli.predictions import Predictor, read_predictions, task_of
    from cogltx.tasks import make_task
    from cogltx.training.data import read_examples

    others = {prediction.id: prediction for prediction in read_predictions(against)} if against else {}
    picture = Picture(confusion) if confusion is not None else None
    curve = Picture(reliability) if reliability is not None else None
    predictor = Predictor(run, changes or (), judge, device)
    if tune:
        predictor.tune()
    reader, config = predictor.reader, predictor.reader.config
    tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
    examples, _ = read_examples(config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer)
    for example in examples:
        config.reasoner.check_labels(example)
    if picture is not None and any(len(example.labels or ()) != 1 for example in examples):
        raise DataError(f"{data}: --confusion needs texts with one label each")
    missing = next((example.id for example in examples if example.id not in others), None)
    if against is not None and missing is not None:
        raise DataError(f"{against}: no prediction for example {missing!r}")
    task = make_task(config.task.name, config.task.options)
    pairs = list(
        predictor.answer(
            task, examples, title="evaluate", written=predictions, key_blocks=blocks,
            settings={"data": data, "split": split, "blocks": blocks, "task": config.task.model_dump(mode="json")},
            subset=limit is not None or longer_than is not None,
        )
    )  # fmt: skip
    if picture is not None:
        _draw_confusion(pairs, picture)
    result = _result(task, pairs, others, task if against is None else task_of(against, task))
    if curve is not None and result["calibration"] is not None:
        points = [(one["mean_score"], one["accuracy"]) for one in result["calibration"]["bins"]]
        curves = {"model": points, "perfect": [(0.0, 0.0), (1.0, 1.0)]}
        curve.draw_curves(curves, across="mean score", up="share of right predictions")
    if timed is not None:
        result["seconds_per_question"] = predictor.seconds(examples[:timed])
    print(json.dumps(result, indent=2) if as_json else _format(result))


def _result(
    task: "Task", pairs: Sequence["Pair"], others: Mapping[str, "Prediction"], task_of_others: "Task"
) -> dict[str, Any]:
    """Name of the task, number of examples, metrics in percent, calibration, differences, scores per label."""
    from cogltx.tasks.metrics import Calibration, scored_predictions

    result: dict[str, Any] = {
        "task": task.name, "examples": len(pairs), "metrics": {}, "calibration": None, "against": [], "labels": None
    }  # fmt: skip
    n_unlabelled = sum(
        example.answers is None and example.labels is None and example.entities is None and example.relevant is None
        for example, _ in pairs
    )
    if n_unlabelled == len(pairs):
        logger.warning(
            "warning: nothing is measured: no example has gold answers, labels, entities or relevant passages"
        )
        return result
    if n_unlabelled:
        logger.warning(
            f"warning: {n_unlabelled:,} of {len(pairs):,} examples have no gold labels; the metrics leave them out"
        )
    metrics = task.metrics(pairs)
    if not metrics:
        logger.warning(
            f"warning: nothing is measured: no example has what the task {task.name} measures; see --set task.name"
        )
    against = _compare(task, pairs, others, task_of_others)
    calibration = Calibration.of(scored_predictions(pairs))
    return result | {
        "metrics": metrics, "calibration": calibration and asdict(calibration), "against": against,
        "labels": _per_label(pairs),
    }  # fmt: skip


def _compare(
    task: "Task", pairs: Sequence["Pair"], others: Mapping[str, "Prediction"], task_of_others: "Task"
) -> list[dict[str, str | float]]:
    """The difference to the other system in each metric that both have, in points, with its 95 % interval."""
    from cogltx.tasks.metrics import paired_bootstrap, sums_by_document

    shared = [(example, prediction, others[example.id]) for example, prediction in pairs if example.id in others]
    ours = sums_by_document(task.fractions((example, prediction) for example, prediction, _ in shared))
    theirs = sums_by_document(task_of_others.fractions((example, other) for example, _, other in shared))
    comparisons: list[dict[str, str | float]] = []
    for metric in (metric for metric in ours if ours[metric].keys() == theirs.get(metric, {}).keys()):
        interval = paired_bootstrap([ours[metric]], [theirs[metric]])
        difference, low, high = (100 * interval[key] for key in ("mean_difference", "low", "high"))
        comparisons.append({"metric": metric, "difference": difference, "low": low, "high": high})
    return comparisons


def _per_label(pairs: Sequence["Pair"]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 in percent, and number of texts per label, or of entities per type."""
    from cogltx.tasks.metrics import Score, count_labels, gold_and_predicted

    entities = any(example.entities is not None for example, _ in pairs)
    if not entities and not any(prediction.labels for _, prediction in pairs):
        return {}
    rows: dict[str, dict[str, float]] = {}
    for label, counts in count_labels(gold_and_predicted(pairs, entities=entities)).items():
        score = Score.of_counts(*counts)
        rows[label] = {"precision": 100 * score.precision, "recall": 100 * score.recall, "f1": 100 * score.f1}
        rows[label]["entities" if entities else "texts"] = counts[2]
    return rows


def _draw_confusion(pairs: Sequence["Pair"], picture: "Picture") -> None:
    import numpy as np
    from sklearn.metrics import confusion_matrix

    from cogltx.tasks.metrics import gold_and_predicted

    texts = gold_and_predicted(pairs)
    if any(len(predicted) != 1 for _, _, predicted in texts):
        raise ConfigError("--confusion needs a model that predicts exactly one label per text")
    one_each = [[str(label) for (label,) in side] for side in list(zip(*texts, strict=True))[1:]]
    names = sorted({*one_each[0], *one_each[1]})
    counts = confusion_matrix(*one_each, labels=names)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    axes = picture.axes
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(counts), strict=True):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=6, color=color)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    size = 3 + 0.3 * len(names)
    picture.save(size + 1, size, colors="share of the gold label's texts")


def _format(result: Mapping[str, Any]) -> str:
    lines = [f"{result['task']}, {result['examples']:,} examples"]
    lines += [f"  {name:<20} {value:6.2f} %" for name, value in result["metrics"].items()]
    if calibration := result["calibration"]:
        lines.append(
            f"  {'calibration error':<20} {100 * calibration['error']:6.2f} points between score and share right"
        )
    if seconds := result.get("seconds_per_question"):
        lines += ["", *(f"  {kind + ' question':<20} {value:6.2f} s" for kind, value in seconds.items())]
    if labels := result["labels"]:
        width = max(map(len, labels))
        unit = "texts" if "texts" in next(iter(labels.values())) else "entities"
        lines += ["", f"  {'':<{width}}  precision  recall      f1  {unit:>8}"]
        for label, row in labels.items():
            scores = f"{row['precision']:9.2f}  {row['recall']:6.2f}  {row['f1']:6.2f}"
            lines.append(f"  {label:<{width}}  {scores}  {row[unit]:8,}")
    if result["against"]:
        lines += ["", "difference to the other system, in points (paired bootstrap over documents, 95 %)"]
        lines += [
            f"  {row['metric']:<20} {row['difference']:+6.2f}  [{row['low']:+.2f}, {row['high']:+.2f}]"
            for row in result["against"]
        ]
    return "\n".join(lines)
