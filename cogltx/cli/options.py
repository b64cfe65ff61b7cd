"""What the commands have in common: options, and how their values are read. Knows nothing about models."""

import math
import sys
from typing import Annotated, Any

import typer

from cogltx.errors import ConfigError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Of everything random.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the configuration, such as memrecall.strides=[8]."),
]


def note(line: str) -> None:
    """Says something beside the result, on standard error."""
    print(line, file=sys.stderr, flush=True)


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> Any:
    """The value of an option that takes one of some words.

    Raises:
        ConfigError: it is none of them.
    """
    if value not in allowed:
        raise ConfigError(f"--{name}: expected one of {', '.join(allowed)}, got {value!r}")
    return value


def numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """The value of an option that takes whole numbers with commas between; None stays None.

    Raises:
        ConfigError: they are not, or one is below 1.
    """
    if text is None:
        return None
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--{name}: expected whole numbers with commas between, got {text!r}") from error
    if min(found) < 1:
        raise ConfigError(f"--{name}: expected numbers of at least 1, got {text!r}")
    return found


def positive(name: str, value: float) -> float:
    """The value of an option that takes a number above 0.

    Raises:
        ConfigError: it is not, or not finite.
    """
    if not 0 < value < math.inf:
        raise ConfigError(f"--{name}: expected a number above 0, got {value:g}")
    return value


def fractions(name: str, text: str) -> tuple[float, ...]:
    """The value of an option that takes numbers with commas between.

    Raises:
        ConfigError: they are not.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--{name}: expected numbers with commas between, got {text!r}") from error
