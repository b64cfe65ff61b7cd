"""Classification: losses against scikit-learn and by hand, decoded labels, thresholds, what is refused."""

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.metrics import log_loss

from cogltx.blocks import split
from cogltx.document import Document, Example
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Prediction
from cogltx.reasoners import ClassificationConfig, ClassificationReasoner
from cogltx.reasoners.classification import choose_labels
from cogltx.tasks.metrics import is_right

TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 64)
BLOCKS = split(Document("The fox jumps over the dog. Anna wrote the report."), TOKENIZER)
LAYOUT = FORM.layout(None, BLOCKS)
WINDOW = LAYOUT.window(range(len(BLOCKS)))
LABELS = ("city", "food", "sport")


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_encoder(tmp_path_factory.mktemp("encoder"))


def reasoner(folder: Path, **options: object) -> ClassificationReasoner:
    config = ClassificationConfig.model_validate({"name": "classification", "labels": LABELS} | options)
    made = ClassificationReasoner(load_encoder(EncoderConfig(name=str(folder), precision="float32")), config)
    assert isinstance(made, ClassificationReasoner)
    return made.eval()


def example(*labels: str) -> Example:
    return Example(id="a", document=BLOCKS.document, labels=labels)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_one_row_of_logits_a_window(encoder_folder: Path, pooling: str) -> None:
    made = reasoner(encoder_folder, pooling=pooling)
    short = LAYOUT.window([0])
    with torch.no_grad():
        together = made(Batch.of([WINDOW, short], 0, torch.device("cpu")))
        alone = made(Batch.of([short], 0, torch.device("cpu")))
    assert together.shape == (2, 1, 3)
    torch.testing.assert_close(together[1], alone[0], atol=1e-5, rtol=1e-5)


def test_the_first_token_or_the_mean_of_all_stands_for_the_window(encoder_folder: Path) -> None:
    batch = Batch.of([WINDOW], 0, torch.device("cpu"))
    n_tokens = len(WINDOW)
    for pooling in ("first", "mean"):
        made = reasoner(encoder_folder, pooling=pooling)
        with torch.no_grad():
            hidden = made.encoder(batch)[0, :n_tokens]
            expected = made.head(hidden[0] if pooling == "first" else hidden.mean(dim=0))
            torch.testing.assert_close(made(batch)[0, 0], expected, atol=1e-5, rtol=1e-5)


def test_the_loss_is_cross_entropy(encoder_folder: Path) -> None:
    logits = torch.randn(4, 1, 3)
    targets = [(index % 3,) for index in range(4)]
    losses = reasoner(encoder_folder).losses(logits, [WINDOW] * 4, targets)
    chances = logits[:, 0].double().softmax(dim=-1).numpy()
    expected = log_loss([0, 1, 2, 0], chances, labels=[0, 1, 2])
    assert losses.mean().item() == pytest.approx(expected, rel=1e-5)


def test_any_number_of_labels(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder, multi_label=True)
    logits = torch.tensor([[[2.0, -1.0, 0.5]]])
    chances = [1 / (1 + math.exp(-value)) for value in (2.0, -1.0, 0.5)]
    expected = -(math.log(chances[0]) + math.log(1 - chances[1]) + math.log(chances[2])) / 3
    assert made.losses(logits, [WINDOW], [(0, 2)]).item() == pytest.approx(expected, rel=1e-5)
    found = made.predict(LAYOUT, [(WINDOW, logits[0].numpy())])
    assert found.answer == "city; sport"
    assert [(label.name, label.chosen) for label in found.labels] == [("city", True), ("sport", True), ("food", False)]
    assert found.confidence == pytest.approx(chances[2])
    nothing = made.config.model_copy(update={"threshold": 0.99}).apply_thresholds(found)
    assert nothing.answer == ""
    assert nothing.confidence == pytest.approx(1 - chances[0])


