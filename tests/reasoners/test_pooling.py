"""Networks over the windows of a document, and the classification reasoner that reads through them."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

from cogltx.blocks import split
from cogltx.document import Document
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.reasoners import ClassificationConfig, ClassificationReasoner
from cogltx.reasoners._pooling import window_pooling

KINDS = ("mlp", "lstm")
TOKENIZER = tiny.make_tokenizer()
FORM = WindowFormat(TOKENIZER, 64)
BLOCKS = split(Document("The fox jumps over the dog. Anna wrote the report. The film was directed."), TOKENIZER)
LAYOUT = FORM.layout(None, BLOCKS)
WINDOWS = [LAYOUT.window([index]) for index in range(len(BLOCKS))]


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_encoder(tmp_path_factory.mktemp("encoder"))


def reasoner(folder: Path, kind: str, *, multi_label: bool = False) -> ClassificationReasoner:
    torch.manual_seed(0)
    values = {"name": "classification", "labels": ("city", "food"), "over_windows": kind, "multi_label": multi_label}
    config = ClassificationConfig.model_validate(values)
    made = ClassificationReasoner(load_encoder(EncoderConfig(name=str(folder), precision="float32")), config)
    assert isinstance(made, ClassificationReasoner)
    return made.eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", [1, 2, 7])
def test_one_vector_of_many(kind: str, windows: int) -> None:
    torch.manual_seed(0)
    network = window_pooling(kind, 32).eval()  # type: ignore[arg-type]
    vectors = torch.randn(windows, 32, requires_grad=True)
    found = network(vectors)
    assert found.shape == (32,)
    found.square().sum().backward()
    assert vectors.grad is not None
    assert (vectors.grad.abs().sum(dim=-1) > 0).all(), "every window counts"


@pytest.mark.parametrize(("kind", "counts"), [("mlp", False), ("lstm", True)])
def test_whether_the_order_counts(kind: str, counts: bool) -> None:
    torch.manual_seed(0)
    network = window_pooling(kind, 32).eval()  # type: ignore[arg-type]
    vectors = torch.randn(5, 32)
    assert torch.allclose(network(vectors), network(vectors.flip(0)), atol=1e-5) != counts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_document_is_read_through_the_network(encoder_folder: Path, kind: str, multi_label: bool) -> None:
    made = reasoner(encoder_folder, kind, multi_label=multi_label)
    with torch.no_grad():
        outputs = [made(Batch.of([window], 0, torch.device("cpu"))) for window in WINDOWS]
        logits = made._logits(torch.cat(outputs))
    assert outputs[0].shape == (1, 1, made.encoder.width)
    assert logits.shape == (1, 1, 2)
    rows = [(window, row[0].numpy()) for window, row in zip(WINDOWS, outputs, strict=True)]
    scores = {label.name: label.score for label in made.predict(LAYOUT, rows).labels}
    expected = torch.sigmoid(logits[0, 0]) if multi_label else logits[0, 0].softmax(dim=0)
    np.testing.assert_allclose([scores["city"], scores["food"]], expected.numpy(), rtol=1e-5)
