"""Linear layers that keep their weights in bfloat16 compute what others compute, also after a change."""

import torch
from torch import nn

from cogltx.encoding._linear import KeptLinear, keep_weights


def layers() -> tuple[nn.Linear, nn.Sequential]:
    torch.manual_seed(0)
    plain = nn.Linear(32, 16)
    kept = nn.Sequential(nn.Linear(32, 16))
    kept.load_state_dict({f"0.{name}": value for name, value in plain.state_dict().items()})
    keep_weights(kept)
    return plain, kept


def in_bfloat16(model: nn.Module, vectors: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        outputs: torch.Tensor = model(vectors)
    return outputs


def test_the_outputs_are_the_same_to_the_bit() -> None:
    plain, kept = layers()
    vectors = torch.randn(5, 32)
    for _ in range(2):
        assert in_bfloat16(kept, vectors).dtype == torch.bfloat16
        assert torch.equal(in_bfloat16(kept, vectors), in_bfloat16(plain, vectors))
    with torch.no_grad():
        assert torch.equal(kept(vectors), plain(vectors))


def test_weights_that_change_are_converted_again() -> None:
    plain, kept = layers()
    vectors = torch.randn(5, 32)
    before = in_bfloat16(kept, vectors)
    for model in (plain, kept):
        model(vectors).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert torch.equal(in_bfloat16(kept, vectors), in_bfloat16(plain, vectors))
    assert not torch.equal(in_bfloat16(kept, vectors), before)
    other = nn.Linear(32, 16)
    kept.load_state_dict({f"0.{name}": value for name, value in other.state_dict().items()})
    assert torch.equal(in_bfloat16(kept, vectors), in_bfloat16(other, vectors))


def test_weights_are_converted_once_and_parameters_keep_their_names() -> None:
    _, kept = layers()
    vectors = torch.randn(5, 32)
    in_bfloat16(kept, vectors)
    layer = kept[0]
    assert isinstance(layer, KeptLinear)
    assert layer._kept is not None
    converted = layer._kept[1]
    in_bfloat16(kept, vectors)
    assert layer._kept[1] is converted
    assert list(kept.state_dict()) == ["0.weight", "0.bias"]
