"""Standoff annotations with entities of several pieces, as in CRAFT: ``{"id", "split", "text", "entities"}`` per line.

Each entity is ``{"type", "spans": [[start, end], …]}``; other fields are ignored.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt, StrictStr

from cogltx.document import Document, Entity, Example
from cogltx.tasks.base import Split

_NAMES: dict[Split, tuple[str, ...]] = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}


class _Entity(BaseModel):
    type: StrictStr
    spans: Annotated[list[tuple[StrictInt, StrictInt]], Field(min_length=1)]


class _Line(BaseModel):
    id: StrictStr
    split: StrictStr | None = None
    text: StrictStr
    entities: list[_Entity]


def craft_example(values: Mapping[str, Any], split: Split) -> tuple[Example, list[str]] | None:
    """Convert a line to a document with its entities of one piece, and a description of each entity of several.

    None if the line belongs to another split; a line without a split belongs to all.
    """
    line = _Line.model_validate(values)
    if line.split is not None and line.split not in _NAMES[split]:
        return None
    entities = tuple(Entity(*one.spans[0], one.type) for one in line.entities if len(one.spans) == 1)
    broken = [f"{one.type} of {len(one.spans)} pieces" for one in line.entities if len(one.spans) > 1]
    return Example(id=line.id, document=Document(line.text, line.id), entities=entities), broken
