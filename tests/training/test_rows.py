"""Rows of tokens hold all of the texts, full and without padding, and masks hide their share of them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.blocks import load_tokenizer
from cogltx.encoding.layout import WindowFormat
from cogltx.errors import DataError, ModelError
from cogltx.training.masked_lm import MaskedConfig, _Masking, _pack, _packed, _rows, _token_ids


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: Path) -> Any:
    return load_tokenizer(tiny_encoder)


@settings(max_examples=100)
@given(lengths=st.lists(st.integers(1, 120), max_size=8))
def test_rows_are_full_and_hold_every_token_in_order(tokenizer: Any, lengths: list[int]) -> None:
    form = WindowFormat(tokenizer, 32)
    numbers = np.arange(1000, 1000 + sum(lengths), dtype=np.int32)
    texts = np.split(numbers, np.cumsum(lengths)[:-1]) if lengths else []
    rows = _pack(texts, form)
    firsts = {int(text[0]) for text in texts}
    for row, after in pairwise(rows):
        assert len(row) == 32 or (len(row) == 31 and int(after[1]) in firsts), "room for a separator alone"
    assert all(2 < len(row) <= 32 for row in rows)
    assert all(row[0] == form.start_id and row[-1] == form.separator_id for row in rows)
    bodies = [row[1:-1] for row in rows]
    assert np.concatenate([body[body >= 1000] for body in bodies] or [numbers]).tolist() == numbers.tolist()
    for body in bodies:
        inner = np.flatnonzero(body == form.separator_id)
        assert set(body[inner + 1].tolist()) <= firsts, "a separator stands before a text that begins"
        begins = [place for place, token in enumerate(body.tolist()) if token in firsts and place > 0]
        assert inner.tolist() == [place - 1 for place in begins], "and before each that does not begin the row"


def test_tokens_of_texts(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*tiny.CORPUS, "\u200b", "word " * 9000, *tiny.CORPUS]
    expected = [tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in texts]
    found = [ids.tolist() for ids in _token_ids(iter(texts), tokenizer)]
    assert found == [ids for ids in expected if ids]
    monkeypatch.setattr("cogltx.training.masked_lm._N_TEXTS", 2)
    assert [ids.tolist() for ids in _token_ids(iter(texts), tokenizer)] == found


def test_texts_that_the_tokenizer_drops(tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\u200b")
    with pytest.raises(DataError, match=r"a\.txt: the tokenizer drops all characters"):
        _packed([str(tmp_path / "a.txt")], tokenizer, 64)


def test_rows_for_training_and_validation(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [np.full(40, number, dtype=np.int32) for number in range(10)]
    monkeypatch.setattr("cogltx.training.masked_lm._packed", lambda files, *_: rows[: 3 if files == ("b.txt",) else 10])

    def drawn(train: str = "a.txt", **data: Any) -> tuple[list[int], list[int]]:
        values = {"data": {"train": train, **data}, "training": {"seed": 1}}
        made = _rows(MaskedConfig.model_validate(values), tokenizer)
        return [int(row[0]) for row in made[0]], [int(row[0]) for row in made[1]]

    train, held_out = drawn(held_out=3)
    assert len(held_out) == 3
    assert sorted([*held_out, *train]) == list(range(10))
    assert drawn(held_out=3)[1] == held_out
    assert [len(part) for part in drawn(validation="c.txt", validation_limit=4)] == [10, 4]
    assert [len(part) for part in drawn(train_limit=5)] == [4, 1], "a fifth validates"
    wording = r"^b\.txt: data\.held_out is 3, but there are only 3 rows; hold out fewer, or name validation texts"
    with pytest.raises(DataError, match=wording):
        drawn("b.txt", held_out=3)


def test_a_share_of_the_tokens_is_masked(tokenizer: Any) -> None:
    masking = _Masking(tokenizer)
    row = np.array([tokenizer.cls_token_id, *([50] * 2000), tokenizer.sep_token_id, *([60] * 2000), 3], dtype=np.int32)
    assert row[-1] == tokenizer.sep_token_id
    shown, labels = masking(row, 0)
    places = np.flatnonzero(labels != -100)
    assert len(places) == pytest.approx(600, abs=70)
    assert (labels[places] == row[places]).all()
    assert set(labels[places].tolist()) == {50, 60}, "special tokens are not predicted"
    others = np.setdiff1d(np.arange(len(row)), places)
    assert (shown[others] == row[others]).all()
    assert np.mean(shown[places] == tokenizer.mask_token_id) == pytest.approx(0.8, abs=0.05)
    assert np.mean(shown[places] == labels[places]) == pytest.approx(0.1, abs=0.04)
    assert (masking(row, 1)[1] != labels).any()
    assert (masking(row, 0)[0] == shown).all()


def test_rows_with_little_to_mask(tokenizer: Any) -> None:
    row = np.array([2, tokenizer.unk_token_id, 3], dtype=np.int32)
    assert (_Masking(tokenizer)(row, 0)[1] == -100).all()


def test_a_tokenizer_without_a_mask(tokenizer: Any) -> None:
    class Maskless:
        mask_token_id = None

    with pytest.raises(ModelError, match="encoder: the tokenizer has no mask token"):
        _Masking(Maskless())
