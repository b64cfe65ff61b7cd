"""The readers that `bench quality` compares, as plain data, and a judge with random scores.

Each changes the run's configuration. `paper` has the recipe's values of the paper, also where the configuration sets
others, but the run's task, data, encoder, window, batch size, epochs, learning rates and models to start from.
"""

import json
import random
from collections.abc import Sequence
from typing import NamedTuple

from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.training.recipes import PAPER

_OF_THE_RUN = (
    "task.", "encoder.", "max_block_tokens", "memrecall.capacity", "reasoner.kinds", "reasoner.pooling",
    "training.batch_size", "training.judge.", "training.reasoner.",
)  # fmt: skip
_PAPER = tuple(f"{name}={json.dumps(value)}" for name, value in PAPER.items() if not name.startswith(_OF_THE_RUN))
_ALL_BLOCKS = ("memrecall.shortlist=null", "memrecall.headings=0", "memrecall.pairs=false")  # scores are random alone
_NO_LINEAR = "reasoner.linear_weight=null"
_SLIDING = ("reader=sliding_window",)  # with the scores of the linear model, where the configuration has them
_BY_DEFAULT = 8  # readers; then the paper's ablations, of its own method, and its further baselines


class Row(NamedTuple):
    """One row of the comparison.

    Attributes:
        name: in the option `--readers`.
        label: in tables.
        trained: the reader whose trained model this one uses; None: it is trained itself.
        changes: `KEY=VALUE` of the run's configuration or, with `trained`, of the trained model's. Settings that the
            run's reasoner lacks are left out.
        judge: instead of the trained model's judge; thresholds are tuned anew.
        needs: `question` or `labels`, which the examples must have.
    """

    name: str
    label: str
    trained: str | None = None
    changes: tuple[str, ...] = ()
    judge: str | None = None
    needs: str | None = None


_ALL = (
    Row("cogltx", "CogLTX, as configured"),
    Row("paper", "CogLTX, as in the paper", None, _PAPER),
    Row("bm25", "BM25 as judge", "cogltx", (), "bm25", "question"),
    Row("embedding", "sentence vectors as judge", "cogltx", (), "embedding", "question"),
    Row("random", "random blocks", "cogltx", _ALL_BLOCKS, f"{__name__}:RandomJudge"),
    Row("sliding_window", "sliding window", None, _SLIDING),
    Row("truncation", "truncation", "sliding_window", ("reader=truncation",)),
    Row("bag_of_words", "TF-IDF and SVM", None, ("reader=bag_of_words", _NO_LINEAR), None, "labels"),
    Row("one_stride", "paper, one step", "paper", ("memrecall.strides=[8]",)),
    Row("no_rehearsal", "paper, no rehearsal", "paper", ("memrecall.rehearse=false",)),
    Row(
        "random_training_blocks", "paper, trained on random blocks", None, (*_PAPER, "training.reasoner_blocks=random")
    ),
    Row("no_interventions", "paper, no interventions", None, (*_PAPER, "training.relevance.budget=0"), None, "labels"),
    Row("mlp", "sliding window, MLP", None, (*_SLIDING, _NO_LINEAR, "reasoner.over_windows=mlp"), None, "labels"),
    Row("lstm", "sliding window, LSTM", None, (*_SLIDING, _NO_LINEAR, "reasoner.over_windows=lstm"), None, "labels"),
    Row("text_cnn", "TextCNN", None, ("reader=text_cnn", _NO_LINEAR), None, "labels"),
)
READERS = {reader.name: reader for reader in _ALL}


def select_readers(names: Sequence[str] | None, examples: Sequence[Example]) -> list[Row]:
    """Return the named readers, or those by default that suit the examples.

    Raises:
        ConfigError: a reader is unknown, or needs what no example has.
    """
    has_labels = any(example.labels is not None for example in examples)
    has = {None: True, "labels": has_labels, "question": any(example.query is not None for example in examples)}
    if names is None:
        return [reader for reader in _ALL[:_BY_DEFAULT] if has[reader.needs]]
    for name in names:
        if name not in READERS:
            raise ConfigError(f"--readers: {name!r} is not a reader; choose from {', '.join(READERS)}")
        if not has[READERS[name].needs]:
            raise ConfigError(f"--readers: {name} needs examples with a {READERS[name].needs}".removesuffix("s"))
    return [READERS[name] for name in dict.fromkeys(names)]


class RandomJudge:
    """Scores each text by a random number that depends on `seed`, the question and the text alone."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        """See `cogltx.judges.ScoringJudge`."""
        return [random.Random(f"{self.seed} {query}\n{text}").random() for text in candidates]
