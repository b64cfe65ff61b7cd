"""``cogltx prepare``: convert a data set to JSON Lines."""

from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli._options import Split, note


def prepare(
    task: Annotated[
        str, typer.Argument(help="hotpotqa, newsqa, squad, cuad, cloze, tagging, classification, newsgroups or jsonl.")
    ],
    output: Annotated[Path, typer.Option(help="The JSON Lines file to write; gzipped if its name ends in .gz.")],
    source: Annotated[
        Path | None, typer.Option(help="The file of the data set; hotpotqa and squad can be downloaded.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Part of the data set.")] = "train",
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the task, such as join_paragraphs=true."),
    ] = None,
) -> None:
    """Convert a data set to JSON Lines, and list the gold labels that do not match the text."""
    from cogltx._files import changed
    from cogltx.cli._yaml_config import parse_changes
    from cogltx.tasks import make_task
    from cogltx.tasks._prepare import prepare as convert

    report = convert(make_task(task, changed({}, parse_changes(options or ()))), source, output, split)
    for line in (*(f"{id}: {reason}" for id, reason in report.unmapped), *report.notes()):
        note(line)
    note(f"{report.examples:,} examples in {output}; {len(report.unmapped):,} gold labels do not match the text")
