"""A saved model of a tiny encoder with BM25 as judge."""

import os
from pathlib import Path

import fakes
import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when Haystack is imported


@pytest.fixture(scope="session")
def model(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    fakes.reader(tiny_encoder, judge="bm25", capacity=160, max_block_tokens=48).save_pretrained(folder)
    return str(folder)
