"""Small networks that make one vector of a document from the vectors of its windows, for classification by windows.

They are trained end to end with the encoder. Know nothing of windows' tokens or of labels.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Network = Literal["mlp", "lstm", "transformer"]
_HEADS = 4


def over_windows(kind: Network, width: int) -> nn.Module:
    """A network from vectors, shape [windows, width], to one of shape [width].

    Args:
        kind: of the network.
        width: of a vector; for the transformer a multiple of 4, for the LSTM of 2.
    """
    networks = {"mlp": WindowMLP, "lstm": WindowLSTM, "transformer": WindowTransformer}
    network: nn.Module = networks[kind](width)
    return network


class WindowMLP(nn.Module):
    """A layer on the mean and the maximum over the windows, whose order does not count."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        """The document's vector."""
        joined: Tensor = self.layer(torch.cat([vectors.mean(dim=0), vectors.amax(dim=0)]))
        return joined


class WindowLSTM(nn.Module):
    """The last states of an LSTM that reads the windows in both directions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        """The document's vector."""
        _, (last, _) = self.read(vectors[None])
        joined: Tensor = last[:, 0].flatten()
        return joined


class WindowTransformer(nn.Module):
    """The mean over the windows after one layer of attention between them, with sinusoidal places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, _HEADS, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, " width"]:
        """The document's vector."""
        joined: Tensor = self.layer((vectors + places(*vectors.shape).to(vectors))[None])[0].mean(dim=0)
        return joined


def places(count: int, width: int) -> Float[Tensor, "count width"]:
    """Sinusoidal vectors of the places 0, 1, … (Vaswani et al. 2017, §3.5), sines before cosines.

    >>> places(2, 4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
