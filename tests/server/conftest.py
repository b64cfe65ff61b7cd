"""A server around a tiny model, in this process."""

from collections.abc import Iterator
from pathlib import Path

import fakes
import pytest
from fastapi.testclient import TestClient
from served import connected

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig

LIMITS = ServerConfig(max_megabytes=1, max_documents=6, queue_size=8)


@pytest.fixture(scope="session")
def reader(tiny_encoder: Path) -> CogLTX:
    return fakes.reader(tiny_encoder, judge="bm25")


@pytest.fixture
def client(reader: CogLTX) -> Iterator[TestClient]:
    with connected(reader, LIMITS) as client:
        yield client
