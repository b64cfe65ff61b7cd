"""The options that several commands share, and how their values are read. Does not import torch."""

from typing import Annotated, Literal

import typer

from cogltx.errors import ConfigError
from cogltx.progress import logger

Split = Literal["train", "validation", "test"]
KeyBlocks = Literal["recall", "gold"]
Engine = Literal["local", "ray"]
Format = Literal["jsonl", "parquet"]
RunArgument = Annotated[
    str, typer.Argument(help="A run, a model folder, qa-minilm, or owner/name[@REVISION] on the Hugging Face hub.")
]
DocumentOption = Annotated[
    str,
    typer.Option("--document", help="A file: UTF-8 text, PDF, Word, EPUB, HTML or Markdown; - reads standard input."),
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        help="bm25, embedding, another model such as qa-minilm, or module:Class, in place of the model's own; also to "
        "allow its own class.",
    ),
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

note = logger.info
"""Print a message to standard error, unless the log is quiet."""


def numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """Parse an option that takes positive integers separated by commas; None stays None."""
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--{name}: {text!r} is not a list of positive whole numbers, such as 3,5")
    return tuple(map(int, parts))
