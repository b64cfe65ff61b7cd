"""The command line. A user's mistake is one line on standard error and exit code 2.

torch is imported only by the commands that need it, so that ``--help`` is fast.
"""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cogltx.document import Document, Query
from cogltx.errors import CogltxError, ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.memrecall import Recall
    from cogltx.prediction import Prediction

app = typer.Typer(
    help="Read documents of any length with a BERT: find the key blocks, reason over them, show the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bench = typer.Typer(help="Measure what reading long documents costs.", no_args_is_help=True)
app.add_typer(bench, name="bench")

DocumentOption = Annotated[
    str, typer.Option("--document", help="A UTF-8 text file, plain or gzipped; - is standard input.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the configuration, such as memrecall.strides=[8]."),
]
RunArgument = Annotated[str, typer.Argument(help="A run, a model folder, or a name on the Hugging Face hub.")]


def main() -> None:
    """Runs the command line."""
    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except CogltxError as error:
        _fail(" ".join(str(error).split()), 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename or 'file'}: expected to read or write it, got: {error.strerror or error}", 2)


def _interrupted(number: int, frame: object) -> NoReturn:
    _fail("interrupted; what was written is kept, and the same command goes on (train, mlm: with --resume)", 130)


def _fail(line: str, code: int) -> NoReturn:
    print(f"cogltx: {line}", file=sys.stderr)
    sys.exit(code)


@app.command()
def quickstart(
    output: Annotated[Path, typer.Option(help="Where the corpus and the runs go.")] = Path("runs/quickstart"),
    seed: Annotated[int, typer.Option(min=0, help="Of corpus and training.")] = 0,
) -> None:
    """Train and try CogLTX on a generated corpus of long documents, beside truncation and a sliding window."""
    from cogltx.bench.quickstart import run

    run(output, seed=seed)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A run's YAML file.")],
    output: Annotated[Path, typer.Option(help="The run's folder.")],
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Train a judge and a reasoner jointly."""
    from cogltx.commands import train as train_run
    from cogltx.config import load_run

    train_run(load_run(config, changes or ()), output, resume=resume, report=_note)


@app.command()
def mlm(
    config: Annotated[Path, typer.Argument(help="The YAML file of a masked-LM run.")],
    output: Annotated[Path, typer.Option(help="The run's folder; its encoder goes to the folder encoder in it.")],
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go on training an encoder, as a masked language model, on your own texts, perhaps with more positions."""
    from cogltx.commands import mlm as train_encoder
    from cogltx.config import load_mlm

    summary = train_encoder(load_mlm(config, changes or ()), output, resume=resume, report=_note)
    print(json.dumps(summary.to_dict(), indent=2) if as_json else summary.table())


@app.command()
def evaluate(
    run: RunArgument,
    data: Annotated[str, typer.Option(help="A file of the run's task.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many, drawn at random.")] = None,
    longer_than: Annotated[
        int | None, typer.Option(min=0, help="Measure only documents of more tokens; all are read.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, validation or test, where one file holds all.")] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Write a JSON line an example; an interrupted call goes on.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Predictions of another system, for a paired bootstrap.")] = None,
    judge: Annotated[str | None, typer.Option(help="bm25 or package.module:Class in place of the run's judge.")] = None,
    blocks: Annotated[str, typer.Option(help="recall, or gold: the relevant blocks alone, an upper bound.")] = "recall",
    confusion: Annotated[Path | None, typer.Option(help="Draw which labels are confused, as .png or .svg.")] = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by its task's official metrics."""
    from cogltx.commands import evaluate as measure

    result = measure(
        run,
        data,
        split=_one_of("split", split, ("train", "validation", "test")),
        limit=limit,
        longer_than=longer_than,
        predictions=predictions,
        against=against,
        judge=judge,
        key_blocks=_one_of("blocks", blocks, ("recall", "gold")),
        changes=changes or (),
        confusion=confusion,
    )
    print(json.dumps(result.to_dict(), indent=2) if as_json else result.table())


@app.command()
def predict(
    run: RunArgument,
    document: Annotated[str | None, typer.Option(help="A UTF-8 text file; - is standard input.")] = None,
    question: Annotated[str | None, typer.Option(help="What is asked.")] = None,
    examples: Annotated[Path | None, typer.Option("--input", help="A JSON Lines file of examples.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where their predictions go, a line each.")] = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question about a document, or many: --document, or --input and --output."""
    from cogltx.config import load_reader

    if (document is None) == (examples is None) or (examples is None) != (output is None):
        raise ConfigError(
            "predict: expected --document FILE, or --input FILE and --output FILE, got another combination"
        )
    if examples is not None and output is not None:
        from cogltx.commands import predict_file

        count = predict_file(load_reader(run, changes=changes or ()), examples, output)
        _note(f"{count} predictions in {output}")
        return
    text = _document(str(document))
    query = Query(question) if question is not None else None
    reader = load_reader(run, changes=changes or ())
    prediction = reader.predict(text, query)
    if as_json:
        print(json.dumps(prediction.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(_entity_lines(prediction) if reader.config.reasoner.name == "tagging" else _answer_lines(prediction))


@app.command()
def recall(
    document: DocumentOption,
    run: Annotated[str | None, typer.Argument(help="A run or model whose judge is used.")] = None,
    judge: Annotated[str | None, typer.Option(help="bm25 or package.module:Class, instead of a run.")] = None,
    query: Annotated[str | None, typer.Option(help="What is asked.")] = None,
    capacity: Annotated[int | None, typer.Option(help="Tokens in a window.")] = None,
    strides: Annotated[str | None, typer.Option(help="How many more blocks each step keeps, such as 3,5.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the key blocks of a document, without reasoning over them."""
    from cogltx.commands import recall as find

    text = _document(document)
    found = find(
        text,
        Query(query) if query is not None else None,
        run=run,
        judge=judge,
        capacity=capacity,
        strides=_numbers(strides),
    )
    print(json.dumps(_recall_dict(found), ensure_ascii=False, indent=2) if as_json else _recall_lines(found))


@app.command()
def relevance(
    run: Annotated[Path, typer.Argument(help="A run that was trained with interventions.")],
    example: Annotated[str, typer.Option(help="The id of a training example.")],
    picture: Annotated[Path | None, typer.Option(help="Draw it too, as .png or .svg.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the relevance of an example's blocks came about: the judge's scores and the labels, by epoch."""
    from cogltx.inspection import relevance_history

    found = relevance_history(run, example)
    if picture is not None:
        found.draw(picture)
    print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2) if as_json else found.table())


@app.command()
def split(
    document: DocumentOption,
    max_tokens: Annotated[int, typer.Option(help="The most tokens a block holds.")] = 63,
    encoder: Annotated[str, typer.Option(help="Whose tokenizer counts.")] = "minilm",
    as_json: JsonOption = False,
) -> None:
    """Cut a document into blocks."""
    from cogltx.blocks import split as cut
    from cogltx.encoder import tokenizer_of

    blocks = cut(_document(document), tokenizer_of(encoder), max_tokens=max_tokens)
    for block in blocks:
        text = blocks.text(block.index)
        line = {"index": block.index, "start": block.start, "end": block.end, "n_tokens": block.n_tokens, "text": text}
        plain = f"{block.index:5d} {block.n_tokens:3d}  {text.strip()}"
        print(json.dumps(line, ensure_ascii=False) if as_json else plain)


@app.command()
def prepare(
    task: Annotated[str, typer.Argument(help="hotpotqa, newsqa, squad, tagging or jsonl.")],
    output: Annotated[Path, typer.Option(help="A JSON Lines file; gzipped if its name ends in .gz.")],
    source: Annotated[
        Path | None, typer.Option("--source", help="The task's file; without it, it is downloaded.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "train",
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the task, such as join_paragraphs=true."),
    ] = None,
) -> None:
    """Turn a data set into JSON Lines, and name every sample that cannot be mapped."""
    from cogltx.config import changed
    from cogltx.tasks import make_task
    from cogltx.tasks.prepare import prepare as write

    wanted = _one_of("split", split, ("train", "validation", "test"))
    report = write(make_task(task, changed({}, options or ())), source, output, wanted)
    for sample in report.unmapped:
        _note(f"{sample.id}: {sample.reason}")
    for line in report.notes():
        _note(line)
    _note(f"{report.examples} examples in {output}, {len(report.unmapped)} pieces of gold without a place in the text")


@bench.command()
def cost(
    encoder: Annotated[str, typer.Option(help="The encoder to run.")] = "minilm",
    lengths: Annotated[
        str | None, typer.Option(help="Document lengths in tokens. [2048,8192,32768; with --readers 512 to 65536]")
    ] = None,
    documents: Annotated[str, typer.Option(help="How many documents at once.")] = "1,16",
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    readers: Annotated[
        str | None,
        typer.Option(
            help="Instead: seconds and peak memory by length (the paper's figure 6) of all readers, or of some: "
            "cogltx,one_stride,sliding_window,full_attention,longformer."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="With --readers: where tables and plots go; an interrupted call goes on.")
    ] = Path("runs/cost"),
    training: Annotated[bool, typer.Option("--training", help="With --readers: a training step a document.")] = False,
    limit: Annotated[float, typer.Option(min=0.1, help="With --readers: GiB that a reader may hold.")] = 8.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="With --readers: that one document may take.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the documents and weights.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """MemRecall's encoder work in tokens a second, beside the encoder's own on full windows; or readers by length."""
    arithmetic = _one_of("precision", precision, ("auto", "float32", "bfloat16"))
    if readers is not None:
        from cogltx.bench import growth
        from cogltx.bench.reading import READERS

        found = growth.measure(
            list(READERS) if readers == "all" else readers.split(","), output, _numbers(lengths) or growth.LENGTHS,
            training=training, limit=limit, minutes=minutes, encoder=encoder, precision=arithmetic, seed=seed,
            report=_note,
        )  # fmt: skip
        print(json.dumps(found.to_dict(), indent=2) if as_json else found.table())
        return
    from cogltx.bench.cost import LENGTHS, measure, table

    rows = measure(
        encoder, _numbers(lengths) or LENGTHS, _numbers(documents) or (), precision=arithmetic, seed=seed
    )
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

    arithmetic = _one_of("precision", precision, ("auto", "float32", "bfloat16"))
    rooms = measure(
        encoder, _numbers(lengths) or (), budget, batches=_numbers(batches) or (), check=check, precision=arithmetic
    )
    print(json.dumps([room.to_dict() for room in rooms], indent=2) if as_json else table(rooms, budget))


@bench.command()
def quality(
    config: Annotated[Path, typer.Argument(help="What is compared on what, as YAML.")],
    output: Annotated[Path, typer.Option(help="Where runs, predictions and tables go; an interrupted call goes on.")],
    as_json: JsonOption = False,
) -> None:
    """Train and measure several readers under one budget; one table with spread, confidence, seconds and memory."""
    from cogltx.bench.quality import run as measure_quality

    rows = measure_quality(config, output, report=_note)
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
    from cogltx.config import load_mlm

    found = compare(load_mlm(config, changes or ()), output, _fractions(alphas), report=_note)
    print(json.dumps(found.to_dict(), indent=2) if as_json else found.table())


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise ConfigError(f"--{name}: expected one of {', '.join(allowed)}, got {value!r}")
    return value


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"expected whole numbers with commas between, got {text!r}") from error
    if min(numbers) < 1:
        raise ConfigError(f"expected numbers of at least 1, got {text!r}")
    return numbers


def _fractions(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"expected numbers with commas between, got {text!r}") from error


def _document(name: str) -> Document:
    from cogltx.tasks.files import read_text

    text = read_text(name)
    if not text.strip():
        raise DataError(f"{'standard input' if name == '-' else name}: expected text, got none")
    return Document(text, id="" if name == "-" else Path(name).name)


def _answer_lines(prediction: "Prediction") -> str:
    place = f", characters {prediction.start}-{prediction.end}" if prediction.start is not None else ""
    lines = [
        f"{prediction.answer or '(no answer)'}   [{prediction.score:.0%}{place}]",
        "",
        f"evidence, of {prediction.n_blocks} blocks ({prediction.n_tokens} tokens):",
    ]
    if prediction.labels:
        likely = [f"  {label.score:5.2f}  {'*' if label.chosen else ' '} {label.name}" for label in prediction.labels]
        lines[1:1] = ["", "labels, * chosen:", *likely[:10]]
    for evidence in prediction.evidence:
        holds = prediction.start is not None and evidence.start <= prediction.start < evidence.end
        if evidence.kept or holds:
            mark, text = ">" if holds else " ", " ".join(evidence.text.split())
            lines.append(f"  {evidence.score:5.2f}  step {evidence.step}  {mark} {text}")
    return "\n".join(lines)


def _entity_lines(prediction: "Prediction") -> str:
    lines = [f"{len(prediction.entities)} entities in {prediction.n_tokens} tokens:"]
    if prediction.n_unread:
        lines[0] += f" the last {prediction.n_unread} were not read"
    for entity in prediction.entities:
        text = " ".join(entity.text.split())
        lines.append(f"  {entity.score:5.2f}  {entity.start:>7}-{entity.end:<7} {entity.label}  {text}")
    return "\n".join(lines)


def _recall_dict(found: "Recall") -> dict[str, Any]:
    blocks = found.blocks
    key_blocks = [
        {
            "index": index,
            "start": blocks[index].start,
            "end": blocks[index].end,
            "n_tokens": blocks[index].n_tokens,
            "text": blocks.text(index),
            "score": score,
            "step": step,
            "kept": index in found.kept,
        }
        for index, score, step in zip(found.key_blocks, found.scores, found.steps, strict=True)
    ]
    steps = [
        {"retrieved": step.retrieved, "fine": step.fine, "kept": step.kept, "decayed": step.decayed}
        for step in found.trace
    ]
    query = found.query.text if found.query else None
    return {
        "query": query, "n_tokens": blocks.n_tokens, "n_blocks": len(blocks), "key_blocks": key_blocks, "steps": steps,
    }  # fmt: skip


def _recall_lines(found: "Recall") -> str:
    lines = [f"{len(found.key_blocks)} key blocks of {len(found.blocks)}, * outlived the last decay"]
    for index, score, step in zip(found.key_blocks, found.scores, found.steps, strict=True):
        text = " ".join(found.blocks.text(index).split())
        lines.append(f"{index:6d}  {score:7.3f}  step {step} {'*' if index in found.kept else ' '} {text}")
    return "\n".join(lines)
