"""CoNLL columns: a word per line with its tag in the last column, a blank line between sentences.

``-DOCSTART-`` begins a document; a file without it is one document. Tabs or spaces separate the columns. Tags are IOB2:
``B-TYPE`` begins every entity, ``I-TYPE`` continues one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cogltx.blocks.characters import unspaced
from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError
from cogltx.files import read_lines

_START = "-DOCSTART-"


def read_conll(path: Path, *, spaces: bool | None = None) -> Iterator[Example]:
    """Yield the documents of a file; their ids are their numbers from 1.

    Args:
        path: the file, plain or gzipped.
        spaces: join words by spaces; None: unless most words of a document are of scripts written without spaces.

    Raises:
        DataError: the file is missing, a line has another number of columns than the first, or a tag is not IOB2; names
            the file and line.
    """
    for number, document in enumerate(_documents(path), start=1):

        def place(sentence: int, word: int, document: list[_Sentence] = document) -> str:
            return f"{path}:{document[sentence].lines[word]}"

        text, starts = joined([sentence.words for sentence in document], spaces=spaces)
        entities = tagged([s.words for s in document], starts, [s.tags for s in document], place)
        yield Example(id=str(number), document=Document(text, str(number)), entities=tuple(entities))


def joined(sentences: Sequence[Sequence[str]], *, spaces: bool | None = None) -> tuple[str, list[list[int]]]:
    """Join words to a text with a line per sentence.

    Args:
        sentences: the words of each sentence.
        spaces: join words by spaces; None: unless most words are of scripts written without spaces.

    Returns:
        the text, and the offset of each word of each sentence.

    >>> joined([["He", "sat", "."], ["So", "."]])
    ('He sat .\\nSo .', [[0, 3, 7], [9, 12]])
    >>> joined([["我", "在", "巴", "黎"]])
    ('我在巴黎', [[0, 1, 2, 3]])
    """
    if spaces is None:
        words = [word for sentence in sentences for word in sentence]
        spaces = sum(map(_is_unspaced, words)) * 2 <= len(words)
    separator = " " if spaces else ""
    starts: list[list[int]] = []
    end = -1
    for sentence in sentences:
        end += 1  # the line end
        starts.append([])
        for word in sentence:
            starts[-1].append(end)
            end += len(word) + len(separator)
        end -= len(separator) if sentence else 0
    return "\n".join(separator.join(sentence) for sentence in sentences), starts


def tagged(
    sentences: Sequence[Sequence[str]],
    starts: Sequence[Sequence[int]],
    tags: Sequence[Sequence[str]],
    place: Callable[[int, int], str],
) -> list[Entity]:
    """Entities that IOB2 tags mark.

    Args:
        sentences: the words of each sentence.
        starts: the offset of each word.
        tags: the tag of each word.
        place: opens the message about a word, by the indices of its sentence and the word.

    Raises:
        DataError: a tag is not IOB2, or continues an entity that does not precede it.

    >>> tagged([["in", "New", "York"]], [[0, 3, 7]], [["O", "B-LOC", "I-LOC"]], lambda sentence, word: "")
    [Entity(start=3, end=11, label='LOC')]
    """
    entities: list[Entity] = []
    for sentence, words in enumerate(sentences):
        before = "O"
        for number, (word, start, tag) in enumerate(zip(words, starts[sentence], tags[sentence], strict=True)):
            kind, _, label = tag.partition("-")
            if tag != "O" and (kind not in ("B", "I") or not label.strip()):
                raise DataError(f"{place(sentence, number)}: the tag {tag!r} is not O, B-TYPE or I-TYPE")
            if kind == "I" and before not in (f"B-{label}", f"I-{label}"):
                raise DataError(
                    f"{place(sentence, number)}: I-{label} follows {before}, but only B-{label} begins an entity (IOB2)"
                )
            if kind == "B":
                entities.append(Entity(start, start + len(word), label))
            elif kind == "I":
                entities[-1] = Entity(entities[-1].start, start + len(word), label)
            before = tag
    return entities


@dataclass
class _Sentence:
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def _is_unspaced(word: str) -> bool:
    return bool(unspaced(np.array([ord(character) for character in word], dtype=np.uint32)).any())


def _documents(path: Path) -> Iterator[list[_Sentence]]:
    sentences: list[_Sentence] = []
    in_sentence = False
    first: tuple[int, int] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t" if "\t" in line else " ") if column.strip()]
        if not columns or columns[0] == _START:
            in_sentence = False
            if columns and sentences:
                yield sentences
                sentences = []
            continue
        first = first or (len(columns), number)
        if len(columns) != first[0] or len(columns) < 2:
            wanted = f"line {first[1]} has {first[0]}" if first[0] > 1 else "a word and its tag are needed"
            raise DataError(f"{path}:{number}: {len(columns)} column{'s'[: len(columns) != 1]}, but {wanted}")
        if not in_sentence:
            sentences.append(_Sentence())
            in_sentence = True
        sentences[-1].words.append(columns[0])
        sentences[-1].tags.append(columns[-1])
        sentences[-1].lines.append(number)
    if sentences:
        yield sentences
