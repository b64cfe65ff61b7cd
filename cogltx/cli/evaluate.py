"""``cogltx evaluate``: measure a model by the official metrics of its task."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx._progress import logger
from cogltx.cli._options import DeviceOption, JsonOption, JudgeOption, KeyBlocks, RunArgument, SetOption, Split
from cogltx.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.cli._plots import Picture
    from cogltx.cli._predictions import Pair
    from cogltx.document import Example
    from cogltx.prediction import Prediction
    from cogltx.tasks import Task


_Data = Annotated[str, typer.Option(help="A data file of the model's task.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Evaluate a random sample of so many examples.")]
_Longer = Annotated[int | None, typer.Option(min=0, help="Evaluate only documents of more tokens than this.")]
_Split = Annotated[Split, typer.Option(help="Part of the data, where one file has several.")]
_Written = Annotated[Path | None, typer.Option(help="Write the predictions here, one JSON object per line; resumable.")]
_Against = Annotated[Path | None, typer.Option(help="Predictions to compare with, by paired bootstrap over documents.")]
_Timed = Annotated[
    int | None, typer.Option(min=1, help="Measure seconds per question on so many documents, one by one.")
]
_Tune = Annotated[bool, typer.Option("--tune", help="Tune the thresholds for this judge on the validation examples.")]
_Blocks = Annotated[
    KeyBlocks, typer.Option(help="What the reasoner reads; gold, the relevant blocks, is an upper bound.")
]
_Confusion = Annotated[Path | None, typer.Option(help="Draw the confusion matrix of the labels as .png or .svg.")]
_Reliability = Annotated[Path | None, typer.Option(help="Draw the share of right predictions by score (.png or .svg).")]


def evaluate(
    run: RunArgument,
    data: _Data,
    limit: _Limit = None,
    longer_than: _Longer = None,
    split: _Split = "test",
    predictions: _Written = None,
    against: _Against = None,
    timed: _Timed = None,
    judge: JudgeOption = None,
    tune: _Tune = False,
    blocks: _Blocks = "recall",
    confusion: _Confusion = None,
    reliability: _Reliability = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by the official metrics of its task."""
    from cogltx.cli._plots import Picture
    from cogltx.cli._predictions import Predictor, read_predictions, task_of
    from cogltx.tasks import make_task

    others = {prediction.id: prediction for prediction in read_predictions(against)} if against else {}
    matrix, curve = (Picture(path) if path is not None else None for path in (confusion, reliability))
    predictor = Predictor(run, changes or (), judge, device, blocks)
    if tune:
        predictor.tune()
    config = predictor.reader.config
    task = make_task(config.task.name, config.task.options)
    examples = _read(predictor.reader, data, split, limit, longer_than)
    if matrix is not None and any(len(example.labels or ()) != 1 for example in examples):
        raise DataError(f"{data}: --confusion needs texts with one label each")
    missing = next((example.id for example in examples if example.id not in others), None)
    if against is not None and missing is not None:
        raise DataError(f"{against}: no prediction for example {missing!r}")
    settings = {"data": data, "split": split, "blocks": blocks, "task": config.task.model_dump(mode="json")}
    pairs = predictor.answer(
        task, examples, title="evaluate", written=predictions, settings=settings,
        subset=limit is not None or longer_than is not None,
    )  # fmt: skip
    result = _measure(task, pairs)
    if against is not None and result["metrics"]:
        result["against"] = _compare(task, pairs, others, task_of(against, task))
    if timed is not None:
        result["seconds_per_question"] = predictor.seconds(examples[:timed])
    if matrix is not None:
        _draw_confusion(pairs, matrix)
    if curve is not None and result["calibration"] is not None:
        _draw_reliability(result["calibration"]["bins"], curve)
    print(json.dumps(result, indent=2) if as_json else _format(result))


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


def _read(reader: Any, data: str, split: Split, limit: int | None, longer_than: int | None) -> list["Example"]:
    """Read the examples, whose labels the model must know."""
    from cogltx.baselines import WindowReader
    from cogltx.training._data import read_examples

    tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
    examples, _ = read_examples(reader.config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer)
    for example in examples:
        reader.config.reasoner.check_labels(example)
    return examples


def _measure(task: "Task", pairs: Sequence["Pair"]) -> dict[str, Any]:
    """Name of the task, number of examples, metrics in percent, calibration, scores per label."""
    from cogltx.tasks.metrics import Calibration, scored_predictions

    n_unlabelled = sum(
        example.answers is None and example.labels is None and example.entities is None and example.relevant is None
        for example, _ in pairs
    )
    has_gold = n_unlabelled < len(pairs)
    metrics = task.metrics(pairs) if has_gold else {}
    calibration = Calibration.of(scored_predictions(pairs)) if has_gold else None
    if not metrics:
        what = f"what the task {task.name} measures; see --set task.name"
        what = what if has_gold else "gold answers, labels, entities or relevant passages"
        logger.warning(f"warning: nothing is measured: no example has {what}")
    elif n_unlabelled:
        counts = f"{n_unlabelled:,} of {len(pairs):,} examples"
        logger.warning(f"warning: {counts} have no gold labels; the metrics leave them out")
    return {
        "task": task.name, "examples": len(pairs), "metrics": metrics,
        "calibration": calibration and asdict(calibration), "against": [], "labels": _per_label(pairs),
    }  # fmt: skip


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
    from sklearn.metrics import ConfusionMatrixDisplay

    from cogltx.tasks.metrics import gold_and_predicted

    texts = gold_and_predicted(pairs)
    if any(len(predicted) != 1 for _, _, predicted in texts):
        raise ConfigError("--confusion needs a model that predicts exactly one label per text")
    gold, predicted = ([str(*text[side]) for text in texts] for side in (1, 2))
    ConfusionMatrixDisplay.from_predictions(
        gold, predicted, normalize="true", values_format=".2f", cmap="Blues", xticks_rotation="vertical",
        ax=picture.axes, text_kw={"fontsize": 6},
    )  # fmt: skip
    size = 3 + 0.3 * len({*gold, *predicted})
    picture.save(size + 1, size)


def _draw_reliability(bins: Sequence[Mapping[str, float]], picture: "Picture") -> None:
    curves = {"model": [(one["mean_score"], one["accuracy"]) for one in bins], "perfect": [(0.0, 0.0), (1.0, 1.0)]}
    picture.draw_curves(curves, across="mean score", up="share of right predictions")


def _format(result: Mapping[str, Any]) -> str:
    lines = [f"{result['task']}, {result['examples']:,} examples"]
    lines += [f"  {name:<20} {value:6.2f} %" for name, value in result["metrics"].items()]
    if calibration := result["calibration"]:
        lines.append(f"  {'calibration error':<20} {100 * calibration['error']:6.2f} points")
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
        row = "  {metric:<20} {difference:+6.2f}  [{low:+.2f}, {high:+.2f}]"
        lines += [row.format(**one) for one in result["against"]]
    return "\n".join(lines)
