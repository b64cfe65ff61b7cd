"""Answer a file of examples, or find key blocks.

Knows nothing about the command line, or of measuring (see ``evaluation``).
"""

from collections.abc import Sequence
from pathlib import Path

from cogltx.cli.config import load_reader
from cogltx.cli.inference import answer, with_progress
from cogltx.cli.settings import validated
from cogltx.document import Document, Query
from cogltx.errors import ConfigError
from cogltx.files import fingerprint, write_file
from cogltx.memrecall import MemRecall, MemRecallConfig, Recall
from cogltx.model import model_folder
from cogltx.pipeline import CogLTX
from cogltx.tasks import make_task


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
