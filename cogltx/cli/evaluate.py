"""``cogltx evaluate``: measure a model by the official metrics of its task."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx._progress import logger
from cogltx.cli._options import DeviceOption, JsonOption, JudgeOption, KeyBlocks, RunArgument, SetOption, Split, note
from cogltx.errors import CogltxError, ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.cli._plots import Picture
    from cogltx.cli._predictions import Pair
    from cogltx.document import Example
    from cogltx.tasks import Task


_Data = Annotated[str, typer.Option(help="A data file of the model's task, or JSON Lines.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Evaluate a random sample of so many examples.")]
_Longer = Annotated[int | None, typer.Option(min=0, help="Evaluate only documents of more tokens than this.")]
_Split = Annotated[Split, typer.Option(help="Part of the data, where one file has several.")]
_Written = Annotated[Path | None, typer.Option(help="Write the predictions here, one JSON object per line; resumable.")]
_Against = Annotated[
    str | None, typer.Option(help="Another model, or a file of its predictions: says with an interval which is better.")
]
_Html = Annotated[
    Path | None, typer.Option(help="Write a page of the answers, or of the differences, question by question.")
]
_Timed = Annotated[
    int | None, typer.Option(min=1, help="Measure seconds per question on so many documents, one by one.")
]
_Tune = Annotated[bool, typer.Option("--tune", help="Tune the thresholds for this judge on the validation examples.")]
_Blocks = Annotated[
    KeyBlocks, typer.Option(help="What the reasoner reads; gold, the relevant blocks, is an upper bound.")
]
_COLUMN = 28  # characters of a model's name
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
    html: _Html = None,
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
    from cogltx.cli._comparison import Against, System, check_labels, compare, write_page
    from cogltx.cli._plots import Picture
    from cogltx.cli._predictions import Predictor
    from cogltx.tasks import make_task

    other = Against(against) if against is not None else None
    matrix, curve = (Picture(path) if path is not None else None for path in (confusion, reliability))
    if html is not None and html.is_dir():
        raise ConfigError(f"--html: {html} is a folder; name a file for the page")
    predictor = Predictor(run, changes or (), judge, device, blocks)
    if tune:
        predictor.tune()
    config = predictor.reader.config
    task = make_task(config.task.name, config.task.options)
    examples = _read(predictor.reader, data, split, limit, longer_than)
    if matrix is not None and any(len(example.labels or ()) != 1 for example in examples):
        raise DataError(f"{data}: --confusion needs texts with one label each")
    name = _name(run, [*(changes or ()), *([f"judge={judge}"] if judge else [])])
    check_labels(name, config.reasoner, examples)
    if other is not None:
        other.check(name, config, examples)
    settings = {"data": data, "split": split, "blocks": blocks, "task": config.task.model_dump(mode="json")}
    pairs = predictor.answer(
        task, examples, title="evaluate" if other is None else name, written=predictions, settings=settings,
        subset=limit is not None or longer_than is not None,
    )  # fmt: skip
    result = _measure(task, pairs)
    if timed is not None:
        result["seconds_per_question"] = predictor.seconds(examples[:timed])
    del predictor  # before another model is loaded
    systems = [System(name, task, pairs)]
    if other is not None and result["metrics"]:
        systems.append(other.answer(task, examples, device, blocks))
        result |= {"systems": [name, other.name], **compare(*systems)}
    _draw(pairs, result["calibration"], matrix, curve)
    if html is not None:
        write_page(html, systems, result, data)
        note(f"page: {html}")
    _warn_of_training_data(Path(run), data)
    print(json.dumps(result, indent=2) if as_json else _format(result))


def _warn_of_training_data(run: Path, data: str) -> None:
    """Warn where a run is measured on the file that it learned from."""
    from cogltx._files import read_json
    from cogltx.cli._data_file import is_data_file
    from cogltx.training._data import expand
    from cogltx.training._run_folder import CONFIG_FILE

    if not (run / CONFIG_FILE).is_file() or not is_data_file(Path(data)):
        return
    with suppress(CogltxError, KeyError, TypeError):  # a run that was moved, or written by hand
        if expand(read_json(run / CONFIG_FILE)["data"]["train"]).resolve() == expand(data).resolve():
            note(f"warning: {run} learned from {data}; on other examples its figures are lower")


def _name(run: str, changes: Sequence[str]) -> str:
    return f"{run} ({', '.join(changes)})" if changes else run


def _read(reader: Any, data: str, split: Split, limit: int | None, longer_than: int | None) -> list["Example"]:
    """Read the examples."""
    from cogltx.baselines import WindowReader
    from cogltx.training._data import read_examples

    tokenizer = reader.model.tokenizer if isinstance(reader, WindowReader) else None
    examples, _ = read_examples(reader.config, data, split, limit=limit, longer_than=longer_than, tokenizer=tokenizer)
    return examples


def _measure(task: "Task", pairs: Sequence["Pair"]) -> dict[str, Any]:
    """Name of the task, number of examples, metrics in percent, calibration, scores per label."""
    from cogltx.tasks.metrics import CalibrationError, scored_predictions

    n_unlabelled = sum(
        example.answers is None and example.labels is None and example.entities is None and example.relevant is None
        for example, _ in pairs
    )
    has_gold = n_unlabelled < len(pairs)
    metrics = task.metrics(pairs) if has_gold else {}
    calibration = CalibrationError.of(scored_predictions(pairs)) if has_gold else None
    if not metrics:
        what = f"what the task {task.name} measures; see --set task.name"
        what = what if has_gold else "gold answers, labels, entities or relevant passages"
        logger.warning(f"warning: nothing is measured: no example has {what}")
    elif n_unlabelled:
        counts = f"{n_unlabelled:,} of {len(pairs):,} examples"
        logger.warning(f"warning: {counts} have no gold labels; the metrics leave them out")
    return {
        "task": task.name, "examples": len(pairs), "metrics": metrics,
        "calibration": calibration and asdict(calibration), "against": [], "verdict": None, "labels": _per_label(pairs),
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


def _draw(
    pairs: "list[Pair]", calibration: dict[str, Any] | None, matrix: "Picture | None", curve: "Picture | None"
) -> None:
    if matrix is not None:
        _draw_confusion(pairs, matrix)
    if curve is not None and calibration is not None:
        _draw_reliability(calibration["bins"], curve)


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
    compared = {row["metric"] for row in result["against"]}
    lines += [f"  {name:<20} {value:6.2f} %" for name, value in result["metrics"].items() if name not in compared]
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
        names = [name if len(name) <= _COLUMN else f"…{name[1 - _COLUMN :]}" for name in result["systems"]]
        widths = [max(len(name), 8) for name in names]
        header = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
        lines += ["", f"  {'':<20}  {header}  difference in points (95 %)"]
        for row in result["against"]:
            values = f"{row['value']:{widths[0]}.2f}  {row['other']:{widths[1]}.2f}"
            interval = "" if row["low"] is None else f"  ({row['low']:+.2f} to {row['high']:+.2f})"
            lines.append(f"  {row['metric']:<20}  {values}  {row['difference']:+10.2f}{interval}")
        if verdict := result["verdict"]:
            lines += ["", verdict["text"], verdict["note"]]
    return "\n".join(lines)
