"""The command line: one command per file. An error of the user is one line on standard error and exit code 2.

Commands import torch when they run, so that ``--help`` is fast.
"""

import atexit
import gc
import logging
import signal
import sys
import threading
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from cogltx import __version__
from cogltx._progress import logger
from cogltx.cli._options import fail
from cogltx.cli.ask import ask
from cogltx.cli.evaluate import evaluate
from cogltx.cli.export import export
from cogltx.cli.mcp import mcp
from cogltx.cli.predict import predict
from cogltx.cli.prepare import prepare
from cogltx.cli.recall import recall
from cogltx.cli.serve import serve
from cogltx.cli.train import train
from cogltx.errors import CogltxError, Interrupted

_RESUMABLE = (  # commands that save what is done, some only with an option
    {"predict"}, {"bench", "quality"}, {"bench", "cost", "--output"},
    {"evaluate", "--predictions"},
)  # fmt: skip
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "std::bad_alloc", "could not create a primitive")  # torch's

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in (ask, serve, mcp, train, evaluate, predict, recall, prepare, export):
    app.command()(command)


def run() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    threading.excepthook = _failed_in_thread
    atexit.register(
        gc.freeze
    )  # else the end takes a second, in which all that torch has loaded is searched for garbage
    try:
        sys.exit(app(standalone_mode=False))
    except CogltxError as error:
        fail(" ".join(str(error).split()), 2)
    except TyperException as error:
        _fail_usage(error)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in _OUT_OF_MEMORY):
            raise
        fail("out of memory; saved progress is kept. Try --set encoder.batch_tokens=2048.", 2)


class _StandardError(logging.Handler):
    """Writes the log to standard error, whatever it is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        typer.echo(self.format(record), err=True)


def _log(level: int) -> None:
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s" if level == logging.DEBUG else "%(message)s"))
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"cogltx {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step with its duration.")] = False,
) -> None:
    """Read documents of any length with a BERT: find the key blocks, reason over them, show the evidence."""
    _log(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


def _fail_usage(error: TyperException) -> NoReturn:
    """Print an error in the use of a command in one line, or the help of a group that was called alone."""
    message, context = error.format_message().replace("Value error, ", ""), getattr(error, "ctx", None)
    if "Usage:" in message:
        print(message, file=sys.stderr)
        sys.exit(2)
    command, line = context.command_path if context else "cogltx", " ".join(message.split()).rstrip(".")
    fail(f"{line} See {command} --help" if line.endswith("?") else f"{line}; see {command} --help", 2)


def _interrupted(number: int, frame: object) -> NoReturn:
    words = {argument.partition("=")[0] for argument in sys.argv[1:]}
    if next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "") == "train":
        raise Interrupted(signal=number)  # the training saves what is done, and the command reports it
    is_saved = any(words >= needed for needed in _RESUMABLE)
    fail("interrupted; progress is saved; run the same command to resume" if is_saved else "interrupted", 128 + number)


def _failed_in_thread(error: threading.ExceptHookArgs) -> None:
    """Show an error of a thread; TensorBoard, whose thread cannot write, raises the same error in the main thread."""
    if not issubclass(error.exc_type, OSError):
        threading.__excepthook__(error)
