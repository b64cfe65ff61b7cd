"""Small networks that combine the vectors of a document's windows into one, trained end to end with the encoder."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn


def window_pooling(name: Literal["mlp", "lstm"], width: int) -> nn.Module:
    """Create a network from vectors, shape [windows, width], to one vector, shape [width]; ``width`` is even."""
    return _MLP(width) if name == "mlp" else _LSTM(width)


class _MLP(nn.Module):
    """A layer on the mean and the maximum over the windows, independent of their order."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        pooled: Tensor = self.layer(torch.cat([vectors.mean(dim=0), vectors.amax(dim=0)]))
        return pooled


class _LSTM(nn.Module):
    """The last states of a bidirectional LSTM over the windows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        _, (last, _) = self.read(vectors[None])
        pooled: Tensor = last[:, 0].flatten()
        return pooled
