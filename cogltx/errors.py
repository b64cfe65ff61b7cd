"""Error classes, which the command line prints as one line, and plain words for the findings of pydantic."""

import difflib
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

_MOST_FINDINGS, _MOST_COMPARED = 20, 100  # characters of a name
_NAMING = ("name", "file")  # settings that a lone string may stand for
_STATEMENTS = (
    "extra_forbidden", "missing", "too_short", "value_error", "union_tag_not_found", "union_tag_invalid"
)  # fmt: skip
_UNSAFE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_OBJECTS = ("model_type", "model_attributes_type", "dict_type", "dataclass_type")
_PLAIN = {  # pydantic's words for a kind of value
    "a valid string": "a string",
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid boolean": "true or false",
} | dict.fromkeys(("a valid list", "a valid tuple", "a valid array"), "a list")


class CogltxError(Exception):
    """Base class of all errors that a user can correct; the text is one line: what is wrong, where, what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class DataError(CogltxError, ValueError):
    """A data file, a text or an example is not valid."""


class ConfigError(CogltxError, ValueError):
    """A configuration key, an option or an argument is not valid."""


class ModelError(CogltxError, RuntimeError):
    """A model folder, an encoder or a custom judge cannot be used."""


class TrainingError(CogltxError, RuntimeError):
    """Training cannot continue, or a file cannot be written; what was saved before is kept."""


class Interrupted(KeyboardInterrupt):
    """A training was interrupted.

    Attributes:
        text: what is saved, and how to continue; empty in all but the first of several processes; None before the
            training begins.
        signal: number of the signal.
        is_saved: whether a checkpoint has everything.
    """

    def __init__(self, text: str | None = None, signal: int = 2, *, is_saved: bool = False) -> None:
        super().__init__(text or "interrupted")
        self.text, self.signal, self.is_saved = text, signal, is_saved


def describe(
    error: ValidationError,
    model: type[BaseModel] | None = None,
    *,
    within: str = "",
    noun: str = "setting",
    place: Callable[[tuple[str, ...]], str] = lambda path: "",
) -> str:
    """Describe the findings of pydantic, at most 20, in one line, separated by "; ".

    Args:
        error: the findings.
        model: the class that was validated; suggests the nearest name for an unknown one.
        within: the path of the validated object, such as ``task.options``.
        noun: the word for a key in messages.
        place: returns the file and line of a path in the validated object, or "".

    >>> class Options(BaseModel, extra="forbid"):
    ...     steps: int = 1
    ...     rate: float = 0.5
    >>> try:
    ...     Options.model_validate({"rat": 1, "steps": "two"})
    ... except ValidationError as error:
    ...     describe(error, Options, within="training")
    "training.steps must be an integer, but is 'two'; rat is not a setting of training; did you mean rate?"
    """
    findings = error.errors(include_url=False)[:_MOST_FINDINGS]
    problems: dict[tuple[tuple[str, ...], str, str], list[str]] = {}
    for finding in findings:
        if finding["type"] == "too_short" and any(finding["loc"] == other["loc"][:-1] for other in findings):
            continue  # invalid items are not counted
        path, known, inner = _follow(model, finding["loc"])
        if finding["type"] in _STATEMENTS:
            problems[path, _statement(finding, within, path, known, noun), ""] = []
        else:  # the members of a union have a finding each
            ends = f"{_join(within, path) or 'the value'} must be ", f", but is {shorten(finding['input'])}"
            problems.setdefault((path, *ends), []).append(_wanted(finding, inner, noun))
    lines, before = [], ""
    for (path, start, end), wanted in problems.items():
        prefix = place(path)
        lines.append((f"{prefix}: " if prefix and prefix != before else "") + start + " or ".join(wanted) + end)
        before = prefix
    return "; ".join([*lines, *["and more"] * (error.error_count() > _MOST_FINDINGS)])


def _statement(finding: Any, within: str, path: tuple[str, ...], known: list[str], noun: str) -> str:
    """Describe a finding that is not about the kind of a value."""
    kind, context, name = finding["type"], finding.get("ctx", {}), _join(within, path)
    if kind == "extra_forbidden":
        owner, key = _join(within, path[:-1]), "".join(path[-1:]) or "''"
        return f"{key} is not a {noun}{f' of {owner}' if owner else ''}{suggestion(key, known)}"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "too_short":
        return f"{name} must have at least {context['min_length']} item, but has {context['actual_length']}"
    if kind == "value_error":
        text: str = finding["msg"].removeprefix("Value error, ")
        return f"{name}{' ' if text.startswith('must ') else ': '}{text}" if name else text
    key = _join(name, (context["discriminator"].strip("'_()"),))  # pydantic's 'key', or _key() of a function
    if kind == "union_tag_not_found":
        return f"{key} is missing"
    tags = [tag.strip("' ") for tag in context["expected_tags"].split(",")]
    return f"{key}: {context['tag']!r} is not known{suggestion(context['tag'], tags)}"


def _wanted(finding: Any, inner: list[str], noun: str) -> str:
    """Describe the kind of value that pydantic expected."""
    if finding["type"] in _OBJECTS:
        key = next((name for name in _NAMING if name in inner), "") if isinstance(finding["input"], str) else ""
        return f"an object with named {noun}s" + (f" such as {{{key}: {finding['input']}}}" if key else "")
    text: str = finding["msg"].removeprefix("Input should be ").partition(", unable to")[0]
    return _PLAIN.get(text, text)


def one_line(text: str) -> str:
    """Escape what ends a line, steers a terminal or turns the direction of a text, such as in the name of a file.

    >>> one_line("a\\nb.pdf: file not found")
    'a\\\\nb.pdf: file not found'
    """
    return _UNSAFE.sub(lambda character: character[0].encode("unicode_escape").decode(), text)


def suggestion(name: str, known: Iterable[str]) -> str:
    """End of a message about an unknown name: the nearest known one, or all of them."""
    names = list(known)
    if near := difflib.get_close_matches(str(name)[:_MOST_COMPARED], names, n=1):
        return f"; did you mean {near[0]}?"
    return f"; choose from {', '.join(names)}" if names else ""


def shorten(value: object) -> str:
    """The ``repr`` of a value, cut after 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _join(parent: str, path: tuple[str, ...]) -> str:
    """Join keys by dots and list positions in brackets."""
    name = parent
    for key in path:
        name += f"[{key}]" if key.isdigit() and name else f".{key}" if name else key
    return name


