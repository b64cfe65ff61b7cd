"""Judges: what gives blocks their relevance. Named by ``encoder``, ``bm25``, ``embedding`` or
``package.module:Class``.
"""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from cogltx.encoding.encoder import Encoder, Precision
from cogltx.encoding.layout import WindowFormat
from cogltx.errors import ConfigError, ModelError, wrong_value
from cogltx.judges.base import Judge, Memory, ScoredBlocks, ScoringJudge, told
from cogltx.judges.bm25 import LexicalJudge
from cogltx.judges.embedding import EmbeddingJudge
from cogltx.judges.encoder import EncoderJudge, WindowJudge

__all__ = [
    "EmbeddingJudge",
    "EncoderJudge",
    "Judge",
    "JudgeConfig",
    "LexicalJudge",
    "Memory",
    "ScoredBlocks",
    "ScoringJudge",
    "WindowJudge",
    "as_judge",
    "check_name",
    "import_class",
    "judge_model",
    "make_judge",
]


_READY: dict[str, type[Judge]] = {"bm25": LexicalJudge, "embedding": EmbeddingJudge}


class JudgeConfig(BaseModel):
    """Which judge scores blocks.

    Attributes:
        name: ``encoder`` (the paper's, trained jointly), ``bm25`` and ``embedding`` (no training), or
            ``package.module:Class``: a class with a ``score`` method (see ``ScoringJudge``), or an ``nn.Module`` whose
            ``forward(input_ids, attention_mask, token_type_ids)`` gives a relevance logit for every token, shape
            [windows, tokens]; the latter is trained, saved and loaded with the run.
        args: arguments of the class; of ``embedding``, its ``encoder``.
        init_from: a run or model folder whose judge this one starts from, or ``reasoner``: the encoder that this run's
            reasoner starts from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "encoder"
    args: dict[str, Any] = Field(default_factory=dict)
    init_from: str | None = None


def judge_model(config: JudgeConfig, encoder: Encoder | None) -> nn.Module | Judge:
    """The judge that a config names: a model to train, or a ready judge.

    Args:
        config: names the judge.
        encoder: what the built-in judge builds on; None where only ready judges are wanted.

    Raises:
        ConfigError: there is no such judge.
        ModelError: the class cannot be imported or made, or is no judge.
    """
    if config.name in _READY:
        return _ready(config)
    if config.name == "encoder":
        if encoder is None:
            raise ConfigError(
                'judge.name: expected "bm25", "embedding" or package.module:Class, got "encoder", which needs a '
                "trained run"
            )
        return EncoderJudge(encoder)
    check_name(config.name)
    made = _make(config)
    return made if isinstance(made, nn.Module) else ScoredBlocks(made)


def _ready(config: JudgeConfig) -> Judge:
    try:
        return _READY[config.name](**config.args)
    except TypeError as error:
        raise ConfigError(f"judge.args: expected arguments of {config.name!r}, got: {error}") from error
    except ValidationError as errors:
        first = errors.errors()[0]
        raise ConfigError(f"judge.args.{first['loc'][-1]}: {wrong_value(first)}") from errors


def check_name(name: str) -> None:
    """Checks the form of a judge's name.

    Raises:
        ConfigError: it is no name of a judge.
    """
    if name not in ("encoder", *_READY) and ":" not in name:
        raise ConfigError(f'judge.name: expected "encoder", "bm25", "embedding" or package.module:Class, got {name!r}')


def _make(config: JudgeConfig) -> nn.Module | ScoringJudge:
    kind = import_class(config.name)
    try:
        made = kind(**config.args)
    except Exception as error:
        raise ModelError(f"judge {config.name}: expected to be made with {config.args}, got {told(error)}") from error
    if isinstance(made, nn.Module):
        _check_forward(config.name, made)
        return made
    if _scores(made):
        return made
    raise ModelError(
        f"judge {config.name}: expected an nn.Module or a method score(query, kept, candidates), got neither"
    )


def _scores(made: object) -> TypeGuard[ScoringJudge]:
    """Whether an object, not a class, has a ``score`` that can be called."""
    return isinstance(made, ScoringJudge) and not isinstance(made, type) and callable(made.score)


def _check_forward(name: str, model: nn.Module) -> None:
    try:
        inspect.signature(model.forward).bind(input_ids=0, attention_mask=0, token_type_ids=0)
    except TypeError as error:
        raise ModelError(
            f"judge {name}: expected forward(input_ids, attention_mask, token_type_ids), got: {error}"
        ) from error


def import_class(name: str) -> type[Any]:
    """The class behind ``package.module:Class``; modules in the current folder are found too.

    Raises:
        ModelError: it cannot be imported.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise ModelError(f"judge {name}: expected a class that can be imported, got {told(error)}") from error
    if not isinstance(found, type):
        raise ModelError(f"judge {name}: expected a class, got {type(found).__name__}")
    return found


def as_judge(made: nn.Module | Judge, form: WindowFormat, precision: Precision, batch_tokens: int) -> Judge:
    """A judge that MemRecall can call."""
    return WindowJudge(made, form, precision, batch_tokens) if isinstance(made, nn.Module) else made


def make_judge(judge: object) -> Judge:
    """A judge passed as an object.

    Raises:
        ModelError: the object is no judge.
    """
    if isinstance(judge, Judge):
        return judge
    if _scores(judge):
        return ScoredBlocks(judge)
    got = f"the class {judge.__name__}" if isinstance(judge, type) else type(judge).__name__
    raise ModelError(f"judge: expected an object with a method score(query, kept, candidates), got {got}")
