"""What the commands do: train a run or an encoder, measure a model, answer a file of examples, find key blocks.

Knows nothing about the command line.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from cogltx.baselines import BagOfWords
from cogltx.blocks import split as cut
from cogltx.config import RunConfig, expand, load_reader, new_reader, read_examples, run_examples, with_labels
from cogltx.document import Document, Example, Query
from cogltx.encoder import Precision
from cogltx.errors import ConfigError, DataError
from cogltx.inference import KeyBlocks, answer, known_labels, read_predictions, with_progress
from cogltx.inspection import draw_confusions, label_results, type_results
from cogltx.judges import JudgeConfig, as_judge, judge_model
from cogltx.memrecall import MemRecall, MemRecallConfig, Recall
from cogltx.metrics import Interval, paired_bootstrap
from cogltx.pipeline import CogLTX, WindowReader
from cogltx.prediction import Prediction
from cogltx.pretrained import EncoderConfig, tokenizer_of
from cogltx.reader import Reader
from cogltx.storage import check_settings, write_json, write_text
from cogltx.tasks import Split, Task, make_task
from cogltx.tasks.texts import read_texts
from cogltx.training.masked import MaskedConfig, MaskedSummary, MaskedTrainer
from cogltx.training.rows import packed, set_apart
from cogltx.training.trainer import Summary, Trainer
from cogltx.training.validation import main_metric
from cogltx.window import WindowFormat

_NAMED = 20


def train(run: RunConfig, output: Path, *, resume: bool = False, report: Callable[[str], None] = print) -> Summary:
    """Trains a run; its best epoch is the run's model.

    Args:
        run: what is trained, on what, and how.
        output: the run's folder.
        resume: go on from its last checkpoint.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: the folder holds a run already and ``resume`` is not set, or had another
            configuration.
        DataError: a data file is wrong.
        TrainingError: a loss is not finite or the disk is full; the last checkpoint is kept.
    """
    check_folder(run, output, resume)
    task = make_task(run.task.name, run.task.options)
    examples, validation, unmapped = run_examples(run)
    report(f"{len(examples)} training and {len(validation)} validation examples")
    for sample in unmapped.unmapped[:_NAMED]:
        report(f"  without a place in the text: {sample.id}: {sample.reason}")
    if len(unmapped.unmapped) > _NAMED:
        report(f"  … and {len(unmapped.unmapped) - _NAMED} more; cogltx prepare names them all")
    for line in [*unmapped.notes(), *_rare_labels(examples)]:
        report(line)
    reader = new_reader(with_labels(run, [*examples, *validation]))
    if isinstance(reader, BagOfWords):
        return _fit(reader, run, task, examples, validation, output, report)
    assert isinstance(reader, WindowReader), "all others read windows"
    trainer = Trainer(reader, task, examples, validation, run.training, output, report)
    _store(run, output)
    summary = trainer.run(resume=resume)
    if summary.skipped:
        lacking = "entities" if reader.reasoner.by_block else "place of the answer; only the judge learned from them"
        report(f"{summary.skipped} training examples have no known {lacking}")
    best = summary.history[summary.best_epoch][trainer.main_metric]
    report(f"best epoch {summary.best_epoch + 1}: {trainer.main_metric} {best:.1f}; model in {output}")
    return summary


def _fit(
    reader: BagOfWords,
    run: RunConfig,
    task: Task,
    examples: Sequence[Example],
    validation: Sequence[Example],
    output: Path,
    report: Callable[[str], None],
) -> Summary:
    """Trains a reader that has no epochs; its folder is as any run's."""
    _store(run, output)
    reader.fit(examples, seed=run.training.seed)
    metrics = task.metrics(zip(validation, reader.predict_many(validation), strict=True))
    reader.save_pretrained(output / "model")
    main = main_metric(task, reader)
    write_json(output / "run.json", {"best": "model", "main_metric": main, "history": [metrics]})
    report(f"validation: {main} {metrics[main]:.1f}; model in {output}")
    return Summary((metrics,), 0, 0)


def _rare_labels(examples: Sequence[Example]) -> list[str]:
    """A word on labels that occur once."""
    counts = Counter(label for example in examples for label in example.labels or ())
    rare = sorted(label for label, count in counts.items() if count == 1)
    return [f"labels with one training example: {', '.join(rare[:_NAMED])}"] if rare else []


def mlm(
    run: MaskedConfig, output: Path, *, resume: bool = False, report: Callable[[str], None] = print
) -> MaskedSummary:
    """Goes on training an encoder, as a masked language model, on the user's texts.

    Args:
        run: which encoder, on what, and how.
        output: the run's folder; its ``encoder`` is an encoder for any other run.
        resume: go on from its last checkpoint.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: as ``train``, or rows are longer than the encoder reads.
        DataError: a file is missing, holds no text, or is not UTF-8; names file and line.
        ModelError: the encoder, or its tokenizer, is none of a masked language model.
        TrainingError: a loss is not finite or the disk is full; the last checkpoint is kept.
    """
    check_folder(run, output, resume)
    data = run.data
    tokenizer = tokenizer_of(run.encoder.name)
    train = packed(read_texts(expand(data.train)), tokenizer, run.length)
    other = packed(read_texts(expand(data.validation)), tokenizer, run.length) if data.validation else None
    rows = set_apart(train, other, data, run.training.seed)
    trainer = MaskedTrainer(tokenizer, rows, run, output, report)
    _store(run, output)
    return trainer.run(resume=resume)


