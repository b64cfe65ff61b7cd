"""Linear layers that keep their weights in bfloat16 from one inference pass to the next.

``torch.autocast`` converts all weights again in each of its contexts: for ten sentences, an eighth of the seconds.
"""

import torch
from torch import Tensor, nn


class KeptLinear(nn.Linear):
    """A linear layer whose weights are converted once for autocast without gradients, and again when they change."""

    _kept: tuple[tuple[object, ...], Tensor, Tensor | None] | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Compute what ``nn.Linear`` computes, to the bit."""
        device = input.device.type
        if torch.is_grad_enabled() or not torch.is_autocast_enabled(device):
            return super().forward(input)
        return nn.functional.linear(input, *self._converted(torch.get_autocast_dtype(device)))

    def _converted(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        tensors = self.weight, self.bias
        version = dtype, *((one.data_ptr(), one._version) for one in tensors if one is not None)
        if self._kept is None or self._kept[0] != version:
            weight, bias = (None if one is None else one.detach().to(dtype) for one in tensors)
            assert weight is not None
            self._kept = version, weight, bias
        return self._kept[1:]


def keep_weights(model: nn.Module) -> None:
    """Let the linear layers of a model keep their weights; parameters and their names stay."""
    for layer in model.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = KeptLinear
