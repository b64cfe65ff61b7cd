"""The paper's recipe: the values that the paper, or its released code, fixes (CogLTX §4 and appendix).

Epochs differ by task (NewsQA 4, 20 Newsgroups 6, many labels 10), as does the encoder's size.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cogltx._files import changed
from cogltx.reasoners import REASONER_CONFIGS

if TYPE_CHECKING:
    from cogltx.training.config import RunConfig

PAPER: dict[str, Any] = {
    "task.options.paragraphs": None,
    "task.options.fact_threshold": None,
    "encoder.name": "roberta-base",
    "encoder.attention_dropout": 0.1,
    "encoder.hidden_dropout": 0.1,
    "encoder.freeze_embeddings": False,
    "max_block_tokens": 63,
    "judge.name": "encoder",
    "memrecall.capacity": 512,
    "memrecall.strides": (3, 5),
    "memrecall.shortlist": None,
    "memrecall.rehearse": True,
    "memrecall.headings": 0.0,
    "memrecall.passages": None,
    "memrecall.pairs": False,
    "reasoner.kinds": "learned",
    "reasoner.evidence_weight": 0.0,
    "reasoner.pooling": "first",
    "reasoner.linear_weight": None,
    "training.batch_size": 32,
    "training.judge.learning_rate": 4e-5,
    "training.judge.head_rate": 1.0,
    "training.reasoner.learning_rate": 1e-4,
    "training.reasoner.head_rate": 1.0,
    "training.ranking_weight": 0.0,
    "training.judge_epochs": None,
    "training.judge_windows": "both",
    "training.reasoner_blocks": "recall",
    "training.relevance.raise_threshold": 0.2,
    "training.relevance.lower_threshold": -0.05,
    "training.relevance.budget": None,
}
"""Settings and the paper's values; those of a reasoner or task count where it has them."""

_MODEL = ("encoder", "max_block_tokens", "judge", "memrecall", "reasoner")  # with init_from, those of that model


def with_paper(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the paper's values where a configuration sets none; with ``init_from``, those of the training alone."""
    reasoner = _plain(values.get("reasoner"))
    known = REASONER_CONFIGS.get(str(reasoner.get("name", "span") if isinstance(reasoner, Mapping) else "span"))
    paper: dict[str, Any] = {}
    for setting, value in PAPER.items():
        part, _, name = setting.partition(".")
        is_known = part != "reasoner" or (known is not None and name in known.model_fields)
        if is_known and part != "task" and (part not in _MODEL or values.get("init_from") is None):
            paper = changed(paper, {setting: value})
    return dict(merged(paper, values))


def merged(base: Any, given: Any) -> Any:
    """Fill in what nested settings, which may be configuration objects, do not set."""
    given = _plain(given)
    if not isinstance(base, Mapping) or not isinstance(given, Mapping):
        return given
    return {**base, **{name: merged(base.get(name), value) for name, value in given.items()}}


def _plain(given: Any) -> Any:
    return given.model_dump(exclude_unset=True) if isinstance(given, BaseModel) else given


def deviations(run: "RunConfig") -> list[tuple[str, Any, Any]]:
    """List the settings of a run that differ from the paper: the setting, the value of the run, the paper's."""
    values = run.started().model_dump()
    found = []
    for setting, paper in PAPER.items():
        *parts, name = setting.split(".")
        part = reduce(dict.__getitem__, parts, values)
        if name in part and part[name] != paper:
            found.append((setting, part[name], paper))
    return found
