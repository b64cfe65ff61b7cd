"""Reasoners solve the task on a window of key blocks. To add one: write a file and add a line to ``REASONERS``."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag

from cogltx.reasoners.base import Reasoner, ReasonerConfig
from cogltx.reasoners.classification import ClassificationConfig, ClassificationReasoner
from cogltx.reasoners.span import SpanReasoner, SpanReasonerConfig
from cogltx.reasoners.tagging import TaggingConfig, TaggingReasoner

__all__ = [
    "REASONERS",
    "REASONER_CONFIGS",
    "AnyReasonerConfig",
    "ClassificationConfig",
    "ClassificationReasoner",
    "Reasoner",
    "ReasonerConfig",
    "SpanReasoner",
    "SpanReasonerConfig",
    "TaggingConfig",
    "TaggingReasoner",
]

REASONERS: dict[str, type[Reasoner[Any]]] = {
    "span": SpanReasoner,
    "classification": ClassificationReasoner,
    "tagging": TaggingReasoner,
}
REASONER_CONFIGS = {name: reasoner.config_class for name, reasoner in REASONERS.items()}


def _name(config: Any) -> Any:
    return str(config.get("name", "span") if isinstance(config, dict) else getattr(config, "name", config))


if TYPE_CHECKING:
    AnyReasonerConfig = ReasonerConfig
else:
    AnyReasonerConfig = Annotated[
        reduce(or_, (Annotated[config, Tag(name)] for name, config in REASONER_CONFIGS.items())), Discriminator(_name)
    ]
"""The configuration of any reasoner; its ``name`` selects the class."""
