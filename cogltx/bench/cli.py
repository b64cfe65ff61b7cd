"""Options of `cogltx bench`.

torch is imported only by the commands that need it, so that `--help` is fast.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from cogltx._folders import DEFAULT_MODEL
from cogltx.cli._options import JsonOption, SeedOption, note
from cogltx.cli.app import app
from cogltx.errors import ConfigError

bench = typer.Typer(help="Measure cost and quality of reading long documents, and the server.", no_args_is_help=True)
app.add_typer(bench, name="bench")
ResultsOption = Annotated[
    Path | None, typer.Option(help="Folder of measurements to update, such as data/results, or one file of it.")
]


@bench.command("quality")
def _quality(
    config: Annotated[Path, typer.Argument(help="YAML file of a run.")],
    data: Annotated[str, typer.Option(help="A data file of the run's task, to evaluate on.")],
    output: Annotated[Path, typer.Option(help="Folder for runs, predictions and tables; run again to resume.")],
    readers: Annotated[
        str | None, typer.Option(help="Names, such as cogltx,bm25,sliding_window; an unknown one lists all.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate a random sample of so many examples.")] = None,
    longer_than: Annotated[
        int | None, typer.Option(min=0, help="Evaluate only documents of more tokens than this.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Train and evaluate once per seed.")] = "0,1",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, of one reader by READER:KEY=VALUE."),
    ] = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train and evaluate several readers: metrics with spread and confidence, seconds, memory."""
    from cogltx.bench._quality import Comparison, compare

    chosen = None if readers is None else tuple(readers.split(","))
    comparison = Comparison(
        config, data, output, chosen, _numbers("seeds", seeds, 0), limit, longer_than, tuple(changes or ()), note
    )
    _show(compare(comparison, results), as_json)


@bench.command("cost")
def _cost(
    readers: Annotated[str, typer.Option(help="Readers to measure, separated by commas.")] = (
        "cogltx,one_stride,shortlist,further,sliding_window,full_attention"
    ),
    lengths: Annotated[str | None, typer.Option(help="Document lengths in tokens. [512 to 262144]")] = None,
    output: Annotated[Path, typer.Option(help="Folder for tables and plots; run again to resume.")] = Path("runs/cost"),
    limit: Annotated[float, typer.Option(min=0.1, help="GiB that a reader may use.")] = 8.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes that one document may take.")] = 10.0,
    encoder: Annotated[str, typer.Option(help="Name of the encoder.")] = "minilm",
    seed: SeedOption = 0,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure seconds, memory and throughput of readers by document length."""
    from cogltx.bench import _cost as cost

    result = cost.measure(
        readers.split(","), output, _numbers("lengths", lengths, 1) if lengths else cost.LENGTHS,
        limit=limit, minutes=minutes, encoder=encoder, seed=seed, results=results, report=note,
    )  # fmt: skip
    _show(result, as_json)


@bench.command("serve")
def _serve(
    model: Annotated[str, typer.Option(help="A model with an encoder as judge.")] = DEFAULT_MODEL,
    clients: Annotated[int, typer.Option(min=1, help="Clients at the same time.")] = 64,
    requests: Annotated[int, typer.Option(min=2, help="Requests of all clients together, per round.")] = 256,
    texts: Annotated[int, typer.Option(min=1, help="Sentences to rank in each request.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Times to measure both.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Workers of the server.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Measure requests per second of the server beside plain passes of its encoder."""
    from cogltx.bench import _serving as serving

    result = serving.measure(
        model, clients=clients, requests=requests, texts=texts, rounds=rounds, workers=workers, report=note
    )  # fmt: skip
    _show(result, as_json)


@bench.command("results")
def _results(
    folder: Annotated[Path, typer.Option(help="Folder of measurements.")] = Path("data/results"),
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("data/results.md"),
    check: Annotated[bool, typer.Option("--check", help="Only check that the page is up to date.")] = False,
) -> None:
    """Render the page of results from the measurements."""
    from cogltx._files import read_text, write_file
    from cogltx.bench._results import render

    page = render(folder)
    if not check:
        write_file(output, page)
    elif not output.exists() or read_text(output) != page:
        note(f"{output}: not up to date; run cogltx bench results")
        raise typer.Exit(1)


def _show(result: tuple[object, str], as_json: bool) -> None:
    """Print a measurement: plain data as JSON, or its table."""
    data, text = result
    print(json.dumps(data, indent=2) if as_json else text)


def _numbers(option: str, text: str, least: int) -> tuple[int, ...]:
    """Parse an option that takes whole numbers separated by commas."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) >= least for part in parts):
        raise ConfigError(f"--{option}: {text!r} is not a list of whole numbers from {least}, such as 1,2")
    return tuple(map(int, parts))
