"""Seconds and memory by length: measured, saved, resumed, drawn; which figures there are, not how large they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

from cogltx.bench import _cost as cost
from cogltx.bench._cost import READERS, _with, cost_table, measure
from cogltx.bench._reading import _RECALL, _config, read_once
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, ModelError

MEGABYTE = 1 << 20


def spent(length: int, seconds: float, peak: int = 600) -> dict[str, Any]:
    return {
        "length": length, "document_tokens": length, "peak_bytes": peak * MEGABYTE, "seconds": seconds, "ratio": 0.9
    }  # fmt: skip


def grown(*measured: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"measured": [], "beyond": None, "exponent": None}
    for one in measured:
        row = _with(row, one["length"], one)
    return row


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_and_measures(reader: str, tiny_encoder: Path) -> None:
    found = read_once(reader, 1500, encoder=str(tiny_encoder))
    assert json.loads(json.dumps(found)) == found
    assert found["document_tokens"] > 1400
    assert found["peak_bytes"] > MEGABYTE
    assert found["seconds"] > 0
    assert (found["ratio"] or 0) > 0 or reader in ("shortlist", "further", "full_attention")


def test_readers_with_a_shortlist() -> None:
    recalls = {reader: _config(reader, 0, EncoderConfig()).memrecall for reader in _RECALL}
    assert {reader for reader, one in recalls.items() if one.shortlist} == {"shortlist", "further"}
    assert recalls["one_stride"].strides == (8,)


def test_bad_encoder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="encoder "):
        read_once("cogltx", 700, encoder=str(tmp_path))


def test_table_and_exponent() -> None:
    lengths = [1024, 4096, 16384, 65536]
    linear = grown(*(spent(length, 2.0 * length / 1024) for length in reversed(lengths)))
    assert linear["exponent"] == pytest.approx(1.0)
    quadratic = grown(*(spent(length, (length / 1024) ** 2, 600 + length // 20) for length in lengths[:3]))
    assert quadratic["exponent"] is None, "two lengths from 4,096 tokens are not enough"
    quadratic = _with(quadratic, 65536, {"beyond": "memory"})
    lines = cost_table({"full_attention": quadratic, "cogltx": linear}).splitlines()
    assert lines[0] == "| s, MiB by tokens | 1,024 | 4,096 | 16,384 | 65,536 | exponent | throughput / encoder's |"
    assert lines[2] == "| CogLTX¹ | 2.00, 600 | 8.00, 600 | 32, 600 | 128, 600 | 1.00 | 0.90 |", "READERS' order"
    assert lines[3].endswith("| 256, 1,419 | memory | – | 0.90 |")
    assert lines[5].startswith("¹ ")
    assert linear["machine"] in lines[5]


def test_the_command_measures_draws_and_resumes(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "cost", "--readers", "sliding_window", "--lengths", "600,1200"]
    command += ["--encoder", tiny_encoder, "--output", tmp_path / "cost", "--results", tmp_path / "results"]
    assert invoke(*command) == 0
    assert "| sliding window¹ | " in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "cost").iterdir()}
    assert names == {"cost.json", "time.png", "memory.png"}

    def measured_again(*args: object, **options: object) -> None:
        raise AssertionError("this was measured before")

    monkeypatch.setattr(cost, "call", measured_again)
    assert invoke(*command, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert [one["length"] for one in again["readers"]["sliding_window"]["measured"]] == [600, 1200]
    assert again == json.loads((tmp_path / "cost" / "cost.json").read_text())
    assert json.loads((tmp_path / "results" / "cost.json").read_text())["readers"] == again["readers"]


def test_a_reader_stops_at_the_first_length_beyond_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def process(module: str, arguments: dict[str, Any], what: str, **limits: Any) -> dict[str, Any]:
        reader, length = arguments["reader"], arguments["length"]
        asked.append((reader, length))
        if reader == "sliding_window" and length > 1024:
            return {"beyond": "time"}
        if reader == "full_attention" and length > 512:
            return {"beyond": "memory"}
        return spent(length, 1.0)

    monkeypatch.setattr(cost, "call", process)
    lines: list[str] = []
    readers = ["cogltx", "full_attention", "sliding_window"]
    found, text = measure(readers, tmp_path, [2048, 512, 1024, 4096], report=lines.append)
    assert [length for reader, length in asked if reader == "cogltx"] == [512, 1024, 2048, 4096]
    assert [length for reader, length in asked if reader == "full_attention"] == [512, 1024]
    assert [length for reader, length in asked if reader == "sliding_window"] == [512, 1024, 2048]
    beyond = {reader: one["beyond"] for reader, one in found["readers"].items()}
    assert beyond == {"cogltx": None, "full_attention": [1024, "memory"], "sliding_window": [2048, "time"]}
    assert "full_attention, 1,024 tokens: more memory than allowed" in lines
    asked.clear()
    assert measure(readers, tmp_path, [512, 1024, 2048, 4096], report=lines.append) == (found, text)
    assert not asked
    more, _ = measure(["further"], tmp_path, [512], report=lines.append)
    assert asked == [("further", 512)]
    assert list(more["readers"]) == [*readers, "further"]


def test_mistakes(tmp_path: Path, tiny_encoder: Path) -> None:
    with pytest.raises(ConfigError, match="^--readers: 'bert' is not a reader; choose from cogltx, one_stride, "):
        measure(["bert"], tmp_path)
    with pytest.raises(ModelError, match="^cogltx at 600 tokens: the measurement failed with exit code 1: .*no-model"):
        measure(["cogltx"], tmp_path, [600], encoder=str(tmp_path / "no-model"))
    (tmp_path / "cost.json").write_text(
        json.dumps({"settings": {"encoder": str(tiny_encoder), "seed": 1}, "readers": {}})
    )
    with pytest.raises(ConfigError, match="was started with seed 1, not 0; choose another folder"):
        measure(["cogltx"], tmp_path, [600], encoder=str(tiny_encoder))
