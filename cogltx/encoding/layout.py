"""Windows: the input of one encoder pass, ``[CLS] Q [SEP] z0 [SEP] … z(n-1) [SEP]``, with the map back to the document.

``WindowFormat`` holds the special tokens and the capacity. ``Layout`` is computed once per query and document and
builds all of their windows. Does not depend on torch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from more_itertools import constrained_batches

from cogltx.blocks import AnyQuery, BlockQuery, Blocks, encode
from cogltx.errors import ConfigError, DataError, ModelError

NONE = -1  # in ``Window.block`` and ``Window.document_token``
_NEUTRAL = (
    "The weather was fine that day and nothing happened in the town. "
    "Most people stayed at home in the afternoon, and a few went for a walk."
)


@dataclass(frozen=True)
class Window:
    """The input of one encoder pass.

    Attributes:
        token_ids: vocabulary indices, shape [tokens].
        block: index of each token's block, heading included; ``NONE`` for the query and separators.
        document_token: index of each token in the document; ``NONE`` for a question, headings and separators.
        n_prefix: number of tokens of ``[CLS] Q [SEP]``.
    """

    token_ids: Int[np.ndarray, " tokens"]
    block: Int[np.ndarray, " tokens"]
    document_token: Int[np.ndarray, " tokens"]
    n_prefix: int

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def target_tokens(self) -> Int[np.ndarray, " positions"]:
        """Positions of the tokens to predict: the tokens of a block query if there is one, else all of the document."""
        positions = np.flatnonzero(self.document_token >= 0)
        in_query = positions[positions < self.n_prefix]
        return in_query if len(in_query) else positions

    @property
    def blocks(self) -> list[int]:
        """The blocks in the window, in order, without the query."""
        return list(dict.fromkeys(self.block[self.block >= 0].tolist()))

    def block_means(
        self, token_values: Float[np.ndarray, " tokens"]
    ) -> tuple[Int[np.ndarray, " blocks"], Float[np.ndarray, " blocks"]]:
        """Average a value per token over each block of the window; returns block indices, ascending, and means."""
        in_block = self.block >= 0
        blocks, inverse = np.unique(self.block[in_block], return_inverse=True)
        return blocks, np.bincount(inverse, weights=token_values[in_block]) / np.bincount(inverse)


class WindowFormat:
    """The special tokens and the capacity of windows.

    Args:
        tokenizer: a fast tokenizer with a start (CLS or BOS) and a separator (SEP or EOS) token.
        capacity: L, the maximum number of tokens per window.
        n_separators: separators between Q and z.

    Raises:
        ConfigError: the capacity is below 32.
        ModelError: the tokenizer has no start or separator token.
    """

    def __init__(self, tokenizer: Any, capacity: int = 512, n_separators: int = 1) -> None:
        if capacity < 32:
            raise ConfigError(f"capacity is {capacity}; it must be at least 32 tokens")
        self.tokenizer = tokenizer
        self.capacity = capacity
        self.start_id = _special_id(tokenizer, "cls_token_id", "bos_token_id")
        self.separator_id = _special_id(tokenizer, "sep_token_id", "eos_token_id")
        self.padding_id: int = tokenizer.pad_token_id or 0
        self.n_separators = n_separators

    @cached_property
    def neutral(self) -> Int[np.ndarray, " tokens"]:
        """The tokens of a text that answers no question."""
        return encode([_NEUTRAL], self.tokenizer)[0][0]

    def layout(self, query: AnyQuery, blocks: Blocks) -> "Layout":
        """Lay out a query and a document.

        Raises:
            ConfigError: the capacity is too small for the largest block.
            DataError: the question leaves no room for one block.
        """
        n_blocks = 2 if isinstance(query, BlockQuery) else 1
        smallest = n_blocks * blocks.max_size + (1 if query is None else 2 + self.n_separators)
        if smallest > self.capacity:
            raise ConfigError(
                f"capacity is {self.capacity}; blocks of up to {blocks.max_size} tokens need at least {smallest}"
            )
        if query is None:
            return Layout(self, query, blocks, np.array([self.start_id], dtype=np.int32))
        if isinstance(query, BlockQuery):
            query_ids = list(query.token_ids)
        else:
            query_ids = list(_question_ids(query.text, self.tokenizer))
        room = self.capacity - blocks.max_size - 1 - self.n_separators
        if len(query_ids) > room and not isinstance(query, BlockQuery):
            raise DataError(
                f"the question has {len(query_ids)} tokens; at most {room} fit, "
                f"because a window of {self.capacity} tokens must also hold a block"
            )
        prefix = np.array([self.start_id, *query_ids, *[self.separator_id] * self.n_separators], dtype=np.int32)
        return Layout(self, query, blocks, prefix)


@lru_cache(maxsize=64)
def _question_ids(text: str, tokenizer: Any) -> tuple[int, ...]:
    """Tokenize a question, which is often about many texts."""
    return tuple(encode([text], tokenizer)[0][0].tolist())


@dataclass(frozen=True, eq=False)
class Layout:
    """A query and a document, ready for windows; ``prefix`` is ``[CLS] Q [SEP]``, or ``[CLS]`` without a query."""

    form: WindowFormat
    query: AnyQuery
    blocks: Blocks
    prefix: Int[np.ndarray, " prefix"]

    @property
    def room(self) -> int:
        """Tokens of a window that are left for blocks."""
        return self.form.capacity - len(self.prefix)

    @cached_property
    def candidates(self) -> list[int]:
        """All blocks in document order, except a block that is the query."""
        excluded = self.query.block if isinstance(self.query, BlockQuery) else NONE
        return [index for index in range(len(self.blocks)) if index != excluded]

    @cached_property
    def fits(self) -> bool:
        """Whether one window holds the whole document."""
        return self.blocks.total_size(self.candidates) <= self.room

    def for_block(self, index: int) -> "Layout":
        """Lay out the same document with one of its blocks as the query."""
        return self.form.layout(self.blocks.as_query(index), self.blocks)

    def window(self, order: Iterable[int], *, neutral: bool = False) -> Window:
        """Build the window of some blocks in the given order, each with its heading before and a separator after it.

        With ``neutral``, what fits of a text that answers no question separates them from the query.
        """
        query, blocks, order = self.query, self.blocks, list(order)
        prefix_tokens = np.full(len(self.prefix), NONE)
        if isinstance(query, BlockQuery):
            query_block = blocks[query.block]
            prefix_tokens[1 + query.n_heading : -self.form.n_separators] = np.arange(
                query_block.first_token, query_block.end_token
            )
        token_ids: list[np.ndarray] = [self.prefix]
        block_ids: list[np.ndarray] = [np.full(len(self.prefix), NONE)]
        document_tokens: list[np.ndarray] = [prefix_tokens]
        separator, no_block = np.array([self.form.separator_id]), np.array([NONE])
        if neutral:
            room = self.room - blocks.total_size(order) - 1
            token_ids.append(np.append(self.form.neutral[: max(0, room)], separator)[: room + 1])
            block_ids.append(np.full(len(token_ids[-1]), NONE))
            document_tokens.append(block_ids[-1])
        for index in order:
            block = blocks[index]
            heading = blocks.headings[block.heading]
            token_ids += [heading, blocks.token_ids[block.first_token : block.end_token], separator]
            block_ids += [np.full(len(heading) + block.n_tokens, index), no_block]
            tokens = np.arange(block.first_token, block.end_token)
            document_tokens += [np.full(len(heading), NONE), tokens, no_block]
        window = Window(_joined(token_ids), _joined(block_ids), _joined(document_tokens), len(self.prefix))
        assert len(window) <= self.form.capacity, f"{len(window)} tokens exceed the capacity {self.form.capacity}"
        return window

    def windows(self) -> Iterator[Window]:
        """Build the fewest windows that show the whole document in order."""
        runs = pack(self.blocks.sizes[self.candidates].tolist(), self.room)
        return (self.window(self.candidates[place] for place in run) for run in runs)


def pack(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Split consecutive items into the fewest runs whose sizes sum to at most ``room``.

    >>> pack([3, 3, 3, 5, 2], room=6)
    [[0, 1], [2], [3], [4]]
    """
    runs = constrained_batches(range(len(sizes)), room, get_len=sizes.__getitem__, strict=False)
    return list(map(list, runs))


def _joined(parts: Sequence[np.ndarray]) -> Int[np.ndarray, " tokens"]:
    return np.concatenate(parts).astype(np.int32)


def separators_between_texts(tokenizer: Any) -> int:
    """Number of separators that a tokenizer puts between two texts: one, for RoBERTa two."""
    return max(1, int(tokenizer.num_special_tokens_to_add(pair=True)) - 2)


def _special_id(tokenizer: Any, *names: str) -> int:
    for name in names:
        value = getattr(tokenizer, name, None)
        if value is not None:
            return int(value)
    raise ModelError(f"the tokenizer has neither {' nor '.join(names)}")
