"""The options that several commands share, and how their values are read. Does not import torch."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cogltx.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cogltx.document import Document

Split = Literal["train", "validation", "test"]
KeyBlocks = Literal["recall", "gold"]
RunArgument = Annotated[str, typer.Argument(help="A run, a model folder, or a name on the Hugging Face hub.")]
DocumentOption = Annotated[
    str, typer.Option("--document", help="A UTF-8 text file, plain or gzipped; - reads standard input.")
]
JudgeOption = Annotated[
    str | None, typer.Option("--judge", help="bm25, embedding or module:Class; replaces the judge of the model.")
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, cuda:1 or mps; the best available device by default.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of everything random.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as memrecall.strides=[8]; repeatable."),
]

note = partial(typer.echo, err=True)
"""Print a message to standard error."""


def read_document(name: str) -> "Document":
    """Read a document from a file; ``-`` reads standard input.

    Raises:
        DataError: the file is missing, not UTF-8, or empty.
    """
    from cogltx.document import Document
    from cogltx.files import read_text

    text = read_text(name)
    if not text.strip():
        raise DataError(f"{'standard input' if name == '-' else name}: the document has no text")
    return Document(text, id="" if name == "-" else Path(name).name)


def numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """Parse an option that takes positive integers separated by commas; None stays None."""
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--{name}: {text!r} is not a list of positive whole numbers, such as 3,5")
    return tuple(map(int, parts))
