"""CoNLL's columns: a word a line, its tag in the last column, blank lines between sentences.

``-DOCSTART-`` begins a document; a file without it is one. The columns are parted by tabs or spaces.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cogltx.document import Document, Example
from cogltx.errors import DataError
from cogltx.tasks.entities import bio_entities, joined
from cogltx.tasks.files import read_lines

_START = "-DOCSTART-"


@dataclass
class _Sentence:
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)


def read_conll(path: Path, *, spaces: bool | None = None) -> Iterator[Example]:
    """Reads a file's documents, named by their numbers from 1.

    Args:
        path: the file, plain or gzipped.
        spaces: whether words are parted by spaces in the text; None: unless most of a document's are of scripts
            written without.

    Raises:
        DataError: the file is missing, a line has another number of columns than the first, or a tag is no IOB2;
            names the file and line.
    """
    for number, sentences in enumerate(_documents(path), start=1):
        text, starts = joined([sentence.words for sentence in sentences], spaces=spaces)
        entities = [
            entity
            for sentence, own in zip(sentences, starts, strict=True)
            for entity in bio_entities(sentence.words, own, sentence.tags, sentence.where)
        ]
        yield Example(id=str(number), document=Document(text, str(number)), entities=tuple(entities))


def _documents(path: Path) -> Iterator[list[_Sentence]]:
    sentences: list[_Sentence] = []
    begun = False  # a word since the last sentence end
    first: tuple[int, int] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t" if "\t" in line else " ") if column.strip()]
        if not columns:
            begun = False
            continue
        if columns[0] == _START:
            if sentences:
                yield sentences
            sentences, begun = [], False
            continue
        first = first or (len(columns), number)
        if len(columns) != first[0] or len(columns) < 2:
            wanted = f"{first[0]} columns as in line {first[1]}" if first[0] > 1 else "a word and its tag"
            raise DataError(f"{path}:{number}: expected {wanted}, got {len(columns)} column{'s'[: len(columns) != 1]}")
        if not begun:
            sentences.append(_Sentence())
            begun = True
        sentences[-1].words.append(columns[0])
        sentences[-1].tags.append(columns[-1])
        sentences[-1].where.append(f"{path}:{number}")
    if sentences:
        yield sentences
