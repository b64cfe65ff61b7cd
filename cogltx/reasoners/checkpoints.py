"""Question answering models of ``transformers`` as span reasoners: those with one layer for start and end."""

from pathlib import Path
from typing import Any

from torch import nn

from cogltx._files import read_json
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ModelError
from cogltx.reasoners.base import Reasoner
from cogltx.reasoners.span import SpanReasoner

_KIND = "ForQuestionAnswering"


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a question answering model of ``transformers``, not a model of cogltx.

    Raises:
        ModelError: it holds another model of ``transformers``.
    """
    settings = read_json(folder / "config.json")
    if not settings.keys() & {"architectures", "model_type"}:
        return False
    name = str((settings.get("architectures") or ["a model"])[0])
    if _KIND not in name:
        raise ModelError(f"{folder}: {name} of transformers, without a question answering head (…{_KIND})")
    return True


def load_checkpoint(reasoner: Reasoner[Any], folder: Path) -> None:
    """Fill a span reasoner with the weights of a question answering model; a layer for kinds keeps its weights.

    Raises:
        ModelError: the model cannot be read, or has another head or encoder; or the reasoner is not for spans.
    """
    from transformers import AutoModelForQuestionAnswering

    if not isinstance(reasoner, SpanReasoner):
        raise ModelError(f"{folder}: a question answering model cannot start a {type(reasoner).__name__}")
    model, missing = load_pretrained(EncoderConfig(name=str(folder)), AutoModelForQuestionAnswering)
    head = getattr(model, "qa_outputs", None)
    if not isinstance(head, nn.Linear) or head.out_features != 2 or "qa_outputs.weight" in missing:
        raise ModelError(f"{folder}: {type(model).__name__} has no layer qa_outputs for start and end")
    try:
        lacking, _ = reasoner.encoder.model.load_state_dict(model.base_model.state_dict(), strict=False)
        reasoner.start_end.load_state_dict(head.state_dict())
    except RuntimeError as error:
        raise ModelError(f"{folder}: not the weights of this encoder: {str(error).splitlines()[1].strip()}") from error
    if lacking:
        raise ModelError(f"{folder}: not the weights of this encoder: no {lacking[0]}")
