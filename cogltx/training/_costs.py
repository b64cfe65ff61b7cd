"""Guesses of what a training costs, in tokens that pass through an encoder, from the lengths of some documents."""

from collections.abc import Mapping, Sequence

import numpy as np

from cogltx.baselines import WindowReader
from cogltx.document import Example
from cogltx.training.config import TrainingConfig

_N_SAMPLED = 50
_TRAINING = 3  # passes that a forward and backward pass costs
AGAIN = " again"  # of work for which key blocks or scores are known


def unit_costs(reader: WindowReader, config: TrainingConfig, examples: Sequence[Example]) -> Mapping[str, float]:
    """Return the cost of an optimizer step of each model, and of the validation of one example."""
    sample = examples[:: max(1, len(examples) // _N_SAMPLED)]
    lengths = np.array([reader.model.split(example.document).n_tokens for example in sample], dtype=float)
    capacity, memrecall = reader.model.form.capacity, reader.config.memrecall
    read = np.minimum(lengths, capacity).mean()
    proposed = np.inf if memrecall.shortlist is None else memrecall.shortlist * reader.config.max_block_tokens
    is_long = lengths > capacity
    scored = (np.minimum(lengths, proposed) * is_long).mean() if reader.uses_judge else 0.0
    rehearsed = len(memrecall.strides) * capacity * is_long.mean() if reader.uses_judge else 0.0
    read_in_validation = read if reader.uses_judge else lengths.mean()
    steps = {
        "retriever": _TRAINING * np.minimum(lengths, 2 * capacity).mean(),
        "judge": _TRAINING * read * (2 if config.judge_windows == "both" else 1),
        "reasoner": _TRAINING * read + scored,
        f"reasoner{AGAIN}": _TRAINING * read,
    }
    return {name: float(cost) * config.batch_size for name, cost in steps.items()} | {
        "validation": float(len(memrecall.strides) * scored + rehearsed + read_in_validation),
        f"validation{AGAIN}": float(read_in_validation),
    }
