"""What the commands do: train a run or an encoder, answer a file of examples, find key blocks.

Knows nothing about the command line, or of measuring (see ``evaluation``).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel

from cogltx.baselines import BagOfWords, WindowReader
from cogltx.blocks import load_tokenizer
from cogltx.cli.config import RunConfig, load_reader, new_reader, run_examples, with_labels
from cogltx.cli.inference import answer, with_progress
from cogltx.cli.settings import expand, read_yaml, validated
from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError
from cogltx.files import check_settings, fingerprint, write_file, write_json
from cogltx.memrecall import MemRecall, MemRecallConfig, Recall
from cogltx.model import model_folder
from cogltx.pipeline import CogLTX
from cogltx.tasks import Task, make_task
from cogltx.tasks.texts import read_texts
from cogltx.training.config import check_examples
from cogltx.training.masked import MaskedConfig, MaskedSummary, MaskedTrainer
from cogltx.training.rows import packed, set_apart
from cogltx.training.trainer import Summary, Trainer
from cogltx.training.validation import main_metric

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
        lacking = (
            "entities" if reader.model.reasoner.by_block else "place of the answer; only the judge learned from them"
        )
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
    main = main_metric(task, reader)
    check_examples(task, main, examples, validation)
    _store(run, output)
    reader.fit(examples, seed=run.training.seed)
    metrics = task.metrics(zip(validation, reader.predict_many(validation), strict=True))
    reader.save_pretrained(output / "model")
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
    tokenizer = load_tokenizer(run.encoder.name)
    train = packed(read_texts(expand(data.train)), tokenizer, run.length)
    other = packed(read_texts(expand(data.validation)), tokenizer, run.length) if data.validation else None
    rows = set_apart(train, other, data, run.training.seed)
    trainer = MaskedTrainer(tokenizer, rows, run, output, report)
    _store(run, output)
    return trainer.run(resume=resume)


def _stored(output: Path) -> Path:
    return output / "config.yaml"


def _store(run: BaseModel, output: Path) -> None:
    write_file(_stored(output), yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def check_folder(run: BaseModel, output: Path, resume: bool) -> None:
    """A run's folder is new or empty, or to be resumed with the configuration that it began with.

    Raises:
        ConfigError: it is neither.
    """
    if not _stored(output).exists():
        found = next((path.name for path in sorted(output.glob("[!.]*"))), None)
        if found is not None:
            raise ConfigError(f"{output}: expected a new folder, an empty one or a run's, got one that holds {found!r}")
        return
    if not resume:
        raise ConfigError(f"{output}: expected a new folder or --resume, got one that holds a run")
    check_settings(output, run.model_dump(mode="json"), read_yaml(_stored(output))[0])


def predict_file(run: str | Path, source: Path, output: Path, changes: Sequence[str] = ()) -> int:
    """Answers a JSON Lines file of examples; a second call goes on where the output ends.

    Args:
        run: a run, a model folder or a name on the hub.
        source: the examples.
        output: takes a line for each.
        changes: ``KEY=VALUE`` of the model's configuration.

    Raises:
        ConfigError: the output was begun by another model.
        DataError: the source is no file of examples, or the output is one of other examples or texts.

    Returns:
        predictions in the output.
    """
    task, reader = make_task("jsonl", {}), load_reader(run, changes=changes)
    settings = {"model": fingerprint(model_folder(run)), "changes": list(changes)}
    pairs = answer(reader, task, task.read(source, split="test"), written=output, settings=settings)
    count = sum(1 for _ in with_progress(pairs, "predict"))
    if not count and not output.exists():
        write_file(output, "")
    return count


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
        changes = [f"memrecall.capacity={capacity}"] if capacity is not None else []
        changes += [f"memrecall.strides={list(strides)}"] if strides is not None else []
        reader = load_reader(run, changes=changes)
        if not isinstance(reader, CogLTX):
            raise ConfigError(f"{run}: expected a model with a judge, got the baseline {reader.config.reader}")
        return reader.recall(document, query)
    given = {"capacity": capacity, "strides": strides}
    config = validated(MemRecallConfig, {key: value for key, value in given.items() if value is not None}, "recall", {})
    return MemRecall(str(judge), config).recall(document, query)
