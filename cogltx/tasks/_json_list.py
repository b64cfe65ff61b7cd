"""The objects of a long JSON list, read by ijson one after another; does not depend on what they mean."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import ijson

from cogltx._files import open_binary
from cogltx.errors import DataError, shorten
from cogltx.tasks.base import errors_at

_BOM = b"\xef\xbb\xbf"
_DEEPEST = 200  # nested lists and objects
_MOST_BYTES = 100_000_000  # of one item
_CHUNK_BYTES = 1 << 20  # the parser begins a string anew with each chunk
_REASONS = {
    "parse error: premature EOF": "the file ends early",
    "parse error: trailing garbage": "not one JSON value, perhaps JSON Lines, which the task jsonl reads "
    "(--set task.name=jsonl)",
    "lexical error: invalid bytes in UTF8 string": "not UTF-8",
}


def read_json_list(
    path: Path, key: str | None = None, of_objects: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``FILE: item NUMBER`` and each object of the list in the file, or under a key of the object in the file.

    With ``of_objects``, keys of the objects, they may also be in a list without a key, or one after another as in JSON
    Lines. Only one object is held in memory. Raises DataError if there is no such list.
    """
    n_items = 0
    with open_binary(path) as file, errors_at(str(path)):
        if file.peek(3)[:3] == _BOM:  # type: ignore[attr-defined]
            file.read(3)
        counted = _Counted(file.read)
        try:
            parsed = ijson.basic_parse(counted, use_float=True, buf_size=_CHUNK_BYTES, multiple_values=bool(of_objects))
            prefix, events = _located(ijson.parse(_shallow(parsed)), key, of_objects)
            for item in ijson.items(events, prefix, map_type=_UniqueKeys):
                n_items += 1
                counted.n_bytes = 0
                where = f"{path}: item {n_items}"
                if not isinstance(item, dict):
                    raise DataError(f"{where} must be a JSON object, but is {shorten(item)}")
                yield where, item
        except UnicodeDecodeError:
            raise DataError(f"{path}: not UTF-8, after {n_items} complete items") from None
        except ijson.JSONError as error:
            first = str(error).removeprefix("b'").replace("\\n", "\n").partition("\n")[0].rstrip(".")
            reason = _REASONS.get(first, f"not valid JSON ({first})")
            raise DataError(f"{path}: {reason}, after {n_items} complete items") from None


class _Counted:
    """Counts the bytes that are read for one item."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self.n_bytes = read, 0

    def read(self, size: int) -> bytes:
        """Read the next bytes; raises DataError if the item has too many."""
        content = self._read(size)
        self.n_bytes += len(content)
        if self.n_bytes > _MOST_BYTES:
            raise DataError(f"an item is longer than {_MOST_BYTES / 1e6:,.0f} MB")
        return content


class _UniqueKeys(dict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            raise DataError(f"not valid JSON (the key {shorten(key)} comes twice in an object)")
        super().__setitem__(key, value)


def _shallow(events: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Pass on the events of a parser before they get prefixes, which grow with the depth; check how deep they nest."""
    depth = 0
    for event, value in events:
        depth += event.startswith("start_") - event.startswith("end_")
        if depth > _DEEPEST:
            raise DataError("not valid JSON (nested too deeply)")
        yield event, value


def _located(
    events: Iterator[tuple[str, str, Any]], key: str | None, of_objects: Collection[str]
) -> tuple[str, Iterator[tuple[str, str, Any]]]:
    """Find the prefix of the objects, by the first bracket or key that decides; also return all events."""
    before = list[tuple[str, str, Any]]()
    for prefix, event, value in events if of_objects else ():
        before.append((prefix, event, value))
        if (prefix, event) == ("", "start_array"):
            return "item", chain(before, events)
        if (prefix, event) == ("", "map_key") and value in (key, *of_objects):
            if value != key:
                return "", chain(before, events)
            break
    return "item" if key is None else f"{key}.item", _checked(chain(before, events), key)


def _checked(events: Iterable[tuple[str, str, Any]], key: str | None) -> Iterator[tuple[str, str, Any]]:
    """Pass on the events of a parser; check that the list exists."""
    has_list = False
    for prefix, event, value in events:
        has_list |= event == "start_array" and prefix == (key or "")
        yield prefix, event, value
    if not has_list:
        other = "; choose another format with --set task.name"
        raise DataError("must be a JSON list" if key is None else f"must be a JSON object with a list {key!r}{other}")
