"""Writes ``cogltx/API.md``, the reference of the public names, from their docstrings: ``python tests/api_reference.py``."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import cogltx

FILE = Path(__file__).parents[1] / "cogltx" / "API.md"
GROUPS = {
    "Read": ("CogLTX", "MemRecall", "read_document", "split", "compress"),
    "Judges of your own": ("Judge", "ScoringJudge"),
    "Train": ("train", "Trainer", "extend_positions"),
    "Data": ("Document", "Segment", "Query", "Example", "Span", "Entity"),
    "Results": ("Prediction", "Evidence", "Recall"),
    "Configuration": ("ModelConfig", "MemRecallConfig", "RunConfig", "TrainingConfig"),
    "Errors": ("CogltxError", "ConfigError", "DataError", "ModelError", "TrainingError"),
}
INTRODUCTION = """\
# Python reference

Generated from the docstrings by `python tests/api_reference.py`; a test compares. All names are importable from
`cogltx`; importing it does not import torch. A configuration inside another one may be a dictionary.
"""
_SECTION = re.compile(r"^([A-Z][a-z]+):$")


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts += [f"## {title}\n", *(_entry(name, getattr(cogltx, name)) for name in names)]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> str:
    """One public name: signature, summary, what it takes or has, and its methods."""
    kind = "" if not isinstance(value, type) else "class "
    has_signature = not (isinstance(value, type) and issubclass(value, BaseModel | Exception))
    signature = _signature(value) if has_signature and name not in ("Judge", "ScoringJudge", "CogLTX") else ""
    lines = [f"### {kind}`{name}{signature}`\n", _summary(value), ""]
    fields = _fields(value, "Attributes") or _fields(value, "Args")
    lines += [f"- `{field}`: {text}" for field, text in fields]
    if isinstance(value, type) and not issubclass(value, BaseModel | Exception):
        lines += [f"- `.{method}{_signature(one)}`: {_summary(one)}" for method, one in _methods(value)]
    return "\n".join(lines).rstrip() + "\n"


def _summary(value: Any) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()).replace("``", "`")


def _fields(value: Any, section: str) -> list[tuple[str, str]]:
    """The names and texts of a section of a docstring."""
    fields: list[tuple[str, str]] = []
    inside = False
    for line in (inspect.getdoc(value) or "").splitlines():
        if match := _SECTION.match(line):
            inside = match[1] == section
        elif inside and (field := re.match(r"^    (\w[\w, ]*): (.*)", line)):
            fields.append((field[1], field[2]))
        elif inside and line.startswith("        "):
            fields[-1] = (fields[-1][0], f"{fields[-1][1]} {line.strip()}")
    return [(name, text.replace("``", "`")) for name, text in fields]


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class and of its bases in this package, in the order of their definition."""
    found: dict[str, Any] = {}
    for base in reversed([one for one in kind.__mro__ if one.__module__.startswith("cogltx")]):
        found |= {name: one for name, one in vars(base).items() if not name.startswith("_")}
    for name, one in found.items():
        function = inspect.unwrap(getattr(one, "__func__", one))
        if inspect.isfunction(function):
            yield name, function


def _signature(value: Any) -> str:
    """Parameters and defaults, without types."""
    parameters = [
        parameter.replace(annotation=parameter.empty, default=_Named.of(parameter.default))
        for name, parameter in inspect.signature(value).parameters.items()
        if name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters))


class _Named:
    """A default that is shown by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def of(default: Any) -> Any:
        """Name a function; leave other defaults as they are."""
        return _Named(default.__name__) if callable(default) and default is not inspect.Parameter.empty else default

    def __repr__(self) -> str:
        return self.name


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
