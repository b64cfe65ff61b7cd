"""CogLTX: read documents of any length with a BERT, and show the evidence.

Only the public names; each is imported from its module when it is first used, so that importing the package
stays fast and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cogltx.blocks import Block, Blocks, split
    from cogltx.document import Document, Entity, Example, Query, Segment, Span
    from cogltx.encoding.layout import Window
    from cogltx.encoding.positions import extend_positions
    from cogltx.errors import CogltxError, ConfigError, DataError, ModelError, TrainingError
    from cogltx.judges import Judge, ScoringJudge
    from cogltx.memrecall import MemRecall, Recall
    from cogltx.pipeline import CogLTX
    from cogltx.prediction import Answer, Evidence, Label, PredictedEntity, Prediction
    from cogltx.reasoners import ClassificationReasoner, SpanReasoner, TaggingReasoner

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Block",
    "Blocks",
    "ClassificationReasoner",
    "CogLTX",
    "CogltxError",
    "ConfigError",
    "DataError",
    "Document",
    "Entity",
    "Evidence",
    "Example",
    "Judge",
    "Label",
    "MemRecall",
    "ModelError",
    "PredictedEntity",
    "Prediction",
    "Query",
    "Recall",
    "ScoringJudge",
    "Segment",
    "Span",
    "SpanReasoner",
    "TaggingReasoner",
    "TrainingError",
    "Window",
    "extend_positions",
    "split",
]

_MODULES = {
    "Answer": "prediction",
    "Block": "blocks",
    "Blocks": "blocks",
    "ClassificationReasoner": "reasoners",
    "CogLTX": "pipeline",
    "CogltxError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "Document": "document",
    "Entity": "document",
    "Evidence": "prediction",
    "Example": "document",
    "PredictedEntity": "prediction",
    "Judge": "judges",
    "Label": "prediction",
    "MemRecall": "memrecall",
    "ModelError": "errors",
    "Prediction": "prediction",
    "Query": "document",
    "Recall": "memrecall",
    "ScoringJudge": "judges",
    "Segment": "document",
    "Span": "document",
    "SpanReasoner": "reasoners",
    "TaggingReasoner": "reasoners",
    "TrainingError": "errors",
    "Window": "encoding.layout",
    "extend_positions": "encoding.positions",
    "split": "blocks",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module; later uses find it without coming here."""
    if name not in _MODULES:
        raise AttributeError(f"module 'cogltx' has no attribute {name!r}")
    value: object = getattr(import_module(f"cogltx.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
