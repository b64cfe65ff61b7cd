"""Compressed texts keep what matters, in order, within the budget."""

import itertools
from pathlib import Path

import fakes
import pytest
from bridges import QUESTION, TEXTS

from cogltx import CogLTX, ConfigError, DataError, Document, Query, compress
from cogltx.integrations._shared import room, select

TEXT = TEXTS[1]


@pytest.fixture(scope="module", params=[None, 4])
def reader(request: pytest.FixtureRequest, model: str) -> CogLTX:
    shortlist = {} if request.param is None else {"memrecall.shortlist": request.param, "memrecall.retriever": "bm25"}
    return CogLTX.from_pretrained(model, changes=shortlist)


@pytest.mark.parametrize("budget", [20, 60, 200, 0.2, 0.5])
def test_the_relevant_passage_is_kept_within_the_budget(reader: CogLTX, budget: int | float) -> None:
    short = compress(TEXT, QUESTION, budget, model=reader)
    assert "Ilse Brandt designed the bridge in 1884." in short
    layout = reader.model.layout(Document(TEXT), Query(QUESTION))
    n_tokens, blocks = room(layout.blocks, budget), layout.blocks
    assert n_tokens == (budget if isinstance(budget, int) else int(budget * blocks.sizes.sum()))
    kept = blocks.total_size(select(reader, layout, n_tokens))
    assert n_tokens - blocks.max_size < kept <= max(n_tokens, blocks.max_size)


def test_passages_are_slices_in_order(reader: CogLTX) -> None:
    layout = reader.model.layout(Document(TEXT), Query(QUESTION))
    kept = select(reader, layout, 120)
    assert kept == sorted(set(kept))
    spans = list(map(layout.blocks.trimmed, kept))
    separators = ["\n\n" if other > one + 1 else TEXT[end:start] for (one, other), (_, end), (start, _) in zip(
        itertools.pairwise(kept), spans, spans[1:], strict=False)] + [""]  # fmt: skip
    expected = "".join(TEXT[start:end] + between for (start, end), between in zip(spans, separators, strict=True))
    assert compress(TEXT, QUESTION, 120, model=reader) == expected


def test_a_large_budget_keeps_everything(reader: CogLTX) -> None:
    assert compress(TEXT, QUESTION, 10_000, model=reader) == compress(TEXT, QUESTION, 1.0, model=reader) == TEXT.strip()


def test_headings_come_once(model: str) -> None:
    reader = CogLTX.from_pretrained(model)
    document = fakes.sentences("It rained.", "Ilse Brandt designed the bridge.", headings=["Weather", "Bridges"])
    expected = "Weather\nIt rained.\n\nBridges\nIlse Brandt designed the bridge."
    assert compress(document, QUESTION, 100, model=reader) == expected


@pytest.mark.parametrize(("text", "query", "budget", "error"), [
    ("", QUESTION, 10, DataError), (TEXT, " ", 10, DataError), (TEXT, QUESTION, 0, ConfigError), (TEXT, QUESTION, -0.5, ConfigError),
    (TEXT, QUESTION, float("nan"), ConfigError), (TEXT, QUESTION, float("inf"), ConfigError),
    (TEXT, QUESTION, 1.5, ConfigError), (TEXT, QUESTION, True, ConfigError),
])  # fmt: skip
def test_what_cannot_be_compressed(model: str, text: str, query: str, budget: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        compress(text, query, budget, model=model)


def test_a_model_is_loaded_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compress(TEXT, QUESTION, 20, model=model)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
    assert compress(TEXT, QUESTION, 20, model=model) == first
