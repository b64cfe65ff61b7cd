"""What key blocks say about an answer, and what it means that there are none."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import tiny
import torch
from fakes import sentences

from cogltx.blocks import split
from cogltx.document import Query
from cogltx.encoding.layout import WindowFormat
from cogltx.prediction import Evidence, Prediction
from cogltx.reasoners import SpanReasonerConfig
from cogltx.reasoners._confidence import Calibration
from cogltx.reasoners.span import SpanReasoner

TOKENIZER = tiny.make_tokenizer()
BLOCKS = split(sentences("Anna wrote the report.", "The fox jumps."), TOKENIZER)
LAYOUT = WindowFormat(TOKENIZER, 64).layout(Query("Who wrote the report?"), BLOCKS)


def predicted(
    evidence: Sequence[Evidence] | None, relevance: float, read: Sequence[int] = (), weight: float | None = None
) -> Prediction:
    """The prediction from a window of blocks whose logits all are 0, by a reasoner without an encoder.

    A calibration with this weight of the relevance; None: without calibration. The judge does not weigh the answers.
    """
    reasoner = SpanReasoner.__new__(SpanReasoner)
    torch.nn.Module.__init__(reasoner)
    calibration = None if weight is None else Calibration(relevance=weight)
    reasoner.config = SpanReasonerConfig(calibration=calibration, evidence_weight=0, always_answers=True)
    window = LAYOUT.window(read)
    outputs = np.zeros((len(window), 6), dtype=np.float32)
    return reasoner.predict(LAYOUT, [(window, outputs)], evidence, relevance=relevance)


@pytest.mark.parametrize("weight", [None, 0.5])
def test_no_key_block_says_nothing(weight: float | None) -> None:
    """As the two-sided 0.5: neither that there is an answer nor that there is none."""
    nothing = predicted([], relevance=0.0, weight=weight)
    assert nothing == predicted(None, relevance=0.0, weight=weight)
    assert nothing.relevance == 0.5
    assert nothing.answer == "yes"
    assert nothing.confidence == nothing.no_answer_confidence, "no block makes yes or no less probable"


@pytest.mark.parametrize(("relevance", "log_odds"), [(0.9, math.log(9)), (0.5, 0.0), (0.2, -math.log(4))])
def test_the_relevance_of_a_key_block_is_evidence(relevance: float, log_odds: float) -> None:
    def margin(evidence: list[Evidence] | None, weight: float | None) -> float:
        prediction = predicted(evidence, relevance, [0], weight)
        assert prediction.no_answer_confidence is not None
        return math.log(prediction.no_answer_confidence / prediction.confidence)

    start, end = BLOCKS.trimmed(0)
    evidence = [Evidence(start, end, "", relevance, 1)]
    plain = margin(None, None)
    assert margin(evidence, None) == margin(None, None), "the calibration alone weighs it"
    assert margin(evidence, 0.5) == pytest.approx(plain - 0.5 * log_odds)
    assert margin(None, 0.5) == pytest.approx(plain)
