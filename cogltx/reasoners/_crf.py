"""A linear-chain CRF over BIO tags (Lafferty et al. 2001): exact sums and maxima over all tag sequences.

Tags are "O", then "B" and "I" of each type in turn.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

OUTSIDE = 0
FORBIDDEN = -1e4  # as a score; its exponential is zero


def begin(label: int) -> int:
    """Return the tag B of a type.

    >>> begin(0), inside(0), begin(1), inside(1)
    (1, 2, 3, 4)
    """
    return 1 + 2 * label


def inside(label: int) -> int:
    """Return the tag I of a type."""
    return 2 + 2 * label


def forbidden(n_labels: int) -> Bool[np.ndarray, "tags tags"]:
    """Mark transitions that BIO forbids (row: previous tag): I may only follow B or I of the same type."""
    banned = np.zeros((1 + 2 * n_labels, 1 + 2 * n_labels), dtype=bool)
    for label in range(n_labels):
        banned[:, inside(label)] = True
        banned[[begin(label), inside(label)], inside(label)] = False
    return banned


def negative_log_likelihood(
    emissions: Float[Tensor, "sequences words tags"],
    lengths: Int[Tensor, " sequences"],
    transitions: Float[Tensor, "tags tags"],
    before: Int[Tensor, " sequences"],
    tags: Int[Tensor, "sequences words"],
) -> Float[Tensor, " sequences"]:
    """Compute minus the log-probability of one tag sequence each, by the forward algorithm.

    Args:
        emissions: score of every tag of every word; entries beyond a sequence's length are ignored.
        lengths: number of words per sequence, at least one.
        transitions: score of a tag (column) after another (row).
        before: tag of the word before each sequence.
        tags: the sequences.
    """
    total = transitions[before] + emissions[:, 0]
    for word in range(1, emissions.shape[1]):
        following = (total[:, :, None] + transitions).logsumexp(dim=1) + emissions[:, word]
        total = torch.where((word < lengths)[:, None], following, total)
    in_sequence = torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]
    previous = torch.cat([before[:, None], tags[:, :-1]], dim=1)
    scores = emissions.gather(2, tags[..., None]).squeeze(-1) + transitions[previous, tags]
    return total.logsumexp(dim=-1) - scores.masked_fill(~in_sequence, 0.0).sum(dim=1)


class Run(NamedTuple):
    """An entity as words: its type, first word and last word, and the probability of exactly these."""

    label: int
    first: int
    last: int
    probability: float


def decode(emissions: Float[np.ndarray, "words tags"], transitions: Float[np.ndarray, "tags tags"]) -> list[Run]:
    """Find the entities of the best tag sequence after "O" (Viterbi), each with its probability over all sequences."""
    runs: list[tuple[int, int, int]] = []
    for word, tag in enumerate(_best_path(emissions, transitions).tolist()):
        if tag == OUTSIDE:
            continue
        label, is_inside = divmod(tag - 1, 2)
        if is_inside:
            runs[-1] = (label, runs[-1][1], word)
        else:
            runs.append((label, word, word))
    probabilities = _run_probabilities(emissions, transitions, runs) if runs else []
    return [Run(*run, probability) for run, probability in zip(runs, probabilities, strict=True)]


def _best_path(
    emissions: Float[np.ndarray, "words tags"], transitions: Float[np.ndarray, "tags tags"]
) -> Int[np.ndarray, " words"]:
    n_words, n_tags = emissions.shape
    came_from = np.zeros((n_words, n_tags), dtype=np.int32)
    score = transitions[OUTSIDE] + emissions[0]
    for word in range(1, n_words):
        paths = score[:, None] + transitions
        came_from[word] = paths.argmax(axis=0)
        score = paths.max(axis=0) + emissions[word]
    path = np.empty(n_words, dtype=np.int64)
    path[-1] = score.argmax()
    for word in range(n_words - 1, 0, -1):
        path[word - 1] = came_from[word, path[word]]
    return path


def _run_probabilities(
    emissions: Float[np.ndarray, "words tags"],
    transitions: Float[np.ndarray, "tags tags"],
    runs: Sequence[tuple[int, int, int]],
) -> list[float]:
    """The probability of each run over all tag sequences, by the forward-backward algorithm."""
    n_words = len(emissions)
    forward, backward = np.empty(emissions.shape), np.zeros(emissions.shape)
    forward[0] = transitions[OUTSIDE] + emissions[0]
    for word in range(1, n_words):
        forward[word] = np.logaddexp.reduce(forward[word - 1][:, None] + transitions, axis=0) + emissions[word]
    for word in range(n_words - 2, -1, -1):
        backward[word] = np.logaddexp.reduce(transitions + emissions[word + 1] + backward[word + 1], axis=1)
    total = np.logaddexp.reduce(forward[-1])
    probabilities = []
    for label, first, last in runs:
        tag, score = begin(label), forward[first, begin(label)]
        for word in range(first + 1, last + 1):
            score += transitions[tag, inside(label)] + emissions[word, inside(label)]
            tag = inside(label)
        if last + 1 < n_words:
            following = transitions[tag] + emissions[last + 1] + backward[last + 1]
            score += np.logaddexp.reduce(np.delete(following, inside(label)), axis=0)
        probabilities.append(float(np.exp(min(0.0, score - total))))
    return probabilities
