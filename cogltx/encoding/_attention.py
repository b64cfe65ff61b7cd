"""Scaled dot-product attention of ``transformers``, faster in two cases.

A padding mask has one row per window instead of one row per token. On a CPU, training in bfloat16 computes attention in
float32, because torch's backward pass of attention is several times slower in bfloat16.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

_NAME = "cogltx"


@cache
def attention() -> str:
    """Register the attention with ``transformers``; returns its name for ``attn_implementation``."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, _mask)
    return _NAME


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if not (module.training and query.dtype == torch.bfloat16 and query.device.type == "cpu"):
        plain: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return plain
    with torch.autocast("cpu", enabled=False):
        exact = (each.float() for each in (query, key, value))
        output, _ = sdpa_attention_forward(module, *exact, attention_mask, **options)
    return output.to(query.dtype), None


def _mask(**options: Any) -> Tensor | None:
    from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

    visible: Tensor | None = options.get("attention_mask")
    hides_padding_alone = options.get("mask_function") is bidirectional_mask_function
    if visible is None or not hides_padding_alone or not options.get("allow_is_bidirectional_skip"):
        mask: Tensor | None = sdpa_mask(**options)
        return mask
    return None if visible.all() else visible.bool()[:, None, None, :]
