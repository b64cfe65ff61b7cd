"""What all tests share: no network, a fixed seed, shapes checked, tiny encoders."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from typechecker import check_package

check_package("cogltx")

import random
from pathlib import Path
from typing import Any

import fakes
import numpy
import pytest
import tiny
import torch
import transformers
from command_line import Call, Output, invoke
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # speed is no test
settings.load_profile("patient")
transformers.logging.disable_progress_bar()


def _seed() -> None:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Start every test from the same random state."""
    _seed()


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Make what tests share from the same random state, too."""
    if fixturedef.scope != "function":
        _seed()


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT with 512 positions."""
    return tiny.make_encoder(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session", params=tiny.ARCHITECTURES)
def architecture_encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny encoder, once for each architecture."""
    return tiny.make_encoder(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="session")
def model(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model for questions, with BM25 as judge."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    fakes.reader(tiny_encoder, judge="bm25", capacity=160, max_block_tokens=48).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command in this process; returns its code and what it printed."""

    def run(*arguments: object) -> Output:
        code = invoke(*arguments)
        printed = capsys.readouterr()
        return Output(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the real data sets; tests that want it are skipped where it is not."""
    folder = os.environ.get("COGLTX_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip(f"COGLTX_DATA does not name a folder of data sets: {folder!r}")
    return Path(folder)
