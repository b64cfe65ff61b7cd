"""``cogltx bench``: what each measurement is asked with.

torch is imported only by the commands that need it, so that ``--help`` is fast.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.app import app
from cogltx.cli.options import JsonOption, SeedOption, SetOption, fractions, note, numbers, one_of, positive

bench = typer.Typer(help="Measure what reading long documents costs.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@app.command()
def quickstart(
    output: Annotated[Path, typer.Option(help="Where the corpus and the runs go.")] = Path("runs/quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Train and try CogLTX on a generated corpus of long documents, beside truncation and a sliding window."""
    from cogltx.bench.quickstart.run import run as train_and_compare

    train_and_compare(output, seed=seed)


@bench.command()
def cost(
    encoder: Annotated[str, typer.Option(help="The encoder to run.")] = "minilm",
    lengths: Annotated[
        str | None, typer.Option(help="Document lengths in tokens. [2048,8192,32768; with --readers 512 to 262144]")
    ] = None,
    documents: Annotated[str, typer.Option(help="How many documents at once.")] = "1,16",
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    readers: Annotated[
        str | None,
        typer.Option(
            help="Instead: seconds and peak memory by length (the paper's figure 6) of all readers, or of some: "
            "cogltx,one_stride,sliding_window,full_attention,longformer,modernbert."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="With --readers: where tables and plots go; an interrupted call goes on.")
    ] = Path("runs/cost"),
    training: Annotated[bool, typer.Option("--training", help="With --readers: a training step a document.")] = False,
    limit: Annotated[float, typer.Option(help="With --readers: GiB that a reader may hold.")] = 8.0,
    minutes: Annotated[float, typer.Option(help="With --readers: that one document may take.")] = 10.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """MemRecall's encoder work in tokens a second, beside the encoder's own on full windows; or readers by length."""
    arithmetic = one_of("precision", precision, ("auto", "float32", "bfloat16"))
    asked = numbers("lengths", lengths)
    if readers is not None:
        from cogltx.bench import growth
        from cogltx.bench.reading import READERS

        found = growth.measure(
            list(READERS) if readers == "all" else readers.split(","), output, asked or growth.LENGTHS,
            training=training, limit=positive("limit", limit), minutes=positive("minutes", minutes),
            encoder=encoder, precision=arithmetic, seed=seed, report=note,
        )  # fmt: skip
        print(json.dumps(found.to_dict(), indent=2) if as_json else found.table())
        return
    from cogltx.bench.cost import LENGTHS, measure, table

    rows = measure(encoder, asked or LENGTHS, numbers("documents", documents) or (), precision=arithmetic, seed=seed)
    print(json.dumps([row.to_dict() for row in rows], indent=2) if as_json else table(rows))


@bench.command()
def memory(
    budget: Annotated[float, typer.Option(help="Memory of the process, or of the GPU, in GiB.")],
    encoder: Annotated[str, typer.Option(help="The encoder to train.")] = "minilm",
    lengths: Annotated[str, typer.Option(help="Tokens in a row.")] = "512,1024,1536,2048",
    batches: Annotated[str, typer.Option(help="The two numbers of rows that are measured.")] = "2,6",
    check: Annotated[bool, typer.Option("--check", help="Train with the largest batch too, and see it fit.")] = False,
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    as_json: JsonOption = False,
) -> None:
    """The largest batch that full attention trains with in a budget, with and without gradient checkpointing."""
    from cogltx.bench.training_memory import measure, table

    arithmetic = one_of("precision", precision, ("auto", "float32", "bfloat16"))
    rooms = measure(
        encoder, numbers("lengths", lengths) or (), positive("budget", budget),
        batches=numbers("batches", batches) or (), check=check, precision=arithmetic,
    )  # fmt: skip
    print(json.dumps([room.to_dict() for room in rooms], indent=2) if as_json else table(rooms, budget))


@bench.command()
def quality(
    config: Annotated[Path, typer.Argument(help="What is compared on what, as YAML.")],
    output: Annotated[Path, typer.Option(help="Where runs, predictions and tables go; an interrupted call goes on.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the comparison, such as changes=[training.epochs=1]."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train and measure several readers under one budget; one table with spread, confidence, seconds and memory."""
    from cogltx.bench.quality import run as measure_quality

    rows = measure_quality(config, output, changes or (), report=note)
    print(json.dumps([row.to_dict() for row in rows], indent=2) if as_json else (output / "quality.md").read_text())


@bench.command()
def positions(
    config: Annotated[Path, typer.Argument(help="The YAML file of a masked-LM run; its length is the new one.")],
    output: Annotated[Path, typer.Option(help="Where runs, table and plot go.")] = Path("runs/positions"),
    alphas: Annotated[str, typer.Option(help="Of the hierarchical method.")] = "0.2,0.4,0.6",
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Masked accuracy over training steps by the way positions go on; an interrupted call goes on."""
    from cogltx.bench.positions import compare
    from cogltx.cli.config import load_mlm

    found = compare(load_mlm(config, changes or ()), output, fractions("alphas", alphas), report=note)
    print(json.dumps(found.to_dict(), indent=2) if as_json else found.table())
