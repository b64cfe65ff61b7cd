"""``cogltx serve``: questions, key blocks and reranking over HTTP, and a web page."""

import gc
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cogltx._folders import DEFAULT_MODEL
from cogltx.cli._options import DeviceOption, JudgeOption, ReleasedModelOption, SetOption, listen, load_answering, note
from cogltx.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

_SWITCH_SECONDS = 0.0005  # of Python between threads; a batch of the model waits for it at each layer


def serve(
    model: ReleasedModelOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    api_key: Annotated[
        str | None, typer.Option(envvar="COGLTX_API_KEY", help="Key that requests must send; by default, none.")
    ] = None,
    max_megabytes: Annotated[int, typer.Option(min=1, help="Size of a request, so of a file.")] = 64,
    max_documents: Annotated[int, typer.Option(min=1, help="Documents held at the same time.")] = 200,
    queue_size: Annotated[int, typer.Option(min=1, help="Requests that wait to be read.")] = 256,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Processor time to read a file.")] = 60.0,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests per minute from one address.")] = 6000,
    workers: Annotated[int, typer.Option(min=1, help="Batches at the same time; they share the cores.")] = 2,
    store: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder that keeps the documents after the end.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of this server in addresses, besides localhost; repeatable."),
    ] = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
) -> None:
    """Serve a web page and an HTTP API: ask about documents, find key blocks, rerank."""
    try:
        import uvicorn  # noqa: F401

        from cogltx.server._service import ServerConfig
        from cogltx.server.app import create_app
    except ModuleNotFoundError as error:
        raise ConfigError(f'the package {error.name} is not installed; pip install "cogltx[serve]"') from None

    config = ServerConfig(
        max_megabytes=max_megabytes,
        max_documents=max_documents,
        queue_size=queue_size,
        max_seconds=max_seconds,
        max_requests=max_requests,
        workers=workers,
        store=store,
        allowed_hosts=tuple(allowed_host or ()),
        api_key=api_key or None,
    )
    with listen(host, port, "choose others with --host and --port") as listening:
        name, load = model or DEFAULT_MODEL, partial(load_answering, changes=changes, judge=judge, device=device)
        app = create_app(load(name), name.rstrip("/").rpartition("/")[2], config, load if model is None else None)
        address = "localhost" if host in ("127.0.0.1", "0.0.0.0") else f"[{host}]" if ":" in host else host
        note(f"cogltx serves {name} at http://{address}:{listening.getsockname()[1]}/")
        _run(app, listening)
    note("stopped")


def _run(app: "FastAPI", listening: socket.socket) -> None:
    """Serve until a signal comes."""
    import uvicorn

    class Server(uvicorn.Server):
        """Gives up the work that is in progress when it is told to end."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.service.stop()
            super().handle_exit(sig, frame)

    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="on"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # uvicorn handles them, and raises them again when it has ended
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()  # what is loaded stays; to search it for garbage takes seconds, also at the end
    server.run(sockets=[listening])
