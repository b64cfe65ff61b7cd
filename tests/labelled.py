"""Texts of which one sentence says the label, and a short training on them."""

from collections.abc import Callable
from pathlib import Path

import corpus
import numpy as np

from cogltx.baselines import WindowReader
from cogltx.document import Document, Example
from cogltx.tasks import make_task
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Trainer

CLASSIFICATION = make_task("classification", {})
LABELS = ("boat", "drum", "nothing")
FAST = OptimizerConfig(learning_rate=2e-3)


def texts(count: int, seed: int = 0, filler: int = 14) -> list[Example]:
    """Texts of which one sentence says the label; where it stands is kept apart, in ``extra``.

    A third of them has no such sentence, or the lack of the others would say one of the labels, without any evidence.
    """
    examples = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        label = LABELS[number % 3]
        fact = f"{rng.choice(corpus.NAMES)} has the {label}." if label != "nothing" else corpus.FILLER[0]
        sentences = rng.permutation([fact, *rng.choice(corpus.FILLER, filler).tolist()]).tolist()
        text = " ".join(sentences)
        start = text.index(fact)
        example = Example(
            id=str(number), document=Document(text, str(number)), labels=(label,),
            extra={"fact": [start, start + len(fact)] if label != "nothing" else [0, 0]},
        )  # fmt: skip
        examples.append(example)
    return examples


def train(
    made: WindowReader, output: Path, examples: list[Example], report: Callable[[str], None] = lambda line: None,
    n_validation: int | None = None, **options: object
) -> Trainer:  # fmt: skip
    settings = {"epochs": 1, "batch_size": 4, "judge": FAST, "reasoner": FAST} | options
    trainer = Trainer(
        made,
        TrainingConfig.model_validate(settings),
        train=examples,
        validation=examples[:n_validation],
        output=output,
        task=CLASSIFICATION,
        report=report,
    )
    trainer.run()
    return trainer
