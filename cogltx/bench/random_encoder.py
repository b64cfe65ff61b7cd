"""Long-context encoders with random weights, of the width of another: what they cost, where no weights can be had."""

from pathlib import Path

from transformers import AutoModel, LongformerConfig, ModernBertConfig, PreTrainedConfig

from cogltx.blocks import load_tokenizer
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig

KINDS = ("longformer", "modernbert")

_WINDOW = 512  # of Longformer's local attention


def write_random(kind: str, encoder: str, positions: int, folder: Path) -> None:
    """Writes a long-context encoder with random weights, of the sizes and with the tokenizer of another.

    Args:
        kind: one of ``KINDS``.
        encoder: the other, as in ``EncoderConfig.name``.
        positions: the most tokens that it reads.
        folder: where.
    """
    tokenizer, sizes = load_tokenizer(encoder), load_encoder(EncoderConfig(name=encoder)).model.config
    padding = tokenizer.pad_token_id or 0
    same = {
        "vocab_size": sizes.vocab_size, "hidden_size": sizes.hidden_size, "pad_token_id": padding,
        "num_hidden_layers": sizes.num_hidden_layers, "num_attention_heads": sizes.num_attention_heads,
    }  # fmt: skip
    config: PreTrainedConfig
    if kind == "longformer":
        config = LongformerConfig(
            **same, intermediate_size=sizes.intermediate_size, attention_window=_WINDOW,
            max_position_embeddings=positions + padding + 1,
        )  # fmt: skip
    else:
        gated = sizes.intermediate_size * 2 // 3  # such layers have three matrices where others have two
        config = ModernBertConfig(
            **same, intermediate_size=gated, max_position_embeddings=positions,
            cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id,
            bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id,
        )  # fmt: skip
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
