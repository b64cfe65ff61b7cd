"""The configuration of a model: everything that is saved with it to rebuild it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator

from cogltx._files import changed, read_json, write_json
from cogltx._folders import DEFAULT_MODEL, hub_name
from cogltx.blocks import MIN_BLOCK_TOKENS
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, ModelError, describe
from cogltx.judges import JudgeConfig
from cogltx.reasoners import AnyReasonerConfig, SpanReasonerConfig
from cogltx.reasoners.checkpoints import is_checkpoint

FORMAT = 3
"""The format of model folders that this version writes; it reads all earlier ones."""


class TaskConfig(BaseModel):
    """The task that a model was trained for: how its data is read and measured.

    Attributes:
        name: the name of the task, such as ``squad``.
        options: the settings of its class in ``cogltx.tasks``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "jsonl"
    options: dict[str, Any] = Field(default_factory=dict)


class MemRecallConfig(BaseModel):
    """Parameters of MemRecall. The defaults are the paper's.

    Attributes:
        capacity: L, tokens per window.
        strides: number of additional blocks that each step keeps.
        rehearse: compute fine scores and decay by them; without, coarse scores decide.
        shortlist: number of blocks that the judge scores per step, proposed by a retriever for the question and the
            blocks in z; None scores every block.
        retriever: proposes the shortlist: ``bm25``, or ``trained``: vectors that are trained with the judge, and BM25.
        headings: bonus, in units of a score, for blocks whose headings the question or another found block names.
        passages: number of whole paragraphs that the reasoner reads, instead of single blocks.
        pairs: choose the passages by a model of which two a question needs together. It is trained on questions whose
            marked evidence lies in two passages. Needs ``passages`` of at least 2.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    capacity: int = Field(512, ge=32)
    strides: tuple[Annotated[int, Field(ge=1)], ...] = Field((3, 5), min_length=1)
    rehearse: bool = True
    shortlist: int | None = Field(None, ge=1)
    retriever: Literal["bm25", "trained"] = "bm25"
    headings: float = Field(0.0, ge=0)
    passages: int | None = Field(None, ge=1)
    pairs: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pairs and (self.passages or 0) < 2:
            raise ValueError("pairs needs passages of at least 2; set it, or pairs to false")
        return self

    @property
    def trains_retriever(self) -> bool:
        """Whether a trained retriever proposes the shortlist."""
        return self.shortlist is not None and self.retriever == "trained"


class ModelConfig(BaseModel):
    """Everything needed to rebuild a saved model.

    Attributes:
        reader: how long documents are read: ``cogltx``, or a baseline.
        task: the task that the model was trained for.
        encoder: the encoder that judge and reasoner start from.
        max_block_tokens: B, the maximum number of tokens per block.
        judge: the judge that scores blocks.
        memrecall: how key blocks are found.
        reasoner: the reasoner that solves the task on them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: str = "cogltx"
    task: TaskConfig = TaskConfig()
    encoder: EncoderConfig = EncoderConfig()
    max_block_tokens: int = Field(63, ge=MIN_BLOCK_TOKENS)
    judge: JudgeConfig = JudgeConfig()
    memrecall: MemRecallConfig = MemRecallConfig()
    reasoner: SerializeAsAny[AnyReasonerConfig] = SpanReasonerConfig()


def load_config(folder: Path, changes: Mapping[str, Any] | None = None) -> ModelConfig:
    """Load the configuration of a saved model, with changes by dotted key, such as ``{"memrecall.strides": [8]}``.

    Raises:
        ModelError: it is missing, or is not a model's configuration.
        ConfigError: a change is invalid.
    """
    config = _saved(folder)
    if not changes:
        return config
    if changes.get("task.name", config.task.name) != config.task.name:
        changes = {"task.options": {}, **changes}  # the saved options are those of the other task
    try:
        new = ModelConfig.model_validate(changed(config.model_dump(mode="json"), changes))
    except ValidationError as error:
        raise ConfigError(describe(error, ModelConfig)) from error
    for setting in ("name", "positions"):
        if getattr(new.encoder, setting) != getattr(config.encoder, setting):
            raise ConfigError(
                f"encoder.{setting}: a trained model keeps its encoder; set it in a training with init_from"
            )
    return new


