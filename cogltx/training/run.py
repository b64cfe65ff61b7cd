"""A run in its folder: read the data, build the model, check the setup, train, and report the epoch that is kept."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from cogltx import _processes as processes
from cogltx._files import write_json
from cogltx.baselines import WindowReader, WordsReader, reader_class
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError, Interrupted, describe
from cogltx.pipeline import CogLTX, Reader
from cogltx.tasks import make_task
from cogltx.training._data import Source, run_examples
from cogltx.training._display import Display, Estimate
from cogltx.training._findings import choice_of_epoch, counts, left_out
from cogltx.training._run_folder import check_folder, interruptible, run_folder
from cogltx.training._thresholds import main_metric, tuned
from cogltx.training.config import RunConfig
from cogltx.training.trainer import Trainer


@processes.joined()
def train(
    config: RunConfig | Mapping[str, Any],
    data: Source,
    *,
    validation: Source | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    report: Callable[[str], None] = print,
    callbacks: Sequence[Any] = (),
) -> CogLTX:
    """Train judge and reasoner on examples, and return the model of the best epoch.

    Args:
        config: a run's configuration, or a dictionary with the same keys; ``data`` may set ``held_out`` and limits.
        data: training examples: ``Example`` objects, dictionaries in the JSON Lines form, a ``datasets.Dataset`` with
            the same columns, or the path of a file.
        validation: validation examples; without them, a part of ``data`` is held out.
        output: the folder of the run; None trains in a temporary folder.
        resume: continue from the last checkpoint in ``output``.
        report: receives lines of progress.
        callbacks: callbacks of ``transformers``, such as ``EarlyStoppingCallback(1)`` or ``TrackioCallback()``.

    Raises:
        ConfigError: a setting is not valid, or ``output`` has another run.
        DataError: an example is not valid.
        TrainingError: a loss is not finite, or the disk is full.
        Interrupted: a KeyboardInterrupt, whose text says what is saved.

    Example:
        model = cogltx.train({"reasoner": {"name": "classification"}, "training": {"epochs": 2}}, examples)
        model.predict("A long text").answer
    """
    run = (config if isinstance(config, RunConfig) else _run_config(config)).started()
    if reader_class(run.reader) is not CogLTX:
        raise ConfigError(f"reader: train() returns a CogLTX model; train the baseline {run.reader} with cogltx train")
    if output is None and processes.count() > 1:
        raise ConfigError("output: several processes train together; name a folder that all of them see")
    with tempfile.TemporaryDirectory() if output is None else nullcontext(str(output)) as folder:
        try:
            train_run(
                run, Path(folder), resume=resume, report=report, data=data, validation=validation, callbacks=callbacks
            )
        except Interrupted as interrupt:
            text = "interrupted; nothing is saved, since the training has no output folder"
            raise Interrupted(interrupt.text if output else text, interrupt.signal) from interrupt
        return CogLTX.from_pretrained(Path(folder), judge=run.judge.name if run.judge.is_class else None)


def _run_config(config: Mapping[str, Any]) -> RunConfig:
    if not isinstance(config, Mapping):
        raise ConfigError("config must be a dictionary or a RunConfig; YAML files are for the command cogltx train")
    values = dict(config)
    if isinstance(values.get("data", {}), Mapping):
        values["data"] = {"train": "training data", **values.get("data", {})}
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error, RunConfig)) from error


@processes.joined()
def train_run(
    run: RunConfig,
    output: Path,
    *,
    resume: bool = False,
    report: Callable[[str], None] = print,
    data: Source | None = None,
    validation: Source | None = None,
    callbacks: Sequence[Any] = (),
) -> None:
    """Train a run in its folder; the best epoch is the run's model.

    Processes that ``torchrun`` or ``accelerate launch`` started together share the work. ``data`` and ``validation``
    replace the files of the run. Other arguments and errors as ``train``.
    """
    run, report = run.started(), processes.of_first(report)
    check_folder(run, output, resume)
    with interruptible(output):
        with closing(Display(report, Estimate({}), "reading the data")) as display:
            examples, held_out = _read(run, data, validation, display.report)
            display.begin("loading the model")
            reader = _build(run, [*examples, *held_out])
            if isinstance(reader, WordsReader):
                display.begin("training")
                _train_words(run, reader, examples, held_out, output, resume, display.report)
                return
            assert isinstance(reader, WindowReader), "all others read windows"
            trainer = Trainer(
                reader, run.training, train=examples, validation=held_out, output=output, report=report,
                callbacks=callbacks,
            )  # fmt: skip
        with run_folder(run, output, resume):
            done = trainer.run(resume=resume)
    if done.skipped:
        gold = f"{run.reasoner.gold}; the reasoner does not learn from them"
        report(f"{done.skipped:,} training examples have no known {gold}")


def _read(
    run: RunConfig, data: Source | None, validation: Source | None, report: Callable[[str], None]
) -> tuple[list[Example], list[Example]]:
    """Read training and validation examples, and report their numbers and what the task could not map."""
    if processes.count() > 1:
        report(f"{processes.count()} processes share the work")
    examples, held_out, unmapped = run_examples(run, data, validation)
    report(f"{len(examples)} training and {len(held_out)} validation examples")
    has_validation = validation is not None or run.data.validation is not None
    source = (run.data.train if isinstance(run.data.train, str) else "FILE") if data is None else data
    read = examples if has_validation else [*examples, *held_out]
    for line in (
        *left_out(unmapped.unmapped, read, run.task.name, source),
        *unmapped.notes(),
        *counts(examples, held_out),
    ):
        report(line)
    chooses = issubclass(reader_class(run.reader), WindowReader) and run.training.epochs != 1
    if chooses and run.training.kept_epoch == "best":
        for line in choice_of_epoch(held_out):
            report(line)
    return examples, held_out


def _build(run: RunConfig, examples: Sequence[Example]) -> Reader:
    """Create an untrained reader for the labels of the examples; the same seed gives the same weights."""
    try:
        fitted = run.model_copy(update={"reasoner": run.reasoner.fitted(examples)})
    except DataError as error:
        raise DataError(f"{', '.join(run.data.train_files)}: {error}") from error
    torch.manual_seed(run.training.seed)
    return reader_class(run.reader).create(fitted.model_part())


def _train_words(
    run: RunConfig, reader: WordsReader, examples: Sequence[Example], held_out: Sequence[Example], output: Path,
    resume: bool, report: Callable[[str], None],
) -> None:  # fmt: skip
    """Train a model of words, which has no epochs; its folder has the same files as that of any run."""
    task = make_task(run.task.name, run.task.options)
    metric = main_metric(task, reader, examples, held_out)
    if not processes.is_first():
        return
    with run_folder(run, output, resume):
        reader.fit(examples, seed=run.training.seed)
        predictions = list(reader.predict_many(held_out))
        reader.reasoner, metrics = tuned(reader.reasoner, task, held_out, predictions, metric)
        reader.save_pretrained(output / "model")
        write_json(
            output / "run.json", {"best": "model", "main_metric": metric, "metrics": metrics, "history": [metrics]}
        )
    report(f"validation: {metric} {metrics[metric]:.1f}")
