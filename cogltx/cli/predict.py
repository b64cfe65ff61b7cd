"""``cogltx predict``: answer a question about documents, or a file of examples."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import DeviceOption, JudgeOption, RunArgument, SetOption, note, read_document
from cogltx.errors import ConfigError


def predict(
    run: RunArgument,
    documents: Annotated[
        list[str] | None,
        typer.Option("--document", help="A UTF-8 text file, plain or gzipped; - reads standard input. Repeatable."),
    ] = None,
    question: Annotated[str | None, typer.Option(help="The question, the same for each document.")] = None,
    examples: Annotated[Path | None, typer.Option("--input", help="A JSON Lines file of examples.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the predictions for --input go, one JSON object per line; resumable.")
    ] = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, or a list of them for several documents.")
    ] = False,
) -> None:
    """Answer a question about each --document, or all examples of --input."""
    if bool(documents) == (examples is not None) or (examples is None) != (output is None):
        raise ConfigError("predict needs either --document FILE, or --input FILE and --output FILE")
    if examples is not None and (question is not None or as_json):
        raise ConfigError("predict: --question and --json go with --document; the examples of --input have questions")
    if examples is not None and output is not None:
        _predict_file(run, examples, output, judge, device, changes or [])
    else:
        _predict_documents(run, documents or [], question, judge, device, changes or [], as_json)


def _predict_documents(
    run: str, names: list[str], question: str | None, judge: str | None, device: str | None, changes: list[str],
    as_json: bool,
) -> None:  # fmt: skip
    from cogltx.cli.predictions import answer, load_model
    from cogltx.document import Example, Query
    from cogltx.tasks import make_task

    query = Query(question) if question is not None else None
    examples = [Example(id=(text := read_document(name)).id, document=text, query=query) for name in names]
    reader = load_model(run, changes, judge, device)
    pairs = answer(reader, make_task("jsonl", {}), examples, title="predict", total=len(examples))
    records = []
    for number, (_, prediction) in enumerate(pairs):
        if as_json:
            records.append(prediction.to_dict())
            continue
        if len(names) > 1:
            print(f"{chr(10) * bool(number)}== {names[number]}")
        print(reader.config.reasoner.format(prediction))
    if as_json:
        print(json.dumps(records if len(names) > 1 else records[0], ensure_ascii=False, indent=2))


def _predict_file(
    run: str, source: Path, output: Path, judge: str | None, device: str | None, changes: list[str]
) -> None:
    from cogltx.cli.predictions import answer, load_model
    from cogltx.files import fingerprint, write_file
    from cogltx.model import model_folder
    from cogltx.tasks import make_task

    task, reader = make_task("jsonl", {}), load_model(run, changes, judge, device)
    settings = {"model": fingerprint(model_folder(run)), "changes": changes, "judge": judge}
    examples = task.read(source, split="test")
    n_predictions = sum(1 for _ in answer(reader, task, examples, title="predict", written=output, settings=settings))
    if not n_predictions and not output.exists():
        write_file(output, "")
    note(f"{n_predictions:,} predictions in {output}")
