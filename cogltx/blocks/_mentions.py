"""Mentions: the blocks of a document that name the heading of another part, such as a paragraph's title."""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from cogltx.blocks._script import UNIT, folded

_ADDITION = re.compile(r"\([^()]*\)\s*$")  # "(film)" in a title is not part of the name

_Names: TypeAlias = dict[tuple[str, ...], list[int]]  # numbers of headings by their words


@dataclass(frozen=True)
class Mentions:
    """Pairs of a block and a heading, other than its own, whose words the block contains in order, in any case.

    Also the heading per block, ``heading_of``, and the words of the headings, ``names``.
    """

    blocks: Int[np.ndarray, " mentions"]
    headings: Int[np.ndarray, " mentions"]
    heading_of: Int[np.ndarray, " blocks"]
    names: _Names = field(default_factory=dict)

    @classmethod
    def of(
        cls, text: str, starts: Int[np.ndarray, " blocks"], headings: Sequence[str], heading_of: Int[np.ndarray, " _"]
    ) -> Self:
        """Find the mentions in a text whose blocks begin at ``starts``."""
        names: _Names = defaultdict(list)
        for number, heading in enumerate(headings):
            name = tuple(map(folded, UNIT.findall(_ADDITION.sub("", heading))))
            if name:
                names[name].append(number)
        occurrences = np.array(list(_occurrences(text, names)), dtype=np.int64).reshape(-1, 2)
        blocks, named = np.searchsorted(starts, occurrences[:, 0], side="right") - 1, occurrences[:, 1]
        pairs = np.unique(np.stack([blocks, named], axis=1)[heading_of[blocks] != named], axis=0)
        return cls(pairs[:, 0], pairs[:, 1], heading_of, dict(names))

    def named(self, question: str) -> Bool[np.ndarray, " blocks"]:
        """Mark the blocks whose heading a question mentions."""
        return np.isin(self.heading_of, [heading for _, heading in _occurrences(question, self.names)])

    def best(self, scores: Float[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
        """Find, per block, the best score of a block that mentions its heading or has one that it mentions; or 0."""
        known = np.nan_to_num(scores)
        n_headings = int(self.heading_of.max(initial=-1)) + 1
        under, mentioning, mentioned = np.zeros(n_headings), np.zeros(n_headings), np.zeros(len(known))
        np.maximum.at(under, self.heading_of, known)
        np.maximum.at(mentioning, self.headings, known[self.blocks])
        np.maximum.at(mentioned, self.blocks, under[self.headings])
        return np.asarray(np.maximum(mentioning[self.heading_of], mentioned))


def _occurrences(text: str, names: _Names) -> Iterator[tuple[int, int]]:
    """Yield the first character and the heading of each occurrence of a heading's words."""
    lengths = defaultdict[str, set[int]](set)
    for name in names:
        lengths[name[-1]].add(len(name))
    longest = max(map(len, names), default=0)
    starts, words = deque[int](maxlen=longest), deque[str](maxlen=longest)
    for match in UNIT.finditer(text) if names else ():
        starts.append(match.start())
        words.append(folded(match.group()))
        for length in lengths.get(words[-1], ()):
            if length <= len(words):
                for number in names.get(tuple(words)[-length:], ()):
                    yield starts[-length], number
