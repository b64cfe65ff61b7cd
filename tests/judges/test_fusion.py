"""The retriever's scores join the judge's, with weights that a regression learns."""

import numpy as np
import pytest
import tiny
from fakes import sentences

from cogltx.blocks import split
from cogltx.document import Query
from cogltx.encoding.encoder import BatchRunner, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import BlockEncoder, Fusion, FusionWeights, Judge, Memory, TrainedRetriever

TOKENIZER = tiny.make_tokenizer()
BLOCKS = split(sentences(*tiny.CORPUS[:4]), TOKENIZER, max_tokens=24)
QUERY = Query("Who wrote the report?")
MEMORY = Memory(WindowFormat(TOKENIZER, 32).layout(QUERY, BLOCKS))


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> TrainedRetriever:
    config = EncoderConfig(name=str(tiny.make_encoder(tmp_path_factory.mktemp("encoder"))))
    runner = BatchRunner(Precision.of(config, "cpu"), 512, TOKENIZER.pad_token_id)
    return TrainedRetriever(BlockEncoder(load_encoder(config, layers=1)), runner, 64)


def test_scores_of_a_retriever_as_probabilities(retriever: TrainedRetriever) -> None:
    logs = retriever.log_probabilities(MEMORY)
    assert np.exp(logs).sum() == pytest.approx(1)
    np.testing.assert_array_equal(np.argsort(logs), np.argsort(retriever.scores(MEMORY)))


def test_weights_of_zero_and_one_leave_the_judge_alone() -> None:
    relevance = np.array([0.1, np.nan, 0.9])
    np.testing.assert_allclose(FusionWeights().fused(relevance, np.array([-1.0, -2.0, -3.0])), relevance)


def test_both_scores_count_in_the_competition_and_in_decay(retriever: TrainedRetriever) -> None:
    fusion = Fusion(Judge(), retriever, FusionWeights(judge=1.0, retriever=2.0, bias=0.5))
    coarse = np.array([0.5, 0.5, np.nan, 0.5])
    retrieved = retriever.log_probabilities(MEMORY)
    expected = 1 / (1 + np.exp(-(2 * retrieved + 0.5)))
    expected[2] = np.nan
    np.testing.assert_allclose(fusion.competition_scores(MEMORY, coarse), expected)
    in_z = Memory(MEMORY.layout, (1, 3), (0.5, 0.5))
    np.testing.assert_allclose(fusion.decay_scores(in_z), expected[[1, 3]])


def test_in_a_document_that_fits_one_window_the_judge_decides(retriever: TrainedRetriever) -> None:
    assert not MEMORY.layout.fits
    in_z = Memory(WindowFormat(TOKENIZER, 512).layout(QUERY, BLOCKS), (0, 1, 2, 3), (0.1, 0.9, 0.2, 0.5))
    fusion = Fusion(Judge(), retriever, FusionWeights(judge=1.0, retriever=2.0, bias=0.5))
    np.testing.assert_array_equal(fusion.decay_scores(in_z), in_z.relevance)


def test_the_weights_of_a_simulated_judge_are_found() -> None:
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(400):
        relevance, retrieved = rng.uniform(0.05, 0.95, 20), rng.normal(-3, 1.5, 20)
        logits = 0.5 * np.log(relevance / (1 - relevance)) + 1.5 * retrieved + 2
        documents.append((relevance, retrieved, rng.random(20) < 1 / (1 + np.exp(-logits))))
    fitted = FusionWeights.fitted(documents)
    assert fitted is not None
    assert (fitted.judge, fitted.retriever, fitted.bias) == pytest.approx((0.5, 1.5, 2.0), abs=0.2)


def test_a_judge_that_is_worse_than_chance_gets_no_weight() -> None:
    relevant = np.arange(40) % 2 == 0
    fitted = FusionWeights.fitted([(np.where(relevant, 0.2, 0.8), np.where(relevant, -1.0, -2.0), relevant)])
    assert fitted is not None
    assert fitted.judge == 0
    assert fitted.retriever > 0


@pytest.mark.parametrize("relevant", [False, True])
def test_blocks_of_one_kind_teach_nothing(relevant: bool) -> None:
    assert FusionWeights.fitted([(np.full(3, 0.5), np.zeros(3), np.full(3, relevant))]) is None
