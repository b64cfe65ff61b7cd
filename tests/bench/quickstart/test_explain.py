"""The explanation of one answer, with a judge that counts shared words."""

from pathlib import Path

import pytest
import tiny
from fakes import example, reader, sentences

from cogltx.bench.quickstart.run import _explain
from cogltx.document import Example
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction

FIRST, SECOND = "Robert is the mentor of Alice.", "Robert does live in Vienna."
TEXTS = (
    "Bread and salt are sold near the old harbour.",
    FIRST,
    "The mentor of Max is Otto.",
    SECOND,
    "Many boats were tied up there.",
)
QUESTION = "Where does the mentor of Alice live?"

EXPLANATION = """question  Where does the mentor of Alice live?
document  37 tokens in 5 blocks; a window holds 32 tokens
          * marks a gold fact

Step 1: the judge scores all blocks, each next to the question alone.
  retrieved: the best coarse scores, until the window is full (2)
    4.000 * [1] Robert is the mentor of Alice.
    3.000   [2] The mentor of Max is Otto.
  kept after rehearsal: the best fine scores (1); the others decay
    5.000 * [1] Robert is the mentor of Alice.

Step 2: the judge scores all blocks, each next to the question and the 1 best blocks of step 1.
  retrieved: the best coarse scores, until the window is full (1)
"""


@pytest.fixture
def model(tmp_path: Path) -> CogLTX:
    encoder = tiny.make_encoder(tmp_path, texts=[*TEXTS, QUESTION])
    return reader(encoder, judge="fakes:WordOverlap", capacity=32, max_block_tokens=12)


@pytest.fixture
def asked() -> Example:
    return example(sentences(*TEXTS), QUESTION, "Vienna", FIRST, SECOND)


def explained(model: CogLTX, asked: Example, answer: str, start: int | None) -> str:
    recall = model.recall(asked.document, asked.query)
    end = None if start is None else start + len(answer)
    prediction = Prediction(id="1", answer=answer, start=start, end=end, score=0.9)
    return "\n".join(_explain(asked, recall, prediction, model.model.form.capacity))


def test_both_steps_and_a_missed_fact(model: CogLTX, asked: Example) -> None:
    text = explained(model, asked, "Otto", asked.document.text.index("Otto"))
    assert text.startswith(EXPLANATION)
    assert text.endswith("""
Missed: gold facts that are not in the key blocks: [3]

The reasoner reads 2 blocks and answers 'Otto' (90%).
This is wrong: the answer is 'Vienna'.""")


def test_a_right_answer(model: CogLTX, asked: Example) -> None:
    text = explained(model, asked, "Vienna", asked.answer_spans[0].start)
    assert text.endswith("\nThe reasoner reads 2 blocks and answers 'Vienna' (90%).\nThis is right.")


def test_no_answer(model: CogLTX, asked: Example) -> None:
    assert "\nThe reasoner reads 2 blocks and answers '(no answer)' (90%).\n" in explained(model, asked, "", None)
