"""The trained retriever: vectors of blocks in their context, and how they and words rank blocks for a question."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import config

from cogltx.config import MemRecallConfig, ModelConfig
from cogltx.document import Document, Query
from cogltx.encoding import encoder
from cogltx.encoding.encoder import Batch
from cogltx.encoding.layout import Window
from cogltx.errors import ConfigError
from cogltx.judges import Memory, TrainedRetriever
from cogltx.judges.retriever import block_vectors
from cogltx.memrecall import MemRecall
from cogltx.model import Model
from cogltx.pipeline import CogLTX

TEXT = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm. " * 12
QUESTION = Query("what does anna have?")


def reader(encoder: Path, **options: object) -> CogLTX:
    torch.manual_seed(5)
    values = config(encoder).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 3, "retriever": "trained"} | options
    return CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))


def trained_of(made: CogLTX) -> TrainedRetriever:
    assert isinstance(made.retriever, TrainedRetriever)
    return made.retriever


def test_a_block_has_the_mean_of_its_tokens_among_its_neighbours(tiny_encoder: Path) -> None:
    made = reader(tiny_encoder)
    layout = made.model.layout(Document(TEXT), None)
    trained = trained_of(made)
    vectors = trained.vectors(layout)
    windows = list(layout.windows())
    assert len(windows) > 2
    assert vectors.shape == (len(layout.blocks), trained.encoder.encoder.width)
    for window in windows:
        with torch.no_grad():
            tokens = trained.encoder.eval()(Batch.of([window], 0, torch.device("cpu")))[0]
        for block in window.blocks:
            mean = tokens[: len(window)][torch.from_numpy(window.block == block)].mean(dim=0).numpy()
            np.testing.assert_allclose(vectors[block], mean, atol=1e-5)


def test_one_progress_bar_counts_all_windows(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, bars = reader(tiny_encoder), list[str]()

    def bar(windows: Iterable[Window], title: str, **_: object) -> Iterable[Window]:
        bars.append(title)
        return windows

    monkeypatch.setattr(encoder, "progress", bar)
    layout = made.model.layout(Document(TEXT * 40), None)
    trained = trained_of(made)
    assert len(trained.vectors(layout)) == len(layout.blocks)
    assert len(list(layout.windows())) > 64
    assert bars == ["block vectors"]


def test_block_means_are_in_the_order_of_the_blocks(tiny_encoder: Path) -> None:
    layout = reader(tiny_encoder).model.layout(Document(TEXT), QUESTION)
    window = layout.window([2, 5])
    tokens = torch.from_numpy(window.block.astype(np.float32))[:, None]
    assert block_vectors(window, tokens).flatten().tolist() == [2, 5]


def test_vectors_are_computed_once_until_the_encoder_changes(tiny_encoder: Path) -> None:
    made = reader(tiny_encoder)
    trained = trained_of(made)
    layout = made.model.layout(Document(TEXT), None)
    first = trained.vectors(layout)
    assert trained.vectors(layout) is first
    with torch.no_grad():
        trained.encoder.encoder.model.embeddings.LayerNorm.weight *= torch.linspace(0, 1, trained.encoder.encoder.width)
    trained.forget()
    assert not np.allclose(trained.vectors(layout), first)


def test_cosine_and_words_rank_blocks(tiny_encoder: Path) -> None:
    retriever = reader(tiny_encoder).model.retriever
    assert retriever is not None
    scores = retriever.scores(
        torch.tensor([1.0, 0.0]), torch.tensor([[3.0, 0.0], [0.0, 1.0], [-2.0, 0.0]]), torch.tensor([0.0, 1.0, 1.0])
    )
    assert scores.tolist() == pytest.approx([20, 4, -16])


def test_what_is_in_z_changes_the_shortlist(tiny_encoder: Path) -> None:
    made = reader(tiny_encoder)
    layout = made.model.layout(Document(TEXT), QUESTION)
    trained = trained_of(made)
    with torch.no_grad():
        trained.encoder.bm25_weight.zero_()
    alone, with_z = (trained.scores(Memory(layout, kept)) for kept in ((), (1, 2)))
    assert not np.allclose(alone, with_z)
    assert set(made.memrecall.judge.shortlisted(Memory(layout, (1, 2))).candidates).isdisjoint((1, 2))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_first_layers_of_the_encoder(
    tiny_encoder: Path, tmp_path: Path, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cogltx.model._RETRIEVER_LAYERS", layers)
    made = reader(tiny_encoder)
    monkeypatch.undo()
    assert made.model.retriever is not None
    judge, own = made.model.judge.encoder.model.encoder.layer, made.model.retriever.encoder.model.encoder.layer
    assert len(own) == layers
    assert torch.equal(own[0].output.dense.weight, judge[0].output.dense.weight)
    made.save_pretrained(tmp_path / "saved")
    loaded = CogLTX.from_pretrained(tmp_path / "saved", device="cpu")
    assert loaded.model.retriever is not None
    assert len(loaded.model.retriever.encoder.model.encoder.layer) == layers, "the weights say how many"
    assert loaded.predict(TEXT, QUESTION) == made.predict(TEXT, QUESTION)
    values = made.config.model_dump(mode="json")
    values["judge"]["init_from"] = values["reasoner"]["init_from"] = str(tmp_path / "saved")
    further = Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu")
    assert further.retriever is not None
    assert len(further.retriever.encoder.model.encoder.layer) == layers


def test_without_a_shortlist_there_is_no_retriever(tiny_encoder: Path, tmp_path: Path) -> None:
    assert reader(tiny_encoder, shortlist=None).model.retriever is None
    reader(tiny_encoder).save_pretrained(tmp_path / "saved")
    for changes in ({"memrecall.shortlist": None}, {"memrecall.retriever": "bm25"}):
        assert CogLTX.from_pretrained(tmp_path / "saved", device="cpu", changes=changes).model.retriever is None


def test_trained_without_training() -> None:
    with pytest.raises(ConfigError, match=r"memrecall\.retriever: trained needs a model that was trained with it"):
        MemRecall("bm25", MemRecallConfig(shortlist=3, retriever="trained"))
