"""The command line. A user's mistake is one line on standard error and exit code 2.

torch is imported only by the commands that need it, so that ``--help`` is fast.
"""

import json
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cogltx.cli.options import JsonOption, SetOption, note, numbers, one_of
from cogltx.document import Document, Query
from cogltx.errors import CogltxError, ConfigError, DataError

app = typer.Typer(
    help="Read documents of any length with a BERT: find the key blocks, reason over them, show the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DocumentOption = Annotated[
    str, typer.Option("--document", help="A UTF-8 text file, plain or gzipped; - is standard input.")
]
RunArgument = Annotated[str, typer.Argument(help="A run, a model folder, or a name on the Hugging Face hub.")]


def run() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
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
    line = "interrupted; what was written is kept, and the same command goes on (train, mlm: with --resume)"
    _fail(line, 128 + number)


def _fail(line: str, code: int) -> NoReturn:
    print(f"cogltx: {line}", file=sys.stderr)
    sys.exit(code)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A run's YAML file.")],
    output: Annotated[Path, typer.Option(help="The run's folder.")],
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Train a judge and a reasoner jointly."""
    from cogltx.cli.config import load_run
    from cogltx.training.run import train_run

    train_run(load_run(config, changes or ()), output, resume=resume, report=note)


@app.command()
def mlm(
    config: Annotated[Path, typer.Argument(help="The YAML file of a masked-LM run.")],
    output: Annotated[Path, typer.Option(help="The run's folder; its encoder goes to the folder encoder in it.")],
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go on training an encoder, as a masked language model, on your own texts, perhaps with more positions."""
    from cogltx.cli.config import load_mlm
    from cogltx.training.run import mlm as train_encoder

    summary = train_encoder(load_mlm(config, changes or ()), output, resume=resume, report=note)
    print(json.dumps(summary.to_dict(), indent=2) if as_json else summary.table())


@app.command()
def evaluate(
    run: RunArgument,
    data: Annotated[str, typer.Option(help="A file of the run's task.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many, drawn at random.")] = None,
    longer_than: Annotated[int | None, typer.Option(min=0, help="Only documents of more tokens.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test, where one file holds all.")] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Write a JSON line an example; an interrupted call goes on.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Predictions of another system, for a paired bootstrap.")] = None,
    judge: Annotated[str | None, typer.Option(help="bm25, embedding or module:Class, in place of the run's.")] = None,
    blocks: Annotated[str, typer.Option(help="recall, or gold: the relevant blocks alone, an upper bound.")] = "recall",
    confusion: Annotated[Path | None, typer.Option(help="Draw which labels are confused, as .png or .svg.")] = None,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model by its task's official metrics."""
    from cogltx.cli.evaluation import evaluate as measure

    result = measure(
        run,
        data,
        split=one_of("split", split, ("train", "validation", "test")),
        limit=limit,
        longer_than=longer_than,
        predictions=predictions,
        against=against,
        judge=judge,
        key_blocks=one_of("blocks", blocks, ("recall", "gold")),
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
    from cogltx.cli.config import load_reader

    if (document is None) == (examples is None) or (examples is None) != (output is None):
        raise ConfigError(
            "predict: expected --document FILE, or --input FILE and --output FILE, got another combination"
        )
    if examples is not None and output is not None:
        if question is not None or as_json:
            raise ConfigError("predict: expected --question and --json with --document only; --input has its questions")
        from cogltx.cli.commands import predict_file

        count = predict_file(run, examples, output, changes or ())
        note(f"{count} predictions in {output}")
        return
    text = _document(str(document))
    query = Query(question) if question is not None else None
    reader = load_reader(run, changes=changes or ())
    prediction = reader.predict(text, query)
    if as_json:
        print(json.dumps(prediction.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(reader.config.reasoner.format(prediction))


@app.command()
def recall(
    document: DocumentOption,
    run: Annotated[str | None, typer.Argument(help="A run or model whose judge is used.")] = None,
    judge: Annotated[str | None, typer.Option(help="bm25, embedding or module:Class, instead of a run.")] = None,
    query: Annotated[str | None, typer.Option(help="What is asked.")] = None,
    capacity: Annotated[int | None, typer.Option(help="Tokens in a window.")] = None,
    strides: Annotated[str | None, typer.Option(help="How many more blocks each step keeps, such as 3,5.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the key blocks of a document, without reasoning over them."""
    from cogltx.cli.commands import recall as find
    from cogltx.cli.report import recall_dict, recall_lines

    text = _document(document)
    found = find(
        text,
        Query(query) if query is not None else None,
        run=run,
        judge=judge,
        capacity=capacity,
        strides=numbers("strides", strides),
    )
    print(json.dumps(recall_dict(found), ensure_ascii=False, indent=2) if as_json else recall_lines(found))


@app.command()
def relevance(
    run: Annotated[Path, typer.Argument(help="A run that was trained with interventions.")],
    example: Annotated[str, typer.Option(help="The id of a training example.")],
    picture: Annotated[Path | None, typer.Option(help="Draw it too, as .png or .svg.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the relevance of an example's blocks came about: the judge's scores and the labels, by epoch."""
    from cogltx.cli.inspection import relevance_history

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

    blocks = cut(_document(document), encoder, max_tokens=max_tokens)
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
    from cogltx.cli.settings import changed
    from cogltx.tasks import make_task
    from cogltx.tasks.prepare import prepare as write

    wanted = one_of("split", split, ("train", "validation", "test"))
    report = write(make_task(task, changed({}, options or ())), source, output, wanted)
    for sample in report.unmapped:
        note(f"{sample.id}: {sample.reason}")
    for line in report.notes():
        note(line)
    note(f"{report.examples} examples in {output}, {len(report.unmapped)} pieces of gold without a place in the text")


def _document(name: str) -> Document:
    from cogltx.files import read_text

    text = read_text(name)
    if not text.strip():
        raise DataError(f"{'standard input' if name == '-' else name}: expected text, got none")
    return Document(text, id="" if name == "-" else Path(name).name)
