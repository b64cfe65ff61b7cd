"""The objects of a long JSON list, read by ijson one after another; does not depend on what they mean."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import ijson

from cogltx.errors import DataError, shorten
from cogltx.files import open_binary
from cogltx.tasks.base import errors_at

_BOM = b"\xef\xbb\xbf"
_OPENING, _CLOSING = ("start_map", "start_array"), ("end_map", "end_array")
_DEEPEST = 200  # nested lists and objects
_OTHER = "; choose another format with --set task.name"
_REASONS = {
    "parse error: premature EOF": "the file ends early",
    "parse error: trailing garbage": "not one JSON value, perhaps JSON Lines, which the task jsonl reads "
    "(--set task.name=jsonl)",
    "lexical error: invalid bytes in UTF8 string": "not UTF-8",
}


def read_json_list(path: Path, key: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``FILE: item NUMBER`` and each object of the list; only one is held in memory.

    Args:
        path: the file, plain or gzipped.
        key: None if the file is the list; otherwise the file is an object that holds the list under this key.

    Raises:
        DataError: the file cannot be read, or is not such a list.
    """
    n_items = 0
    with open_binary(path) as file, errors_at(str(path)):
        if file.peek(3)[:3] == _BOM:  # type: ignore[attr-defined]
            file.read(3)
        try:
            for item in _items(ijson.basic_parse(file, use_float=True), key):
                n_items += 1
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


class _UniqueKeys(dict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            raise DataError(f"not valid JSON (the key {shorten(key)} comes twice in an object)")
        super().__setitem__(key, value)


def _items(events: Iterable[tuple[str, Any]], key: str | None) -> Iterator[Any]:
    """The items of the list at the top, or under a key of the object at the top; reads all events."""
    level = 0 if key is None else 1  # the depth at which the list opens
    depth, name, is_open, is_there = 0, None, False, False
    builder = None
    for event, value in events:
        depth -= event in _CLOSING
        if is_open and depth == level:
            is_open = False
        elif is_open:
            builder = builder or ijson.ObjectBuilder(map_type=_UniqueKeys)
            builder.event(event, value)
        elif event == "map_key" and depth == 1:
            name = value
        elif event == "start_array" and depth == level and name == key:
            is_open = is_there = True
        depth += event in _OPENING
        if depth > _DEEPEST:
            raise DataError("not valid JSON (nested too deeply)")
        if builder is not None and depth == level + 1:
            yield builder.value
            builder = None
    if not is_there:
        raise DataError("must be a JSON list" if key is None else f"must be a JSON object with a list {key!r}{_OTHER}")
