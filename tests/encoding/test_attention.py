"""Attention equals that of transformers, with a smaller mask and more exact gradients in training."""

from pathlib import Path

import pytest
import tiny
import torch
from torch import Tensor
from transformers import AutoModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from cogltx.encoding import _attention as attention
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig


class Layer(torch.nn.Module):
    """The part of a layer that attention reads."""

    is_causal = False


def inputs(dtype: torch.dtype) -> list[Tensor]:
    """Queries, keys and values of two windows of 40 tokens, 4 heads of width 8."""
    drawn = torch.Generator().manual_seed(0)
    return [torch.randn(2, 4, 40, 8, generator=drawn).to(dtype).requires_grad_() for _ in range(3)]


def padded() -> Tensor:
    """A mask that hides the last ten tokens of the second window."""
    mask = torch.ones(2, 40, dtype=torch.bool)
    mask[1, 30:] = False
    return mask


def gradients(dtype: torch.dtype, attend: object) -> list[Tensor]:
    given = inputs(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        output, _ = attend(Layer(), *given, padded()[:, None, None])  # type: ignore[operator]
    assert output.dtype == dtype
    (output.float() * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum().backward()
    return [each.grad.float() for each in given if each.grad is not None]


def test_training_in_bfloat16_attends_in_float32() -> None:
    exact = gradients(torch.float32, sdpa_attention_forward)
    ours = gradients(torch.bfloat16, attention._attend)
    usual = gradients(torch.bfloat16, sdpa_attention_forward)
    for right, own, other in zip(exact, ours, usual, strict=True):
        assert (own - right).norm() <= 1.05 * (other - right).norm()
        assert (own - right).norm() < 0.02 * right.norm()


def test_inference_in_bfloat16_is_that_of_transformers() -> None:
    given = [each.detach() for each in inputs(torch.bfloat16)]
    ours, _ = attention._attend(Layer().eval(), *given, padded()[:, None, None])
    usual, _ = sdpa_attention_forward(Layer(), *given, padded()[:, None, None])
    assert torch.equal(ours, usual)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
@pytest.mark.parametrize("length", [40, 200])
def test_masks_of_one_row_hide_what_masks_of_all_rows_hide(name: str, length: int, tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / name, name)
    config = EncoderConfig(name=str(folder), precision="float32")
    ids = torch.arange(2 * length).reshape(2, length) % 60 + 5
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    with torch.inference_mode():
        ours = load_encoder(config).eval().model(input_ids=ids, attention_mask=mask).last_hidden_state
        plain = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        theirs = plain(input_ids=ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(ours[mask.bool()], theirs[mask.bool()], atol=1e-4, rtol=1e-4)


def test_padding_takes_one_row_of_the_mask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...] | None] = []

    def attend(module: object, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: object):  # type: ignore[no-untyped-def]
        shapes.append(None if mask is None else tuple(mask.shape))
        return sdpa_attention_forward(module, query, key, value, mask, **options)

    encoder = load_encoder(EncoderConfig(name=str(tiny.make_encoder(tmp_path / "bert", "bert"))))
    from transformers import AttentionInterface

    monkeypatch.setitem(AttentionInterface._global_mapping, attention.attention(), attend)
    ids = torch.full((2, 40), 7)
    encoder.model(input_ids=ids, attention_mask=padded().long())
    assert set(shapes) == {(2, 1, 1, 40)}
    shapes.clear()
    encoder.model(input_ids=ids, attention_mask=torch.ones(2, 40, dtype=torch.long))
    assert set(shapes) == {None}


def test_a_saved_encoder_loads_without_this_library(tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / "bert", "bert")
    load_encoder(EncoderConfig(name=str(folder))).model.save_pretrained(tmp_path / "saved")
    assert '"cogltx"' not in (tmp_path / "saved" / "config.json").read_text()
    assert AutoModel.from_pretrained(tmp_path / "saved").config._attn_implementation == "sdpa"
