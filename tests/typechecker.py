"""How the tests check types at run time: beartype, taking an int where a float is asked for, as mypy does."""

from collections.abc import Callable
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintException

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check arguments and result of a function, except where that cannot work.

    Typer gives the command line another context than `typer.Context`; beartype cannot know `Self` here, and tqdm is generic
    only in its stubs.
    """
    if function.__module__ in ("cogltx.cli.app", "cogltx.bench.cli"):
        return function
    try:
        return _beartype(function)
    except BeartypeDecorHintException:
        return function


def check_package(name: str) -> None:
    """Check types of all functions of a package, and the shapes of arrays where a function names them.

    jaxtyping would bind the arguments of every call of every function, which takes a quarter of a training's time.
    """
    jaxtyping.jaxtyped = _jaxtyped
    jaxtyping.install_import_hook([name], "typechecker.check")


def _jaxtyped(*, typechecker: Callable[..., Any], full: Callable[..., Any] = jaxtyping.jaxtyped) -> Callable[..., Any]:
    def decorate(function: Any) -> Any:
        return (full(typechecker=typechecker) if _names_arrays(function) else typechecker)(function)

    return decorate


def _names_arrays(function: Any) -> bool:
    """Whether a hint has a shape; also for classes, and hints that only a type checker can resolve."""
    try:
        hints = get_type_hints(function).values()
    except (NameError, TypeError):
        return True
    return isinstance(function, type) or any("jaxtyping" in repr(hint) for hint in hints)