def _stored(output: Path) -> Path:
    return output / "config.yaml"


def _store(run: BaseModel, output: Path) -> None:
    write_text(_stored(output), yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def check_folder(run: BaseModel, output: Path, resume: bool) -> None:
    """A run's folder is new, or to be resumed with the configuration that it began with.

    Raises:
        ConfigError: it is neither.
    """
    if not _stored(output).exists():
        return
    if not resume:
        raise ConfigError(f"{output}: expected a new folder or --resume, got one that holds a run")
    before = yaml.safe_load(_stored(output).read_text(encoding="utf-8"))
    check_settings(output, run.model_dump(mode="json"), before)


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
        longer_than: measure only documents of more tokens; all are read.
        predictions: where predictions are written, a line an example; those it holds are not made again.
        against: predictions of another system for the same examples.
        judge: ``bm25`` or ``package.module:Class`` in place of the run's.
        key_blocks: ``gold`` lets the reasoner see the relevant blocks alone.
        changes: ``KEY=VALUE`` of the model's configuration.
        confusion: where a picture of the confused labels goes.

    Raises:
        DataError: the file is not in the task's format, or an example has a label that the model does not know.
    """
    wanted = [*changes, *([f"judge.name={judge}"] if judge else [])]
    reader = load_reader(run, changes=wanted)
    task = make_task(reader.config.task.name, reader.config.task.options)
    examples: Iterable[Example] = task.read(expand(data), split=split)
    if limit is not None:
        examples, _ = read_examples(reader.config, data, split, limit=limit)
    pairs = answer(reader, task, known_labels(reader, examples), key_blocks=key_blocks, written=predictions)
    found = list(with_progress(pairs, "evaluate"))
    if not found:
        raise DataError(f"{data}: expected examples of task {task.name}, found none")
    if longer_than is not None:
        tokenizer = tokenizer_of(reader.config.encoder.name)
        found = [pair for pair in found if _n_tokens(*pair, tokenizer) > longer_than]
        if not found:
            raise DataError(f"{data}: expected documents of more than {longer_than} tokens, found none")
    compared = _compare(task, found, against) if against else ()
    labelled = any(prediction.labels for _, prediction in found)
    tagged = reader.config.reasoner.name == "tagging"
    labels = type_results(found) if tagged else label_results(found) if labelled else {}
    if confusion is not None:
        draw_confusions(found, confusion)
    return Result(task.name, len(found), task.metrics(found), compared, labels)


def _n_tokens(example: Example, prediction: Prediction, tokenizer: Any) -> int:
    """Tokens of the document; some readers do not count them."""
    if prediction.n_tokens:
        return prediction.n_tokens
    return len(tokenizer(example.document.text, add_special_tokens=False, verbose=False)["input_ids"])


def _compare(task: Task, found: Sequence[tuple[Example, Prediction]], against: Path) -> tuple[Comparison, ...]:
    others = {prediction.id: prediction for prediction in read_predictions(against)}
    missing = next((example.id for example, _ in found if example.id not in others), None)
    if missing is not None:
        raise DataError(f"{against}: expected a prediction for every example, found none for {missing!r}")
    ours = [task.per_example(example, prediction) for example, prediction in found]
    theirs = [task.per_example(example, others[example.id]) for example, _ in found]
    comparisons = []
    for metric in ours[0]:
        shared = [(a[metric], b[metric]) for a, b in zip(ours, theirs, strict=True) if metric in a and metric in b]
        interval: Interval = paired_bootstrap([a for a, _ in shared], [b for _, b in shared])
        comparisons.append(
            Comparison(metric, *(100 * value for value in (interval.mean_difference, interval.low, interval.high)))
        )
    return tuple(comparisons)


def predict_file(reader: Reader, source: Path, output: Path) -> int:
    """Answers a JSON Lines file of examples; a second call goes on where the output ends.

    Returns:
        predictions in the output.
    """
    task = make_task("jsonl", {})
    return sum(
        1 for _ in with_progress(answer(reader, task, task.read(source, split="test"), written=output), "predict")
    )


def recall(
    document: Document,
    query: Query | None,
    *,
    run: str | None = None,
    judge: str | None = None,
    capacity: int | None = None,
    strides: tuple[int, ...] | None = None,
) -> Recall:
    """The key blocks of a document, by a run's judge or one that needs no run.

    Raises:
        ConfigError: neither or both of ``run`` and ``judge`` are given, or the run has no judge.
    """
    if (run is None) == (judge is None):
        raise ConfigError("recall: expected a run or --judge NAME, got " + ("neither" if run is None else "both"))
    if run is not None:
        changes = [f"memrecall.capacity={capacity}"] if capacity else []
        changes += [f"memrecall.strides={list(strides)}"] if strides else []
        reader = load_reader(run, changes=changes)
        if not isinstance(reader, CogLTX):
            raise ConfigError(f"{run}: expected a model with a judge, got the baseline {reader.config.reader}")
        return reader.memrecall([(query, reader.split(document))])[0]
    encoder = EncoderConfig()
    tokenizer = tokenizer_of(encoder.name)
    given = {"capacity": capacity, "strides": strides}
    config = MemRecallConfig.model_validate({key: value for key, value in given.items() if value is not None})
    form = WindowFormat(tokenizer, config.capacity)
    made = judge_model(JudgeConfig(name=str(judge)), None)
    chosen = as_judge(made, form, Precision.of(encoder), encoder.batch_tokens)
    return MemRecall(chosen, form, config)([(query, cut(document, tokenizer))])[0]
