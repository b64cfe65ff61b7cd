from .blocks import split
from .config import MemRecallConfig, ModelConfig
from .document import Document, Entity, Example, Query, Segment, Span
from .encoding.positions import extend_positions
from .errors import CogltxError, ConfigError, DataError, ModelError, TrainingError
from .formats import read_document
from .integrations.compress import compress
from .judges import Judge, ScoringJudge
from .memrecall import MemRecall
from .pipeline import CogLTX
from .prediction import Evidence, Prediction
from .recall import Recall
from .training import RunConfig, Trainer, TrainingConfig, train

__all__ = [
    "CogLTX",
    "CogltxError",
    "ConfigError",
    "DataError",
    "Document",
    "Entity",
    "Evidence",
    "Example",
    "Judge",
    "MemRecall",
    "MemRecallConfig",
    "ModelConfig",
    "ModelError",
    "Prediction",
    "Query",
    "Recall",
    "RunConfig",
    "ScoringJudge",
    "Segment",
    "Span",
    "Trainer",
    "TrainingConfig",
    "TrainingError",
    "compress",
    "extend_positions",
    "read_document",
    "split",
    "train",
]

__version__: str
