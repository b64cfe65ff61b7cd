"""Run configurations from YAML files and ``--set KEY=VALUE``; errors name the file, the line and the key.

Nothing below the command line depends on YAML.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cogltx._files import changed, read_text
from cogltx.errors import ConfigError, describe, shorten

_MOST_CHARACTERS, _MOST_NODES, _MOST_DIGITS = 1_000_000, 50_000, 1000
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

T = TypeVar("T", bound=BaseModel)
Key = tuple[str, ...]


def load_yaml(kind: type[T], path: Path | None, changes: Sequence[str] = ()) -> T:
    """Load and validate a configuration; ``KEY=VALUE`` changes replace values of the file, if any, by dotted key.

    Raises:
        DataError: the file is missing or not UTF-8.
        ConfigError: the file is not YAML, or a key or value is invalid; names every invalid key with its line.
    """
    values, lines = _read(path)
    replaced = parse_changes(changes)
    new = [tuple(name.split(".")) for name in replaced]

    def place(key: Key) -> str:
        if any(key[: len(one)] == one for one in new):
            return "--set"
        for depth in range(len(key), 0, -1):
            is_parent = any(one[:depth] == key[:depth] and len(one) > depth for one in lines)
            if not is_parent and any(one[:depth] == key[:depth] for one in new):
                return "--set"
            if key[:depth] in lines:
                return f"{path}:{lines[key[:depth]]}"
        return "--set" if path is None else str(path)

    config = validated(kind, changed(values, replaced), place)
    _check_names(config, place)
    return config


def read_settings(path: Path | None, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read the settings of a file, changed, but not validated; errors as ``load_yaml``."""
    return changed(_read(path)[0], parse_changes(changes))


def validated(kind: type[T], values: Mapping[str, Any], place: Callable[[Key], str] = lambda key: "") -> T:
    """Validate a configuration of plain values; ``place`` returns the file and line of a key, for ConfigErrors."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(describe(error, kind, place=place)) from error


def parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` changes.

    >>> parse_changes(["memrecall.strides=[8]", "judge.name=bm25"])
    {'memrecall.strides': [8], 'judge.name': 'bm25'}
    """
    parsed = {}
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign or not key:
            raise ConfigError(f"--set {change}: write KEY=VALUE, such as memrecall.strides=[8]")
        try:
            parsed[key] = yaml.load(value, _Loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"--set {key}: {shorten(value)} is not a YAML value") from error
    return parsed


def _check_names(config: BaseModel, place: Callable[[Key], str]) -> None:
    """Check the names of reader and task."""
    from cogltx.baselines import reader_class
    from cogltx.config import ModelConfig
    from cogltx.tasks import TASKS, make_task

    if not isinstance(config, ModelConfig):
        return
    key: Key = ("reader",)
    try:
        reader_class(config.reader)
        key = ("task", "options" if config.task.name in TASKS else "name")
        make_task(config.task.name, config.task.options)
    except ConfigError as error:
        raise ConfigError(f"{place(key)}: {error}") from error


def _read(path: Path | None) -> tuple[dict[str, Any], dict[Key, int]]:
    """Read a YAML file: nested values, and the line of each key."""
    if path is None:
        return {}, {}
    text = read_text(path)
    if len(text) > _MOST_CHARACTERS:
        raise ConfigError(f"{path}: not a configuration: it has over {_MOST_CHARACTERS:,} characters")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = dict(_lines(node))
        values = loader.construct_document(node) if node else None
    except RecursionError:
        raise ConfigError(f"{path}: not valid YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not valid YAML: {problem or error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: the file has no settings; write KEY: VALUE lines")
    return values, lines


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, numbers without end, and more values than a configuration has, aliases repeated."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._n_nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        before, is_alias = self._n_nodes, self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark
        node = super().compose_node(parent, index)
        self._n_nodes += self._sizes.get(id(node), 0) if is_alias else 1
        if self._n_nodes > _MOST_NODES:
            raise yaml.MarkedYAMLError(problem=f"over {_MOST_NODES:,} values", problem_mark=mark)
        self._sizes[id(node)] = self._n_nodes - before
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        node = super().compose_scalar_node(anchor)
        if len(node.value) > _MOST_DIGITS and node.tag in _NUMBERS:
            raise yaml.MarkedYAMLError(problem="a number is too long", problem_mark=node.start_mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        known: set[object] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in known:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} occurs twice", problem_mark=key.start_mark)
            known.add(key.value)
        return node


def _lines(node: yaml.Node | None, path: Key = ()) -> Iterator[tuple[Key, int]]:
    """The line of each key and list item, by its path."""
    items: Iterable[tuple[object, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        items = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        items = [(number, value, value) for number, value in enumerate(node.value)]
    for name, start, value in items:
        inner = (*path, str(name))
        yield inner, start.start_mark.line + 1
        yield from _lines(value, inner)
