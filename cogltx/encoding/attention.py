"""How encoders attend: as ``transformers``' scaled dot-product attention does, but faster in two places.

A mask that hides padding has one row for each window, which its tokens share, instead of a row for each token. And on a
CPU, training in bfloat16 attends in float32: torch's backward pass of attention takes several times longer in bfloat16.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

_NAME = "cogltx"


@cache
def attention() -> str:
    """The name under which ``transformers`` finds it, for ``attn_implementation``."""
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

    shown: Tensor | None = options.get("attention_mask")
    hides_padding_alone = options.get("mask_function") is bidirectional_mask_function
    if shown is None or not hides_padding_alone or not options.get("allow_is_bidirectional_skip"):
        mask: Tensor | None = sdpa_mask(**options)
        return mask
    return None if shown.all() else shown.bool()[:, None, None, :]
