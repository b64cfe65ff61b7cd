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
    from cogltx.cli.predictions import Predictor
    from cogltx.document import Example, Query
    from cogltx.files import write_file
    from cogltx.tasks import make_task

    query = Query(question) if question is not None else None
    read = [Example(id=(text := read_document(name)).id, document=text, query=query) for name in documents or ()]
    task, predictor = make_task("jsonl", {}), Predictor(run, changes or (), judge, device)
    if examples is not None and output is not None:
        source = task.read(examples, split="test")
        n_predictions = sum(1 for _ in predictor.answer(task, source, title="predict", written=output))
        if not n_predictions and not output.exists():
            write_file(output, "")
        note(f"{n_predictions:,} predictions in {output}")
        return
    records = []
    for name, (_, prediction) in zip(documents or (), predictor.answer(task, read, title="predict"), strict=True):
        records.append(prediction.to_dict())
        if as_json:
            continue
        if len(read) > 1:
            print(f"{chr(10) * (len(records) > 1)}== {name}")
        print(predictor.reader.config.reasoner.format(prediction))
    if as_json:
        print(json.dumps(records if len(read) > 1 else records[0], ensure_ascii=False, indent=2))