def save_config(config: ModelConfig, folder: Path) -> None:
    """Write the configuration of a model to its folder."""
    write_json(folder / "config.json", {"format": FORMAT, **config.model_dump(mode="json")})


def _saved(folder: Path) -> ModelConfig:
    """The configuration in a folder, or one for a question answering model of ``transformers``."""
    if is_checkpoint(folder):
        return ModelConfig(
            encoder=EncoderConfig(name=hub_name(folder) or str(folder)),
            judge=JudgeConfig(name=DEFAULT_MODEL),
            memrecall=MemRecallConfig(passages=3),
            reasoner=SpanReasonerConfig(kinds="first_token", always_answers=True),
        )
    path = folder / "config.json"
    values = read_json(path)
    written = values.pop("format", 1)  # the first folders do not name it
    if not isinstance(written, int) or written > FORMAT:
        raise ModelError(f"{path}: a model of format {written!r}; this version reads up to {FORMAT}: upgrade cogltx")
    try:
        values = _of_format_1(values) if written == 1 else values
        return ModelConfig.model_validate(_of_format_2(values) if written <= 2 else values)
    except ValidationError as error:
        reason = describe(error, ModelConfig)
        raise ModelError(f"{path}: not the configuration of a cogltx model of this version: {reason}") from error


_REMOVED = {
    "memrecall": ("later_shortlist", "retriever_layers", "neighbour_bonus", "lexical_bonus", "most_blocks", "reread"),
    "reasoner": (
        "relevance_weight", "no_answer_threshold_alone", "whole_words", "label_smoothing", "class_weights",
        "weights",
    ),
}  # fmt: skip


def _of_format_1(values: dict[str, Any]) -> dict[str, Any]:
    """Translate a configuration of format 1: rename settings, and leave out those that there are no longer."""
    new = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items() if name != "overlap"}
    for part, names in _REMOVED.items():
        for name in names:
            new.get(part, {}).pop(name, None)
    recall, reasoner = new.get("memrecall", {}), new.get("reasoner", {})
    if "mention_bonus" in recall:
        recall["headings"] = recall.pop("mention_bonus")
    if recall.get("retriever") in ("both", "embedding"):
        recall["retriever"] = "bm25"
    if "linear" in reasoner and not reasoner.pop("linear"):
        reasoner["linear_weight"] = None
    if reasoner.get("over_windows") == "transformer":
        raise ModelError("reasoner.over_windows: transformer is no longer supported; train the model again")
    if isinstance(positions := new.get("encoder", {}).get("positions"), dict):
        positions.pop("form", None)
    task = new.get("task", {})
    if isinstance(task, dict) and task.get("options"):
        task["options"] = {key: value for key, value in task["options"].items() if key not in _REMOVED_OF_TASKS}
    return new


def _of_format_2(values: dict[str, Any]) -> dict[str, Any]:
    """Translate a configuration of format 2, whose margin between answer and no answer was compared to a threshold."""
    reasoner = dict(values.get("reasoner", {}))
    weight = reasoner.pop("no_answer_evidence_weight", 0.0)
    threshold = reasoner.pop("no_answer_threshold", None)
    if reasoner.get("name") == "span":
        calibration = {"relevance": weight, "no_answer": -(threshold or 0.0), "wrong": _NEVER}
        reasoner |= {"always_answers": threshold is None, "calibration": None if threshold is None else calibration}
    return {**values, "reasoner": reasoner} if reasoner else values


_NEVER = -30.0  # logarithm of the weight of an outcome that does not count
_REMOVED_OF_TASKS = ("section_words", "passage_words", "blank", "seed", "keep_bad_questions")
