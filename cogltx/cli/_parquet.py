"""Read examples from Parquet files, and write predictions to them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from more_itertools import chunked

from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Prediction

_ROWS = 256  # in memory together


def check_installed(file: Path) -> None:
    """Raise ConfigError if pyarrow is not installed, which reads and writes a Parquet file."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ConfigError(f'{file}: Parquet needs pyarrow; pip install "cogltx[parquet]"') from error


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``FILE:NUMBER`` and the fields of each row; raises DataError if the file is not Parquet."""
    with _opened(path) as file:
        rows = (row for batch in file.iter_batches(batch_size=_ROWS) for row in batch.to_pylist())
        for number, row in enumerate(rows, start=1):
            yield f"{path}:{number}", row


def n_rows(path: Path) -> int:
    """Count the rows of a file, without reading them; errors as ``read_rows``."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def write_rows(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write predictions; all files have the same columns."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([*_arrow_type(Prediction), pyarrow.field("input", pyarrow.string())])
    path.parent.mkdir(parents=True, exist_ok=True)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for rows in chunked(records, _ROWS):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    check_installed(path)
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error
    with file:
        yield file


def _arrow_type(kind: Any) -> Any:
    """The type of Arrow for a type in ``Prediction``."""
    import pyarrow

    if is_dataclass(kind):
        return pyarrow.struct([(name, _arrow_type(hint)) for name, hint in get_type_hints(kind).items()])
    if inner := get_args(kind):  # T | None, or tuple[T, ...]
        return pyarrow.list_(_arrow_type(inner[0])) if get_origin(kind) is tuple else _arrow_type(inner[0])
    return {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}[kind]
