"""Figure 6: conclusions from measurements; measurements are made, saved and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cogltx.bench import growth
from cogltx.bench.cli import app
from cogltx.bench.growth import _crossing, _exponent, _table, measure
from cogltx.errors import ConfigError, ModelError

MEGABYTE = 1 << 20


def spent(reader: str, length: int, seconds: float, peak: int = 600) -> dict[str, Any]:
    return {
        "reader": reader, "training": False, "length": length, "document_tokens": length, "text_bytes": 5 * length,
        "token_bytes": 12 * length, "ready_bytes": 500 * MEGABYTE, "peak_bytes": peak * MEGABYTE, "seconds": seconds,
    }  # fmt: skip


def results(*measured: dict[str, Any], beyond: list[Any] | None = None) -> dict[str, Any]:
    return {"measured": list(measured), "beyond": beyond, "exponent": _exponent(measured)}


LENGTHS = [1024, 4096, 16384, 65536]
GROWN = {
    "cogltx": results(*(spent("cogltx", length, 2.0 * length / 1024) for length in LENGTHS)),
    "full_attention": results(
        *(spent("full_attention", length, (length / 1024) ** 2, 600 + length // 20) for length in LENGTHS[:3]),
        beyond=[65536, "memory"],
    ),
}


def test_exponent() -> None:
    assert GROWN["cogltx"]["exponent"] == pytest.approx(1.0)
    assert GROWN["full_attention"]["exponent"] is None  # two lengths from 4,096 tokens are not enough


def test_crossing_lies_where_the_lines_meet() -> None:
    fast, slow = GROWN["cogltx"]["measured"], GROWN["full_attention"]["measured"]
    assert _crossing(fast, slow) == pytest.approx(2048)  # 2 n = n²
    assert _crossing(slow, fast) == 1024  # faster from the shortest on


def test_no_crossing() -> None:
    slow = results(spent("cogltx", 512, 9), spent("cogltx", 1024, 9))
    other = results(spent("longformer", 512, 1), spent("longformer", 1024, 2))
    assert _crossing(slow["measured"], other["measured"]) is None
    text = _table({"cogltx": slow, "longformer": other})
    assert "CogLTX is faster than Longformer at no length that both read." in text


def test_faster_from_the_first_length_on() -> None:
    quick = {"cogltx": results(spent("cogltx", 512, 1)), "longformer": results(spent("longformer", 512, 2))}
    assert _table(quick).splitlines()[-2] == "CogLTX is faster than Longformer from the shortest length on."


def test_table() -> None:
    lines = _table(GROWN).splitlines()
    assert lines[0] == "| reader | 1,024 | 4,096 | 16,384 | 65,536 | exponent |"
    assert "| CogLTX | 2.00 s, 600 MiB | 8.00 s, 600 MiB | 32 s, 600 MiB | 128 s, 600 MiB | 1.00 |" in lines
    assert any(line.endswith("| more memory than allowed | – |") for line in lines)
    assert "CogLTX is faster than full attention from about 2,048 tokens on." in lines
    assert lines[-1] == (
        "CogLTX's peak without the text and its tokens, MiB by length: 1,024: 600, 4,096: 600, 16,384: 600, 65,536: 599."
    )


def test_readers_stand_in_their_order_whenever_they_were_measured() -> None:
    assert _table(dict(reversed(GROWN.items()))) == _table(GROWN)


def test_the_command_measures_draws_and_goes_on(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "cost", "--readers", "sliding_window", "--lengths", "600,1200", "--precision", "float32"]
    command += ["--encoder", str(tiny_encoder), "--output", str(tmp_path / "cost")]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert first.stdout == (tmp_path / "cost" / "growth.md").read_text()
    assert "| sliding window | " in first.stdout
    assert {path.name for path in (tmp_path / "cost").iterdir()} == {
        "growth.json",
        "growth.md",
        "time.png",
        "memory.png",
    }

    def measured_again(*args: object, **options: object) -> None:
        raise AssertionError("this was measured before")

    monkeypatch.setattr(growth, "call", measured_again)
    again = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [one["length"] for one in again["readers"]["sliding_window"]["measured"]] == [600, 1200]
    assert again == json.loads((tmp_path / "cost" / "growth.json").read_text())


def test_a_reader_stops_at_the_first_length_beyond_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def process(function: str, arguments: dict[str, Any], what: str, **limits: Any) -> dict[str, Any] | None:
        reader, length = arguments["reader"], arguments["length"]
        assert arguments["shortlist"] == [24, 12]
        asked.append((reader, length))
        if reader == "longformer" and length > 1024:
            return None
        if reader == "full_attention" and length > 512:
            return {"beyond": "memory"}
        return spent(reader, length, 1.0)

    monkeypatch.setattr(growth, "call", process)
    lines: list[str] = []
    readers = ["cogltx", "full_attention", "longformer"]
    found, text = measure(readers, tmp_path, [2048, 512, 1024, 4096], report=lines.append)
    assert [length for reader, length in asked if reader == "cogltx"] == [512, 1024, 2048, 4096]
    assert [length for reader, length in asked if reader == "full_attention"] == [512, 1024]
    assert [length for reader, length in asked if reader == "longformer"] == [512, 1024, 2048]
    beyond = {reader: one["beyond"] for reader, one in found["readers"].items()}
    assert beyond == {"cogltx": None, "full_attention": [1024, "memory"], "longformer": [2048, "time"]}
    assert "full_attention, 1,024 tokens: more memory than allowed" in lines
    asked.clear()
    assert measure(readers, tmp_path, [512, 1024, 2048, 4096], report=lines.append) == (found, text)
    assert not asked
    held = json.loads((tmp_path / "growth.json").read_text())
    held["readers"]["cogltx"]["measured"][0]["beyond_bytes"] = 1  # as files of older versions have it
    (tmp_path / "growth.json").write_text(json.dumps(held))
    more, _ = measure(["sliding_window"], tmp_path, [512], report=lines.append)
    assert asked == [("sliding_window", 512)]
    assert list(more["readers"]) == [*readers, "sliding_window"]


def test_mistakes(tmp_path: Path, tiny_encoder: Path) -> None:
    with pytest.raises(ConfigError, match="^--readers: 'bert' is not a reader; choose from cogltx, one_stride, "):
        measure(["bert"], tmp_path)
    with pytest.raises(
        ConfigError, match="^--shortlist: two numbers are needed, for the first step and for later ones"
    ):
        measure(["cogltx"], tmp_path, shortlist=(24,))
    with pytest.raises(ModelError, match="^cogltx at 600 tokens: the measurement failed with exit code 2: .*no-model"):
        measure(["cogltx"], tmp_path, [600], encoder=str(tmp_path / "no-model"))
    (tmp_path / "growth.json").write_text(json.dumps({"settings": {"training": True}, "readers": {}}))
    with pytest.raises(ConfigError, match="was started with training True, not False; choose another folder"):
        measure(["cogltx"], tmp_path, [600], encoder=str(tiny_encoder))
