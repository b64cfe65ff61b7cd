"""The peak of memory: how it is told, never how high it is."""

import json
from pathlib import Path

import pytest

from cogltx.bench.memory import Peak, main, measure, peak_bytes, table
from cogltx.errors import ModelError

MEGABYTE = 1 << 20
PEAK = Peak(
    length=1000, document_tokens=1001, text_bytes=MEGABYTE, token_bytes=2 * MEGABYTE, ready_bytes=400 * MEGABYTE,
    peak_bytes=450 * MEGABYTE, seconds=2.4,
)  # fmt: skip


def test_a_process_answers_and_tells_its_peak(tiny_encoder: Path) -> None:
    (peak,) = measure(str(tiny_encoder), [1500], precision="float32")
    assert (peak.length, peak.document_tokens) == (1500, 1500)
    assert peak.token_bytes == 12 * 1500
    assert 1500 < peak.text_bytes < 15000
    assert 0 < peak.ready_bytes <= peak.peak_bytes
    assert peak.beyond_bytes == peak.peak_bytes - peak.text_bytes - peak.token_bytes


def test_a_process_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"memory at 100 tokens: expected an answer, got exit code 2: .*no-such-model"):
        measure(str(tmp_path / "no-such-model"), [100])


def test_one_line_of_json(tiny_encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["700", "--encoder", str(tiny_encoder), "--precision", "float32"]) == 0
    assert Peak(**json.loads(capsys.readouterr().out)).document_tokens == 700


def test_bad_encoder_in_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["700", "--encoder", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("encoder ")


def test_peak_of_this_process_never_falls() -> None:
    before = peak_bytes()
    held = bytearray(32 * MEGABYTE)
    assert peak_bytes() >= before
    del held
    assert peak_bytes() >= before > MEGABYTE


def test_json_holds_the_difference() -> None:
    assert json.loads(json.dumps(PEAK.to_dict()))["beyond_bytes"] == 447 * MEGABYTE


def test_table() -> None:
    head, line = table([PEAK]).splitlines()
    assert head.split()[0] == "tokens"
    assert line.split() == ["1001", "3.0", "400", "450", "447", "2"]
    assert len(head) == len(line)
