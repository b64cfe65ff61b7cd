"""Words with BIO tags to a text with labelled spans, and entities that overlap made flat.

Knows nothing about files or data sets. BIO is IOB2: ``B-TYPE`` begins every entity, ``I-TYPE`` goes on with one.
"""

import itertools
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from cogltx.blocks.characters import unspaced
from cogltx.document import Entity
from cogltx.errors import DataError

Overlapping: TypeAlias = Literal["refuse", "outermost", "innermost"]


def joined(sentences: Sequence[Sequence[str]], *, spaces: bool | None = None) -> tuple[str, list[list[int]]]:
    """A text of words, a line a sentence.

    Args:
        sentences: their words.
        spaces: whether words are parted by spaces; None: unless most of them are of scripts written without.

    Returns:
        the text, and where each word of each sentence begins in it.

    >>> joined([["He", "sat", "."], ["So", "."]])
    ('He sat .\\nSo .', [[0, 3, 7], [9, 12]])
    >>> joined([["我", "在", "巴", "黎"]])
    ('我在巴黎', [[0, 1, 2, 3]])
    """
    if spaces is None:
        words = [word for sentence in sentences for word in sentence]
        spaces = sum(map(_unspaced, words)) * 2 <= len(words)
    parts: list[str] = []
    starts: list[list[int]] = []
    end = 0
    for number, sentence in enumerate(sentences):
        starts.append([])
        for place, word in enumerate(sentence):
            gap = (" " if spaces else "") if place else "\n" if number else ""
            starts[-1].append(end + len(gap))
            parts += [gap, word]
            end += len(gap) + len(word)
    return "".join(parts), starts


def _unspaced(word: str) -> bool:
    return bool(unspaced(np.array([ord(character) for character in word], dtype=np.uint32)).any())


def bio_entities(
    words: Sequence[str], starts: Sequence[int], tags: Sequence[str], where: Sequence[str]
) -> list[Entity]:  # fmt: skip
    """The entities that a sentence's tags mark.

    Args:
        words: of the sentence.
        starts: first character of each word.
        tags: one a word.
        where: opens the message about each word's tag.

    Raises:
        DataError: a tag is none, or goes on with an entity that does not stand before it.

    >>> bio_entities(["in", "New", "York"], [0, 3, 7], ["O", "B-LOC", "I-LOC"], ["a:1", "a:2", "a:3"])
    [Entity(start=3, end=11, label='LOC')]
    """
    found: list[Entity] = []
    before = "O"
    for word, start, tag, place in zip(words, starts, tags, where, strict=True):
        kind, _, label = tag.partition("-")
        if tag != "O" and (kind not in ("B", "I") or not label.strip()):
            raise DataError(f"{place}: expected a tag O, B-TYPE or I-TYPE, got {tag!r}")
        if kind == "I" and before not in (f"B-{label}", f"I-{label}"):
            raise DataError(f"{place}: expected B-{label} or I-{label} before I-{label} (IOB2), got {before}")
        if kind == "B":
            found.append(Entity(start, start + len(word), label))
        elif kind == "I":
            found[-1] = Entity(found[-1].start, start + len(word), label)
        before = tag
    return found


def flat(entities: Sequence[Entity], overlapping: Overlapping, where: str) -> tuple[Entity, ...]:
    """Entities of which no two share a character, in document order.

    Args:
        entities: any; the same one twice counts once.
        overlapping: what becomes of those that overlap: refused, or the longest (``outermost``) or shortest
            (``innermost``) stay; of equally long ones the first.
        where: opens the message.

    Raises:
        DataError: two overlap and that is refused.

    >>> flat([Entity(0, 9, "FAC"), Entity(4, 9, "PER")], "innermost", "a")
    (Entity(start=4, end=9, label='PER'),)
    """
    distinct = sorted(dict.fromkeys(entities))
    if overlapping == "refuse":
        for one, other in itertools.pairwise(distinct):
            if other.start < one.end:
                raise DataError(
                    f"{where}: expected entities that do not overlap, got {one.label} {one.start}:{one.end} and "
                    f"{other.label} {other.start}:{other.end}; set task.options.overlapping to outermost or innermost"
                )
        return tuple(distinct)
    sign = 1 if overlapping == "innermost" else -1
    taken = np.zeros(max((entity.end for entity in distinct), default=0), dtype=bool)
    kept = []
    for entity in sorted(dict.fromkeys(entities), key=lambda entity: sign * (entity.end - entity.start)):
        if not taken[entity.start : entity.end].any():
            taken[entity.start : entity.end] = True
            kept.append(entity)
    return tuple(sorted(kept))
