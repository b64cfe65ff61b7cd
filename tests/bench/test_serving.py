"""A server under load beside plain passes: which figures there are, and what says that there are none."""

import json
from pathlib import Path

import pytest
from command_line import invoke

from cogltx.bench._serving import _requests, measure
from cogltx.errors import ModelError


def test_a_server_is_measured_beside_plain_passes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi")
    command = ["bench", "serve", "--clients", "3", "--requests", "6", "--texts", "2", "--rounds", "1", "--json"]
    assert invoke(*command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["clients"], found["workers"]) == ("qa-minilm", 3, 2)
    assert len(found["rounds"]) == 1
    for one in found["rounds"]:
        assert one["ratio"] == pytest.approx(one["served"] / one["plain"])
        assert 0 < one["p50"] <= one["p95"] < 60
        assert one["peak_bytes"] > 1 << 20


def test_requests_are_the_same_in_every_process() -> None:
    assert _requests(3, 2) == _requests(3, 2)
    assert len({one["query"] for one in _requests(3, 2)}) == 3
    assert [len(one["texts"]) for one in _requests(3, 2)] == [2, 2, 2]


def test_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    with pytest.raises(ModelError, match="^the server did not start: .*nowhere: no such folder"):
        measure(str(tmp_path / "nowhere"), requests=2, rounds=1)
