"""Texts packed into full rows of tokens, without padding: what a masked language model learns from.

Knows a tokenizer; no model, and no torch. What is masked in a row: see ``masking``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int
from pydantic import BaseModel, ConfigDict, Field
from tqdm.auto import tqdm

from cogltx.blocks.tokens import tokenize
from cogltx.document import Document, Segment
from cogltx.encoding.layout import WindowFormat
from cogltx.errors import DataError

_CHARACTERS = 1 << 20  # tokenised together

Row: TypeAlias = Int[np.ndarray, " _"]
"""``[CLS] text [SEP] text … [SEP]``: vocabulary indices."""


class TextsConfig(BaseModel):
    """Where the texts come from: a text file, a folder of ``.txt`` files, or JSON Lines with ``text``; each may be
    gzipped. ``$NAME`` in a path stands for an environment variable.

    Attributes:
        train: texts to learn from.
        validation: texts to measure on; without them, ``held_out`` rows of the others are set aside.
        validation_limit: measure on only so many rows, drawn at random.
        held_out: rows set aside.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    validation: str | None = None
    validation_limit: int | None = Field(None, ge=1)
    held_out: int = Field(100, ge=1)


@dataclass(frozen=True)
class Rows:
    """Rows to learn from and to measure on."""

    train: Sequence[Row]
    validation: Sequence[Row]


def packed(texts: Iterable[str], tokenizer: Any, length: int) -> list[Row]:
    """Texts as rows of tokens.

    Raises:
        DataError: the texts are not what they should be, or the tokenizer keeps nothing of them.
    """
    shown = tqdm(texts, desc="texts", unit=" texts", disable=None, leave=False)
    rows = pack(token_ids(iter(shown), tokenizer), WindowFormat(tokenizer, length))
    if not rows:
        raise DataError("texts: expected text, got only characters that the tokenizer drops")
    return rows


def set_apart(train: Sequence[Row], validation: Sequence[Row] | None, config: TextsConfig, seed: int) -> Rows:
    """The rows of a run: of the validation texts, or held out.

    Raises:
        DataError: nothing is left to train on.
    """
    rng = np.random.default_rng([seed, 3])
    if validation is not None:
        count = min(config.validation_limit or len(validation), len(validation))
        drawn = sorted(rng.choice(len(validation), size=count, replace=False).tolist())
        return Rows(train, [validation[index] for index in drawn])
    if len(train) <= config.held_out:
        raise DataError(
            f"{config.train}: expected more rows than data.held_out, {config.held_out}, got {len(train)}; "
            "name validation texts or hold out fewer"
        )
    held_out = set(rng.choice(len(train), size=config.held_out, replace=False).tolist())
    kept = [row for index, row in enumerate(train) if index not in held_out]
    return Rows(kept, [train[index] for index in sorted(held_out)])


def token_ids(texts: Iterable[str], tokenizer: Any) -> Iterator[Int[np.ndarray, " _"]]:
    """The tokens of each text, without special ones; texts of which the tokenizer keeps nothing are left out."""
    group: list[str] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text)
        if characters >= _CHARACTERS:
            yield from _together(group, tokenizer)
            group, characters = [], 0
    if group:
        yield from _together(group, tokenizer)


def _together(texts: list[str], tokenizer: Any) -> Iterator[Int[np.ndarray, " _"]]:
    ends = np.cumsum([len(text) for text in texts]).tolist()
    segments = [Segment(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
    document = Document("".join(texts))
    try:
        ids, _, _, token_ends = tokenize(document, segments, tokenizer)
    except DataError:  # nothing is left of any of them
        return
    yield from (own for own in np.split(ids, token_ends[:-1]) if len(own))


def pack(texts: Iterable[Int[np.ndarray, " _"]], form: WindowFormat) -> list[Row]:
    """Rows of the form's capacity with all tokens of all texts, in order; the last may be shorter.

    Args:
        texts: their tokens. A text goes on in the next row; a separator stands between two texts of one row. A row with
            room for that separator alone is one token short.
        form: gives special tokens and capacity.
    """
    rows: list[Row] = []
    start, separator = np.array([form.start_id]), np.array([form.separator_id])
    parts, used = [start], 1

    def close() -> None:
        nonlocal parts, used
        rows.append(np.concatenate([*parts, separator]).astype(np.int32))
        parts, used = [start], 1

    for ids in texts:
        first = 0
        while first < len(ids):
            between = [separator] if used > 1 and first == 0 else []
            room = form.capacity - 1 - used - len(between)
            if room > 0:
                taken = ids[first : first + room]
                parts += [*between, taken]
                used += len(between) + len(taken)
                first += len(taken)
            if room <= 0 or used == form.capacity - 1:
                close()
    if used > 1:
        close()
    return rows
