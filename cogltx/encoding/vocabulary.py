"""Smaller vocabularies: a multilingual encoder with the tokens of some languages alone.

Most of a small multilingual encoder is its table of word embeddings. The tokens that texts of the wanted languages use
are a third of it (Abdaoui et al. 2020, "Load what you need").
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from more_itertools import chunked

from cogltx._files import new_folder
from cogltx.blocks import load_tokenizer, save_tokenizer
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ModelError

_TEXTS_AT_ONCE = 10_000


def trim_vocabulary(encoder: str, texts: Iterable[tuple[str, float]], output: str | Path, *, size: int) -> None:
    """Write an encoder whose vocabulary has the tokens that weigh most in texts, all single characters among them.

    Args:
        encoder: a folder, or ``owner/name`` on the Hugging Face hub; its tokenizer is a unigram model (SentencePiece).
        texts: words or texts, each with its weight, such as the frequency of the word in its language.
        output: the new folder, with half-precision weights.
        size: number of tokens of the new vocabulary; more where there are more single characters.

    Raises:
        ModelError: the tokenizer is no unigram model; the encoder cannot be loaded.
    """
    tokenizer = load_tokenizer(encoder)
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if state["model"]["type"] != "Unigram":
        raise ModelError(f"{encoder}: its tokenizer is a {state['model']['type']} model; only Unigram can be trimmed")
    vocabulary: list[list[Any]] = state["model"]["vocab"]
    kept = {token["id"] for token in state["added_tokens"]}
    kept |= {number for number, (piece, _) in enumerate(vocabulary) if len(piece.strip("▁")) <= 1}
    weights = _weights(tokenizer, texts)
    by_weight = (number for number in sorted(weights, key=lambda token: -weights[token]) if number not in kept)
    order = sorted([*kept, *(number for _, number in zip(range(size - len(kept)), by_weight, strict=False))])
    model, _ = load_pretrained(EncoderConfig(name=encoder))
    embeddings = model.get_input_embeddings().weight.detach()[order].clone()
    model.resize_token_embeddings(len(order), mean_resizing=False)
    new = {old: number for number, old in enumerate(order)}
    model.get_input_embeddings().weight.data.copy_(embeddings)
    model.config.pad_token_id = new[tokenizer.pad_token_id]
    tokenizer._tokenizer = type(tokenizer.backend_tokenizer).from_str(json.dumps(_renumbered(state, new)))
    with new_folder(Path(output)) as target:
        model.to(torch.float16).save_pretrained(target)
        save_tokenizer(tokenizer, target)


def _weights(tokenizer: Any, texts: Iterable[tuple[str, float]]) -> dict[int, float]:
    """The summed weight of each token."""
    weights: dict[int, float] = defaultdict(float)
    for some in chunked(texts, _TEXTS_AT_ONCE):
        encoded = tokenizer.backend_tokenizer.encode_batch([text for text, _ in some], add_special_tokens=False)
        for tokens, (_, weight) in zip(encoded, some, strict=True):
            for token in tokens.ids:
                weights[token] += weight
    return weights


def _renumbered(state: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    """The state of a tokenizer with new token numbers."""
    model = state["model"]
    model["vocab"] = [model["vocab"][old] for old in new]
    model["unk_id"] = new[model["unk_id"]]
    for token in state["added_tokens"]:
        token["id"] = new[token["id"]]
    for token in (state["post_processor"] or {}).get("special_tokens", {}).values():
        token["ids"] = [new[old] for old in token["ids"]]
    return state
