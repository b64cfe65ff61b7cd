"""Rows of the library ``datasets`` are examples, with the fields that a row does not have as None."""

from pathlib import Path

import corpus
import pytest

import cogltx
from cogltx.tasks.jsonl import as_examples, write_examples

datasets = pytest.importorskip("datasets")


@pytest.fixture
def rows(tmp_path: Path) -> "datasets.Dataset":
    write_examples(tmp_path / "examples.jsonl", corpus.make(8, unanswered=True))
    return datasets.load_dataset(
        "json", data_files=str(tmp_path / "examples.jsonl"), cache_dir=str(tmp_path / "cache"), split="train"
    )


def test_rows_are_the_examples_of_the_file(rows: "datasets.Dataset") -> None:
    assert as_examples(rows) == corpus.make(8, unanswered=True)
    mixed = datasets.Dataset.from_list(
        [{"text": "one", "labels": ["a"], "question": None}, {"text": "two", "question": "why?"}]
    )
    assert [(example.labels, example.query is None) for example in as_examples(mixed)] == [
        (("a",), True),
        (None, False),
    ]


def test_numbers_of_labels_are_their_names() -> None:
    names = datasets.ClassLabel(names=["sad", "glad"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
    assert [example.labels for example in as_examples(rows)] == [("glad",), ("sad",), None]
    features = datasets.Features({"text": datasets.Value("string"), "labels": datasets.Sequence(names)})
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "labels": [[1, 0], []]}, features=features)
    assert [example.labels for example in as_examples(rows)] == [("glad", "sad"), ()]
    plain = datasets.Dataset.from_dict({"text": ["a"], "label": [1]})
    assert [example.labels for example in as_examples(plain)] == [("1",)]


def test_train_on_rows(rows: "datasets.Dataset", corpus_encoder: Path) -> None:
    config = {
        "encoder": {"name": str(corpus_encoder)}, "reasoner": {"name": "span"}, "max_block_tokens": 24,
        "memrecall": {"capacity": 96}, "training": {"epochs": 1},
    }  # fmt: skip
    said = list[str]()
    parts = rows.train_test_split(2, seed=0)
    model = cogltx.train(config, parts["train"], validation=parts["test"], report=said.append)
    assert said[0] == "6 training and 2 validation examples"
    assert model.predict(rows[0]["text"], rows[0]["question"]).evidence
