"""The errors a user can mend. The command line prints each as one line and exits with code 2.

Knows nothing about the rest of the package.
"""

from collections.abc import Mapping
from typing import Any


class CogltxError(Exception):
    """Base of every error whose one-line text tells the user what was expected and what came."""


class DataError(CogltxError):
    """A data file or text is not what it should be: names the file and line, the expected and the found."""


class ConfigError(CogltxError):
    """A configuration or an option is wrong: names the key, the expected and the found."""


class ModelError(CogltxError):
    """A model folder, an encoder or a user's own judge cannot be used."""


class TrainingError(CogltxError):
    """Training had to stop (a loss that is not finite, a disk that is full); the last checkpoint is kept."""


def wrong_value(error: Mapping[str, Any]) -> str:
    """What pydantic says of a value, as "expected …, got …"."""
    return f"expected {error['msg'].removeprefix('Input should be ')}, got {error['input']!r}"
