"""The chain of tags: sums and maxima against brute force, BIO kept, entities' probabilities."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.reasoners._crf import (
    FORBIDDEN,
    OUTSIDE,
    _best_path,
    begin,
    decode,
    forbidden,
    inside,
    negative_log_likelihood,
)

N_LABELS, N_TAGS = 2, 5


def scores(seed: int, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    transitions = rng.normal(size=(N_TAGS, N_TAGS))
    transitions[forbidden(N_LABELS)] = FORBIDDEN
    return rng.normal(scale=2, size=(n_words, N_TAGS)), transitions


def every_path(n_words: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(N_TAGS), repeat=n_words))


def score(path: tuple[int, ...], emissions: np.ndarray, transitions: np.ndarray, before: int) -> float:
    previous = (before, *path[:-1])
    return float(
        sum(
            emissions[n, tag] + transitions[last, tag] for n, (last, tag) in enumerate(zip(previous, path, strict=True))
        )
    )


def entities(path: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Type, first word and last word of every run of B and I."""
    starts = [(n, (tag - 1) // 2) for n, tag in enumerate(path) if tag and tag % 2]
    ends = {n: next((m for m in range(n + 1, len(path)) if path[m] != inside(label)), len(path)) for n, label in starts}
    return [(label, n, ends[n] - 1) for n, label in starts]


def test_what_bio_forbids() -> None:
    banned = forbidden(N_LABELS)
    allowed = {(row, column) for row in range(N_TAGS) for column in range(N_TAGS) if not banned[row, column]}
    into_inside = {(begin(0), inside(0)), (inside(0), inside(0)), (begin(1), inside(1)), (inside(1), inside(1))}
    assert allowed == into_inside | set(itertools.product(range(N_TAGS), (0, begin(0), begin(1))))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n_words=st.integers(1, 5), before=st.integers(0, N_TAGS - 1))
def test_against_brute_force(seed: int, n_words: int, before: int) -> None:
    emissions, transitions = scores(seed, n_words)
    paths = every_path(n_words)
    values = np.array([score(path, emissions, transitions, before) for path in paths])
    whole = np.log(np.exp(values - values.max()).sum()) + values.max()
    lengths, start = torch.tensor([n_words]), torch.tensor([before])
    tensors = torch.from_numpy(emissions)[None], lengths, torch.from_numpy(transitions), start
    one = paths[seed % len(paths)]
    expected_loss = whole - score(one, emissions, transitions, before)
    assert negative_log_likelihood(*tensors, torch.tensor([one])).item() == pytest.approx(expected_loss)
    if before == OUTSIDE:
        best = paths[int(values.argmax())]
        assert tuple(_best_path(emissions, transitions)) == best
        chances = np.exp(values - whole)
        expected = [
            (*run, sum(chances[n] for n, path in enumerate(paths) if chances[n] > 0 and run in entities(path)))
            for run in entities(best)
        ]
        runs = decode(emissions, transitions)
        assert [run[:3] for run in runs] == [run[:3] for run in expected]
        assert [run.probability for run in runs] == pytest.approx([run[3] for run in expected])


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_windows_together_equal_one_by_one(seed: int, lengths: list[int]) -> None:
    made = [scores(seed + n, length)[0] for n, length in enumerate(lengths)]
    transitions = torch.from_numpy(scores(seed, 1)[1])
    rng = np.random.default_rng(seed)
    tags = [torch.from_numpy(rng.integers(0, N_TAGS, length)) for length in lengths]
    before = torch.from_numpy(rng.integers(0, N_TAGS, len(lengths)))
    emissions = torch.nn.utils.rnn.pad_sequence(
        [torch.from_numpy(one) for one in made], batch_first=True, padding_value=7.0
    )
    padded = torch.nn.utils.rnn.pad_sequence(tags, batch_first=True)
    together = negative_log_likelihood(emissions, torch.tensor(lengths), transitions, before, padded)
    for n, length in enumerate(lengths):
        alone = emissions[n : n + 1, :length], torch.tensor([length]), transitions, before[n : n + 1]
        torch.testing.assert_close(together[n : n + 1], negative_log_likelihood(*alone, tags[n][None]))


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), n_words=st.integers(1, 30))
def test_the_best_path_keeps_bio(seed: int, n_words: int) -> None:
    emissions, transitions = scores(seed, n_words)
    path = _best_path(emissions, transitions)
    banned = forbidden(N_LABELS)
    assert not any(banned[last, tag] for last, tag in itertools.pairwise([0, *path]))
    again = np.zeros(n_words, dtype=int)
    for run in decode(emissions, transitions):
        again[run.first : run.last + 1] = inside(run.label)
        again[run.first] = begin(run.label)
    assert (again == path).all()


def test_gradients_are_finite() -> None:
    emissions = torch.randn(3, 6, N_TAGS, requires_grad=True)
    learned = torch.zeros(N_TAGS, N_TAGS, requires_grad=True)
    transitions = learned.masked_fill(torch.from_numpy(forbidden(N_LABELS)), FORBIDDEN)
    start, tags = torch.zeros(3, dtype=torch.long), torch.zeros(3, 6, dtype=torch.long)
    negative_log_likelihood(emissions, torch.tensor([6, 1, 3]), transitions, start, tags).sum().backward()
    assert emissions.grad is not None
    assert torch.isfinite(emissions.grad).all()
    assert learned.grad is not None
    assert torch.isfinite(learned.grad).all()


def test_certain_entities() -> None:
    emissions = np.full((3, N_TAGS), -50.0)
    emissions[[0, 1, 2], [begin(1), inside(1), 0]] = 0
    transitions = np.where(forbidden(N_LABELS), FORBIDDEN, 0.0)
    assert decode(emissions, transitions) == [(1, 0, 1, pytest.approx(1.0))]
    assert decode(np.where(np.arange(N_TAGS) == OUTSIDE, 0.0, -50.0)[None], transitions) == []