def _follow(
    model: type[BaseModel] | None, location: tuple[int | str, ...]
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Keys of a location without names of union members (ours are in ``<>``), names known there, and inside it."""
    kinds: list[Any] = [] if model is None else [model]
    path: list[str] = []
    known: list[str] = []
    for number, step in enumerate(location):
        models = _models(kinds)
        fields = {field.alias or name: field for kind in models for name, field in kind.model_fields.items()}
        known = list(fields)
        if isinstance(step, int) or not kinds:
            path.append(str(step))
        elif step in fields:
            path.append(step)
            kinds = _members(fields[step].annotation)
        elif tagged := [kind for kind in models if _has_literal(kind, step)]:
            kinds = tagged
        elif not step.startswith("<") and (
            (models and number == len(location) - 1)
            or any(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds)
        ):
            path.append(step)
    return tuple(path), known, [name for kind in _models(kinds) for name in kind.model_fields]


def _models(kinds: list[Any]) -> list[type[BaseModel]]:
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _has_literal(model: type[BaseModel], name: str) -> bool:
    return any(name in typing.get_args(field.annotation) for field in model.model_fields.values())


def _members(annotation: Any) -> list[Any]:
    """The classes that an annotation names, through unions, containers and ``Annotated``."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal or not inner:
        return [annotation]
    return [origin, *(member for one in inner for member in _members(one))]
