"""``cogltx predict``: answer a question about documents, or a file of examples."""

import json
from pathlib import Path
from typing import Annotated, Any

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
    from cogltx.cli.yaml_config import parse_changes

    if bool(documents) == (examples is not None) or (examples is None) != (output is None):
        raise ConfigError("predict needs either --document FILE, or --input FILE and --output FILE")
    if examples is not None and (question is not None or as_json):
        raise ConfigError("predict: --question and --json go with --document; the examples of --input have questions")
    if examples is not None and output is not None:
        _predict_file(run, examples, output, judge, device, parse_changes(changes or ()))
    else:
        _predict_documents(run, documents or [], question, judge, device, parse_changes(changes or ()), as_json)


def _predict_documents(
    run: str, names: list[str], question: str | None, judge: str | None, device: str | None, changes: dict[str, Any],
    as_json: bool,
) -> None:  # fmt: skip
    from cogltx.cli.predictions import answer, load_model
    from cogltx.document import Example, Query
    from cogltx.tasks import make_task

    query = Query(question) if question is not None else None
    documents = list(map(read_document, names))
    examples = [Example(id=document.id, document=document, query=query) for document in documents]
    reader = load_model(run, changes, judge, device)
    records = []
    for name, (_, prediction) in zip(
        names, answer(reader, make_task("jsonl", {}), examples, title="predict", total=len(names)), strict=True
    ):
        if as_json:
            records.append(prediction.to_dict())
            continue
        lines = reader.config.reasoner.format(prediction)
        print(f"== {name}\n{lines}\n" if len(names) > 1 else lines)
    if as_json:
        print(json.dumps(records if len(names) > 1 else records[0], ensure_ascii=False, indent=2))


def _predict_file(
    run: str, source: Path, output: Path, judge: str | None, device: str | None, changes: dict[str, Any]
) -> None:
    from cogltx.cli.predictions import answer, load_model, settings_of
    from cogltx.files import write_file
    from cogltx.tasks import make_task

    reader = load_model(run, changes, judge, device)
    task, settings = make_task("jsonl", {}), settings_of(run, changes, judge)
    count = sum(
        1
        for _ in answer(
            reader, task, task.read(source, split="test"), title="predict", written=output, settings=settings
        )
    )
    if not count and not output.exists():
        write_file(output, "")
    note(f"{count:,} predictions in {output}")
