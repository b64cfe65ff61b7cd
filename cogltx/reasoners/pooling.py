"""Small networks that combine the vectors of a document's windows into one, trained end to end with the encoder."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

_HEADS = 4


def window_pooling(name: Literal["mlp", "lstm", "transformer"], width: int) -> nn.Module:
    """Create a network from vectors, shape [windows, width], to one vector, shape [width], a multiple of 4."""
    networks: dict[str, type[nn.Module]] = {"mlp": _MLP, "lstm": _LSTM, "transformer": _Transformer}
    return networks[name](width)


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


class _Transformer(nn.Module):
    """The mean over the windows after one layer of attention between them, with sinusoidal positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, _HEADS, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        pooled: Tensor = self.layer((vectors + _sinusoidal(*vectors.shape).to(vectors))[None])[0].mean(dim=0)
        return pooled


def _sinusoidal(count: int, width: int) -> Float[Tensor, "count width"]:
    """Sinusoidal position vectors (Vaswani et al. 2017, §3.5), sines before cosines.

    >>> _sinusoidal(2, 4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
