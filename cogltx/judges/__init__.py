"""Judges score the relevance of blocks. To add one: write a file with the class and add a line to ``JUDGES``."""

import inspect
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from torch import nn

from cogltx._folders import is_released
from cogltx.encoding.encoder import BatchRunner, Encoder
from cogltx.errors import ConfigError, ModelError, describe
from cogltx.judges.base import Judge, Memory, ScoringJudge, judge_error
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge
from cogltx.judges.encoder import EncoderJudge, WindowJudge
from cogltx.judges.fusion import Fusion, FusionWeights
from cogltx.judges.headings import Headings
from cogltx.judges.linear import LinearJudge
from cogltx.judges.other_model import ModelJudge
from cogltx.judges.retriever import BlockEncoder, BM25Retriever, Retriever, TrainedRetriever
from cogltx.judges.shortlist import Shortlist
from cogltx.linear import LinearModel

__all__ = [
    "JUDGES",
    "BM25Retriever",
    "BlockEncoder",
    "EncoderJudge",
    "Fusion",
    "FusionWeights",
    "Headings",
    "Judge",
    "JudgeConfig",
    "Memory",
    "ModelJudge",
    "Retriever",
    "ScoringJudge",
    "Shortlist",
    "TrainedRetriever",
    "make_judge",
    "with_runner",
]

JUDGES: dict[str, type[Judge | nn.Module]] = {
    "encoder": EncoderJudge,
    "bm25": BM25Judge,
    "embedding": EmbeddingJudge,
    "linear": LinearJudge,
}


class JudgeConfig(BaseModel):
    """The judge that scores blocks.

    Attributes:
        name: ``encoder`` (the paper's, trained jointly); ``bm25`` or ``embedding`` (no training); ``linear`` (for texts
            with labels: a linear model of their words); another model, whose judge, retriever and shortlist are used
            as they are, whatever its encoder: a released one such as ``qa-minilm``, a run or a folder with a slash in
            its name, or ``owner/name`` on the hub; or ``package.module:Class``: a class with a ``score`` method (see
            ``ScoringJudge``), or an ``nn.Module`` whose ``forward(input_ids, attention_mask, token_type_ids)`` returns
            a relevance logit per token, shape [windows, tokens]. A module is trained, saved and loaded with the run.
        args: arguments of the class; for ``embedding``: ``encoder``.
        init_from: a run or model folder whose judge and trained retriever initialize those of this run; ``reasoner``
            takes the encoder that this run's reasoner starts from.
        fusion: weights with which the scores of a trained retriever join the judge's. Training fits them on the
            validation examples; None: the judge's scores as they are.
        layers: number of the encoder's first layers that the judge ``encoder`` has; None: all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "encoder"
    args: dict[str, Any] = Field(default_factory=dict)
    init_from: str | None = None
    layers: int | None = Field(None, ge=1)
    fusion: FusionWeights | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the configuration of a judge without arguments; raises ConfigError if there is none of this name."""
        try:
            return cls(name=name)
        except ValidationError as error:
            raise ConfigError(describe(error, cls, within="judge")) from error

    @property
    def is_class(self) -> bool:
        """Whether the judge is a class of a user's own, whose code runs when it is loaded."""
        return ":" in self.name

    @property
    def is_model(self) -> bool:
        """Whether the judge is that of another model."""
        return self.name not in JUDGES and not self.is_class

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in JUDGES and ":" not in name and "/" not in name and not is_released(name):
            hint = f"; the folder is ./{name}" if name and Path(name).is_dir() else ""
            known = ", ".join(JUDGES)
            raise ValueError(f"{name!r} is not a judge; use {known}, a model or package.module:Class{hint}")
        return name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.args and (self.is_model or self.name in ("encoder", "linear")):
            raise ValueError(f"args: the judge {self.name} takes none")
        if self.layers is not None and self.name != "encoder":
            raise ValueError(f"layers: the judge {self.name} has none")
        return self


