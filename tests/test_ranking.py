"""Texts are ranked by judge and retriever together, where a model has learned how; files of a run may be a pattern."""

from pathlib import Path

import fakes
import numpy as np
import pytest
import tiny
import torch

from cogltx.document import Query
from cogltx.errors import DataError
from cogltx.judges import FusionWeights
from cogltx.model import Model
from cogltx.pipeline import CogLTX, Ranking
from cogltx.training._data import files_of

TEXTS = [*tiny.CORPUS[:8], "", "\n"]
QUESTION = "Who wrote the report?"


@pytest.fixture
def reader(tmp_path: Path) -> CogLTX:
    torch.manual_seed(0)
    settings = fakes.config(tiny.make_encoder(tmp_path / "encoder"))
    recall = settings.memrecall.model_copy(update={"shortlist": 3, "retriever": "trained"})
    return CogLTX(Model.create(settings.model_copy(update={"memrecall": recall}), with_judge=True, device="cpu"))


def test_without_fusion_the_judge_scores_all_of_few_texts(reader: CogLTX) -> None:
    few = ["", *TEXTS[:3], "\n"]
    assert reader.ranking(Query(QUESTION), few) == Ranking(5, [1, 2, 3])


def test_of_many_texts_the_judge_scores_the_best_by_the_retriever(reader: CogLTX) -> None:
    reader.use_fusion(FusionWeights(judge=1.0, retriever=0.5))
    expected = reader.relevance(QUESTION, TEXTS)
    judged = reader.ranking(Query(QUESTION), TEXTS).judged
    reader.model.initial_config = reader.model.initial_config.model_copy(
        update={"judge": reader.config.judge.model_copy(update={"fusion": None})}
    )
    assert reader.relevance(QUESTION, TEXTS) == expected
    assert reader.ranking(Query(QUESTION), TEXTS).judged == judged
    assert len(judged) == 3


def test_the_retriever_alone(reader: CogLTX) -> None:
    """The judge scores as many texts as the shortlist has blocks; the others have scores, too."""
    reader.use_fusion(FusionWeights(judge=0.0, retriever=1.0, bias=0.0))
    ranking = reader.ranking(Query(QUESTION), TEXTS)
    best = sorted(ranking.retrieved, key=lambda number: -ranking.retrieved[number])
    assert ranking.judged == sorted(best[:3])
    scores = reader.relevance(QUESTION, TEXTS)
    assert np.argsort(scores, kind="stable")[::-1][:8].tolist() == best
    assert scores[8:] == [0.0, 0.0]


def test_both_scores_count_and_the_order_of_texts_does_not(reader: CogLTX) -> None:
    plain = [score for text in TEXTS for score in reader.relevance(QUESTION, [text])]
    reader.use_fusion(FusionWeights(judge=1.0, retriever=0.0, bias=0.0))
    fused = reader.relevance(QUESTION, TEXTS)
    judged = reader.ranking(Query(QUESTION), TEXTS).judged
    assert [fused[number] for number in judged] == pytest.approx([plain[number] for number in judged], abs=1e-3)
    assert all(fused[number] < 0.001 for number in range(8) if number not in judged)
    reader.use_fusion(FusionWeights(judge=1.0, retriever=2.0, bias=0.5))
    scores = reader.relevance(QUESTION, TEXTS)
    assert reader.relevance(QUESTION, TEXTS[::-1]) == pytest.approx(scores[::-1], rel=1e-3)


def test_a_pattern_names_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.json", "a.json", "en.json"):
        (tmp_path / name).touch()
    monkeypatch.setenv("COGLTX_TEST", str(tmp_path))
    assert files_of("$COGLTX_TEST/*[!n].json") == [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert files_of("plain.json") == ["plain.json"]
    with pytest.raises(DataError, match=r"\*\.csv: no such file"):
        files_of("$COGLTX_TEST/*.csv")
