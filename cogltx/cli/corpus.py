"""Predictions for a corpus of files, part by part, in this process or on an engine with many workers.

A part is a run of examples of one file. Its predictions are written as one file, atomically, so that after any
interruption the same command makes the missing parts, and every example is in the output exactly once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cogltx.cli.options import Engine, Format
from cogltx.cli.predictions import Predictor, to_record
from cogltx.errors import ConfigError, DataError
from cogltx.files import (
    check_settings,
    claimed,
    fingerprint,
    open_binary,
    read_json,
    read_json_lines,
    write_file,
    write_json,
)
from cogltx.prediction import Prediction
from cogltx.progress import progress
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import parse_examples

PART_BYTES = 2**20
"""Size of a part: about a quarter of a million tokens of English, a minute or two of a CPU core."""

_INPUTS = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class Part:
    """Examples ``first`` to ``last`` of a file, as in a slice, and the file of their predictions."""

    source: str
    first: int
    last: int
    output: str


def is_corpus(given: str) -> bool:
    """Whether an input is answered in parts: a folder, a pattern or a Parquet file."""
    path = Path(given)
    return path.is_dir() or path.suffix == ".parquet" or (has_magic(given) and not path.is_file())


def find_parts(given: str, output: Path, format: Format, settings: Mapping[str, Any]) -> list[Part]:
    """Divide a corpus into parts, and name the predictions of each.

    The predictions for ``corpus/a.jsonl.gz`` are in the folder ``OUTPUT/a.jsonl.gz``, with the settings beside them.

    Args:
        given: a file, a folder or a pattern such as ``corpus/*.jsonl.gz``.
        output: the folder of the predictions.
        format: of the predictions.
        settings: what the predictions depend on besides their texts.

    Raises:
        DataError: there is no file, or a file cannot be read.
        ConfigError: the folder was started with other settings or files.
    """
    parts = []
    for root, path in _find_inputs(given, output):
        folder = output / path.relative_to(root)
        stored = folder / "settings.json"
        now = {**settings, "format": format, "part_bytes": PART_BYTES, "input": fingerprint(path)}
        if stored.is_file():
            check_settings(folder, now, read_json(stored))
        else:
            write_json(stored, now)
        cuts = list(_cut_parquet(path) if path.suffix == ".parquet" else _cut_lines(path))
        parts += [
            Part(str(path), first, last, str(folder / f"{first:012d}.{format}"))
            for first, last in zip([0, *cuts], cuts, strict=False)
        ]
    return parts


def answer_part(predictor: Predictor, part: Part) -> int:
    """Answer the examples of a part and write their predictions; returns their number."""
    task = make_task("jsonl", {})
    batches = predictor.answer_all(parse_examples(_records(part)))
    records = [{**to_record(task, *pair), "source": part.source} for batch in batches for pair in batch]
    output = Path(part.output)
    write_file(output, _parquet(records) if output.suffix == ".parquet" else (_line(record) for record in records))
    return len(records)


def answer_with_ray(parts: Sequence[Part], predictor: Predictor, workers: int | None) -> Iterator[int]:
    """Answer parts in workers of a Ray cluster, see ``cogltx.cli.ray_engine``."""
    try:
        from cogltx.cli.ray_engine import answer_parts
    except ImportError as error:
        raise ConfigError('--engine ray: Ray is not installed; pip install "cogltx[ray]"') from error
    return answer_parts(parts, predictor.options, workers)


def answer_corpus(
    given: str, output: Path, predictor: Predictor, *, engine: Engine, workers: int | None, format: Format
) -> int:
    """Answer all examples of a corpus whose predictions are missing; returns how many were.

    Args:
        given: see ``find_parts``.
        output: the folder of the predictions.
        predictor: the model and its options.
        engine: where the parts are answered.
        workers: number of processes of Ray with a model; None for one per core or GPU.
        format: of the predictions.
    """
    with claimed(output):
        parts = find_parts(given, output, format, predictor.settings)
        missing = [part for part in parts if not Path(part.output).is_file()]
        if not missing:
            return 0
        here = (answer_part(predictor, part) for part in missing)
        counts = here if engine == "local" else answer_with_ray(missing, predictor, workers)
        return sum(progress(counts, "predict", total=len(missing), unit="parts"))


def _find_inputs(given: str, output: Path) -> list[tuple[Path, Path]]:
    """The files of a corpus in order, each with the folder that its place in the output is relative to."""
    path = Path(given)
    if path.is_dir():
        root, candidates = path, [*path.rglob("*")]
    elif has_magic(given) and not path.is_file():
        fixed = next(n for n, name in enumerate(path.parts) if has_magic(name))
        root = Path(*path.parts[:fixed])
        candidates = [*root.glob(str(Path(*path.parts[fixed:])))]
    else:
        root, candidates = path.parent, [path]
    if candidates == [path] and not path.exists():
        raise DataError(f"{given}: file not found")
    output_folder = output.resolve()
    files = sorted(
        file
        for file in candidates
        if file.is_file()
        and (file.name.endswith(_INPUTS) or file == path)
        and output_folder not in file.resolve().parents
    )
    if not files:
        raise DataError(f"{given}: no file {', '.join(_INPUTS[:-1])} or {_INPUTS[-1]}")
    return [(root, file) for file in files]


def _cut_lines(path: Path) -> Iterator[int]:
    """Numbers of lines after which a part ends."""
    size = n_lines = 0
    with open_binary(path) as file:
        for n_lines, line in enumerate(file, 1):
            size += len(line)
            if size >= PART_BYTES:
                yield n_lines
                size = 0
    if size:
        yield n_lines


def _cut_parquet(path: Path) -> Iterator[int]:
    """Numbers of rows after which a part ends."""
    with _opened_parquet(path) as file:
        n_rows = file.metadata.num_rows
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        rows_per_part = max(1, PART_BYTES * n_rows // max(1, sum(group.total_byte_size for group in groups)))
    yield from range(rows_per_part, n_rows, rows_per_part)
    if n_rows:
        yield n_rows


def _records(part: Part) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and fields of each example of a part."""
    path = Path(part.source)
    if path.suffix != ".parquet":
        yield from read_json_lines(path, part.first, part.last)
        return
    with _opened_parquet(path) as file:
        rows = (row for batch in file.iter_batches(batch_size=256) for row in batch.to_pylist())
        for number, row in enumerate(islice(rows, part.first, part.last), part.first + 1):
            yield f"{path}:{number}", {name: value for name, value in row.items() if value is not None}


def check_parquet(file: str) -> None:
    """Raise ConfigError if pyarrow is not installed, which reads and writes Parquet files."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ConfigError(f'{file}: Parquet needs pyarrow; pip install "cogltx[parquet]"') from error


def _opened_parquet(path: Path) -> Any:
    """A Parquet file; raises DataError if it is none."""
    check_parquet(str(path))
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error


def _parquet(records: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    fields = [*_arrow_type(Prediction), *(pyarrow.field(name, pyarrow.string()) for name in ("input", "source"))]
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records), pyarrow.schema(fields)), buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _arrow_type(kind: Any) -> Any:
    """The type of Arrow for a type in ``Prediction``, the same in every part."""
    import pyarrow

    if is_dataclass(kind):
        return pyarrow.struct([(name, _arrow_type(hint)) for name, hint in get_type_hints(kind).items()])
    if inner := get_args(kind):  # T | None, or tuple[T, ...]
        return pyarrow.list_(_arrow_type(inner[0])) if get_origin(kind) is tuple else _arrow_type(inner[0])
    return {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}[kind]


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
