"""The tiny encoders stand in for real ones, so they must load and behave like them."""

from pathlib import Path

import pytest
import tiny
import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = (
    "Who wrote the report?",
    "Anna Karlsson  wrote\nthe report in Zürich; 巴黎是法国的首都。 It cost $1,200 \U0001f600 in all.",
)


def test_loads_and_runs_a_padded_batch(architecture_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(architecture_encoder, use_fast=True)
    model = AutoModel.from_pretrained(architecture_encoder).eval()
    batch = tokenizer(list(TEXTS), padding=True, return_tensors="pt")
    alone = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.inference_mode():
        together = model(**batch).last_hidden_state
        single = model(**alone).last_hidden_state
    assert together.shape == (*batch["input_ids"].shape, 32)
    assert together.isfinite().all()
    torch.testing.assert_close(together[:1, : single.shape[1]], single, atol=1e-5, rtol=1e-4)


def test_offsets_map_back_to_the_text(architecture_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(architecture_encoder, use_fast=True)
    assert tokenizer.is_fast
    text = TEXTS[1]
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
    covered = {i for start, end in offsets for i in range(start, end)}
    missed = {i for i, character in enumerate(text) if not character.isspace()} - covered
    assert not missed, f"characters that no token covers: {[text[i] for i in sorted(missed)]}"


def test_special_tokens_stand_at_the_ends(architecture_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(architecture_encoder)
    ids = tokenizer("the fox", "the dog")["input_ids"]
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.sep_token_id in ids[1:-1]
    special = {tokenizer.pad_token, tokenizer.unk_token, tokenizer.cls_token, tokenizer.sep_token}
    assert len(special | {tokenizer.mask_token}) == 5


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_takes_as_many_tokens_as_asked(architecture: str, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(tiny.make_encoder(tmp_path, architecture, max_positions=40)).eval()
    ids = torch.full((1, 40), 7)
    with torch.inference_mode():
        assert model(input_ids=ids).last_hidden_state.shape == (1, 40, 32)


def test_seed_decides_the_weights_and_leaves_the_random_state(tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    paths = [tiny.make_encoder(tmp_path / str(i), seed=seed) for i, seed in enumerate((1, 1, 2))]
    assert torch.equal(torch.random.get_rng_state(), before)
    first, same, other = ((path / "model.safetensors").read_bytes() for path in paths)
    assert first == same != other


def test_tokenizers_are_repeatable() -> None:
    for architecture in tiny.ARCHITECTURES:
        first, again = (tiny.make_tokenizer(architecture).backend_tokenizer.to_str() for _ in range(2))
        assert first == again, architecture


def test_more_texts_grow_the_vocabulary() -> None:
    word = "zyzzyva"
    assert word not in tiny.make_tokenizer().get_vocab()
    assert word in tiny.make_tokenizer(texts=[f"{word} {word} {word}"] * 20).get_vocab()
