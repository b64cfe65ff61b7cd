"""Sentences of words with IOB2 tags: ``B-TYPE`` begins every entity, ``I-TYPE`` continues one.

CoNLL columns have one word per line with its tag in the last column, separated by tabs or spaces, and a blank line
between sentences; ``-DOCSTART-`` begins a document. LitBank's JSON Lines are ``{"id", "sentences", "tags"}`` with
``tags[layer][sentence][word]``, or ``tags[sentence][word]`` for a single layer; layers may nest.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from pydantic import BaseModel, StrictInt, StrictStr, field_validator

from cogltx._files import read_lines
from cogltx.blocks._characters import unspaced
from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError

_Word: TypeAlias = tuple[str, str, str]  # word, tag, and place for messages


class _Line(BaseModel):
    id: StrictStr | StrictInt | None = None
    sentences: list[list[StrictStr]]
    tags: list[list[list[StrictStr]]]

    @field_validator("tags", mode="before")
    @classmethod
    def _layers(cls, tags: Any) -> Any:
        match tags:
            case [[str(), *_], *_]:
                return [tags]
        return tags


def read_conll(path: Path) -> Iterator[Example]:
    """Yield the documents of a file of columns; their ids are their numbers from 1."""
    for number, sentences in enumerate(_documents(path), start=1):
        text, starts = _join([[word for word, *_ in sentence] for sentence in sentences])
        entities = [one for sentence, at in zip(sentences, starts, strict=True) for one in _entities(sentence, at)]
        yield Example(id=str(number), document=Document(text, str(number)), entities=tuple(entities))


def litbank_example(values: Mapping[str, Any], where: str) -> Example:
    """Convert a line of LitBank, at ``where``, to a document with the entities of all layers."""
    line = _Line.model_validate(values)
    id = str(line.id or where.rpartition(":")[2])
    text, starts = _join(line.sentences)
    entities: list[Entity] = []
    for layer, rows in enumerate(line.tags):
        name = f"{where}: tags[{layer}]"
        if len(rows) != len(starts):
            raise DataError(f"{name} has {len(rows)} sentences, but sentences has {len(starts)}")
        for number, (words, tags, at) in enumerate(zip(line.sentences, rows, starts, strict=True)):
            if len(tags) != len(words):
                raise DataError(f"{name}[{number}] has {len(tags)} tags for {len(words)} words")
            places = [f"{name}[{number}][{index}]" for index in range(len(words))]
            entities += _entities(list(zip(words, tags, places, strict=True)), at)
    return Example(id=id, document=Document(text, id), entities=tuple(entities))


def _documents(path: Path) -> Iterator[list[list[_Word]]]:
    """The sentences of each document of columns."""
    sentences: list[list[_Word]] = [[]]
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
    n_unspaced = sum(bool(unspaced(np.array(list(map(ord, word)), dtype=np.uint32)).any()) for word in words)
    separator = " " if n_unspaced * 2 <= len(words) else ""
    starts, end = [], 0
    for sentence in sentences:
        offsets = accumulate((len(word) + len(separator) for word in sentence[:-1]), initial=end)
        starts.append(list(offsets)[: len(sentence)])
        end += len(separator.join(sentence)) + 1
    return "\n".join(separator.join(sentence) for sentence in sentences), starts


def _entities(sentence: Sequence[_Word], starts: Sequence[int]) -> list[Entity]:
    """The entities of one sentence whose words have these offsets.

    >>> _entities([("in", "O", ""), ("New", "B-LOC", ""), ("York", "I-LOC", "")], [0, 3, 7])
    [Entity(start=3, end=11, label='LOC')]
    """
    entities: list[Entity] = []
    before = "O"
    for (word, tag, place), start in zip(sentence, starts, strict=True):
        kind, _, label = tag.partition("-")
        if tag != "O" and (kind not in ("B", "I") or not label.strip()):
            raise DataError(f"{place}: the tag {tag!r} is not O, B-TYPE or I-TYPE")
        if kind == "I" and before not in (f"B-{label}", f"I-{label}"):
            raise DataError(f"{place}: I-{label} follows {before}, but only B-{label} begins an entity (IOB2)")
        if kind == "B":
            entities.append(Entity(start, start + len(word), label))
        elif kind == "I":
            entities[-1] = Entity(entities[-1].start, start + len(word), label)
        before = tag
    return entities
