"""Servers: ``cogltx serve`` as a process of its own, on a free port, and one in this process."""

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi.testclient import TestClient

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig
from cogltx.server.app import create_app


@dataclass(frozen=True)
class Server:
    """A running server: its address, and its process."""

    address: str
    process: "subprocess.Popen[str]"


@contextmanager
def serve(*options: object) -> Iterator[Server]:
    """Start a server, wait until it answers, and end it."""
    command = [sys.executable, "-m", "cogltx", "serve", "--port", "0", *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = []
        while line := process.stderr.readline():
            lines.append(line)
            if found := re.search(r"http://\S+", line):
                yield Server(found[0], process)
                break
        else:
            raise AssertionError("".join(lines))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@contextmanager
def running(reader: CogLTX, config: ServerConfig | None = None, port: int = 0) -> Iterator[str]:
    """Run a server in a thread of this process, and yield its address."""
    app = create_app(reader, "tiny", config)
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        app.state.service.stop()
        server.should_exit = True
        thread.join()


def connected(reader: CogLTX, config: ServerConfig) -> TestClient:
    """Connect a client to a server in this process."""
    app, headers = create_app(reader, "tiny", config), {"X-Requested-With": "tests"}
    return TestClient(app, "http://localhost", raise_server_exceptions=False, headers=headers)
