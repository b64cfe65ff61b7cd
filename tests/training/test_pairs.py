"""A model with pairs of passages: its training, its folder, and what its predictions show."""

from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from builders import questions

from cogltx.config import MemRecallConfig
from cogltx.document import Document, Query
from cogltx.errors import ConfigError, DataError
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.reading import Passages
from cogltx.training import Trainer, TrainingConfig

SETTINGS = {"capacity": 112, "strides": [1, 1], "passages": 2, "pairs": True}


def new(encoder: Path, judge: str = "bm25") -> CogLTX:
    config = fakes.config(encoder, judge=judge, max_block_tokens=32)
    config = config.model_copy(update={"memrecall": MemRecallConfig.model_validate(SETTINGS)})
    return CogLTX(Model.create(config, with_judge=True, device="cpu"))


@pytest.fixture(scope="module")
def run(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "pairs"
    settings = TrainingConfig.model_validate({"epochs": 1, "batch_size": 8})
    trainer = Trainer(
        new(tiny_encoder), settings, train=questions(40), validation=questions(4, seed=2), output=output,
        report=lambda line: None,
    )  # fmt: skip
    trainer.run()
    return output


@pytest.mark.parametrize("judge", [None, "embedding"])
def test_the_two_passages_are_read_and_score_highest(run: Path, judge: str | None) -> None:
    model = CogLTX.from_pretrained(run, judge=judge, device="cpu")
    for example in questions(10, seed=1):
        prediction = model.predict(example.document, example.query)
        best = sorted((block.start, block.end) for block in prediction.evidence[:2])
        assert best == [(span.start, span.end) for span in example.relevant or ()]
        assert all(0 <= block.score <= 1 for block in prediction.evidence)


def test_a_document_that_fits_one_window_is_scored_by_pairs_too(run: Path) -> None:
    model = CogLTX.from_pretrained(run, changes={"memrecall.capacity": 320}, device="cpu")
    (example,) = questions(1, seed=5)
    recall = model.recall(example.document, example.query)
    assert recall.layout.fits
    assert recall.key_blocks == (0, 1, 2, 3, 4)
    assert {(one.start, one.end) for one in recall.evidence[:2]} == {(s.start, s.end) for s in example.relevant or ()}


def test_without_pairs_the_same_folder_reads_as_before(run: Path) -> None:
    model = CogLTX.from_pretrained(run, changes={"memrecall.pairs": False}, device="cpu")
    assert isinstance(model.memrecall.read, Passages)
    assert model.memrecall.read.pairs is None
    assert model.predict(Document("Rain fell. " * 40), Query("When did rain fall?")).evidence


def test_pairs_need_a_question(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"memrecall\.pairs needs a question; set it to false for tasks without one"):
        CogLTX.from_pretrained(run, judge=fakes.Checksums(), device="cpu").predict(questions(1)[0].document)


def test_pairs_need_a_model_that_was_trained_with_them(tiny_encoder: Path, tmp_path: Path) -> None:
    fakes.reader(tiny_encoder, judge="bm25").save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"memrecall\.pairs needs a model that was trained with it; set it to false"):
        CogLTX.from_pretrained(tmp_path / "model", changes={"memrecall.passages": 2, "memrecall.pairs": True})


class Negative(fakes.Checksums):
    """Scores below 0, as the logits of a cross-encoder may be."""

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        return [score - 100 for score in super().score(query, kept, candidates)]


def test_scores_of_any_size_are_brought_into_zero_to_one(run: Path) -> None:
    shifted, plain = (CogLTX.from_pretrained(run, judge=one, device="cpu") for one in (Negative(), fakes.Checksums()))
    for example in questions(5, seed=1):
        scores = [block.score for block in shifted.recall(example.document, example.query).evidence]
        expected = [block.score for block in plain.recall(example.document, example.query).evidence]
        assert scores == pytest.approx(expected)
        assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize("n_paragraphs", [1, 2])
def test_a_document_of_few_paragraphs_is_read_as_far_as_fits(run: Path, n_paragraphs: int) -> None:
    text = "\n\n".join(["Anna came from Arles, where rain fell on the old bridge. " * 20] * n_paragraphs)
    read = [
        CogLTX.from_pretrained(run, changes={"memrecall.passages": 4, "memrecall.pairs": pairs}, device="cpu")
        .recall(text, "Where did Anna come from?")
        .key_blocks
        for pairs in (True, False)
    ]
    assert len(read[0]) >= len(read[1])
    assert n_paragraphs > 1 or read[0] == read[1], "there is no pair"


def test_a_question_is_missing(tiny_encoder: Path, tmp_path: Path) -> None:
    (first, second) = questions(2)
    with pytest.raises(ConfigError, match=r"memrecall\.pairs needs a question in every example; set it to false"):
        Trainer(
            new(tiny_encoder), TrainingConfig(), train=[first], validation=[replace(second, query=None)],
            output=tmp_path / "run", report=lambda line: None,
        )  # fmt: skip


@pytest.mark.parametrize("answers", [True, False])
def test_training_needs_evidence_in_two_passages(tiny_encoder: Path, tmp_path: Path, answers: bool) -> None:
    """An answer that occurs in two passages says nothing about which passages the question needs."""
    only_answers, one_passage = (
        [replace(one, relevant=None, answer_spans=one.relevant or ()) for one in questions(4)],
        [replace(one, relevant=(one.relevant or ())[:1]) for one in questions(4)],
    )
    examples = only_answers if answers else one_passage
    trainer = Trainer(
        new(tiny_encoder), TrainingConfig(), train=examples, validation=examples, output=tmp_path / "run",
        report=lambda line: None,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"memrecall\.pairs: no training question has evidence marked in two passages"):
        trainer.run()
