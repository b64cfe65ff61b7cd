"""Encoders with random weights: of the width that they are compared at."""

import json
from pathlib import Path

import pytest

from cogltx.bench.random_encoder import KINDS, write_random


@pytest.mark.parametrize("kind", KINDS)
def test_random_encoders_have_the_sizes_of_the_encoder(kind: str, tiny_encoder: Path, tmp_path: Path) -> None:
    own = json.loads((tiny_encoder / "config.json").read_text())
    write_random(kind, str(tiny_encoder), 3000, tmp_path)
    made = json.loads((tmp_path / "config.json").read_text())
    assert made["model_type"] == kind
    assert made["max_position_embeddings"] >= 3000
    for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"):
        assert made[name] == own[name]
    matrices = 3 if kind == "modernbert" else 2
    assert abs(matrices * made["intermediate_size"] - 2 * own["intermediate_size"]) < matrices