def test_the_most_probable_label(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    found = made.predict(LAYOUT, [(WINDOW, np.float32([[0.0, 3.0, 1.0]]))])
    assert (found.answer, found.start, found.end) == ("food", None, None)
    assert [label.chosen for label in found.labels] == [True, False, False]
    assert sum(label.score for label in found.labels) == pytest.approx(1)
    assert [answer.text for answer in found.alternatives] == ["sport", "city"]


def test_targets(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder)
    assert made.target(example("sport"), BLOCKS, WINDOW) == (2,)
    assert made.target(Example(id="a", document=BLOCKS.document), BLOCKS, WINDOW) is None
    with pytest.raises(
        DataError, match="example 'a': the model was not trained on the label 'art', only on city, food, sport"
    ):
        made.target(example("art"), BLOCKS, WINDOW)
    with pytest.raises(DataError, match=r"example 'a' has 2 labels, not one; set reasoner\.multi_label"):
        made.target(example("city", "food"), BLOCKS, WINDOW)
    several = reasoner(encoder_folder, multi_label=True)
    assert several.target(example("food", "city"), BLOCKS, WINDOW) == (1, 0)
    assert several.target(example(), BLOCKS, WINDOW) == ()


def test_labels_are_taken_from_the_examples() -> None:
    examples = [example("food"), *[example("city")] * 3, Example(id="b", document=BLOCKS.document)]
    plain = ClassificationConfig(name="classification").fitted(examples)
    assert plain.labels == ("city", "food")
    named = ClassificationConfig(name="classification", labels=("sport", "food", "city"))
    assert named.fitted(examples).labels == ("sport", "food", "city")
    with pytest.raises(DataError, match="no example has a label, which the reasoner classification learns"):
        plain.fitted(examples[-1:])


@pytest.mark.parametrize(
    "values",
    [
        {"linear_weight": -0.1},
        {"threshold": -0.1},
        {"threshold": 1.1},
        {"over_windows": "median"},
    ],
)
def test_wrong_options(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ClassificationConfig.model_validate({"name": "classification"} | values)


def test_too_few_labels(encoder_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"reasoner\.labels: the data has 1 labels; at least 2 needed"):
        reasoner(encoder_folder, labels=("city",))
    assert reasoner(encoder_folder, labels=("city",), multi_label=True)


@pytest.mark.parametrize(("over", "expected"), [("mean", [0.4, 0.6]), ("max", [0.6 / 1.4, 0.8 / 1.4])])
def test_windows_are_merged(encoder_folder: Path, over: str, expected: list[float]) -> None:
    made = reasoner(encoder_folder, labels=("a", "b"), over_windows=over)
    rows = [np.log(np.float32([chances])) for chances in ([0.6, 0.4], [0.2, 0.8])]
    prediction = made.predict(LAYOUT, [(WINDOW, row) for row in rows])
    scores = {label.name: label.score for label in prediction.labels}
    np.testing.assert_allclose([scores["a"], scores["b"]], expected, rtol=1e-6)


def test_more_windows_than_labels(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder, labels=("a", "b"), over_windows="max", multi_label=True)
    rows = [np.float32([[value, -value]]) for value in (1.0, 3.0, -2.0)]
    prediction = made.predict(LAYOUT, [(WINDOW, row) for row in rows])
    scores = {label.name: label.score for label in prediction.labels}
    assert scores == pytest.approx({"a": 1 / (1 + math.exp(-3)), "b": 1 / (1 + math.exp(-2))}, rel=1e-6)


def test_one_window_is_enough_for_yes(encoder_folder: Path) -> None:
    made = reasoner(encoder_folder, labels=("no", "yes"), over_windows="max")
    rows = [np.log(np.float32([[0.995, 0.005]]))] * 19 + [np.log(np.float32([[0.01, 0.99]]))]
    prediction = made.predict(LAYOUT, [(WINDOW, row) for row in rows])
    assert (prediction.answer, prediction.confidence) == ("yes", pytest.approx(0.99))


def predicted(config: ClassificationConfig, *probabilities: float) -> Prediction:
    return choose_labels(config, np.array(probabilities))


def test_threshold_candidates(encoder_folder: Path) -> None:
    examples = [example("city"), example("food")]
    for multi_label in (False, True):
        made = reasoner(encoder_folder, multi_label=multi_label)
        predictions = [predicted(made.config, 0.9, 0.2, 0.1), predicted(made.config, 0.3, 0.7, 0.05)]
        candidates = made.config.threshold_candidates(examples, predictions, is_right)
        thresholds = [config.threshold for config in candidates]
        assert any(0.3 < threshold <= 0.7 for threshold in thresholds) == multi_label
        assert thresholds == sorted(thresholds)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), labels=st.sampled_from([("a", "b", "c"), ("no", "yes")]), multi_label=st.booleans())
def test_all_candidates_are_applied_as_each(seed: int, labels: tuple[str, ...], multi_label: bool) -> None:
    rng = np.random.default_rng(seed)
    config = ClassificationConfig(labels=labels, multi_label=multi_label, linear_weight=1.0)
    scores = rng.dirichlet(np.ones(len(labels)), 6), rng.normal(size=(6, len(labels)))
    predictions = [choose_labels(config.without_thresholds(), *rows) for rows in zip(*scores, strict=True)]
    examples = [example(labels[int(number)]) for number in rng.integers(len(labels), size=6)]
    candidates = config.threshold_candidates(examples, predictions, is_right)
    candidates = candidates if len(candidates) < 20 else candidates[::7]
    assert len(candidates) > 10
    assert list(config.applied(candidates, predictions)) == [
        [candidate.apply_thresholds(prediction) for prediction in predictions] for candidate in candidates
    ]


@settings(max_examples=100)
@given(seed=st.integers(0, 10_000), threshold=st.floats(0, 1), multi_label=st.booleans())
def test_thresholds_may_be_applied_later(encoder_folder: Path, seed: int, threshold: float, multi_label: bool) -> None:
    made = untrained(encoder_folder, multi_label=multi_label)
    untuned = made.config
    tuned = untuned.model_copy(update={"threshold": threshold})
    outputs = [(WINDOW, np.random.default_rng(seed).normal(size=(1, 3), scale=3).astype(np.float32))]
    made.config = tuned
    expected = made.predict(LAYOUT, outputs)
    made.config = untuned
    made.config = made.config.without_thresholds()
    assert tuned.apply_thresholds(made.predict(LAYOUT, outputs)) == expected


@cache
def untrained(folder: Path, *, multi_label: bool) -> ClassificationReasoner:
    return reasoner(folder, multi_label=multi_label)
