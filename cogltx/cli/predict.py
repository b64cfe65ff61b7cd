"""``cogltx predict``: answer all examples of files."""

import sys
from collections.abc import Collection, Iterator, Sequence
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cogltx.cli._options import DeviceOption, Engine, JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.cli._predictions import Part, PredictionFile, Predictor
    from cogltx.document import Example

_INPUTS = (".jsonl", ".jsonl.gz", ".parquet")


_Given = Annotated[
    str, typer.Option("--input", help="A JSON Lines or Parquet file, a folder, or a pattern such as 'a/*.jsonl.gz'.")
]
_Output = Annotated[
    Path,
    typer.Option(
        help="The file of the predictions, Parquet if it ends in .parquet; for a folder or pattern, the folder of a "
        "file per input, of the same name. Resumable."
    ),
]
_Workers = Annotated[int | None, typer.Option(min=1, help="Workers of the engine ray; by default one per core or GPU.")]


def predict(
    run: RunArgument,
    given: _Given,
    output: _Output,
    engine: Annotated[Engine, typer.Option(help="Answer in this process (local) or in workers of Ray.")] = "local",
    workers: _Workers = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
) -> None:
    """Answer all examples of a file or of several; the same command resumes after an interruption."""
    from cogltx._files import claimed
    from cogltx._progress import progress
    from cogltx.cli._predictions import PredictionFile, Predictor

    if workers and engine != "ray":
        raise ConfigError("predict: --workers goes with --engine ray")
    inputs = _find_inputs(given, output)
    predictor = Predictor(run, changes or (), judge, device)
    files = [PredictionFile(target, predictor.settings) for target in inputs.values()]
    with claimed(output) if _is_corpus(given) else files[0].claimed():
        parts = _missing(list(inputs), files)
        written = predictor.write_all(parts) if engine == "local" else _answer_with_ray(parts, predictor, workers)
        try:
            examples = (example for part in written for example in part.examples)
            done = sum(file.n_written for file in files)
            bar = progress(examples, "predict", unit="examples", total=_count(inputs), initial=done)
            n_predictions = sum(1 for _ in bar)
        finally:
            for file in files:
                file.finish()
    note(f"{n_predictions:,} new predictions in {output}")


def _missing(paths: Sequence[Path], files: Sequence["PredictionFile"]) -> Iterator["Part"]:
    """Yield the parts without predictions."""
    for path, file in zip(paths, files, strict=True):
        yield from file.missing(_read(path))
        file.finish()  # unless workers still write its parts


def _answer_with_ray(parts: Iterator["Part"], predictor: "Predictor", workers: int | None) -> Iterator["Part"]:
    try:
        from cogltx.cli._ray_engine import answer_with_ray
    except ImportError as error:
        raise ConfigError('--engine ray: Ray is not installed; pip install "cogltx[ray]"') from error
    return answer_with_ray(parts, predictor.options, workers)


def _read(path: Path) -> Iterator["Example"]:
    from cogltx._files import read_json_lines
    from cogltx.cli._parquet import read_rows
    from cogltx.tasks.jsonl import parse_examples

    if path.suffix != ".parquet":
        return parse_examples(read_json_lines(path))
    fields = (
        (where, {name: value for name, value in row.items() if value is not None}) for where, row in read_rows(path)
    )
    return parse_examples(fields)


def _count(paths: Collection[Path]) -> int | None:
    """Count the examples of files, for the estimate of a progress bar; None if nobody sees it, or one is a pipe."""
    from cogltx._files import read_lines
    from cogltx.cli._parquet import n_rows

    if not sys.stderr.isatty() or not all(path.is_file() for path in paths):
        return None
    return sum(n_rows(path) if path.suffix == ".parquet" else sum(1 for _ in read_lines(path)) for path in paths)


def _is_corpus(given: str) -> bool:
    """Check whether an input is a folder or a pattern."""
    path = Path(given)
    return path.is_dir() or (has_magic(given) and not path.is_file())


def _find_inputs(given: str, output: Path) -> dict[Path, Path]:
    """Find the input files in order, and name the predictions of each; raises DataError if there is no file."""
    path = Path(given)
    if not _is_corpus(given):
        if not path.exists():
            raise DataError(f"{given}: file not found")
        return {path: output}
    n_fixed = next((n for n, name in enumerate(path.parts) if has_magic(name)), len(path.parts))
    root = path if path.is_dir() else Path(*path.parts[:n_fixed])
    candidates = sorted(root.rglob("*") if path.is_dir() else root.glob(str(Path(*path.parts[n_fixed:]))))
    files = [one for one in candidates if one.is_file() and one.name.endswith(_INPUTS)]
    files = [file for file in files if output.resolve() not in file.resolve().parents]
    if not files:
        raise DataError(f"{given}: no file {', '.join(_INPUTS[:-1])} or {_INPUTS[-1]}")
    return {file: output / file.relative_to(root) for file in files}
