"""Models of words behind the interface of every reader: train, evaluate, predict, save."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import config

from cogltx.baselines import BagOfWords, TextCNN, load_reader
from cogltx.baselines.text_cnn import ConvolutionalModel
from cogltx.cli.evaluate import evaluate
from cogltx.config import ModelConfig
from cogltx.document import Document, Example
from cogltx.encoding._weights import to_safetensors
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.reasoners.classification import ClassificationConfig
from cogltx.tasks.jsonl import write_examples
from cogltx.training.config import DataConfig, RunConfig
from cogltx.training.run import _build, train_run

TEXTS = [
    ("the fox ran into the forest", ("animals",)),
    ("a dog and a fox sat", ("animals",)),
    ("the report was written in the office", ("work",)),
    ("the office closed before the report came", ("work",)),
    ("a dog slept in the office", ("animals", "work")),
]
EXAMPLES = [
    Example(id=str(number), document=Document(text), labels=labels) for number, (text, labels) in enumerate(TEXTS)
]


def model_config(*, multi_label: bool) -> ModelConfig:
    reasoner = ClassificationConfig(name="classification", labels=("animals", "work"), multi_label=multi_label)
    return ModelConfig(reader="bag_of_words", reasoner=reasoner)


def fitted(*, multi_label: bool) -> BagOfWords:
    made = BagOfWords(model_config(multi_label=multi_label))
    made.fit(EXAMPLES if multi_label else EXAMPLES[:4], seed=2**63 - 1)  # the largest of a run
    return made


@pytest.mark.parametrize("multi_label", [False, True])
def test_it_learns_words_and_loads_as_it_was_saved(tmp_path: Path, multi_label: bool) -> None:
    made = fitted(multi_label=multi_label)
    known = EXAMPLES if multi_label else EXAMPLES[:4]
    predictions = list(made.predict_many(known))
    said = [set(prediction.answer.split("; ")) for prediction in predictions]
    assert said == [set(example.labels or ()) for example in known]
    assert all(0 < label.score < 1 for prediction in predictions for label in prediction.labels)
    if not multi_label:
        assert sum(label.score for label in predictions[0].labels) == pytest.approx(1)
    made.save_pretrained(tmp_path / "model")
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}
    again = load_reader(tmp_path / "model")
    assert isinstance(again, BagOfWords)
    assert list(again.predict_many(known)) == predictions
    assert again.predict("a fox").answer == "animals"


def test_trained_and_evaluated_as_any_other(
    tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_examples(tmp_path / "texts.jsonl", EXAMPLES[:4])
    base = config(tiny_encoder).model_dump(exclude={"reader", "reasoner", "task"})
    run = RunConfig(
        **base, reader="bag_of_words", task={"name": "classification"}, reasoner={"name": "classification"},
        data=DataConfig(train=str(tmp_path / "texts.jsonl"), validation=str(tmp_path / "texts.jsonl")),
    )  # fmt: skip
    said: list[str] = []
    train_run(run, tmp_path / "run", report=said.append)
    (metrics,) = json.loads((tmp_path / "run" / "run.json").read_text())["history"]
    assert metrics["accuracy"] == 100
    assert said[-1] == "validation: micro_f1 100.0"
    evaluate(str(tmp_path / "run"), str(tmp_path / "texts.jsonl"), as_json=True)
    assert json.loads(capsys.readouterr().out)["metrics"]["accuracy"] == 100
    write_examples(tmp_path / "unknown.jsonl", [replace(example, labels=None) for example in EXAMPLES])
    blind = run.model_copy(update={"data": run.data.model_copy(update={"validation": str(tmp_path / "unknown.jsonl")})})
    with pytest.raises(DataError, match="no validation example has a known answer, which micro_f1 needs"):
        train_run(blind, tmp_path / "blind")
    assert not (tmp_path / "blind").exists()


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reader: bag_of_words needs reasoner.name: classification, not span"):
        BagOfWords(ModelConfig(reader="bag_of_words"))
    queries = model_config(multi_label=False).model_dump() | {"task": {"options": {"label_queries": True}}}
    with pytest.raises(ConfigError, match="reader: bag_of_words reads texts without questions"):
        BagOfWords(ModelConfig.model_validate(queries))
    new = BagOfWords.create(model_config(multi_label=False))
    with pytest.raises(DataError, match="training: all 2 labelled texts have the same labels"):
        new.fit(EXAMPLES[:2])
    for use in (lambda: new.predict("a fox"), lambda: new.save_pretrained(tmp_path / "new")):
        with pytest.raises(ModelError, match="the linear model is not trained"):
            use()
    smiles = [replace(example, document=Document("🙂 🙃 !")) for example in EXAMPLES]
    with pytest.raises(DataError, match=f"training: none of the {len(EXAMPLES)} texts has a word"):
        new.fit(smiles)
    made = fitted(multi_label=False)
    made.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "weights.safetensors").write_bytes(to_safetensors({"idf": torch.zeros(3)}))
    for terms in (None, "{}"):
        if terms:
            (tmp_path / "model" / "terms.json").write_text(terms)
        with pytest.raises(ModelError, match="are not those of one linear model"):
            load_reader(tmp_path / "model")
    run = RunConfig(**model_config(multi_label=False).model_dump(), data=DataConfig(train="texts.jsonl"))
    assert isinstance(_build(run, EXAMPLES), BagOfWords)


def test_its_threshold_is_tuned_like_that_of_every_reader(tmp_path: Path) -> None:
    words = {"animals": "fox", "work": "office", "sea": "boat"}
    train_texts = [(f"{word} {word} {word}", (label,)) for label, word in words.items()] * 2
    held_out = [
        (f"{first} and {second} and others and more", (one, other))
        for one, first in words.items()
        for other, second in words.items()
        if one < other
    ]
    for name, texts in (("train", train_texts), ("held_out", held_out)):
        examples = [
            Example(id=str(n), document=Document(text), labels=labels) for n, (text, labels) in enumerate(texts)
        ]
        write_examples(tmp_path / f"{name}.jsonl", examples)
    run = RunConfig.model_validate({
        "reader": "bag_of_words", "task": {"name": "classification"},
        "reasoner": {"name": "classification", "multi_label": True},
        "data": {"train": str(tmp_path / "train.jsonl"), "validation": str(tmp_path / "held_out.jsonl")},
    })  # fmt: skip
    train_run(run, tmp_path / "run", report=lambda line: None)
    tuned = load_reader(tmp_path / "run")
    assert isinstance(tuned, BagOfWords)
    assert tuned.reasoner.threshold != 0.5, "the highest of the best"
    assert {tuned.predict(text).answer for text, _ in held_out} == {"; ".join(labels) for _, labels in held_out}
    history = json.loads((tmp_path / "run" / "run.json").read_text())["history"]
    assert history[0]["micro_f1"] == 100


def made_of(*words: str, n: int = 60, label: str = "") -> list[Example]:
    """Texts of random words with the given ones, next to each other in this order, somewhere among them."""
    rng = np.random.default_rng(len(words[0]))
    texts = []
    for number in range(n):
        others = rng.choice(["rain", "hill", "lamp", "door", "tree"], size=int(rng.integers(2, 9))).tolist()
        place = int(rng.integers(len(others) + 1))
        text = " ".join([*others[:place], *words, *others[place:]])
        texts.append(Example(id=f"{label}{number}", document=Document(text), labels=(label,)))
    return texts


def test_convolutions_see_the_order_of_words(tmp_path: Path) -> None:
    examples = made_of("dog", "bites", "man", label="animals") + made_of("man", "bites", "dog", label="work")
    train, unseen = examples[::2], examples[1::2]
    settings = model_config(multi_label=False).model_copy(update={"reader": "text_cnn"})
    right = {}
    for kind in (TextCNN, BagOfWords):
        made = kind(settings)
        made.fit(train)
        predictions = list(made.predict_many(unseen))
        right[kind] = sum((one.answer,) == example.labels for one, example in zip(predictions, unseen, strict=True))
    assert right[TextCNN] == len(unseen)
    assert right[BagOfWords] < 0.7 * len(unseen)


def test_convolutions_load_as_they_were_saved_and_repeat_by_seed(tmp_path: Path) -> None:
    examples = made_of("dog", label="animals", n=12) + made_of("office", label="work", n=12)
    both = [replace(one, labels=("animals", "work")) for one in made_of("dog", "office", n=12)]
    for multi_label in (False, True):
        settings = model_config(multi_label=multi_label).model_copy(update={"reader": "text_cnn"})
        known = examples + both * multi_label
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(len(found))
            made = TextCNN(settings)
            made.fit(known, seed=seed)
            found.append(list(made.predict_many(known)))
        assert found[0] == found[1] != found[2]
        made.save_pretrained(tmp_path / str(multi_label))
        again = load_reader(tmp_path / str(multi_label))
        assert isinstance(again, TextCNN)
        alone = [again.predict(example.document.text) for example in known]
        for one, other in zip(alone, found[2], strict=True):
            assert [label.score for label in one.labels] == pytest.approx(
                [label.score for label in other.labels], rel=1e-4
            )
        said = [set(one.answer.split("; ")) for one in found[2]]
        assert np.mean([one == set(example.labels or ()) for one, example in zip(said, known, strict=True)]) > 0.9
        assert again.predict("xyz").labels != again.predict("dog dog dog dog").labels, "words that it never saw"


def test_the_epoch_of_the_convolutions_is_chosen_on_texts_set_apart() -> None:
    """With labels at random, every epoch makes the loss on other texts worse."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"word{n}" for n in range(40)], size=12)) for _ in range(100)]
    has_label = np.eye(2, dtype=bool)[rng.integers(2, size=100)]
    model = ConvolutionalModel()
    model.fit(texts, has_label)
    assert np.abs(model.margins(texts)).mean() < 1, "20 epochs would learn them by heart"


def test_mistakes_with_convolutions(tmp_path: Path) -> None:
    settings = model_config(multi_label=False).model_copy(update={"reader": "text_cnn"})
    with pytest.raises(ConfigError, match="reader: text_cnn needs reasoner.name: classification, not span"):
        TextCNN(ModelConfig(reader="text_cnn"))
    new = TextCNN.create(settings)
    with pytest.raises(DataError, match="training: all 2 labelled texts have the same labels"):
        new.fit(EXAMPLES[:2])
    with pytest.raises(DataError, match=f"training: none of the {len(EXAMPLES)} texts has a word"):
        new.fit([replace(example, document=Document("🙂 🙃 !")) for example in EXAMPLES])
    for use in (lambda: new.predict("a fox"), lambda: new.save_pretrained(tmp_path / "new")):
        with pytest.raises(ModelError, match="the convolutional model is not trained"):
            use()
    made = TextCNN(settings)
    made.fit(EXAMPLES[:4])
    made.save_pretrained(tmp_path / "model")
    for words in ('{"words": ["fox"]}', "{}"):
        (tmp_path / "model" / "words.json").write_text(words)
        with pytest.raises(ModelError, match="are not those of one network"):
            load_reader(tmp_path / "model")
