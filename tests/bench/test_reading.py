"""What a reader spends: how it is told, never how much it is."""

import json
from pathlib import Path

import pytest

from cogltx.bench.reading import READERS, Spent, main, read_once

MEGABYTE = 1 << 20


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("training", [False, True])
def test_a_reader_reads_and_tells_what_it_spent(reader: str, training: bool, tiny_encoder: Path) -> None:
    spent = read_once(reader, 1500, training=training, encoder=str(tiny_encoder), precision="float32")
    assert (spent.reader, spent.training, spent.length, spent.document_tokens) == (reader, training, 1500, 1500)
    assert spent.token_bytes == 12 * 1500
    assert 1500 < spent.text_bytes < 15000
    assert 0 < spent.ready_bytes <= spent.peak_bytes
    assert spent.beyond_bytes == spent.peak_bytes - spent.text_bytes - spent.token_bytes
    assert spent.seconds > 0


def test_one_line_of_json(tiny_encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sliding_window", "700", "--encoder", str(tiny_encoder), "--precision", "float32"]) == 0
    assert Spent(**json.loads(capsys.readouterr().out)).document_tokens == 700


def test_bad_encoder_in_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cogltx", "700", "--encoder", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("encoder ")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")]
)
def test_no_memory_left_is_no_crash(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> Spent:
        raise error

    monkeypatch.setattr("cogltx.bench.reading.read_once", fail)
    assert main(["cogltx", "700"]) == 0
    assert json.loads(capsys.readouterr().out) == {"beyond": "memory"}


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> Spent:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("cogltx.bench.reading.read_once", fail)
    with pytest.raises(RuntimeError, match="mat1"):
        main(["cogltx", "700"])
