"""Typed access to a JSON object of a data file, with errors that name the file and line.

Knows nothing about files (see ``files``) or about what the fields mean.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from cogltx.errors import DataError

T = TypeVar("T")
_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_SHOWN = 40  # characters of a wrong value in a message


def note_id(id: str, where: str, seen: dict[str, str]) -> None:
    """Notes where an id stands.

    Raises:
        DataError: it stood somewhere before.
    """
    if id in seen:
        raise DataError(f"{where}: expected a new id, got {id!r}, already at {seen[id]}")
    seen[id] = where


@dataclass(frozen=True)
class Record:
    """One JSON object and where it stands.

    Attributes:
        fields: the object.
        where: for messages: ``FILE:LINE``, perhaps with what the object is.
    """

    fields: Mapping[str, object]
    where: str

    def get(self, key: str, kind: type[T]) -> T:
        """The value of a field that must be there and be a ``kind``.

        Raises:
            DataError: it is absent or something else.
        """
        if key not in self.fields:
            raise DataError(f"{self.where}: expected the field {key!r}, got {self._keys()}")
        return expect(self.fields[key], kind, f"{self.where}: field {key!r}")

    def find(self, key: str, kind: type[T]) -> T | None:
        """The value of a field that may be absent or null.

        Raises:
            DataError: it is there and not a ``kind``.
        """
        return None if self.fields.get(key) is None else self.get(key, kind)

    def children(self, key: str) -> list["Record"]:
        """The objects of a field that must be a list of objects.

        Raises:
            DataError: it is something else.
        """
        return [
            Record(expect(item, dict, f"{self.where}: {key}[{number}]"), self.where)
            for number, item in enumerate(self.get(key, list))
        ]

    def named(self, name: str) -> "Record":
        """The same record, with ``name`` added to what messages say of its place."""
        return Record(self.fields, f"{self.where}: {name}")

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Puts the record's place before the text of a DataError raised inside, unless it opens with it."""
        try:
            yield
        except DataError as error:
            text = str(error)
            raise DataError(text if text.startswith(self.where) else f"{self.where}: {text}") from None

    def _keys(self) -> str:
        return "only " + ", ".join(map(repr, self.fields)) if self.fields else "an empty object"


def expect(value: object, kind: type[T], where: str) -> T:
    """The value, if it is a ``kind`` (true and false are not integers; an integer is a number).

    Raises:
        DataError: it is something else; ``where`` opens the message.

    >>> expect(3, int, "file:1: field 'start'")
    3
    >>> expect("3", int, "file:1: field 'start'")
    Traceback (most recent call last):
    cogltx.errors.DataError: file:1: field 'start': expected an integer, got '3'
    """
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"{where}: expected {_NAMES[kind]}, got {shorten(value)}")
    return value  # type: ignore[return-value]


def unique(fields: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, for its decoder.

    Raises:
        ValueError: it holds a field twice.

    >>> unique([("a", 1), ("b", 2), ("a", 3)])
    Traceback (most recent call last):
    ValueError: the field 'a' twice
    """
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {shorten(twice)} twice")
    return found


def shorten(value: object) -> str:
    """A value as messages show it: its ``repr``, cut after 40 characters.

    >>> shorten("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
