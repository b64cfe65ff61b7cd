"""The built-in readers: which suit which data, and that their changes are settings."""

from pathlib import Path

import fakes
import pytest
import tiny
import yaml

from cogltx.bench._quality import Comparison
from cogltx.bench._readers import READERS, RandomJudge, Row, select_readers
from cogltx.document import Document, Example, Query
from cogltx.judges import ScoringJudge

QUESTION = Example(id="1", document=Document("a text"), query=Query("a question?"), answers=("text",))
LABELLED = Example(id="1", document=Document("a text"), labels=("a label",))


def test_readers_by_default_suit_the_data() -> None:
    names = [reader.name for reader in select_readers(None, [QUESTION])]
    assert names == ["cogltx", "paper", "bm25", "embedding", "random", "sliding_window", "truncation"]
    names = [reader.name for reader in select_readers(None, [LABELLED])]
    assert names == ["cogltx", "paper", "random", "sliding_window", "truncation", "bag_of_words"]


def test_readers_share_models_of_readers_that_are_trained() -> None:
    for name, reader in READERS.items():
        assert reader.name == name
        assert reader.trained is None or READERS[reader.trained].trained is None
        assert reader.judge is None or reader.trained is not None, "thresholds are tuned for a trained reader"


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("reasoner", ["span", "classification"])
def test_changes_are_settings(reasoner: str, reader: Row, tmp_path: Path) -> None:
    encoder = tiny.make_encoder(tmp_path / "encoder")
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task", "reasoner", "judge"})
    values |= {"reasoner": {"name": reasoner}, "data": {"train": "train.jsonl"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    if reader.needs == "labels" and reasoner == "span":
        return
    comparison = Comparison(tmp_path / "run.yaml", "test.jsonl", tmp_path / "out")
    model = comparison.model_of(reader)
    assert f"reader={model.reader}" in reader.changes or model.reader in ("cogltx", "sliding_window")
    assert all(change.partition(".")[2].partition("=")[0] in type(model.reasoner).model_fields
               for change in comparison.changes_of(reader) if change.startswith("reasoner."))  # fmt: skip


def test_the_sliding_window_has_the_words_that_the_configuration_has(tmp_path: Path) -> None:
    encoder = tiny.make_encoder(tmp_path / "encoder")
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task", "reasoner", "judge"})
    values |= {"reasoner": {"name": "classification", "linear_weight": 1}, "data": {"train": "train.jsonl"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    comparison = Comparison(tmp_path / "run.yaml", "test.jsonl", tmp_path / "out")
    weights = {name: comparison.model_of(READERS[name]).reasoner.linear_weight for name in ("sliding_window", "mlp")}
    assert weights == {"sliding_window": 1, "mlp": None}


def test_random_blocks_depend_on_seed_question_and_text_alone() -> None:
    assert isinstance(RandomJudge(), ScoringJudge)
    texts = [f"text {number}" for number in range(1000)]
    scores = RandomJudge().score("question", [], texts)
    assert scores == RandomJudge().score("question", ["kept"], texts)
    assert scores[::-1] == RandomJudge().score("question", [], texts[::-1])
    assert scores != RandomJudge(1).score("question", [], texts)
    assert scores != RandomJudge().score("other", [], texts)
    assert 0.45 < sum(scores) / len(scores) < 0.55
