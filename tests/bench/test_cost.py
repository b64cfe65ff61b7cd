"""The cost of MemRecall: what is counted, never how fast it went."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogltx.bench.cost import BATCH_SIZES, _table, measure
from cogltx.bench.prose import QUESTION, generated
from cogltx.blocks import load_tokenizer, split


@pytest.fixture(scope="module")
def rows(tiny_encoder: Path) -> list[dict[str, Any]]:
    return measure(str(tiny_encoder), [300, 1200], [1, 3], precision="float32", seed=1, seconds=0.0)[0]


def test_a_row_for_each_length_and_number_of_documents(rows: list[dict[str, Any]]) -> None:
    assert [(row["length"], row["documents"]) for row in rows] == [(300, 1), (300, 3), (1200, 1), (1200, 3)]
    for row in rows:
        assert row["document_tokens"] == pytest.approx(row["length"] * row["documents"], rel=0.01)
        assert row["runs"] == 1
        assert row["encoder_batch"] in BATCH_SIZES


def test_windows_are_counted(rows: list[dict[str, Any]]) -> None:
    assert [row["windows"] for row in rows[:2]] == [1, 3], "a document that fits is read whole"
    assert rows[2]["windows"] >= 2 * (1200 // 512) + 2


def test_the_tokens_of_windows_are_counted_without_padding(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["document_tokens"] <= row["window_tokens"] <= row["padded_tokens"] <= 512 * row["windows"]
        assert row["padded_tokens"] % 32 == 0


def test_the_same_seed_reads_the_same(tiny_encoder: Path, rows: list[dict[str, Any]]) -> None:
    again = measure(str(tiny_encoder), [1200], [3], precision="float32", seed=1, seconds=0.0)[0][0]
    assert (again["windows"], again["document_tokens"]) == (rows[3]["windows"], rows[3]["document_tokens"])


def test_runs_are_repeated_until_the_time_is_up(tiny_encoder: Path, rows: list[dict[str, Any]]) -> None:
    (row,), _ = measure(str(tiny_encoder), [1200], [1], precision="float32", seed=1, seconds=0.5)
    assert row["runs"] > 1
    assert row["windows"] == rows[2]["windows"], "a mean, not a sum"


def test_speeds_and_shares(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["tokens_per_second"] == pytest.approx(row["window_tokens"] / row["seconds"])
        assert row["ratio"] == pytest.approx(row["tokens_per_second"] / row["encoder_tokens_per_second"])
        assert row["filled"] == pytest.approx(row["window_tokens"] / row["padded_tokens"])
    assert json.loads(json.dumps(rows)) == rows


def test_table() -> None:
    cost = {
        "documents": 16, "length": 2048, "windows": 222, "filled": 0.9, "split_seconds": 0.5,
        "seconds": 3.0, "tokens_per_second": 3000.0, "encoder_tokens_per_second": 3200.0, "ratio": 0.9375,
    }  # fmt: skip
    head, line = _table([cost]).splitlines()
    assert head.split()[0] == "documents"
    assert line.split() == ["16", "2,048", "222", "90.0%", "0.50", "3.00", "3,000", "3,200", "0.94"]
    assert len(head) == len(line)


@pytest.mark.parametrize("n_tokens", [1, 50, 3000])
def test_generated_documents_have_the_length(tiny_encoder: Path, n_tokens: int) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    document = generated(n_tokens, tokenizer, seed=3)
    assert split(document, tokenizer).n_tokens == n_tokens
    assert generated(n_tokens, tokenizer, seed=3) == document
    assert n_tokens == 1 or generated(n_tokens, tokenizer, seed=4).text != document.text


def test_generated_documents_look_like_prose(tiny_encoder: Path) -> None:
    text = generated(3000, load_tokenizer(tiny_encoder), seed=0).text
    lengths = [len(sentence.split()) for sentence in text.split(".")[:-1]]
    assert 15 < np.mean(lengths) < 30
    assert min(lengths) >= 6
    assert max(lengths) <= 50
    assert "," in text
    assert "\n" in text
    assert len(QUESTION.split()) > 10
