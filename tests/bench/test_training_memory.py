"""The memory of training: its table, and that more rows, longer rows and kept layers take more."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from command_line import Call

from cogltx.bench.training_memory import _peak, _table, _train, measure
from cogltx.errors import ConfigError, ModelError

MEGABYTE = 1 << 20


@pytest.mark.parametrize(("mebibytes", "largest"), [(1000, 12), (999, 11), (300, 0)])
def test_what_a_row_takes_and_how_many_fit(mebibytes: int, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(encoder: str, length: int, rows: int, *_: object) -> dict[str, object]:
        return {"device": "cpu", "peak_bytes": (400 + 50 * rows) * MEGABYTE}

    monkeypatch.setattr("cogltx.bench.training_memory._peak", peak)
    results, text = measure("any", [512, 1024], mebibytes / 1024)
    assert [(one["length"], one["checkpointing"]) for one in results] == [
        (512, False), (512, True), (1024, False), (1024, True)
    ]  # fmt: skip
    assert all(one["row_bytes"] == 50 * MEGABYTE and one["fixed_bytes"] == 400 * MEGABYTE for one in results)
    assert all(one["largest"] == largest and one["checked"] is None for one in results)
    assert json.loads(json.dumps(results)) == results
    assert len(text.splitlines()) == 5


def test_equal_peaks_determine_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = {"device": "cpu", "peak_bytes": MEGABYTE}
    monkeypatch.setattr("cogltx.bench.training_memory._peak", lambda *_: peak)
    results, _ = measure("any", [512], 1.0, check=True)
    assert [(one["largest"], one["checked"]) for one in results] == [(None, None), (None, None)]


def test_layers_that_are_not_kept_save_memory(tmp_path: Path) -> None:
    bert = tiny.ARCHITECTURES["bert"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiny.ARCHITECTURES, "deep", replace(bert, config=bert.config | {"num_hidden_layers": 8}))
        encoder = tiny.make_encoder(tmp_path, "deep")
    kept, saved = (_peak(str(encoder), 576, 16, checkpointing, "float32") for checkpointing in (False, True))
    assert kept["peak_bytes"] > saved["peak_bytes"] + 10 * MEGABYTE


def test_the_largest_batch_is_lowered_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def peak(encoder: str, length: int, rows: int, checkpointing: bool, precision: str) -> dict[str, object]:
        asked.append(rows)
        return {"device": "cpu", "peak_bytes": (100 + 100 * rows + (150 if rows > 6 else 0)) * MEGABYTE}

    monkeypatch.setattr("cogltx.bench.training_memory._peak", peak)
    (first, _), _ = measure("any", [512], 1.0, check=True)
    assert asked[:5] == [2, 6, 9, 8, 7]
    assert (first["largest"], first["checked"]) == (7, 950 * MEGABYTE)


def test_a_process_that_fails(tmp_path: Path) -> None:
    wording = r"memory with 2 sequences of 64 tokens: the measurement failed with exit code 2: .*no-such-model"
    with pytest.raises(ModelError, match=wording):
        measure(str(tmp_path / "no-such-model"), [64], 1.0)


def test_the_measured_process(tiny_encoder: Path) -> None:
    result = _train(str(tiny_encoder), 64, 2, checkpointing=False, precision="float32")
    assert result["peak_bytes"] > MEGABYTE
    assert result["device"] in ("cpu", "cuda", "mps")


def test_wrong_batches() -> None:
    for batches in ((2,), (6, 2), (2, 2), (1, 2, 3)):
        with pytest.raises(ConfigError, match="^--batches: .* not two ascending numbers$"):
            measure("minilm", [512], 1.0, batches=batches)


def test_table() -> None:
    one = {"length": 1024, "fixed_bytes": 400 * MEGABYTE, "row_bytes": 50 * MEGABYTE}
    checked = {"checkpointing": True, "largest": 12, "checked": 1001 * MEGABYTE}
    unknown = {"checkpointing": False, "largest": None, "checked": None}
    head, *lines = _table([one | checked, one | unknown], 1.0).splitlines()
    assert head.split()[0] == "tokens"
    assert lines[0].split() == ["1,024", "yes", "400", "50.0", "12", "1,001"]
    assert lines[1].split() == ["1,024", "no", "400", "50.0", "?", "–"]
    assert {len(line) for line in lines} == {len(head)}


def test_the_command(tiny_encoder: Path, call: Call) -> None:
    options = ["--encoder", tiny_encoder, "--lengths", "64", "--budget", "2", "--batches", "6,2"]
    done = call("bench", "memory", *options)
    assert done.code == 2
    assert done.err == "cogltx: --batches: 6, 2 are not two ascending numbers\n"
