"""The readers that `bench quality` compares, as plain data, and a judge with random scores.

The row of a reader changes the run's configuration; encoder, data, task, batch size, epochs and learning rates stay.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cogltx.document import Example
from cogltx.errors import ConfigError

_PAPER = (  # MemRecall, judge and training as in the paper, whatever the configuration sets
    "recipe=paper", "judge.name=encoder", "memrecall.strides=[3, 5]", "memrecall.rehearse=true",
    "memrecall.shortlist=null", "memrecall.headings=0", "memrecall.passages=null", "memrecall.pairs=false",
    "memrecall.reread=null",
    "training.judge_epochs=null", "training.judge_windows=both", "training.reasoner_blocks=recall",
    "training.ranking_weight=0", "training.kept_epoch=best", "training.relevance.budget=null",
    "reasoner.evidence_weight=0", "reasoner.no_answer_evidence_weight=0", "reasoner.linear_weight=null",
)  # fmt: skip
_NO_LINEAR_MODEL = "reasoner.linear_weight=null"

Needs: TypeAlias = Literal["question", "labels"]


@dataclass(frozen=True)
class Reader:
    """One row of the comparison.

    Attributes:
        name: in the option `--readers`.
        label: in tables.
        trained: the reader whose trained model this one uses; None: it is trained itself.
        changes: `KEY=VALUE` of the run's configuration or, with `trained`, of the trained model's. Settings that the
            run's reasoner lacks are left out.
        judge: instead of the trained model's judge; thresholds are tuned anew.
        needs: what the examples must have.
        by_default: compared if `--readers` is not given.
    """

    name: str
    label: str
    trained: str | None = None
    changes: tuple[str, ...] = ()
    judge: str | None = None
    needs: Needs | None = None
    by_default: bool = True


_SLIDING_WINDOW = ("reader=sliding_window", _NO_LINEAR_MODEL)
_ALL_BLOCKS = ("memrecall.shortlist=null", "memrecall.headings=0", "memrecall.pairs=false")  # scores are random alone
READERS = {
    reader.name: reader
    for reader in (
        Reader("cogltx", "CogLTX, as configured"),
        Reader("paper", "CogLTX, as in the paper", changes=_PAPER),
        Reader("bm25", "BM25 as judge", "cogltx", judge="bm25", needs="question"),
        Reader("embedding", "sentence vectors as judge", "cogltx", judge="embedding", needs="question"),
        Reader("random", "random blocks", "cogltx", _ALL_BLOCKS, f"{__name__}:RandomJudge"),
        Reader("sliding_window", "sliding window", changes=_SLIDING_WINDOW),
        Reader("truncation", "truncation", "sliding_window", ("reader=truncation",)),
        Reader(
            "bag_of_words", "TF-IDF and linear SVM", changes=("reader=bag_of_words", _NO_LINEAR_MODEL), needs="labels"
        ),
        # the paper's ablations, of its own method
        Reader("one_stride", "paper, one step", "paper", ("memrecall.strides=[8]",), by_default=False),
        Reader("no_rehearsal", "paper, no rehearsal", "paper", ("memrecall.rehearse=false",), by_default=False),
        Reader(
            "random_training_blocks", "paper, the reasoner trained on random blocks", by_default=False,
            changes=(*_PAPER, "training.reasoner_blocks=random"),
        ),
        Reader(
            "no_interventions", "paper, no interventions", needs="labels", by_default=False,
            changes=(*_PAPER, "training.relevance.budget=0"),
        ),
        # further baselines of the paper
        Reader(
            "sliding_window_mlp", "sliding window, MLP over the windows", needs="labels", by_default=False,
            changes=(*_SLIDING_WINDOW, "reasoner.over_windows=mlp"),
        ),
        Reader(
            "sliding_window_lstm", "sliding window, LSTM over the windows", needs="labels", by_default=False,
            changes=(*_SLIDING_WINDOW, "reasoner.over_windows=lstm"),
        ),
        Reader(
            "text_cnn", "convolutions over words (TextCNN)", needs="labels", by_default=False,
            changes=("reader=text_cnn", _NO_LINEAR_MODEL),
        ),
    )
}  # fmt: skip


def select_readers(names: Sequence[str] | None, examples: Sequence[Example]) -> list[Reader]:
    """Return the named readers, or those by default that suit the examples.

    Raises:
        ConfigError: a reader is unknown, named twice, or needs what no example has.
    """
    has = {
        "question": any(example.query is not None for example in examples),
        "labels": any(example.labels is not None for example in examples),
        None: True,
    }
    if names is None:
        return [reader for reader in READERS.values() if reader.by_default and has[reader.needs]]
    for name in names:
        if name not in READERS:
            raise ConfigError(f"--readers: {name!r} is not a reader; choose from {', '.join(READERS)}")
        if not has[needs := READERS[name].needs]:
            raise ConfigError(f"--readers: {name} needs examples with {'a ' * (needs == 'question')}{needs}")
    if len(set(names)) < len(names):
        raise ConfigError(f"--readers: {','.join(names)} names a reader twice")
    return [READERS[name] for name in names]


class RandomJudge:
    """Scores each text by a random number that depends on the seed, the question and the text alone."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        """See `cogltx.judges.ScoringJudge`."""
        return [random.Random(f"{self.seed} {query}\n{text}").random() for text in candidates]
