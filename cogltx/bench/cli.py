"""Options of `cogltx quickstart` and `cogltx bench`.

torch is imported only by the commands that need it, so that `--help` is fast.
"""

import json
import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from cogltx.cli.app import app
from cogltx.cli.options import JsonOption, SeedOption, SetOption, note, numbers
from cogltx.errors import ConfigError
from cogltx.folders import DEFAULT_MODEL

bench = typer.Typer(help="Measure cost and quality of reading long documents.", no_args_is_help=True)
app.add_typer(bench, name="bench")

PrecisionOption = Annotated[Literal["auto", "float32", "bfloat16"], typer.Option(help="Arithmetic.")]


@app.command("quickstart")
def _quickstart(
    output: Annotated[Path, typer.Option(help="Folder for the corpus and the runs.")] = Path("runs/quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Train CogLTX on a generated corpus of long documents, and compare it with truncation and a sliding window."""
    from cogltx.bench.quickstart.run import run

    run(output, seed=seed)


@bench.command("cost")
def _cost(
    encoder: Annotated[str, typer.Option(help="Name of the encoder.")] = "minilm",
    lengths: Annotated[
        str | None, typer.Option(help="Document lengths in tokens. [2048,8192,32768; with --readers 512 to 262144]")
    ] = None,
    documents: Annotated[str, typer.Option(help="Numbers of documents to read together.")] = "1,16",
    precision: PrecisionOption = "auto",
    readers: Annotated[
        str | None,
        typer.Option(
            help="Measure seconds and peak memory by length (CogLTX figure 6) instead: all, or some of "
            "cogltx,one_stride,bm25_shortlist,shortlist,further,sliding_window,full_attention,longformer,modernbert."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="With --readers: folder for tables and plots; run again to resume.")
    ] = Path("runs/cost"),
    training: Annotated[bool, typer.Option("--training", help="With --readers: train one step per document.")] = False,
    limit: Annotated[float, typer.Option(help="With --readers: GiB that a reader may use.")] = 8.0,
    minutes: Annotated[float, typer.Option(help="With --readers: minutes that one document may take.")] = 10.0,
    shortlist: Annotated[
        str, typer.Option(help="With --readers: blocks in the shortlist of the first step and of later ones.")
    ] = "24,12",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure MemRecall's throughput relative to the encoder's, or seconds and memory of readers by length."""
    n_tokens = numbers("lengths", lengths)
    if readers is not None:
        from cogltx.bench import growth

        result: tuple[object, str] = growth.measure(
            list(growth.READERS) if readers == "all" else readers.split(","), output, n_tokens or growth.LENGTHS,
            training=training, limit=_positive("limit", limit), minutes=_positive("minutes", minutes),
            shortlist=numbers("shortlist", shortlist) or (), encoder=encoder, precision=precision, seed=seed,
            report=note,
        )  # fmt: skip
    else:
        from cogltx.bench import cost

        counts = numbers("documents", documents) or ()
        result = cost.measure(encoder, n_tokens or (2048, 8192, 32768), counts, precision=precision, seed=seed)
    _show(result, as_json)


@bench.command("memory")
def _memory(
    budget: Annotated[float, typer.Option(help="GiB of memory of the process, or of the GPU.")],
    encoder: Annotated[str, typer.Option(help="Name of the encoder.")] = "minilm",
    lengths: Annotated[str, typer.Option(help="Tokens per sequence.")] = "512,1024,1536,2048",
    batches: Annotated[str, typer.Option(help="Two numbers of sequences to measure.")] = "2,6",
    check: Annotated[bool, typer.Option("--check", help="Train with the largest batch too.")] = False,
    precision: PrecisionOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Measure the largest batch that full attention trains with in a memory budget."""
    from cogltx.bench.training_memory import measure

    result = measure(
        encoder, numbers("lengths", lengths) or (), _positive("budget", budget),
        batches=numbers("batches", batches) or (), check=check, precision=precision,
    )  # fmt: skip
    _show(result, as_json)


@bench.command("quality")
def _quality(
    config: Annotated[Path, typer.Argument(help="YAML file of the comparison.")],
    output: Annotated[Path, typer.Option(help="Folder for runs, predictions and tables; run again to resume.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the comparison, such as changes=[training.epochs=1]."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train and evaluate several readers under one budget: metrics with spread and confidence, seconds, memory."""
    from cogltx.bench.quality import run

    _show(run(config, output, changes or (), report=note), as_json)


@bench.command("positions")
def _positions(
    config: Annotated[Path, typer.Argument(help="YAML file of a masked-LM run with the new length.")],
    output: Annotated[Path, typer.Option(help="Folder for runs, table and plot; run again to resume.")] = Path(
        "runs/positions"
    ),
    alphas: Annotated[str, typer.Option(help="Values of alpha for the hierarchical method.")] = "0.2,0.4,0.6",
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare methods of extending positions: masked accuracy over training steps."""
    from cogltx.bench.positions import compare
    from cogltx.cli.yaml_config import load_yaml
    from cogltx.training.masked_lm import MaskedConfig

    masked = load_yaml(MaskedConfig, config, changes or ())
    _show(compare(masked, output, _fractions("alphas", alphas), report=note), as_json)


@bench.command("compress")
def _compress(
    data: Annotated[str, typer.Argument(help="A data file of questions with answers.")],
    model: Annotated[str, typer.Option(help="A model that answers questions.")] = DEFAULT_MODEL,
    budgets: Annotated[str, typer.Option(help="Shares of the text to keep.")] = "0.02,0.05,0.1,0.2",
    limit: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 100,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how many answers stay in a compressed text, for CogLTX, BM25, sentence vectors and truncation."""
    from cogltx.bench.compression import measure
    from cogltx.cli.yaml_config import parse_changes

    shares = _fractions("budgets", budgets)
    _show(measure(model, data, shares, limit=limit, changes=parse_changes(changes or ())), as_json)


@bench.command("serve")
def _serve(
    model: Annotated[str, typer.Option(help="A model that answers questions.")] = DEFAULT_MODEL,
    clients: Annotated[str, typer.Option(help="Numbers of clients that ask at once.")] = "1,8,64",
    seconds: Annotated[float, typer.Option(help="Seconds per number of clients.")] = 30.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure the server under load: answers per second, latency, refused requests, memory."""
    from cogltx.bench.serving import measure

    counts = numbers("clients", clients) or ()
    _show(measure(model, counts, _positive("seconds", seconds), seed=seed, report=note), as_json)


def _show(result: tuple[object, str], as_json: bool) -> None:
    """Print a measurement: plain data as JSON, or its table."""
    data, text = result
    print(json.dumps(data, indent=2) if as_json else text)


def _positive(name: str, value: float) -> float:
    """Check an option that takes a positive, finite number."""
    if not 0 < value < math.inf:
        raise ConfigError(f"--{name}: {value:g} is not a number above 0")
    return value


def _fractions(name: str, text: str) -> tuple[float, ...]:
    """Parse an option that takes numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--{name}: {text!r} is not a list of numbers, such as 0.2,0.4") from error
