"""The commands in Markdown, from the same definitions as ``--help``: for the pages, which a test compares with it."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin

from typer import Typer
from typer.models import ArgumentInfo

from cogltx.cli.app import app

_SHARED = 4  # commands that share an option, from which on it is described once


def commands() -> str:
    """Render all commands with their arguments and options.

    Import ``cogltx.bench.cli`` before: it registers its commands.
    """
    found = [(name, function.__doc__ or "", list(_rows(function))) for name, function in _leaves(app, "cogltx")]
    counts = Counter(row for _, _, rows in found for row in rows)
    shared = sorted(row for row, count in counts.items() if count >= _SHARED)
    parts = []
    for name, help, rows in found:
        usage = " ".join([name, *(shown for shown, _, _ in rows)])
        more = _table([row for row in rows if row not in shared])
        parts.append(f"### `{name}`\n\n{inspect.cleandoc(help)}\n\n    {usage}\n\n{more}")
    return "\n".join([*parts, f"### Options of several commands\n\n{_table(shared)}"])


def _leaves(group: Typer, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the commands of a group, and of the groups in it, with their names."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{name} {command.name or command.callback.__name__}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _leaves(inner.typer_instance, f"{name} {inner.name}")


def _rows(function: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what the usage shows, the name with its values, and the meaning of each argument and option."""
    parameters = inspect.signature(function).parameters.values()
    for parameter in sorted(parameters, key=lambda one: not isinstance(get_args(one.annotation)[1], ArgumentInfo)):
        kind, info = get_args(parameter.annotation)[:2]
        required = parameter.default is parameter.empty
        default = "" if required or parameter.default in (None, False) else f" Default: `{parameter.default}`."
        if isinstance(info, ArgumentInfo):
            name = values = (info.metavar or parameter.name.upper()) + "..." * (get_origin(kind) is list)
        else:
            names = (info.default, *(info.param_decls or ()), f"--{parameter.name.replace('_', '-')}")
            name = next(one for one in names if str(one).startswith("--"))
            values = name if kind is bool else f"{name} {info.metavar or _value(kind)}"
        yield name if required else f"[{name}]", values, f"{info.help}{default}"


def _value(kind: Any) -> str:
    """The kind of value that an option takes, such as FILE or the choices."""
    inner = [kind, *get_args(kind)]
    choices = next((get_args(one) for one in inner if get_origin(one) is Literal), ())
    names = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "PATH"}
    return "|".join(choices) or next(names[one.__name__] for one in inner if getattr(one, "__name__", "") in names)


def _table(rows: list[tuple[str, str, str]]) -> str:
    cells = [(values.replace("|", "\\|"), text.replace("|", "\\|")) for _, values, text in rows]
    return "| option | meaning |\n|---|---|\n" + "".join(f"| `{values}` | {text} |\n" for values, text in cells)
