"""The paper's recipe: the values that the paper, or its released code, fixes (CogLTX §4 and appendix).

Epochs differ by task (NewsQA 4, 20 Newsgroups 6, many labels 10), as does the encoder's size.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cogltx.reasoners import REASONER_CONFIGS

if TYPE_CHECKING:
    from cogltx.training.config import RunConfig

PAPER: dict[str, Any] = {
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
    "memrecall.reread": None,
    "reasoner.kinds": "learned",
    "reasoner.evidence_weight": 0.0,
    "reasoner.no_answer_evidence_weight": 0.0,
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
"""Settings and the paper's values; those of a reasoner count where it has them."""

_MODEL = ("encoder", "max_block_tokens", "judge", "memrecall", "reasoner")  # with init_from, those of that model


def with_paper(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the paper's values for the settings that a configuration does not set.

    With ``init_from`` the settings of the model are those of the model that the run starts from.
    """
    filled = dict(values)
    reasoner = _plain(values.get("reasoner", {}))
    known = REASONER_CONFIGS.get(str(reasoner.get("name", "span")))
    for setting, value in PAPER.items():
        part, *path = setting.split(".")
        if part in _MODEL and values.get("init_from") is not None:
            continue
        if part == "reasoner" and (known is None or path[0] not in known.model_fields):
            continue
        filled[part] = _with(filled.get(part), path, value) if path else filled.get(part, value)
    return filled


def _with(given: Any, path: list[str], value: Any) -> Any:
    """Set a value inside a part of a configuration, unless it is set there."""
    given = {} if given is None else _plain(given)
    if not isinstance(given, dict):
        return given  # validation will refuse it
    name, *rest = path
    return {**given, name: _with(given.get(name), rest, value) if rest else given.get(name, value)}


def _plain(given: Any) -> Any:
    """The settings that a configuration object sets, or those of a mapping."""
    if isinstance(given, BaseModel):
        return given.model_dump(exclude_unset=True)
    return dict(given) if isinstance(given, Mapping) else given


def deviations(run: "RunConfig") -> list[tuple[str, Any, Any]]:
    """List the settings of a run that differ from the paper: the setting, the value of the run, the paper's."""
    run = run.started()
    return [(setting, value, PAPER[setting]) for setting, value in _values(run) if value != PAPER[setting]]


def _values(run: "RunConfig") -> Iterator[tuple[str, Any]]:
    """The run's values of the paper's settings, as far as it has them."""
    for setting in PAPER:
        value: Any = run
        for name in setting.split("."):
            value = getattr(value, name, ...)
        if value is not ...:
            yield setting, value
