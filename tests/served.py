"""Servers: ``cogltx serve`` as a process of its own, on a free port, and one in this process."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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


def connected(reader: CogLTX, config: ServerConfig) -> TestClient:
    """Connect a client to a server in this process."""
    app, headers = create_app(reader, "tiny", config), {"X-Requested-With": "tests"}
    return TestClient(app, "http://localhost", raise_server_exceptions=False, headers=headers)
