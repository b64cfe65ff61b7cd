"""Standoff annotations of several pieces, as CRAFT has them: ``{"id", "split", "text", "entities"}`` a line.

Each entity is ``{"type", "spans": [[start, end], …]}``; other fields are ignored.
"""

from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError
from cogltx.tasks.base import Split
from cogltx.tasks.records import Record, shorten

_NAMES: dict[Split, tuple[str, ...]] = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}


def is_craft(record: Record) -> bool:
    """Whether a line is of this format: it names a split, or an entity has ``spans``."""
    entities = record.fields.get("entities")
    pieces = isinstance(entities, list) and any(isinstance(one, dict) and "spans" in one for one in entities)
    return "split" in record.fields or pieces


def of_split(record: Record, split: Split) -> bool:
    """Whether a line belongs to a split; one that names none belongs to all."""
    own = record.find("split", str)
    return own is None or own in _NAMES[split]


def craft_example(record: Record) -> tuple[Example, list[str]]:
    """One document with its entities of one piece, and a description of each one of several.

    Raises:
        DataError: the line is not in the format; names the file and line.
    """
    id = record.get("id", str)
    entities: list[Entity] = []
    broken: list[str] = []
    for number, item in enumerate(record.children("entities")):
        item = item.named(f"entities[{number}]")
        label, spans = item.get("type", str), item.get("spans", list)
        match spans:
            case [[int(start), int(end)]]:
                entities.append(Entity(start, end, label))
            case [_, _, *_]:
                broken.append(f"{label} of {len(spans)} pieces")
            case _:
                raise DataError(f"{item.where}: expected spans [[start, end], …], got {shorten(spans)}")
    with record.named_in_errors():
        return Example(id=id, document=Document(record.get("text", str), id), entities=tuple(entities)), broken
