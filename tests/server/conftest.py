"""A server around a tiny model, in this process."""

from collections.abc import Iterator
from pathlib import Path

import fakes
import pytest
from fastapi.testclient import TestClient

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig
from cogltx.server.app import create_app

LIMITS = ServerConfig(max_megabytes=1, max_documents=3, queue_size=4)


@pytest.fixture(scope="session")
def reader(tiny_encoder: Path) -> CogLTX:
    return fakes.reader(tiny_encoder, judge="bm25")


@pytest.fixture
def client(reader: CogLTX) -> Iterator[TestClient]:
    with TestClient(create_app(reader, "tiny", LIMITS), raise_server_exceptions=False) as client:
        yield client
