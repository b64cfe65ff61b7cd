"""CogLTX: read documents of any length with a BERT, and show the evidence.

Only public names. Each is imported from its module on first use, so importing the package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cogltx.blocks import Block, Blocks, split
    from cogltx.document import Document, Entity, Example, Query, Segment, Span
    from cogltx.encoding.positions import PositionsConfig, extend_positions
    from cogltx.encoding.pretrained import EncoderConfig
    from cogltx.errors import CogltxError, ConfigError, DataError, ModelError, TrainingError
    from cogltx.judges import Judge, JudgeConfig, ScoringJudge
    from cogltx.memrecall import MemRecall, MemRecallConfig, Recall
    from cogltx.model import ModelConfig, TaskConfig
    from cogltx.pipeline import CogLTX
    from cogltx.prediction import Answer, Evidence, Label, PredictedEntity, Prediction
    from cogltx.reasoners import ClassificationConfig, SpanReasonerConfig, TaggingConfig
    from cogltx.training import DataConfig, RunConfig, Trainer, TrainingConfig, train

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Block",
    "Blocks",
    "ClassificationConfig",
    "CogLTX",
    "CogltxError",
    "ConfigError",
    "DataConfig",
    "DataError",
    "Document",
    "EncoderConfig",
    "Entity",
    "Evidence",
    "Example",
    "Judge",
    "JudgeConfig",
    "Label",
    "MemRecall",
    "MemRecallConfig",
    "ModelConfig",
    "ModelError",
    "PositionsConfig",
    "PredictedEntity",
    "Prediction",
    "Query",
    "Recall",
    "RunConfig",
    "ScoringJudge",
    "Segment",
    "Span",
    "SpanReasonerConfig",
    "TaggingConfig",
    "TaskConfig",
    "Trainer",
    "TrainingConfig",
    "TrainingError",
    "extend_positions",
    "split",
    "train",
]

_NAMES = {
    "blocks": ("Block", "Blocks", "split"),
    "document": ("Document", "Entity", "Example", "Query", "Segment", "Span"),
    "encoding.positions": ("PositionsConfig", "extend_positions"),
    "encoding.pretrained": ("EncoderConfig",),
    "errors": ("CogltxError", "ConfigError", "DataError", "ModelError", "TrainingError"),
    "judges": ("Judge", "JudgeConfig", "ScoringJudge"),
    "memrecall": ("MemRecall", "MemRecallConfig", "Recall"),
    "model": ("ModelConfig", "TaskConfig"),
    "pipeline": ("CogLTX",),
    "prediction": ("Answer", "Evidence", "Label", "PredictedEntity", "Prediction"),
    "reasoners": ("ClassificationConfig", "SpanReasonerConfig", "TaggingConfig"),
    "training": ("DataConfig", "RunConfig", "Trainer", "TrainingConfig", "train"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from its module; later uses do not come here."""
    if name not in _MODULES:
        raise AttributeError(f"module 'cogltx' has no attribute {name!r}")
    value: object = getattr(import_module(f"cogltx.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]
