"""Sentences of words with layers of IOB2 tags, as in LitBank: ``{"id", "sentences", "tags"}`` per line.

The tags are ``tags[layer][sentence][word]``; an entity of one layer may lie within one of another.
``tags[sentence][word]`` is a single layer.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, StrictInt, StrictStr, field_validator

from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError
from cogltx.tasks.conll import joined, tagged


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
            case _:
                return tags


def litbank_example(values: Mapping[str, Any], where: str, *, spaces: bool | None = None) -> Example:
    """Convert a line to a document with the entities of all layers.

    Args:
        values: the object of the line.
        where: opens the message about a tag.
        spaces: as in ``read_conll``.

    Raises:
        ValidationError: a field is missing or wrong.
        DataError: the numbers of tags and words differ, or a tag is not IOB2.
    """
    line = _Line.model_validate(values)
    id = str(line.id or where.rpartition(":")[2])
    text, starts = joined(line.sentences, spaces=spaces)
    entities: list[Entity] = []
    for layer, rows in enumerate(line.tags):
        name = f"{where}: tags[{layer}]"
        if len(rows) != len(line.sentences):
            raise DataError(f"{name} has {len(rows)} sentences, but sentences has {len(line.sentences)}")
        for number, (words, tags) in enumerate(zip(line.sentences, rows, strict=True)):
            if len(tags) != len(words):
                raise DataError(f"{name}[{number}] has {len(tags)} tags for {len(words)} words")
        entities += tagged(line.sentences, starts, rows, lambda row, word, name=name: f"{name}[{row}][{word}]")  # type: ignore[misc]
    return Example(id=id, document=Document(text, id), entities=tuple(entities))
