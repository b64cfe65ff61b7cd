"""Sentences of words with tags of any scheme.

CoNLL columns have one word per line with its tag in the last column, separated by tabs or spaces, and a blank line
between sentences; ``-DOCSTART-`` begins a document. LitBank's JSON Lines are ``{"id", "sentences", "tags"}`` with
``tags[layer][sentence][word]``, or ``tags[sentence][word]`` for a single layer; layers may nest.

The scheme of the tags (IOB1, IOB2, BIOES, BILOU, BMES and their kin) is detected from those of a whole file. A tag is
``O``, or a letter and a type, as in ``B-PER`` or ``B_PER``, in capitals or not. ``B`` begins an entity, ``I`` (or
``M``) continues it, ``E`` (or ``L``) is its last word, and ``S`` (``U``, ``W``) is an entity of one word. In IOB1 and
IOE, whose ``B`` or ``E`` only part neighbours of one type, ``I`` begins entities, too: so it is in a file where no
``B`` or ``S`` follows ``O`` or begins a sentence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self, TypeAlias

from pydantic import BaseModel, StrictStr, field_validator

from cogltx._files import read_json_lines, read_lines
from cogltx.blocks._script import UNSPACED, kind
from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError
from cogltx.tasks.base import Id, errors_at

Word: TypeAlias = tuple[str, str, str]  # word, tag, and place for messages

_TAG = re.compile(r"([BIMELSUW])[-_](.*\S)", re.IGNORECASE)
_LETTERS = {"M": "I", "L": "E", "U": "S", "W": "S"}
_OUTSIDE = ("O", "o", "0", "_")


class _Line(BaseModel):
    id: Id | None = None
    sentences: list[list[StrictStr]]
    tags: list[list[list[StrictStr]]]

    @field_validator("tags", mode="before")
    @classmethod
    def _layers(cls, tags: Any) -> Any:
        rows = tags if isinstance(tags, list) else []
        return [tags] if any(isinstance(tag, str) for row in rows if isinstance(row, list) for tag in row) else tags


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


def read_conll(path: Path) -> Iterator[Example]:
    """Yield the documents of a file of columns; their ids are their numbers from 1."""
    scheme = Scheme.of(sentence for sentences in _documents(path) for sentence in sentences)
    for number, sentences in enumerate(_documents(path), start=1):
        text, starts = _join([[word for word, *_ in sentence] for sentence in sentences])
        entities = [
            one for sentence, at in zip(sentences, starts, strict=True) for one in _entities(sentence, at, scheme)
        ]
        yield Example(id=str(number), document=Document(text, str(number)), entities=tuple(entities))


def litbank_scheme(path: Path) -> Scheme:
    """Detect the scheme of the tags in a file of LitBank's lines."""
    lines = (item for item in read_json_lines(path) if "sentences" in item[1])
    return Scheme.of(sentence for where, values in lines for layer in _layers(values, where)[1] for sentence in layer)


def litbank_example(values: Mapping[str, Any], where: str, scheme: Scheme) -> Example:
    """Convert a line of LitBank, at ``where``, to a document with the entities of all layers."""
    line, layers = _layers(values, where)
    id = where.rpartition(":")[2] if line.id is None else line.id
    text, starts = _join(line.sentences)
    entities = [
        entity
        for layer in layers
        for sentence, at in zip(layer, starts, strict=True)
        for entity in _entities(sentence, at, scheme)
    ]
    return Example(id=id, document=Document(text, id), entities=tuple(entities))


def _layers(values: Mapping[str, Any], where: str) -> tuple[_Line, list[list[list[Word]]]]:
    """Validate a line of LitBank; also return the tagged sentences of each layer."""
    with errors_at(where):
        line = _Line.model_validate(values)
    return line, [_layer(line.sentences, rows, f"{where}: tags[{number}]") for number, rows in enumerate(line.tags)]


def _layer(sentences: list[list[str]], rows: list[list[str]], where: str) -> list[list[Word]]:
    """Put words and tags together."""
    if len(rows) != len(sentences):
        raise DataError(f"{where} has {len(rows)} sentences, but sentences has {len(sentences)}")
    layer = []
    for number, (words, tags) in enumerate(zip(sentences, rows, strict=True)):
        if len(tags) != len(words):
            raise DataError(f"{where}[{number}] has {len(tags)} tags for {len(words)} words")
        places = (f"{where}[{number}][{index}]" for index in range(len(words)))
        layer.append(list(zip(words, tags, places, strict=True)))
    return layer


def _documents(path: Path) -> Iterator[list[list[Word]]]:
    """The sentences of each document of columns."""
    sentences: list[list[Word]] = [[]]
    first: tuple[int, int] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t" if "\t" in line else " ") if column.strip()]
        if not columns or columns[0] == "-DOCSTART-":
            if columns and any(sentences):
                yield list(filter(None, sentences))
                sentences = []
            sentences.append([])
            continue
        first = first or (len(columns), number)
        if len(columns) != first[0] or len(columns) < 2:
            wanted = f"line {first[1]} has {first[0]}" if first[0] > 1 else "a word and its tag are needed"
            raise DataError(f"{path}:{number}: {len(columns)} column{'s'[: len(columns) != 1]}, but {wanted}")
        sentences[-1].append((columns[0], columns[-1], f"{path}:{number}"))
    if any(sentences):
        yield list(filter(None, sentences))


def _join(sentences: Sequence[Sequence[str]]) -> tuple[str, list[list[int]]]:
    """Join words by spaces, unless most have none in their script, with one line per sentence; also return offsets.

    >>> _join([["He", "sat", "."], ["So", "."]])
    ('He sat .\\nSo .', [[0, 3, 7], [9, 12]])
    >>> _join([["我", "在", "巴", "黎"]])
    ('我在巴黎', [[0, 1, 2, 3]])
    """
    words = [word for sentence in sentences for word in sentence]
    n_unspaced = sum(any(kind(character) & UNSPACED for character in word) for word in words)
    separator = " " if n_unspaced * 2 <= len(words) else ""
    starts, end = [], 0
    for sentence in sentences:
        offsets = accumulate((len(word) + len(separator) for word in sentence[:-1]), initial=end)
        starts.append(list(offsets)[: len(sentence)])
        end += len(separator.join(sentence)) + 1
    return "\n".join(separator.join(sentence) for sentence in sentences), starts


def _entities(sentence: Sequence[Word], starts: Sequence[int], scheme: Scheme) -> list[Entity]:
    """The entities of one sentence whose words have these offsets."""
    return [
        Entity(starts[first], starts[last] + len(sentence[last][0]), label)
        for first, last, label in scheme.entities(sentence)
    ]
