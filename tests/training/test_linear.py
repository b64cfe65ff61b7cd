"""The linear model of words beside the encoder: as judge, and joined with the reasoner's scores."""

from dataclasses import replace
from pathlib import Path

import fakes
import numpy as np
import pytest
import torch
from labelled import CLASSIFICATION, LABELS, texts, train

from cogltx.config import ModelConfig
from cogltx.document import Example, Query
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.memrecall import MemRecall
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.reasoners import ClassificationConfig
from cogltx.reasoners.classification import choose_labels, fit_words
from cogltx.training.config import RunConfig


def config(
    encoder: Path, judge: str = "linear", task: dict[str, object] | None = None, **reasoner: object
) -> ModelConfig:
    values = fakes.config(encoder).model_dump(mode="json")
    named = {"name": "classification", "labels": list(LABELS), **reasoner}
    return ModelConfig.model_validate(values | {"reasoner": named, "judge": {"name": judge}, "task": task or {}})


def new(encoder: Path, **options: object) -> CogLTX:
    torch.manual_seed(0)
    return CogLTX(Model.create(config(encoder, **options), with_judge=True, device="cpu"))  # type: ignore[arg-type]


def accuracy(model: CogLTX, examples: list[Example]) -> float:
    predictions = model.predict_many(examples)
    return CLASSIFICATION.metrics(zip(examples, predictions, strict=True))["accuracy"]


def label_queries(examples: list[Example]) -> list[Example]:
    """Every name of a thing as a query about every text, as the task classification makes them."""
    return [
        replace(
            example,
            id=f"{example.id}: {name}",
            query=Query(name),
            labels=("yes",) if name in (example.labels or ()) else ("no",),
            extra={**example.extra, "text": example.id, "label": name},
        )
        for example in examples
        for name in ("boat", "drum")
    ]


def test_the_judge_finds_the_sentence_that_decides(tiny_encoder: Path, tmp_path: Path) -> None:
    model = new(tiny_encoder)
    train(model, tmp_path / "run", texts(72))
    unseen = [one for one in texts(40, seed=9) if one.labels != ("nothing",)]
    for judged in (model, CogLTX.from_pretrained(tmp_path / "run")):
        for example in unseen:
            best = judged.predict(example.document).evidence[0]
            start, end = example.extra["fact"]  # type: ignore[misc]
            assert best.start < end
            assert start < best.end
    assert not model.model.modules.keys() & {"judge"}, "it has no weights of its own to train"


@pytest.mark.parametrize("multi_label", [False, True])
def test_joined_scores_are_those_of_both(tiny_encoder: Path, tmp_path: Path, multi_label: bool) -> None:
    """An encoder that has hardly learned is carried by the words; the weight is chosen on the validation texts."""
    model = new(tiny_encoder, linear_weight=1.0, multi_label=multi_label)
    train(model, tmp_path / "run", texts(72))
    chosen = model.config.reasoner
    assert isinstance(chosen, ClassificationConfig)
    assert chosen.linear_weight > 0
    unseen = texts(30, seed=9)
    assert accuracy(model, unseen) == 100
    saved = CogLTX.from_pretrained(tmp_path / "run")
    assert saved.config.reasoner == chosen
    assert list(saved.predict_many(unseen)) == list(model.predict_many(unseen))
    alone = CogLTX.from_pretrained(tmp_path / "run", changes={"reasoner.linear_weight": 0.0})
    assert accuracy(alone, unseen) < 80
    prediction = model.predict(unseen[0].document)
    margins = {label.name: label.margin for label in prediction.labels}
    assert max(margins, key=lambda name: margins[name] or 0.0) == prediction.answer


def test_label_names_as_queries(tiny_encoder: Path, tmp_path: Path) -> None:
    """Each label name has key blocks and a margin of its own; texts may lack some of the names in training."""
    examples = label_queries(texts(72))
    model = new(tiny_encoder, linear_weight=1.0, labels=["no", "yes"])
    train(model, tmp_path / "run", [one for number, one in enumerate(examples) if number % 7], n_validation=40)
    unseen = label_queries(texts(30, seed=9))
    saved = CogLTX.from_pretrained(tmp_path / "run")
    for judged in (model, saved):
        assert accuracy(judged, unseen) == 100
        for example in unseen:
            prediction, (start, end) = judged.predict(example.document, example.query), example.extra["fact"]  # type: ignore[misc]
            best = prediction.evidence[0]
            assert example.labels == ("no",) or (best.start < end and start < best.end)
            margin = {label.name: label.margin for label in prediction.labels}
            assert margin["yes"] == -margin["no"]  # type: ignore[operator]
            assert (margin["yes"] > 0) == (example.labels == ("yes",))  # type: ignore[operator]
    with pytest.raises(DataError, match="the questions of this model are label names, such as boat, drum; got 'car'"):
        model.predict(unseen[0].document, "car")
    with pytest.raises(DataError, match="such as boat, drum; got no question"):
        model.predict(unseen[0].document)
    with pytest.raises(DataError, match="no label name has both answers, yes and no"):
        train(new(tiny_encoder, labels=["no", "yes"]), tmp_path / "refused", examples[:1], n_validation=1)


