"""``cogltx mcp``: documents as tools of a language model, by the Model Context Protocol."""

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cogltx._languages import model_for
from cogltx.cli._options import DeviceOption, JudgeOption, ReleasedModelOption, SetOption, listen, load_answering, note
from cogltx.cli.ask import _Megabytes, _read_documents, _readable, _Seconds
from cogltx.errors import ConfigError

if TYPE_CHECKING:
    from mcp.server import MCPServer


def mcp(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files or folders, as for ask.")],
    model: ReleasedModelOption = None,
    http: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of this machine to serve on, at /mcp; by default, stdin and stdout."),
    ] = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    seconds: _Seconds = None,
    megabytes: _Megabytes = None,
) -> None:
    """Let a language model list, ask, search and read files, by the Model Context Protocol (MCP)."""
    try:
        from cogltx.integrations._mcp import make_server
    except ModuleNotFoundError as error:
        raise ConfigError(f'the package {error.name} is not installed; pip install "cogltx[mcp]"') from None

    if Path("-") in files:
        raise ConfigError("mcp: the standard input is for the protocol; name files or folders")
    documents = [document for _, document in _read_documents(files, seconds, megabytes)]
    model = model or model_for(documents)
    reader = load_answering(model, changes, judge, device)
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # mcp shows the log of every package
    server = make_server(reader, _readable(documents, reader))
    if http is None:
        server.run("stdio")
    else:
        _serve(server, http)


def _serve(server: "MCPServer", port: int) -> None:
    """Serve by HTTP on this machine until a signal comes."""
    import uvicorn

    with listen("127.0.0.1", port, "choose another port with --http") as listening:
        app = server.streamable_http_app(host="127.0.0.1")  # checks Host and Origin
        note(f"cogltx serves MCP at http://localhost:{listening.getsockname()[1]}/mcp")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # uvicorn handles them, and raises them again when it has ended
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3)).run(sockets=[listening])
    note("stopped")
