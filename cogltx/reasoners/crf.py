"""A linear chain of tags (Lafferty et al. 2001): what BIO allows, exact sums and maxima over all sequences of tags.

Tags are "O", then "B" and "I" of each type in turn. Knows nothing about words, windows or models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

OUTSIDE = 0
FORBIDDEN = -1e4  # as a score; its exponential is zero


def begin(label: int) -> int:
    """The tag that begins an entity of a type.

    >>> begin(0), inside(0), begin(1), inside(1)
    (1, 2, 3, 4)
    """
    return 1 + 2 * label


def inside(label: int) -> int:
    """The tag that goes on with one."""
    return 2 + 2 * label


def forbidden(n_labels: int) -> Bool[np.ndarray, "tags tags"]:
    """Which tags may not follow which (row: the tag before): I goes on with B or I of its own type alone."""
    banned = np.zeros((1 + 2 * n_labels, 1 + 2 * n_labels), dtype=bool)
    for label in range(n_labels):
        banned[:, inside(label)] = True
        banned[[begin(label), inside(label)], inside(label)] = False
    return banned


def log_partition(
    emissions: Float[Tensor, "sequences words tags"],
    lengths: Int[Tensor, " sequences"],
    transitions: Float[Tensor, "tags tags"],
    before: Int[Tensor, " sequences"],
) -> Float[Tensor, " sequences"]:
    """Log of the sum over all sequences of tags of exp(score), by the forward algorithm.

    Args:
        emissions: the score of every tag of every word; what stands beyond a sequence's length does not count.
        lengths: words of each sequence, at least one.
        transitions: the score of a tag (column) after another (row).
        before: the tag of the word before each sequence.
    """
    total = transitions[before] + emissions[:, 0]
    for word in range(1, emissions.shape[1]):
        following = (total[:, :, None] + transitions).logsumexp(dim=1) + emissions[:, word]
        total = torch.where((word < lengths)[:, None], following, total)
    return total.logsumexp(dim=-1)


def path_scores(
    emissions: Float[Tensor, "sequences words tags"],
    lengths: Int[Tensor, " sequences"],
    transitions: Float[Tensor, "tags tags"],
    before: Int[Tensor, " sequences"],
    tags: Int[Tensor, "sequences words"],
) -> Float[Tensor, " sequences"]:
    """The score of one sequence of tags each; arguments as of ``log_partition``."""
    shown = torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]
    previous = torch.cat([before[:, None], tags[:, :-1]], dim=1)
    each = emissions.gather(2, tags[..., None]).squeeze(-1) + transitions[previous, tags]
    return each.masked_fill(~shown, 0.0).sum(dim=1)


def best_path(
    emissions: Float[np.ndarray, "words tags"], transitions: Float[np.ndarray, "tags tags"], before: int
) -> Int[np.ndarray, " words"]:
    """The sequence of tags with the highest score, by Viterbi's algorithm."""
    n_words, n_tags = emissions.shape
    came_from = np.zeros((n_words, n_tags), dtype=np.int32)
    score = transitions[before] + emissions[0]
    for word in range(1, n_words):
        every = score[:, None] + transitions
        came_from[word] = every.argmax(axis=0)
        score = every.max(axis=0) + emissions[word]
    path = np.empty(n_words, dtype=np.int64)
    path[-1] = score.argmax()
    for word in range(n_words - 1, 0, -1):
        path[word - 1] = came_from[word, path[word]]
    return path


@dataclass(frozen=True)
class Run:
    """An entity as words: its type and the first and last of them."""

    label: int
    first: int
    last: int


def runs(path: Sequence[int]) -> list[Run]:
    """The entities that a sequence of tags marks.

    >>> runs([1, 2, 0, 3, 3])
    [Run(label=0, first=0, last=1), Run(label=1, first=3, last=3), Run(label=1, first=4, last=4)]
    """
    found: list[Run] = []
    for word, tag in enumerate(path):
        label, goes_on = divmod(tag - 1, 2) if tag else (-1, 0)
        if tag and not goes_on:
            found.append(Run(label, word, word))
        elif tag:
            found[-1] = Run(label, found[-1].first, word)
    return found


def run_probabilities(
    emissions: Float[np.ndarray, "words tags"],
    transitions: Float[np.ndarray, "tags tags"],
    before: int,
    wanted: Sequence[Run],
) -> list[float]:
    """The probability, among all sequences of tags, of each entity: that it begins and ends at exactly its words."""
    if not wanted:
        return []
    n_words = len(emissions)
    to, onward = np.empty(emissions.shape), np.zeros(emissions.shape)
    to[0] = transitions[before] + emissions[0]
    for word in range(1, n_words):
        to[word] = _log_sum(to[word - 1][:, None] + transitions, axis=0) + emissions[word]
    for word in range(n_words - 2, -1, -1):
        onward[word] = _log_sum(transitions + emissions[word + 1] + onward[word + 1], axis=1)
    whole = _log_sum(to[-1], axis=0)
    found = []
    for run in wanted:
        own, score = begin(run.label), to[run.first, begin(run.label)]
        for word in range(run.first + 1, run.last + 1):
            score += transitions[own, inside(run.label)] + emissions[word, inside(run.label)]
            own = inside(run.label)
        if run.last + 1 < n_words:
            after = transitions[own] + emissions[run.last + 1] + onward[run.last + 1]
            score += _log_sum(np.delete(after, inside(run.label)), axis=0)
        found.append(float(np.exp(min(0.0, score - whole))))
    return found


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    highest = values.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(values - highest).sum(axis=axis)) + highest.squeeze(axis))
