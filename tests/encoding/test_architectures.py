"""Models of transformers without a tiny twin of their own: each reads text, or is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from transformers import AutoModel, AutoModelForQuestionAnswering
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import cogltx
from cogltx import CogLTX
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ModelError

TEXT = "Anna Karlsson wrote the report in Stockholm, on 3 May 2014. Paris is the capital of France. " * 30
GROUPS = {f"{name}_groups": 2 for name in ("q", "k", "v", "intermediate", "output")} | {"post_attention_groups": 1}
READ: dict[str, dict[str, Any]] = {
    "squeezebert": {"embedding_size": 32, **GROUPS},
    "layoutlm": {},
    "ibert": {},
    "nystromformer": {},
    "big_bird": {"block_size": 16, "num_random_blocks": 1},
    "albert": {"embedding_size": 16},
    "convbert": {"embedding_size": 32},
    "fnet": {},
    "mra": {},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "roformer": {"embedding_size": 32},
    "splinter": {},
    "yoso": {},
    "bart": {},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "bros": ({}, "BrosModel cannot read a window of text: You have to specify bbox"),
    "canine": ({}, "CanineModel cannot read a window of text: `get_input_embeddings`"),
    "nystromformer": ({"segment_means_seq_len": 128, "num_landmarks": 32}, "NystromformerModel cannot read a window"),
    "perceiver": ({"d_latents": 32, "num_latents": 8}, "PerceiverModel cannot read a window of text"),
    "t5": ({"d_kv": 16}, "T5Model cannot read a window of text: You must specify"),
    "xmod": ({"languages": ["en_XX", "de_DE"]}, "XmodModel cannot read a window of text: Input language unknown"),
}
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "d_model": 32,
    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_ff": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_layers": 2, "num_heads": 2, "max_position_embeddings": 520,
}  # fmt: skip


def make(folder: Path, kind: str, options: dict[str, Any], auto_class: Any = AutoModel) -> Path:
    """Write a tiny model with random weights and a tokenizer."""
    tokenizer = tiny.make_tokenizer("bert")
    known = CONFIG_MAPPING[kind]()
    sizes = {name: size for name, size in SMALL.items() if hasattr(known, name)}
    ids = {"pad_token_id": 0, "bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
    torch.manual_seed(0)
    model = auto_class.from_config(CONFIG_MAPPING[kind](vocab_size=len(tokenizer), **(sizes | ids | options)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", READ)
def test_it_reads_and_is_saved(kind: str, tmp_path: Path) -> None:
    make(tmp_path / "encoder", kind, READ[kind])
    settings = {"name": str(tmp_path / "encoder"), "precision": "float32"}
    config = cogltx.config.ModelConfig.model_validate({
        "encoder": settings, "max_block_tokens": 16, "memrecall": {"capacity": 128}, "reasoner": {"name": "span"},
    })  # fmt: skip
    reader = CogLTX.create(config)
    prediction = reader.predict(TEXT, "Who wrote the report?")
    assert prediction.n_blocks > 20
    reader.save_pretrained(tmp_path / "model")
    assert CogLTX.from_pretrained(tmp_path / "model").predict(TEXT, "Who wrote the report?") == prediction


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    options, wording = REFUSED[kind]
    make(tmp_path, kind, options)
    with pytest.raises(ModelError, match=f"^encoder '.*': {wording}") as raised:
        load_encoder(EncoderConfig(name=str(tmp_path)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["squeezebert", "ibert", "nystromformer", "big_bird", "splinter", "flaubert", "xlm"])
def test_question_answering_heads(kind: str, tmp_path: Path) -> None:
    options = READ.get(kind, {"emb_dim": 32, "n_layers": 2, "n_heads": 2})
    make(tmp_path, kind, options, AutoModelForQuestionAnswering)
    if kind in ("big_bird", "splinter"):
        with pytest.raises(ModelError, match="ForQuestionAnswering has no layer qa_outputs for start and end"):
            CogLTX.from_pretrained(tmp_path, judge="bm25")
    else:
        assert CogLTX.from_pretrained(tmp_path, judge="bm25").predict(TEXT, "Who wrote the report?").n_tokens
