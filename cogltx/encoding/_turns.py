"""Turns at a model that several threads share: each batch of windows waits for its own. Does not depend on torch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeAlias

Turn: TypeAlias = Callable[[int], AbstractContextManager[Any]]
"""Takes the number of tokens of a batch; its context waits for the turn, and may raise to end the work."""

TURN: ContextVar[Turn] = ContextVar("turn", default=nullcontext)
"""The turns of this thread; by default, a batch does not wait."""
