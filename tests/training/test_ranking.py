"""The size of the ranking loss: a mean over the documents of a step, beside a mean over tokens."""

import math
from pathlib import Path

import fakes
import pytest
import torch
from fakes import sentences

from cogltx.document import Example
from cogltx.pipeline import CogLTX
from cogltx.training.config import TrainingConfig
from cogltx.training.trainer import Trainer


def documents() -> list[Example]:
    """Three documents of one relevant block and 1, 2 and 5 others; each fits one window."""
    made = []
    for number, n_others in enumerate((1, 2, 5)):
        others = [f"The fox jumps over {thing}." for thing in ("alpha", "beta", "gamma", "delta", "zeta")[:n_others]]
        document = sentences("Anna wrote the report.", *others)
        made.append(fakes.example(document, "Who wrote it?", "Anna", "Anna wrote the report.", id=str(number)))
    return made


def first_loss(encoder: Path, output: Path, ranking_weight: float, batch_tokens: int) -> float:
    """The judge's loss in a step on all documents, by a judge that gives every token the probability one half."""
    made: CogLTX = fakes.reader(encoder, judge="fakes:Counting", capacity=128, batch_tokens=batch_tokens)
    with torch.no_grad():
        for parameter in made.model.judge.parameters():
            parameter.zero_()
    examples, settings = documents(), TrainingConfig(epochs=1, batch_size=3, ranking_weight=ranking_weight)
    assert [len(made.model.split(example.document)) for example in examples] == [2, 3, 6]
    Trainer(
        made, settings, train=examples, validation=examples, output=output, report=lambda line: None
    ).run()  # fmt: skip
    [loss] = fakes.logged(output, "judge/loss")
    return loss


@pytest.mark.parametrize("batch_tokens", [128, 4096])
@pytest.mark.parametrize("ranking_weight", [0.0, 1.0, 0.25])
def test_the_weight_of_the_ranking_loss(
    tiny_encoder: Path, tmp_path: Path, ranking_weight: float, batch_tokens: int
) -> None:
    """By hand: log 2 per token, and −log of one block's share of all blocks of a document, in any number of passes."""
    ranking = (math.log(2) + math.log(3) + math.log(6)) / 3
    expected = math.log(2) + ranking_weight * ranking
    assert first_loss(tiny_encoder, tmp_path, ranking_weight, batch_tokens) == pytest.approx(expected, rel=1e-5)
