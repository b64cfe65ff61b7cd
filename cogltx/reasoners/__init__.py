"""Reasoners: what solves the task on a window of key blocks. Named by ``span``, ``classification`` or ``tagging``."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from cogltx.encoding.encoder import Encoder
from cogltx.reasoners.answers import Reading
from cogltx.reasoners.base import Conclusion, Reasoner
from cogltx.reasoners.classification import ClassificationConfig, ClassificationReasoner
from cogltx.reasoners.span import SpanReasoner, SpanReasonerConfig
from cogltx.reasoners.tagging import TaggingConfig, TaggingReasoner

__all__ = [
    "REASONER_CONFIGS",
    "ClassificationConfig",
    "ClassificationReasoner",
    "Conclusion",
    "Reading",
    "Reasoner",
    "ReasonerConfig",
    "SpanReasoner",
    "SpanReasonerConfig",
    "TaggingConfig",
    "TaggingReasoner",
    "make_reasoner",
]


REASONER_CONFIGS = {"span": SpanReasonerConfig, "classification": ClassificationConfig, "tagging": TaggingConfig}


def _name(config: Any) -> Any:
    return str(config.get("name", "span") if isinstance(config, dict) else getattr(config, "name", config))


ReasonerConfig = Annotated[
    Annotated[SpanReasonerConfig, Tag("span")]
    | Annotated[ClassificationConfig, Tag("classification")]
    | Annotated[TaggingConfig, Tag("tagging")],
    Discriminator(_name),
]


def make_reasoner(config: ReasonerConfig, encoder: Encoder) -> Reasoner[Any, Any]:
    """The reasoner that a config describes, with a fresh head."""
    if isinstance(config, ClassificationConfig):
        return ClassificationReasoner(encoder, config)
    if isinstance(config, TaggingConfig):
        return TaggingReasoner(encoder, config)
    return SpanReasoner(encoder, config)
