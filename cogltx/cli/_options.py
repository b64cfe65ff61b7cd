"""The options that several commands share, and the model that they name. Imports torch only to load it."""

import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from cogltx._folders import DEFAULT_MODEL, MULTILINGUAL_MODEL
from cogltx._progress import logger
from cogltx.errors import ConfigError

if TYPE_CHECKING:
    from cogltx.pipeline import CogLTX, Reader

Split = Literal["train", "validation", "test"]
KeyBlocks = Literal["recall", "gold"]
Engine = Literal["local", "ray"]
RunArgument = Annotated[
    str, typer.Argument(help="A run, a model folder, qa-minilm, or owner/name[@REVISION] on the Hugging Face hub.")
]
ReleasedModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A run, a model folder, or a name, also owner/name on the Hugging Face hub; "
        f"by default {DEFAULT_MODEL} for English texts and questions, {MULTILINGUAL_MODEL} for others.",
    ),
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of everything random.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as memrecall.strides=[8]; repeatable."),
]

note = logger.info
"""Print a message to standard error, unless the log is quiet."""


def load_model(run: str, changes: Sequence[str] | None, judge: str | None, device: str | None) -> "Reader":
    """Load a model of any kind; raises ConfigError if a baseline is given a judge."""
    from cogltx.baselines import load_reader
    from cogltx.cli._yaml_config import parse_changes

    reader = load_reader(run, changes=parse_changes(changes or ()), judge=judge, device=device)
    if judge and not reader.uses_judge:
        raise ConfigError(f"--judge: the baseline {reader.config.reader} does not use a judge")
    return reader


def fail(line: str, code: int) -> NoReturn:
    """Print a line to standard error, even if the log is quiet, and exit."""
    print(f"cogltx: {line}", file=sys.stderr)
    sys.exit(code)


def load_answering(name: str, changes: Sequence[str] | None, judge: str | None, device: str | None) -> "CogLTX":
    """Load a model that answers questions by key blocks; raises ConfigError for others."""
    from cogltx.pipeline import CogLTX

    reader = load_model(name, changes, judge, device)
    if reader.config.reasoner.pipeline_tag != "question-answering" or not isinstance(reader, CogLTX):
        what = f"the reader {reader.config.reader} with the reasoner {reader.config.reasoner.name}"
        raise ConfigError(f"--model {name}: {what} does not answer questions by key blocks")
    return reader


def listen(host: str, port: int, advice: str) -> socket.socket:
    """Open a socket that waits for requests; raises ConfigError with advice if that is not possible."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0].lower()
        raise ConfigError(f"{host}:{port}: {reason}; {advice}") from None
