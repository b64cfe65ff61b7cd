"""A model of pairs finds two passages that belong together, by names, words of the question and rare words."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import tiny
from builders import document_of, questions

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Example
from cogltx.errors import DataError, ModelError
from cogltx.reading.pairs import PairModel, PassageWords

TOKENIZER = tiny.make_tokenizer()


def blocks_of(document: Document) -> Blocks:
    """The blocks of a document, here one per passage."""
    return split(document, TOKENIZER, max_tokens=48)


def known(example: Example) -> tuple[str, Blocks, np.ndarray]:
    """What the model learns from."""
    blocks = blocks_of(example.document)
    relevant = blocks.relevance_labels(example)
    assert example.query is not None
    assert relevant is not None
    return example.query.text, blocks, relevant


@pytest.fixture(scope="module")
def trained() -> PairModel:
    model = PairModel()
    model.fit(map(known, questions(40)))
    return model


def test_the_pair_that_a_question_needs_comes_first(trained: PairModel) -> None:
    for question, blocks, relevant in map(known, questions(20, seed=1)):
        probabilities = trained.probabilities(question, blocks, np.zeros(len(blocks)))
        assert set(list(probabilities)[:2]) == set(np.flatnonzero(relevant)), blocks.document.text
        assert sum(probabilities.values()) == pytest.approx(2), "each pair has two passages"
        assert sorted(probabilities) == [0, 1, 2, 3, 4]


def test_without_training_the_scores_of_the_judge_decide() -> None:
    question, blocks, _ = known(questions(1)[0])
    scores = np.array([0.1, 0.9, np.nan, 0.8, 0.2])
    probabilities = PairModel().probabilities(question, blocks, scores)
    assert list(probabilities)[:2] == [1, 3]
    assert probabilities[1] > probabilities[3] > probabilities[4] > probabilities[0] > probabilities[2]


def test_a_single_passage_is_no_pair(trained: PairModel) -> None:
    blocks = blocks_of(document_of(("Anna", "Anna came from Arles.")))
    assert trained.probabilities("Where did Anna come from?", blocks, np.ones(1)) == {}


def test_at_most_sixteen_passages_are_paired(trained: PairModel) -> None:
    blocks = blocks_of(document_of(*((f"number {number}", f"Rain fell on day {number}.") for number in range(40))))
    scores = np.arange(40) / 40
    assert set(trained.probabilities("When did rain fall?", blocks, scores)) == set(range(24, 40))


def test_what_passages_show() -> None:
    document = document_of(
        ("The mill", "The mill was built by Anna."),
        ("Anna", "Anna came from Arles, as the zebra did."),
        ("Bert", "Bert saw the zebra."),
    )
    passages = PassageWords.of("Who built the mill?", blocks_of(document), [0, 1, 2])
    assert passages.names.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    assert passages.named.tolist() == [True, False, False]
    mill_anna, mill_bert, anna_bert = passages.features
    assert mill_anna[:7].tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert mill_bert[:7].tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert mill_anna[7] == mill_bert[7] == pytest.approx(mill_anna[8]), "only the first has words of the question"
    assert 0 < anna_bert[7] < mill_anna[7] < 1, "'the' is no rare word; no passage has 'who'"
    assert (mill_anna[13], anna_bert[13]) == (1, 1), "Anna; the zebra"


def test_the_order_of_passages_does_not_matter() -> None:
    question, blocks, _ = known(questions(1, seed=3)[0])
    features = PassageWords.of(question, blocks, range(5)).features
    turned = PassageWords.of(question, blocks, range(4, -1, -1)).features
    by_pair = {frozenset((4 - a, 4 - b)): row for (a, b), row in zip(combinations(range(5), 2), turned, strict=True)}
    for pair, row in zip(combinations(range(5), 2), features, strict=True):
        assert row == pytest.approx(by_pair[frozenset(pair)])


def test_a_saved_model_is_the_same(trained: PairModel, tmp_path: Path) -> None:
    trained.save(tmp_path)
    assert PairModel.load(tmp_path).weights == trained.weights


@pytest.mark.parametrize("text", ["{}", '{"one names the other": 1.0}'])
def test_weights_of_something_else_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pairs.json").write_text(text)
    with pytest.raises(ModelError, match=r"pairs\.json: not the weights of a model of pairs of this version"):
        PairModel.load(tmp_path)


def test_training_needs_questions_of_two_passages() -> None:
    question, blocks, relevant = known(questions(1)[0])
    one = relevant & (np.cumsum(relevant) < 2)
    with pytest.raises(DataError, match="no training question has evidence marked in two passages; set it to false"):
        PairModel().fit([(question, blocks, one), (question, blocks, np.ones(len(blocks), dtype=bool))])


def test_what_all_pairs_have_does_not_hide_the_rest() -> None:
    """Ten rare words that all passages share but no two others: a feature with one value."""
    model, rng = PairModel(), np.random.default_rng(0)
    features = rng.random((200, 14))
    is_pair = features[:, 7] > 0.9
    features[:, 13] = 10.0
    model.learn(features, is_pair)
    assert model.weights["words of the question"] > 5
    assert model.weights["words that no other passage has"] == pytest.approx(0)
