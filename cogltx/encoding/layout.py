"""Windows: what one encoder pass sees, ``[CLS] Q [SEP] z0 [SEP] … z(n-1) [SEP]``, and the map back to the document.

Knows a tokenizer's special tokens; no model, and no torch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cogltx.blocks import Asked, BlockQuery, Blocks
from cogltx.errors import ConfigError, DataError, ModelError

NONE = -1  # in ``Window.block`` and ``Window.document_token``: a token that stands for no block, no part of the text


@dataclass(frozen=True)
class Window:
    """One encoder pass.

    Attributes:
        token_ids: vocabulary indices, shape [tokens].
        block: index of the block that each token shows (heading included), ``NONE`` for the query and separators.
        document_token: index of each token in the document, ``NONE`` for a question, headings and separators; those of
            a block that is the query have one.
        n_prefix: tokens of ``[CLS] Q [SEP]`` at the start.
    """

    token_ids: Int[np.ndarray, " tokens"]
    block: Int[np.ndarray, " tokens"]
    document_token: Int[np.ndarray, " tokens"]
    n_prefix: int

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def subject(self) -> Int[np.ndarray, " places"]:
        """Where the document's tokens stand that the window is about: the query's, if that is a block; else all."""
        places = np.flatnonzero(self.document_token >= 0)
        own = places[places < self.n_prefix]
        return own if len(own) else places

    def block_means(
        self, values: Float[np.ndarray, " tokens"]
    ) -> tuple[Int[np.ndarray, " shown"], Float[np.ndarray, " shown"]]:
        """The blocks in the window, in document order, and the mean of a value a token over each one's tokens."""
        shown = self.block >= 0
        blocks, place = np.unique(self.block[shown], return_inverse=True)
        return blocks, np.bincount(place, weights=values[shown]) / np.bincount(place)


class WindowFormat:
    """How a tokenizer's windows are laid out, and how much they hold.

    Args:
        tokenizer: a fast tokenizer with a start (CLS or BOS) and a separator (SEP or EOS) token.
        capacity: L, the most tokens a window holds.

    Raises:
        ConfigError: the capacity is below 32.
        ModelError: the tokenizer has no start or separator token.
    """

    def __init__(self, tokenizer: Any, capacity: int = 512) -> None:
        if capacity < 32:
            raise ConfigError(f"capacity: expected at least 32 tokens, got {capacity}")
        self.tokenizer = tokenizer
        self.capacity = capacity
        self.start_id = _first_set(tokenizer, "cls_token_id", "bos_token_id")
        self.separator_id = _first_set(tokenizer, "sep_token_id", "eos_token_id")
        self.padding_id = tokenizer.pad_token_id or 0

    def prefix(self, query: Asked, largest_block: int) -> Int[np.ndarray, " prefix"]:
        """``[CLS] Q [SEP]``, or ``[CLS]`` without a query.

        Args:
            query: the question, or a block; None for tasks without one.
            largest_block: tokens the largest block takes, for which there must be room.

        Raises:
            ConfigError: a window cannot hold the largest block.
            DataError: the question leaves no room for one block.
        """
        least = 1 + largest_block if query is None else 3 + largest_block
        if isinstance(query, BlockQuery):
            least += largest_block
        if least > self.capacity:
            raise ConfigError(
                f"capacity: expected at least {least}, as blocks take up to {largest_block}, got {self.capacity}"
            )
        if query is None:
            return np.array([self.start_id], dtype=np.int32)
        if isinstance(query, BlockQuery):
            return np.array([self.start_id, *query.token_ids, self.separator_id], dtype=np.int32)
        ids = self.tokenizer(query.text, add_special_tokens=False, verbose=False)["input_ids"]
        room = self.capacity - largest_block - 2
        if len(ids) > room:
            raise DataError(
                f"question: expected at most {room} tokens (a window of {self.capacity} must hold a block too), "
                f"got {len(ids)}"
            )
        return np.array([self.start_id, *ids, self.separator_id], dtype=np.int32)

    def room(self, prefix: Int[np.ndarray, " prefix"]) -> int:
        """Tokens left for blocks."""
        return self.capacity - len(prefix)

    def window(
        self, prefix: Int[np.ndarray, " prefix"], blocks: Blocks, order: Iterable[int], query: Asked = None
    ) -> Window:
        """A window that shows blocks in the given order, each with its heading before and a separator behind it.

        Args:
            prefix: ``[CLS] Q [SEP]``.
            blocks: of the document.
            order: which of them.
            query: Q, where it is a block.
        """
        ids: list[np.ndarray] = [prefix]
        block: list[np.ndarray] = [np.full(len(prefix), NONE)]
        token: list[np.ndarray] = [np.full(len(prefix), NONE)]
        if isinstance(query, BlockQuery):
            own = blocks[query.block]
            token[0][1 + query.n_heading : -1] = np.arange(own.first_token, own.end_token)
        separator = np.array([self.separator_id])
        for index in order:
            shown = blocks[index]
            heading = blocks.headings[shown.heading]
            ids += [heading, blocks.token_ids[shown.first_token : shown.end_token], separator]
            block += [np.full(len(heading) + shown.n_tokens, index), np.array([NONE])]
            token += [np.full(len(heading), NONE), np.arange(shown.first_token, shown.end_token), np.array([NONE])]
        token_ids, block_ids, tokens = (np.concatenate(parts).astype(np.int32) for parts in (ids, block, token))
        window = Window(token_ids, block_ids, tokens, len(prefix))
        assert len(window) <= self.capacity, f"a window of {len(window)} tokens exceeds the capacity of {self.capacity}"
        return window


def pack(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Splits consecutive items into the fewest runs whose sizes sum to at most ``room``.

    >>> pack([3, 3, 3, 5, 2], room=6)
    [[0, 1], [2], [3], [4]]
    """
    runs: list[list[int]] = []
    used = room
    for index, size in enumerate(sizes):
        if used + size > room:
            runs.append([])
            used = 0
        runs[-1].append(index)
        used += size
    return runs


def _first_set(tokenizer: Any, *names: str) -> int:
    for name in names:
        value = getattr(tokenizer, name, None)
        if value is not None:
            return int(value)
    raise ModelError(f"tokenizer: expected one of {' or '.join(names)}, got neither")
