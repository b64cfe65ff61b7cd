"""Pieces of messages."""

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """Format a number of things, such as "1 answer".

    >>> counted(1200, "answer")
    '1,200 answers'
    """
    return f"{count:,} {noun}{'s'[: count != 1]}"


def some(names: Sequence[str], most: int = 10) -> str:
    """List the first names, and the number of the others.

    >>> some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def unknown_label(id: str, label: str, labels: Sequence[str]) -> str:
    """Say that a label of a training example is not among those of the model."""
    return f"example {id!r}: the model was not trained on the label {label!r}, only on {some(labels)}"
