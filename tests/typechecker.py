"""How the tests check types at run time: beartype, taking an int where a float is asked for, as mypy does."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check arguments and result of a function, except where that cannot work.

    Typer gives the command line another context than `typer.Context`; beartype cannot know `Self` here.
    """
    if function.__module__ in ("cogltx.cli.app", "cogltx.bench.cli"):
        return function
    try:
        return _beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
