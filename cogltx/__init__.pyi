from .blocks import Block, Blocks, split
from .config import MemRecallConfig, ModelConfig, TaskConfig
from .document import Document, Entity, Example, Query, Segment, Span
from .encoding.positions import PositionsConfig, extend_positions
from .encoding.pretrained import EncoderConfig
from .errors import CogltxError, ConfigError, DataError, ModelError, TrainingError
from .formats import read_document
from .integrations.compress import compress
from .judges import Judge, JudgeConfig, ScoringJudge
from .memrecall import MemRecall
from .pipeline import CogLTX
from .prediction import Answer, Evidence, Label, PredictedEntity, Prediction
from .reasoners import ClassificationConfig, SpanReasonerConfig, TaggingConfig
from .recall import Recall
from .training import DataConfig, RunConfig, Trainer, TrainingConfig, train

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
    "compress",
    "extend_positions",
    "read_document",
    "split",
    "train",
]

__version__: str
