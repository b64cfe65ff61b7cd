"""A trimmed encoder reads the texts that it kept the tokens of as before."""

from pathlib import Path

import pytest
import tiny
import torch

from cogltx.blocks import load_tokenizer
from cogltx.encoding.encoder import Batch, load_encoder
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.encoding.vocabulary import trim_vocabulary
from cogltx.errors import ModelError

KEPT = "Who wrote the report? Anna Karlsson wrote it in Stockholm."


def vectors(folder: Path, text: str) -> torch.Tensor:
    ids = torch.tensor([load_tokenizer(folder)(text)["input_ids"]])
    encoder = load_encoder(EncoderConfig(name=str(folder), hidden_dropout=0.0)).eval()
    with torch.no_grad():
        result: torch.Tensor = encoder(Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids)))
    return result


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("vocabulary")
    whole = tiny.make_encoder(folder / "whole", "xlm-roberta")
    words = sorted({piece for piece in load_tokenizer(whole).get_vocab() if len(piece.strip("▁")) > 1})
    trim_vocabulary(str(whole), [(KEPT, 1.0), *((word, 0.0) for word in words)], folder / "small", size=1)
    trim_vocabulary(str(whole), [(KEPT, 1.0)], folder / "kept", size=len(load_tokenizer(whole)) - 20)
    return whole, folder / "kept"


def test_texts_of_kept_tokens_have_the_same_vectors(trimmed: tuple[Path, Path]) -> None:
    whole, kept = trimmed
    assert len(load_tokenizer(kept)) < len(load_tokenizer(whole))
    assert load_tokenizer(kept).tokenize(KEPT) == load_tokenizer(whole).tokenize(KEPT)
    torch.testing.assert_close(vectors(kept, KEPT), vectors(whole, KEPT), atol=1e-2, rtol=1e-2)


def test_single_characters_and_special_tokens_stay(trimmed: tuple[Path, Path]) -> None:
    whole = load_tokenizer(trimmed[0])
    small = load_tokenizer(trimmed[0].parent / "small")
    assert small.unk_token_id not in small("巴黎 fox zeta")["input_ids"]
    assert small.all_special_tokens == whole.all_special_tokens
    assert small.tokenize("fox") != whole.tokenize("fox") or len(whole.tokenize("fox")) == 3
    assert small.convert_ids_to_tokens(small("fox")["input_ids"])[0] == whole.cls_token


def test_only_unigram_models(tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / "bert")
    with pytest.raises(ModelError, match=r"its tokenizer is a WordPiece model; only Unigram can be trimmed"):
        trim_vocabulary(str(folder), [("a", 1.0)], tmp_path / "out", size=10)
