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
from cogltx.reasoners.span import SpanReasoner

TOKENIZER = tiny.make_tokenizer()
BLOCKS = split(sentences("Anna wrote the report.", "The fox jumps."), TOKENIZER)
LAYOUT = WindowFormat(TOKENIZER, 64).layout(Query("Who wrote the report?"), BLOCKS)


def predicted(
    evidence: Sequence[Evidence] | None, relevance: float, read: Sequence[int] = (), weight: float = 0.5
) -> Prediction:
    """The prediction from a window of blocks whose logits all are 0, by a reasoner without an encoder."""
    reasoner = SpanReasoner.__new__(SpanReasoner)
    torch.nn.Module.__init__(reasoner)
    reasoner.config, reasoner.relevance = SpanReasonerConfig(no_answer_evidence_weight=weight), None
    window = LAYOUT.window(read)
    outputs = np.zeros((len(window), 6), dtype=np.float32)
    return reasoner.predict(LAYOUT, [(window, outputs)], evidence, relevance=relevance)


def test_no_key_block_says_nothing() -> None:
    """As the two-sided 0.5: neither that there is an answer nor that there is none."""
    nothing = predicted([], relevance=0.0)
    assert nothing.no_answer_margin == predicted(None, relevance=0.0).no_answer_margin == 0
    assert (nothing.answer, nothing.score) == ("yes", 0.25), "no block makes yes or no less probable"


@pytest.mark.parametrize(("relevance", "margin"), [(0.9, -math.log(9)), (0.5, 0.0), (0.2, math.log(4))])
def test_the_relevance_of_a_key_block_is_evidence(relevance: float, margin: float) -> None:
    start, end = BLOCKS.trimmed(0)
    evidence = [Evidence(start, end, "", relevance, 1)]
    without = predicted(None, relevance, [0]).no_answer_margin
    assert without is not None
    assert predicted(evidence, relevance, [0], weight=0.5).no_answer_margin == pytest.approx(without + 0.5 * margin)
    assert predicted(evidence, relevance, [0], weight=0.0).no_answer_margin == without
