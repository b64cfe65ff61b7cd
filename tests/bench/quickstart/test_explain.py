"""The explanation of one answer, with a judge that counts shared words."""

from pathlib import Path

import pytest
import tiny
from fakes import example, reader, sentences

from cogltx.bench.quickstart.run import _explanation
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

BEGINNING = """
question  Where does the mentor of Alice live?
document  37 tokens in 5 blocks; a window holds 32 tokens
          * marks a gold fact

Step 1: the judge scores all blocks, each next to the question alone.
  retrieved: the best coarse scores, until the window is full (2)
    4.000 * [1] Robert is the mentor of Alice.
    3.000   [2] The mentor of Max is Otto.
  not retrieved: the next best
    2.000 * [3] Robert does live in Vienna.
    1.000   [0] Bread and salt are sold near the old harbour.
  kept for the next step after rehearsal: the best fine scores (1)
    5.000 * [1] Robert is the mentor of Alice.
  decayed: these leave the window (1)
    4.000   [2] The mentor of Max is Otto.

Step 2: the judge scores all blocks, each next to the question and the 1 block kept so far.
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
    return _explanation(asked, recall, prediction, model.model.form.capacity)


def test_both_steps_and_a_missed_fact(model: CogLTX, asked: Example) -> None:
    start = asked.document.text.index("Otto")
    text = explained(model, asked, "Otto", start)
    assert text.startswith(BEGINNING.lstrip())
    assert text.endswith(
        f"""
  decayed: these only fill the rest of the window (0)

Missed: a gold fact that is not in the window: [3] Robert does live in Vienna.
The reasoner reads these 2 blocks: 'Otto' (90%)
  characters {start}-{start + 4} of the document, in block [2]
  gold answer: 'Vienna', so this is wrong"""
    )


def test_a_right_answer(model: CogLTX, asked: Example) -> None:
    start = asked.answer_spans[0].start
    text = explained(model, asked, "Vienna", start)
    assert f"\n  characters {start}-{start + 6} of the document, in block [3]\n" in text
    assert text.endswith("\n  gold answer: 'Vienna', so this is right")


def test_no_answer(model: CogLTX, asked: Example) -> None:
    assert "\nThe reasoner reads these 2 blocks: '(no answer)' (90%)\n" in explained(model, asked, "", None)


def test_a_document_read_whole(tmp_path: Path) -> None:
    encoder = tiny.make_encoder(tmp_path, texts=[*TEXTS, QUESTION])
    asked = example(sentences(*TEXTS), QUESTION, "Vienna", FIRST, SECOND)
    text = explained(reader(encoder, judge="fakes:WordOverlap", capacity=64, max_block_tokens=12), asked, "Otto", 99)
    assert "Step" not in text
    assert "\nThe document fits one window and is read whole.\n" in text
