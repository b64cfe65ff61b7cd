"""Model folders and indexes of every format that was ever written are read, and predict what they did then."""

import json
import shutil
from pathlib import Path

import pytest
from kept.make import QUESTIONS, TEXT, facts

from cogltx.config import FORMAT
from cogltx.errors import ModelError
from cogltx.pipeline import CogLTX

KEPT = Path(__file__).parent / "kept"
SUMMED = 3  # the format since which the probabilities of an answer's forms are summed


@pytest.mark.parametrize("format", range(1, FORMAT + 1))
def test_a_kept_model_predicts_what_it_did(format: int) -> None:
    folder = KEPT / f"format-{format}"
    reader = CogLTX.from_pretrained(folder / "model", device="cpu")
    opened = reader.open(index=folder / "text.index")
    expected = json.loads((folder / "predictions.json").read_text())
    for question, kept in zip(QUESTIONS, expected, strict=True):
        for prediction in (reader.predict(TEXT, question), opened.ask(question)):
            n_answers = 1 + len(prediction.alternatives)
            for number, (found, (*place, score)) in enumerate(zip(facts(prediction), kept, strict=True)):
                if format < SUMMED and number < n_answers:  # forms of an answer had probabilities of their own
                    assert found[:-1] == place
                    assert found[-1] >= score * (1 - 1e-3)
                else:
                    assert found == [*place, pytest.approx(score, rel=1e-3)]


def test_a_kept_index_opens_with_its_text() -> None:
    for format in range(1, FORMAT + 1):
        reader = CogLTX.from_pretrained(KEPT / f"format-{format}" / "model", device="cpu")
        assert reader.open(TEXT, index=KEPT / f"format-{format}" / "text.index").ask(QUESTIONS[0]).evidence
    newest = reader.open(index=KEPT / "index-2" / "text.index")
    assert facts(newest.ask(QUESTIONS[0])) == facts(reader.predict(TEXT, QUESTIONS[0]))


@pytest.mark.parametrize(("written", "named"), [(FORMAT + 1, str(FORMAT + 1)), ("new", "'new'")])
def test_a_model_of_a_later_format(written: object, named: str, tmp_path: Path) -> None:
    shutil.copytree(KEPT / f"format-{FORMAT}" / "model", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": written}))
    with pytest.raises(
        ModelError, match=f"a model of format {named}; this version reads up to {FORMAT}: upgrade cogltx"
    ):
        CogLTX.from_pretrained(tmp_path / "model")


def test_the_first_folders_name_no_format(tmp_path: Path) -> None:
    shutil.copytree(KEPT / "format-1" / "model", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "format"}))
    assert CogLTX.from_pretrained(tmp_path / "model").predict(TEXT, QUESTIONS[0]).answer
