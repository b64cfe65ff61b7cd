"""Turning any task's file into the package's own format, one JSON object a line.

Knows nothing about any one format.
"""

from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.download import download
from cogltx.tasks.jsonl import write_examples


def prepare(task: Task, source: Path | None, output: Path, split: Split) -> ReadReport:
    """Reads a file of a task and writes its examples as JSON Lines, one after another.

    Args:
        task: who reads.
        source: the file; None: it is first fetched from its official home into the folder of ``output``.
        output: where the examples go, gzipped if the name ends in ``.gz``; comes to be only when all are
            written.
        split: what the examples are for.

    Returns:
        How many examples were written, and the gold that has no place in the text.

    Raises:
        DataError: the source is missing or not in the task's format, or the output cannot be written.
    """
    if source is None:
        source = download(task.name, split, output.parent).path
    if source.exists() and output.exists() and source.samefile(output):
        raise DataError(f"{output}: expected another file than the source, got the same")
    report = ReadReport()
    write_examples(output, _counted(task.read(source, split=split, report=report), source.name))
    return report


def _counted(examples: Iterator[Example], name: str) -> Iterator[Example]:
    """The same examples, counted by a progress bar where there is a terminal."""
    with tqdm(examples, desc=name, unit=" examples", disable=None) as bar:
        yield from bar