def make_judge(
    judge: JudgeConfig | str | Any,
    *,
    encoder: Callable[[], Encoder] | None = None,
    linear: LinearModel | None = None,
    other_model: Callable[[str], Judge] | None = None,
) -> nn.Module | Judge:
    """Make a judge: a model over windows, which may be trained, or a judge that is ready to use.

    Args:
        judge: a configuration, a name, or an object with a ``score`` method. A class may be in the current folder.
        encoder: creates the encoder of the judge ``encoder``.
        linear: the model of the judge ``linear``.
        other_model: loads the judge of another model by its name.

    Raises:
        ConfigError: there is no judge of this name, it needs a trained run, or its arguments are wrong.
        ModelError: the class cannot be imported or created, or the object is not a judge.
    """
    if isinstance(judge, str):
        judge = JudgeConfig.named(judge)
    if not isinstance(judge, JudgeConfig):
        return judge if isinstance(judge, nn.Module) else _adapted(judge)
    name = judge.name
    if judge.is_class:
        return _of_class(judge)
    if judge.is_model:
        if other_model is None:
            raise ConfigError(
                f'judge "{name}": a model; load it with CogLTX.from_pretrained("{name}"), which has recall()'
            )
        return other_model(name)
    if name == "encoder" and encoder is not None:
        return EncoderJudge(encoder())
    if name == "linear" and linear is not None:
        return LinearJudge(linear)
    if name in ("encoder", "linear"):
        raise ConfigError(f'judge "{name}" needs a trained run; use "bm25", "embedding" or package.module:Class')
    try:
        return JUDGES[name](**judge.args)
    except TypeError as error:
        raise ConfigError(f"judge.args of {name!r}: {error}") from error


def with_runner(judge: nn.Module | Judge, runner: BatchRunner) -> Judge:
    """Let a judge run its windows through a runner; a model becomes a judge over windows."""
    if isinstance(judge, nn.Module):
        return WindowJudge(judge, runner)
    if isinstance(judge, EmbeddingJudge):
        judge.runner = runner
    return judge


def _of_class(config: JudgeConfig) -> nn.Module | Judge:
    """Create a judge of a user's own class."""
    name, arguments = config.name, config.args
    if (current_folder := str(Path.cwd())) not in sys.path:
        sys.path.append(current_folder)
    try:
        judge_class = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:
        raise judge_error(name, "cannot be imported", error) from error
    if not isinstance(judge_class, type):
        raise judge_error(name, f"is not a class but a {type(judge_class).__name__}")
    try:
        judge = judge_class(**arguments)
    except Exception as error:
        raise judge_error(name, f"cannot be created with {arguments}", error) from error
    if not isinstance(judge, nn.Module):
        return _adapted(judge)
    try:
        inspect.signature(judge.forward).bind(input_ids=0, attention_mask=0, token_type_ids=0)
    except TypeError as error:
        problem = f"forward must accept input_ids, attention_mask and token_type_ids: {error}"
        raise judge_error(name, problem) from error
    return judge


class _ScoringJudgeAdapter(Judge):
    """Lets a user's ``ScoringJudge`` score blocks."""

    def __init__(self, scorer: ScoringJudge) -> None:
        self.scorer = scorer

    def scores(self, memory: Memory, indices: list[int]) -> Float[np.ndarray, " indices"]:
        """See ``Judge.scores``."""
        if not indices:
            return np.empty(0)
        query = memory.query.text if memory.query else ""
        kept, texts = (list(map(memory.blocks.text_with_heading, some)) for some in (memory.kept, indices))
        try:
            scores = np.asarray(self.scorer.score(query, kept, texts))
            if scores.dtype.kind not in "biufO":
                raise TypeError(f"{scores.dtype.name} values are not numbers")
            scores = scores.astype(np.float64)
        except Exception as error:
            raise judge_error(self.scorer, f"scoring {len(indices)} texts failed", error) from error
        if scores.shape != (len(indices),):
            raise judge_error(self.scorer, f"the scores of {len(indices)} texts have shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise judge_error(self.scorer, f"a score is {scores[~np.isfinite(scores)][0]}; scores must be finite")
        return scores


def _adapted(judge: object) -> Judge:
    if isinstance(judge, Judge):
        return judge
    if isinstance(judge, ScoringJudge) and not isinstance(judge, type) and callable(judge.score):
        return _ScoringJudgeAdapter(judge)
    kind = f"the class {judge.__name__}" if isinstance(judge, type) else type(judge).__name__
    raise ModelError(
        f"judge: {kind} is not a judge; pass an nn.Module or an object with score(query, kept, candidates)"
    )
