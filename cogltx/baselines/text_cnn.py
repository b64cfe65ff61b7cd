"""A convolutional network over the words of a text (Kim 2014): a baseline without an encoder, as in CogLTX table 3."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx._files import read_json
from cogltx._progress import progress
from cogltx.encoding._weights import load_tensors, to_safetensors
from cogltx.errors import ModelError
from cogltx.linear import WordsModel, count_words

_MAX_WORDS = 4096  # of a text; the others are not read
_VOCABULARY = 30_000
_PADDING, _UNKNOWN = 0, 1
_DIMENSIONS, _FILTERS, _WIDTHS = 128, 100, (3, 4, 5)
_BATCH, _EPOCHS, _PATIENCE = 32, 20, 3
_BATCHES_SORTED = 16  # by the length of their texts, to save padding


class ConvolutionalModel(WordsModel):
    """Word vectors, 100 filters each over 3, 4 and 5 words, the maximum of each, dropout, and a linear layer.

    The vectors are trained from random ones. A tenth of the training texts decides how many epochs are best.

    Args:
        words: the vocabulary; others share one vector.
        state: the network's weights.
    """

    def __init__(self, words: Sequence[str] = (), state: dict[str, Tensor] | None = None) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self._analyze = CountVectorizer().build_analyzer()
        self._numbers = {word: number for number, word in enumerate(words, start=_UNKNOWN + 1)}
        self._network: _Network | None = None
        if state is not None:
            self._network = _Network(len(words) + 2, len(state["output.bias"]))
            self._network.load_state_dict(state)
            self._network.eval()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """See ``WordsModel.load``."""
        words, state = read_json(folder / "words.json"), load_tensors(folder / "weights.safetensors")
        try:
            return cls(words["words"], state)
        except (KeyError, RuntimeError, TypeError) as error:
            raise ModelError(f"{folder}: words.json and weights.safetensors are not those of one network") from error

    def save(self, folder: Path) -> None:
        """See ``WordsModel.save``."""
        state = self._trained().state_dict()
        (folder / "words.json").write_text(
            json.dumps({"words": list(self._numbers)}, ensure_ascii=False), encoding="utf-8"
        )
        (folder / "weights.safetensors").write_bytes(to_safetensors(state))

    def _learn(self, texts: Sequence[str], has_label: Bool[np.ndarray, "texts labels"], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._learn_words(texts)
        rows, targets = list(map(self._row, texts)), torch.from_numpy(has_label).float()
        order = rng.permutation(len(texts))
        n_held_out = len(texts) // 10
        held_out, train = order[:n_held_out], order[n_held_out:]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = network = _Network(len(self._numbers) + 2, has_label.shape[1])
            optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
            loss_of = _loss(targets)
            best, best_loss, waited = network.state_dict(), np.inf, 0
            for _ in progress(range(_EPOCHS), "convolutions", unit="epochs", total=_EPOCHS):
                network.train()
                for batch in _batches(rows, rng.permutation(train), rng):
                    optimizer.zero_grad()
                    loss_of(network(_padded([rows[i] for i in batch])), targets[batch]).mean().backward()
                    optimizer.step()
                known = self._logits([rows[i] for i in held_out])
                loss = float(loss_of(known, targets[held_out]).mean()) if n_held_out else 0.0
                waited = 0 if loss < best_loss or not n_held_out else waited + 1
                if not waited:
                    best, best_loss = {name: value.clone() for name, value in network.state_dict().items()}, loss
                if waited == _PATIENCE:
                    break
        network.load_state_dict(best)
        network.eval()

    def margins(self, texts: Sequence[str]) -> Float[np.ndarray, "texts labels"]:
        """Compute the logit of every label of each text."""
        self._trained()
        return self._logits(list(map(self._row, texts))).double().numpy()

    def _learn_words(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(max_features=_VOCABULARY)
        count_words(vectorizer, texts)
        self._numbers = {
            word: number for number, word in enumerate(vectorizer.get_feature_names_out(), start=_UNKNOWN + 1)
        }

    def _row(self, text: str) -> Int[np.ndarray, " words"]:
        words = self._analyze(text)[:_MAX_WORDS]
        return np.array([self._numbers.get(word, _UNKNOWN) for word in words], dtype=np.int64)

    def _logits(self, rows: Sequence[np.ndarray]) -> Float[Tensor, "texts labels"]:
        network = self._trained().eval()
        logits = torch.empty(len(rows), network.output.out_features)
        by_length = np.argsort([len(row) for row in rows], kind="stable")
        with torch.no_grad():
            for first in range(0, len(rows), _BATCH):
                batch = by_length[first : first + _BATCH]
                logits[batch] = network(_padded([rows[i] for i in batch]))
        return logits

    def _trained(self) -> "_Network":
        if self._network is None:
            raise ModelError("the convolutional model is not trained")
        return self._network


class _Network(nn.Module):
    def __init__(self, n_words: int, n_labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, _DIMENSIONS, padding_idx=_PADDING)
        self.convolutions = nn.ModuleList(nn.Conv1d(_DIMENSIONS, _FILTERS, width) for width in _WIDTHS)
        self.output = nn.Linear(_FILTERS * len(_WIDTHS), n_labels)

    def forward(self, words: Int[Tensor, "texts words"]) -> Float[Tensor, "texts labels"]:
        vectors = self.embedding(words).transpose(1, 2)
        ends = (words != _PADDING).sum(dim=1, keepdim=True)
        best = []
        for width, convolution in zip(_WIDTHS, self.convolutions, strict=True):
            features = convolution(vectors).relu()
            padding = torch.arange(features.shape[2]) > (ends - width).clamp(min=0)
            best.append(features.masked_fill(padding[:, None], 0).amax(dim=2))
        logits: Tensor = self.output(nn.functional.dropout(torch.cat(best, dim=1), 0.5, self.training))
        return logits


def _loss(targets: Float[Tensor, "texts labels"]) -> nn.Module:
    """Cross-entropy if every text has one label, otherwise binary cross-entropy of each label."""
    one_label = bool((targets.sum(dim=1) == 1).all())
    return nn.CrossEntropyLoss(reduction="none") if one_label else nn.BCEWithLogitsLoss(reduction="none")


def _batches(rows: Sequence[np.ndarray], order: np.ndarray, rng: np.random.Generator) -> Iterator[list[int]]:
    """Batches of texts of similar length, in random order."""
    size = _BATCH * _BATCHES_SORTED
    for first in range(0, len(order), size):
        some = sorted(order[first : first + size].tolist(), key=lambda index: len(rows[index]))
        batches = [some[start : start + _BATCH] for start in range(0, len(some), _BATCH)]
        yield from (batches[number] for number in rng.permutation(len(batches)))


def _padded(rows: Sequence[np.ndarray]) -> Int[Tensor, "texts words"]:
    """Rows of one length, at least that of the widest filter."""
    length = max(*_WIDTHS, *map(len, rows))
    padded = np.full((len(rows), length), _PADDING)
    for row, words in zip(padded, rows, strict=True):
        row[: len(words)] = words
    return torch.from_numpy(padded)