def test_how_scores_are_joined() -> None:
    one = ClassificationConfig(name="classification", labels=LABELS, linear_weight=2.0)
    p, margins = np.array([0.5, 0.3, 0.2]), np.array([-1.0, 0.5, 0.0])
    expected = p * np.exp(2 * margins)
    found = {label.name: label.score for label in choose_labels(one, p, margins).labels}
    assert [found[name] for name in LABELS] == pytest.approx((expected / expected.sum()).tolist())
    many = one.model_copy(update={"multi_label": True})
    odds = p / (1 - p) * np.exp(2 * margins)
    found = {label.name: label.score for label in choose_labels(many, p, margins).labels}
    assert [found[name] for name in LABELS] == pytest.approx((odds / (1 + odds)).tolist())
    raw = choose_labels(one.without_thresholds(), p, margins)
    assert [label.score for label in raw.labels] == [0.5, 0.3, 0.2]
    assert one.apply_thresholds(raw) == choose_labels(one, p, margins)
    assert replace(choose_labels(one, p), n_tokens=0) == choose_labels(one.without_thresholds(), p), (
        "without margins nothing is added"
    )


@pytest.mark.parametrize(
    ("judge", "values"),
    [
        ("linear", {}),
        ("linear", {"task": {"name": "newsgroups"}}),
        ("bm25", {"judge": {"name": "bm25"}}),
        ("encoder", {"training": {"relevance": {"source": "interventions"}}}),
        ("linear", {"task": {"name": "classification", "options": {"label_queries": True}}}),
        ("encoder", {"task": {"name": "jsonl"}}),
        ("encoder", {"reasoner": {"name": "span"}}),
    ],
)
def test_the_judge_of_a_run_that_names_none(judge: str, values: dict[str, object]) -> None:
    run = {"data": {"train": "texts.jsonl"}, "reasoner": {"name": "classification"}, **values}
    assert RunConfig.model_validate(run).judge.name == judge


def test_interrupted_between_epochs_it_is_the_same(tiny_encoder: Path, tmp_path: Path) -> None:
    """The linear model is fitted again when a run resumes: the same seed gives the same one."""
    examples = texts(24)
    model = new(tiny_encoder, linear_weight=1.0)
    trainer = train(model, tmp_path / "run", examples, epochs=2)
    again = new(tiny_encoder, linear_weight=1.0)
    trainer.reader = again
    assert again.model.linear is not None
    fit_words(again.model.linear, again.model.reasoner.config, examples, seed=trainer.config.seed)
    documents = [example.document.text for example in examples]
    assert again.model.linear is not None
    assert model.model.linear is not None
    np.testing.assert_array_equal(again.model.linear.margins(documents), model.model.linear.margins(documents))


def test_mistakes(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge\.name: a linear model of words needs texts with labels; use encoder"):
        Model.create(
            fakes.config(tiny_encoder).model_copy(update={"judge": config(tiny_encoder).judge}), with_judge=True
        )
    with pytest.raises(ConfigError, match='judge "linear" needs a trained run'):
        MemRecall(judge="linear")
    model = new(tiny_encoder)
    with pytest.raises(ModelError, match="the linear model is not trained"):
        model.predict("A boat.")
    with pytest.raises(ConfigError, match=r"interventions create labels for a judge that learns, and linear does not"):
        train(model, tmp_path / "refused", texts(12), relevance={"source": "interventions"})
    train(model, tmp_path / "run", texts(12))
    (next((tmp_path / "run").glob("epoch-*")) / "terms.json").unlink()
    with pytest.raises(ModelError, match=r"terms\.json: file not found"):
        CogLTX.from_pretrained(tmp_path / "run")
