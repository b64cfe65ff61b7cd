"""``cogltx train``: train a run or an encoder, or list what of a run deviates from the paper."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cogltx.cli._options import JsonOption, SetOption, fail, note
from cogltx.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from cogltx.training._data import Source

_COLUMNS = ("setting", "value", "paper")


def train(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The YAML file of the run; or data (.jsonl, .csv, .tsv), such as the corrections of the web page: "
            "questions train the released model of their language further, labels and entities a new model.",
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="The folder of the run.")] = None,
    documents: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="File or folder in which the answers of a table are found; repeatable."),
    ] = None,
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the settings that deviate from the paper; train nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a judge and a reasoner jointly, or an encoder as a masked language model (a configuration with length)."""
    if output is None and not explain:
        raise ConfigError("train: name the folder of the run with --output")
    given = list(changes or ())
    if documents:
        given.insert(0, f"data.documents={json.dumps(list(map(str, documents)), ensure_ascii=False)}")
    with _reporting_interrupts(output):
        _train(source, None if explain else output, documents or (), given, resume, as_json)


def _train(
    source: Path, output: Path | None, documents: Sequence[Path], given: list[str], resume: bool, as_json: bool
) -> None:
    """Train a run or an encoder; without ``output``, list the deviations of a run."""
    from cogltx import _processes as processes
    from cogltx.cli._data_file import is_data_file, settings_for
    from cogltx.cli._yaml_config import read_settings

    config, data = (None if is_data_file(source) else source), None
    with processes.joined():
        if config is None:
            decided, data = settings_for(source, documents, given)
            given = decided + given
        settings = read_settings(config, given)
        is_masked = "length" in settings or settings.get("task") == {"name": "masked_lm"}
        if output is None and is_masked:
            raise ConfigError("--explain: the paper trains no masked language model; name the file of another run")
        if output is None:
            _explain(config, given, as_json)
        elif is_masked:
            _train_encoder(config, output, given, resume, as_json)
        else:
            _train_run(config, output, given, resume, as_json, data)


@contextmanager
def _reporting_interrupts(output: Path | None) -> Iterator[None]:
    """End an interrupted training with one line: what is saved, and how to continue."""
    try:
        yield
    except Interrupted as interrupt:
        code, text = 128 + interrupt.signal, interrupt.text
        if text is None:
            text = "interrupted before the training began; run the same command again"
        if text:
            fail(text, code)
        sys.exit(code)


def _explain(config: Path | None, changes: Sequence[str], as_json: bool) -> None:
    """Print each setting that deviates from the paper, with the paper's value."""
    from cogltx.cli._yaml_config import load_yaml
    from cogltx.training.config import RunConfig
    from cogltx.training.recipes import deviations

    rows = deviations(load_yaml(RunConfig, config, changes))
    if as_json:
        print(json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows], indent=2))
        return
    cells = [_COLUMNS, *((name, json.dumps(value), json.dumps(paper)) for name, value, paper in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _train_run(
    config: Path | None, output: Path, changes: Sequence[str], resume: bool, as_json: bool, data: "Source | None"
) -> None:
    from cogltx import _processes as processes
    from cogltx._files import read_json
    from cogltx.cli._yaml_config import load_yaml
    from cogltx.training.config import RunConfig
    from cogltx.training.run import train_run

    train_run(load_yaml(RunConfig, config, changes), output, resume=resume, report=note, data=data)
    note(f"model in {output}")
    if as_json and processes.is_first():
        print(json.dumps(read_json(output / "run.json"), indent=2))


def _train_encoder(config: Path | None, output: Path, changes: Sequence[str], resume: bool, as_json: bool) -> None:
    """Train an encoder as a masked language model, and print its measurements on the validation texts."""
    from cogltx import _processes as processes
    from cogltx.cli._yaml_config import load_yaml
    from cogltx.training.masked_lm import MaskedConfig, mlm

    figures = mlm(load_yaml(MaskedConfig, config, changes), output, resume=resume, report=note)
    rows = [f"{one['step']:>6}  {one['loss']:>6.3f}  {one['accuracy']:>14.2f}%" for one in figures["history"]]
    table = "\n".join(["  step    loss  masked accuracy", *rows])
    if processes.is_first():
        print(json.dumps(figures, indent=2) if as_json else table)
