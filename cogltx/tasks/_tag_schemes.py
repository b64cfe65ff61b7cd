"""Schemes of tags: IOB1, IOB2, BIOES, BILOU, BMES and their kin, detected from the tags of a whole file.

A tag is ``O``, or a letter and a type, as in ``B-PER`` or ``B_PER``, in capitals or not. ``B`` begins an entity, ``I``
(or ``M``) continues it, ``E`` (or ``L``) is its last word, and ``S`` (``U``, ``W``) is an entity of one word. In IOB1
and IOE, whose ``B`` or ``E`` only part neighbours of one type, ``I`` begins entities, too: so it is in a file where no
``B`` or ``S`` follows ``O`` or begins a sentence.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from cogltx.errors import DataError

Word: TypeAlias = tuple[str, str, str]  # word, tag, and place for messages

_TAG = re.compile(r"([BIMELSUW])[-_](.*\S)", re.IGNORECASE)
_LETTERS = {"M": "I", "L": "E", "U": "S", "W": "S"}
_OUTSIDE = ("O", "o", "0", "_")


@dataclass(frozen=True)
class Scheme:
    """Tag scheme of a file: how entities begin and end.

    Attributes:
        begins: every entity begins with ``B`` or ``S``.
        ends: entities of several words end with ``E``.
        singles: entities of one word are ``S``.
    """

    begins: bool
    ends: bool
    singles: bool

    @classmethod
    def of(cls, sentences: Iterable[Sequence[Word]]) -> Self:
        """Detect the scheme of a file; raises DataError for what is not a tag."""
        letters, begins = set[str](), False
        for sentence in sentences:
            before = "O"
            for _, tag, place in sentence:
                letter, _ = _parse(tag, place)
                begins = begins or letter == "S" or (letter == "B" and before == "O")
                letters.add(letter)
                before = letter
        return cls(begins, begins and bool(letters & {"E", "S"}), "S" in letters)

    def entities(self, sentence: Sequence[Word]) -> list[tuple[int, int, str]]:
        """Return first word, last word and type of each entity; raises DataError where tags contradict the scheme.

        >>> Scheme(begins=True, ends=False, singles=False).entities([("New", "B-LOC", ""), ("York", "I-LOC", "")])
        [(0, 1, 'LOC')]
        """
        entities: list[tuple[int, int, str]] = []
        is_open = False  # whether the next word may continue the last entity
        for index, (_, tag, place) in enumerate(sentence):
            letter, label = _parse(tag, place)
            continues = is_open and letter in "IE" and entities[-1][2] == label
            if is_open and not continues:
                self._check_end(entities[-1], sentence)
            if continues:
                entities[-1] = (entities[-1][0], index, label)
            elif letter != "O":
                if self.begins and letter in "IE":
                    before = sentence[index - 1][1] if index else "the beginning of a sentence"
                    raise DataError(f"{place}: {tag} follows {before}, but in this file B begins an entity")
                entities.append((index, index, label))
            is_open = letter in "BI"
        if is_open:
            self._check_end(entities[-1], sentence)
        return entities

    def _check_end(self, entity: tuple[int, int, str], sentence: Sequence[Word]) -> None:
        """Raise DataError if an entity that ends without ``E`` or ``S`` needs one."""
        first, last, _ = entity
        if self.ends and (first < last or self.singles):
            _, tag, place = sentence[last]
            raise DataError(f"{place}: {tag} is the last word of an entity, which in this file has a tag of its own")


def _parse(tag: str, place: str) -> tuple[str, str]:
    """Return the letter of a tag, one of B, I, E, S and O, and the type."""
    if tag in _OUTSIDE:
        return "O", ""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise DataError(f"{place}: the tag {tag!r} is not O, or B, I, E, S, L or U with a type, such as B-PER")
    letter = match[1].upper()
    return _LETTERS.get(letter, letter), match[2].strip()
