"""Sentences of words with layers of BIO tags, as LitBank has them: ``{"id", "sentences", "tags"}`` a line.

``tags[layer][sentence][word]``; an entity of one layer may lie within one of another. ``tags[sentence][word]`` is one
layer alone.
"""

from cogltx.document import Document, Example
from cogltx.errors import DataError
from cogltx.tasks.entities import bio_entities, joined
from cogltx.tasks.records import Record, expect


def litbank_example(record: Record, *, spaces: bool | None = None) -> Example:
    """One document with the entities of all layers.

    Args:
        record: a line's object.
        spaces: as of ``joined``.

    Raises:
        DataError: there are other numbers of tags than of words, or a tag is no IOB2; names the file and line.
    """
    id = str(record.fields.get("id") or record.where.rpartition(":")[2])
    sentences = _words(record.get("sentences", list), record.where, "sentences")
    tags = record.get("tags", list)
    layers = [tags] if tags and isinstance(tags[0], list) and tags[0] and isinstance(tags[0][0], str) else tags
    text, starts = joined(sentences, spaces=spaces)
    entities = []
    for layer, own in enumerate(layers):
        place = f"{record.where}: tags[{layer}]"
        rows = _words(expect(own, list, place), record.where, f"tags[{layer}]")
        if len(rows) != len(sentences):
            raise DataError(f"{place}: expected {len(sentences)} sentences as in sentences, got {len(rows)}")
        for number, (words, row) in enumerate(zip(sentences, rows, strict=True)):
            if len(row) != len(words):
                raise DataError(f"{place}[{number}]: expected {len(words)} tags, one a word, got {len(row)}")
            where = [f"{place}[{number}][{word}]" for word in range(len(words))]
            entities += bio_entities(words, starts[number], row, where)
    with record.named_in_errors():
        return Example(id=id, document=Document(text, id), entities=tuple(entities))


def _words(rows: list[object], where: str, name: str) -> list[list[str]]:
    """Lists of strings."""
    found = []
    for number, row in enumerate(rows):
        place = f"{where}: {name}[{number}]"
        found.append([expect(word, str, f"{place}[{at}]") for at, word in enumerate(expect(row, list, place))])
    return found
