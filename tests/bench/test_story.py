"""The story of one recall, with a judge that counts shared words."""

from pathlib import Path

import pytest
from fakes import WordOverlap, example, reader, sentences

from cogltx.bench.story import tell
from cogltx.pipeline import CogLTX

TEXTS = (
    "The mentor of Alice is Robert.",
    "Bread is sold near the harbour.",
    "Robert lives in Vienna.",
    "Many boats were tied up there.",
    "Nobody opened a barn for weeks.",
)


@pytest.fixture
def story(tiny_encoder: Path) -> str:
    asked = example(sentences(*TEXTS), "Who is the mentor of Alice?", "Vienna", TEXTS[0], TEXTS[2])
    return told(reader(tiny_encoder, judge=WordOverlap(), capacity=32), asked)


def told(model: CogLTX, asked) -> str:
    (recall,) = model.memrecall([(asked.query, model.split(asked.document))])
    return tell(asked, recall, next(model.predict_many([asked])), model.form.capacity)


def test_x(story: str) -> None:
    print(story)
