"""``cogltx prepare``: convert a data set, or documents and a table of questions, to JSON Lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cogltx._progress import logger
from cogltx.cli._options import JsonOption, Split, note
from cogltx.errors import ConfigError, DataError


def prepare(
    task: Annotated[
        str,
        typer.Argument(
            help="hotpotqa, newsqa, squad, cuad, cloze, tagging, classification, newsgroups or jsonl; or, with "
            "--documents, a table (CSV) with the columns question and answer, and perhaps document, page and evidence."
        ),
    ],
    output: Annotated[Path, typer.Option(help="The JSON Lines file to write; gzipped if its name ends in .gz.")],
    source: Annotated[
        Path | None, typer.Option(help="The file of the data set; hotpotqa and squad can be downloaded.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Part of the data set.")] = "train",
    documents: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="File or folder in which the answers of a table are found; repeatable."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the task, such as join_paragraphs=true."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a data set, or questions about documents, to JSON Lines; list the gold labels that have no place."""
    if documents:
        if source is not None or options:
            raise ConfigError("prepare: --source and --set go with a task, not with a table of questions")
        _prepare_table(Path(task), documents, output, as_json)
    elif Path(task).is_file():
        raise ConfigError(f"prepare: {task} is a file; name the documents of its questions with --documents")
    else:
        _prepare_task(task, source, output, split, options or (), as_json)


def _prepare_task(
    name: str, source: Path | None, output: Path, split: Split, options: Sequence[str], as_json: bool
) -> None:
    from cogltx._files import changed
    from cogltx.cli._yaml_config import parse_changes
    from cogltx.tasks import make_task
    from cogltx.tasks._prepare import prepare as convert

    report = convert(make_task(name, changed({}, parse_changes(options))), source, output, split)
    for line in (*(f"{id}: {reason}" for id, reason in report.unmapped), *report.notes()):
        note(line)
    note(f"{report.examples:,} examples in {output}; {len(report.unmapped):,} gold labels do not match the text")
    if as_json:
        unmapped = [{"id": id, "reason": reason} for id, reason in report.unmapped]
        print(
            json.dumps({"output": str(output), "examples": report.examples, "unmapped": unmapped}, ensure_ascii=False)
        )


def _prepare_table(table: Path, documents: Sequence[Path], output: Path, as_json: bool) -> None:
    from cogltx._messages import counted
    from cogltx.tasks._from_table import prepare_table

    report = prepare_table(table, documents, output)
    for line in (*report.notes, *report.not_found):
        logger.warning(f"{table}:{line}")
    if not report.questions:
        raise DataError(f"{table}: none of its {report.answers:,} answers is in the documents; nothing is written")
    note(report.summary() + " (listed above)" * bool(report.not_found))
    note(f"{counted(report.questions, 'question')} in {output}")
    if as_json:
        fields = {"output": str(output), "found": report.found, **asdict(report)}
        print(json.dumps(fields, ensure_ascii=False))
