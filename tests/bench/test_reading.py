"""What a reader spends: which figures there are, not how large they are."""

import json
from pathlib import Path

import pytest

from cogltx.bench.growth import READERS
from cogltx.bench.reading import _RECALL, _config, _read_once, _write_random_encoder
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ModelError


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("training", [False, True])
def test_a_reader_reads_and_measures(reader: str, training: bool, tiny_encoder: Path) -> None:
    spent = _read_once(reader, 1500, training=training, encoder=str(tiny_encoder), precision="float32")
    assert json.loads(json.dumps(spent)) == spent
    assert spent.items() >= {"reader": reader, "training": training, "length": 1500, "document_tokens": 1500}.items()
    assert spent["token_bytes"] == 12 * 1500
    assert 1500 < spent["text_bytes"] < 15000
    assert 0 < spent["ready_bytes"] <= spent["peak_bytes"]
    assert spent["seconds"] > 0


def test_the_readers_with_a_shortlist_have_the_one_that_is_asked_for(tmp_path: Path) -> None:
    recalls = {reader: _config(reader, 0, (5, 3), "minilm", "float32", tmp_path).memrecall for reader in _RECALL}
    assert {
        name: (one.shortlist, one.later_shortlist) for name, one in recalls.items() if one.shortlist
    } == dict.fromkeys(["bm25_shortlist", "shortlist", "further"], (5, 3))


def test_bad_encoder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="encoder "):
        _read_once("cogltx", 700, encoder=str(tmp_path))


@pytest.mark.parametrize("kind", ["longformer", "modernbert"])
def test_random_encoders_have_the_sizes_of_the_encoder(kind: str, tiny_encoder: Path, tmp_path: Path) -> None:
    like = json.loads((tiny_encoder / "config.json").read_text())
    _write_random_encoder(kind, EncoderConfig(name=str(tiny_encoder)), 3000, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["model_type"] == kind
    assert written["max_position_embeddings"] >= 3000
    for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"):
        assert written[name] == like[name]
    matrices = 3 if kind == "modernbert" else 2
    assert abs(matrices * written["intermediate_size"] - 2 * like["intermediate_size"]) < matrices
