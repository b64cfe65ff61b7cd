"""Question answering models of ``transformers`` as span reasoners: those with one layer for start and end."""

from pathlib import Path
from typing import Any

from torch import nn

from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ModelError
from cogltx.files import read_json
from cogltx.reasoners.base import Reasoner
from cogltx.reasoners.span import SpanReasoner

_KIND = "ForQuestionAnswering"


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a question answering model of ``transformers``, not a model of cogltx.

    Raises:
        ModelError: it holds a model of ``transformers`` that does something else.
    """
    settings = read_json(folder / "config.json")
    if "architectures" not in settings:
        return False
    name = str((settings["architectures"] or ["a model"])[0])
    if not name.endswith(_KIND):
        raise ModelError(
            f"{folder}: {name} of transformers, which answers no questions; such models are named …{_KIND}"
        )
    return True


def load_checkpoint(reasoner: Reasoner[Any], folder: Path) -> None:
    """Fill a span reasoner with the weights of a question answering model; a layer for kinds keeps its weights.

    Raises:
        ModelError: the model cannot be read, has another head or another encoder, or the reasoner is none for spans.
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
    assert not lacking, f"the same encoder without its head lacks {lacking[0]}"
