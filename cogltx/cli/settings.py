"""Configurations from YAML: read, changed from the command line, checked; a mistake is named with file, line and key.

Knows no particular configuration but the reasoners' (each has keys of its own).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from cogltx.errors import ConfigError, shorten
from cogltx.reasoners import REASONER_CONFIGS

T = TypeVar("T", bound=BaseModel)
_MOST_VALUES = 100_000  # of a file, each alias counted as what it stands for


def from_yaml(kind: type[T], path: Path, changes: Sequence[str] = ()) -> tuple[T, dict[tuple[str, ...], str]]:
    """A configuration from YAML, and where each of its keys stands.

    Args:
        kind: its class.
        path: the file.
        changes: ``KEY=VALUE`` with a dotted key and a YAML value, each in place of the file's.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is wrong; names file, line and key.
    """
    values, lines = read_yaml(path)
    places = {key: f"{path}:{line}" for key, line in lines.items()}
    for change in changes:
        target = tuple(change.partition("=")[0].split("."))
        places = {key: place for key, place in places.items() if key[: len(target)] != target}
        for depth in range(1, len(target)):
            if not any(key[:depth] == target[:depth] for key in places if len(key) > depth):
                places[target[:depth]] = "--set"
        places[target] = "--set"
    return validated(kind, changed(values, changes), str(path), places), places


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Nested keys and values from YAML, and the line of each key.

    Raises:
        ConfigError: no such file, or something else; names file and line.
    """
    try:
        text = path.read_bytes().decode()
        values = yaml.load(text, _Loader)
        lines = list(islice(_lines(yaml.compose(text, _Loader)), _MOST_VALUES + 1))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 (byte 0x{error.object[error.start]:02x})") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}:{line}: expected YAML, got the character {text[error.position]!r}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: expected YAML, got: {error.problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected YAML, got one nested too deeply") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected a YAML file, got: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1: expected keys and values, got {type(values).__name__}")
    if len(lines) > _MOST_VALUES:
        raise ConfigError(f"{path}: expected at most {_MOST_VALUES:,} values, got more")
    return values, dict(lines)


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, and names the line of a value that cannot be read."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        known: set[object] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in known:
                raise yaml.MarkedYAMLError(problem=f"the key {shorten(key.value)} twice", problem_mark=key.start_mark)
            known.add(key.value)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            problem = f"{shorten(node.value)} ({error})"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error


def changed(values: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Nested values with some replaced.

    >>> changed({"memrecall": {"capacity": 512}}, ["memrecall.strides=[8]"])
    {'memrecall': {'capacity': 512, 'strides': [8]}}
    """
    result = dict(values)
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign or not key:
            raise ConfigError(f"--set: expected KEY=VALUE, got {change!r}")
        *parents, last = key.split(".")
        inner = result
        for parent in parents:
            below = inner.get(parent)
            inner[parent] = dict(below) if isinstance(below, Mapping) else {}
            inner = inner[parent]
        try:
            inner[last] = yaml.load(value, _Loader)
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"--set {key}: expected a YAML value, got {shorten(value)}") from error
    return result


def validated(kind: type[T], values: Mapping[str, Any], name: str, places: Mapping[tuple[str, ...], str]) -> T:
    """A configuration of some kind from plain values.

    Args:
        kind: its class.
        values: nested, keys to values.
        name: where they come from, for errors.
        places: where each key stands, for errors.

    Raises:
        ConfigError: a key or value is wrong; names place and key.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as errors:
        error = errors.errors()[0]
    location = tuple(map(str, error["loc"]))
    path = tuple(key for place, key in enumerate(location) if place != 1 or key not in REASONER_CONFIGS)
    where = place_of(path, places) or name
    key = ".".join(path)
    if error["type"] == "union_tag_invalid":
        raise ConfigError(
            f"{where}: {key}.name: expected one of {', '.join(REASONER_CONFIGS)}, got {shorten(error['ctx']['tag'])}"
        )
    if error["type"] == "extra_forbidden":
        path = location
        raise ConfigError(f"{where}: {key}: expected one of {', '.join(_known(kind, path[:-1]))}, got an unknown key")
    if error["type"] == "missing":
        raise ConfigError(f"{where}: {key}: expected a value, got none")
    expected = error["msg"].removeprefix("Input should be ")
    raise ConfigError(f"{where}: {key}: expected {expected}, got {shorten(error['input'])}")


def place_of(key: tuple[str, ...], places: Mapping[tuple[str, ...], str]) -> str | None:
    """Where a key, or the nearest that holds it, stands; None if that is not known."""
    return next((places[key[:depth]] for depth in range(len(key), 0, -1) if key[:depth] in places), None)


def _lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _lines(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            inner = (*path, str(number))
            yield inner, value.start_mark.line + 1
            yield from _lines(value, inner)


def _known(kind: Any, path: Sequence[str]) -> list[str]:
    for key in path:
        if key.isdecimal():  # of a list, whose kind is at hand
            continue
        kind = REASONER_CONFIGS[key] if key in REASONER_CONFIGS else kind.model_fields[key].annotation
        kind = next((one for one in get_args(kind) if one is not NoneType), kind)  # of an optional one
    return list(kind.model_fields)
