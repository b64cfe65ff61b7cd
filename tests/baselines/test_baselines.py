"""Sliding window and truncation read the same blocks with the same reasoner as CogLTX."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import config, reader
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.baselines import READERS, SlidingWindow, Truncation, load_reader, reader_class
from cogltx.baselines.sliding_window import _overlapping_runs
from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError, ModelError
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.reasoners import SpanReasoner

TEXT = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm, on 3 May 2014.\n" * 4
QUERY = Query("Who wrote the report?")


def baseline(kind: type[SlidingWindow], folder: Path, **options: object) -> SlidingWindow:
    torch.manual_seed(5)
    return kind(Model.create(config(folder, **options), with_judge=False, device="cpu"))


def test_readers_by_name() -> None:
    assert {"cogltx", "sliding_window", "truncation", "bag_of_words", "text_cnn"} == set(READERS)
    assert reader_class("cogltx") is CogLTX
    assert reader_class("truncation") is Truncation
    with pytest.raises(
        ConfigError,
        match="reader: 'sliding' is not a reader; use cogltx, sliding_window, truncation, bag_of_words, text_cnn",
    ):
        reader_class("sliding")


@settings(max_examples=200)
@given(sizes=st.lists(st.integers(1, 10), max_size=30), room=st.integers(10, 40), overlap=st.integers(0, 40))
def test_overlapping_runs(sizes: list[int], room: int, overlap: int) -> None:
    runs = _overlapping_runs(sizes, room, overlap)
    assert sorted({index for run in runs for index in run}) == list(range(len(sizes)))
    for run in runs:
        assert sum(sizes[index] for index in run) <= room
        assert run.stop == len(sizes) or sum(sizes[index] for index in run) + sizes[run.stop] > room
    for before, after in itertools.pairwise(runs):
        assert before.start < after.start <= before.stop < after.stop
        assert sum(sizes[index] for index in range(after.start, before.stop)) <= overlap


def test_windows_cover_the_document(tiny_encoder: Path) -> None:
    sliding = baseline(SlidingWindow, tiny_encoder)
    layout = sliding.model.layout(Document(TEXT), QUERY)
    blocks, windows = layout.blocks, sliding.windows(layout)
    shown = {int(token) for window in windows for token in window.document_token if token >= 0}
    assert shown == set(range(blocks.n_tokens))
    assert all(len(window) <= 64 for window in windows)
    truncated = baseline(Truncation, tiny_encoder).windows(layout)
    assert len(truncated) == 1
    assert truncated[0].token_ids.tolist() == windows[0].token_ids.tolist()


def confidences(prediction: Prediction) -> dict[str, float]:
    others = {answer.text: answer.confidence for answer in prediction.alternatives}
    return {prediction.answer: prediction.confidence, **others}


def test_the_best_answer_of_all_windows(tiny_encoder: Path) -> None:
    sliding = baseline(SlidingWindow, tiny_encoder)
    assert isinstance(sliding.model.reasoner, SpanReasoner)
    assert sliding.model.reasoner.kind is not None
    sliding.model.reasoner.kind.bias.data.zero_()  # so that yes and no are among the best answers
    document = Document(TEXT)
    layout = sliding.model.layout(document, QUERY)
    outputs = list(sliding.model.reason(sliding.windows(layout)))
    assert len(outputs) > 1
    alone = [sliding.model.reasoner.predict(layout, [one]) for one in outputs]
    prediction = sliding.predict(document, QUERY)
    best = max(alone, key=lambda one: one.confidence)
    assert (prediction.answer, prediction.start) == (best.answer, best.start)
    assert prediction.confidence == pytest.approx(best.confidence, rel=1e-5)
    for text in ("yes", "no"):
        assert confidences(prediction)[text] == pytest.approx(max(confidences(one)[text] for one in alone), rel=1e-5)
    assert prediction.evidence == ()
    none = min(one.no_answer_confidence or 0 for one in alone)
    assert prediction.no_answer_confidence == pytest.approx(none, rel=1e-5)
    assert len({prediction.answer.lower(), *(answer.text.lower() for answer in prediction.alternatives)}) == 3


def test_answers_do_not_depend_on_the_batch(tiny_encoder: Path) -> None:
    for kind in (SlidingWindow, Truncation):
        model = baseline(kind, tiny_encoder)
        items = [
            Example(id=str(n), document=Document(TEXT[n * 30 :]), query=QUERY if n % 2 else None) for n in range(4)
        ]
        together = list(model.predict_many(items))
        for item, prediction in zip(items, together, strict=True):
            alone = model.predict(item.document, item.query)
            assert (alone.answer, alone.start) == (prediction.answer, prediction.start)
            np.testing.assert_allclose(alone.confidence, prediction.confidence, rtol=1e-4)
            if prediction.start is not None:
                assert prediction.answer == item.document.text[prediction.start : prediction.end]


@pytest.mark.parametrize("kind", [SlidingWindow, Truncation])
def test_save_and_load(tiny_encoder: Path, tmp_path: Path, kind: type[SlidingWindow]) -> None:
    name = next(name for name, other in READERS.items() if other is kind)
    settings = config(tiny_encoder).model_copy(update={"reader": name})
    model = kind(Model.create(settings, with_judge=False, device="cpu"))
    model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "judge.safetensors").exists()
    again = load_reader(tmp_path / "model", device="cpu")
    assert type(again) is kind
    assert again.predict(TEXT, QUERY) == model.predict(TEXT, QUERY)
    with pytest.raises(
        ModelError, match=f"model: a model of the baseline {name}; cogltx.baselines.load_reader loads it"
    ):
        CogLTX.from_pretrained(tmp_path / "model")


def test_all_readers_agree_on_a_document_of_one_window(tiny_encoder: Path) -> None:
    torch.manual_seed(5)
    model = reader(tiny_encoder)
    reasoner = model.model.reasoner
    reasoner.config = reasoner.config.model_copy(update={"evidence_weight": 0.0})
    found = [kind(model.model).predict("Anna wrote the report.", QUERY) for kind in (CogLTX, SlidingWindow, Truncation)]
    assert len({(prediction.answer, prediction.confidence) for prediction in found}) == 1


def test_the_card_of_a_baseline_says_how_to_load_it(tiny_encoder: Path, tmp_path: Path) -> None:
    settings = config(tiny_encoder).model_copy(update={"reader": "sliding_window"})
    SlidingWindow.create(settings).save_pretrained(tmp_path / "sliding")
    card = (tmp_path / "sliding" / "README.md").read_text(encoding="utf-8")
    assert 'model = load_reader("sliding")' in card
    assert "CogLTX" not in card
