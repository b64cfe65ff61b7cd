"""A model's pieces: its configuration, tokenizer, reasoner and judge; made anew, or loaded from a folder.

Knows nothing of the flow from a document to an answer.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from cogltx.blocks import MIN_BLOCK_TOKENS
from cogltx.encoding.encoder import Encoder, Precision, empty_encoder, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig, tokenizer_of
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import EncoderJudge, Judge, JudgeConfig, judge_model
from cogltx.memrecall import MemRecallConfig
from cogltx.reasoners import Reasoner, ReasonerConfig, SpanReasonerConfig, make_reasoner
from cogltx.storage import load_tensors, read_json, read_object


class TaskConfig(BaseModel):
    """What a model was trained for: how its data is read and measured.

    Attributes:
        name: of the task.
        options: of the task's reader and metric.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "jsonl"
    options: dict[str, Any] = Field(default_factory=dict)


class ModelConfig(BaseModel):
    """Everything that a saved model needs to be rebuilt: the configs of its stages.

    Attributes:
        reader: how long documents are read: ``cogltx``, or a baseline.
        task: what the model was trained for.
        encoder: what judge and reasoner start from.
        max_block_tokens: B.
        judge: gives blocks their relevance.
        memrecall: finds the key blocks.
        reasoner: solves the task on them.
        overlap: tokens that neighbouring windows of the sliding-window baseline share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: str = "cogltx"
    task: TaskConfig = TaskConfig()
    encoder: EncoderConfig = EncoderConfig()
    max_block_tokens: int = Field(63, ge=MIN_BLOCK_TOKENS)
    judge: JudgeConfig = JudgeConfig()
    memrecall: MemRecallConfig = MemRecallConfig()
    reasoner: ReasonerConfig = SpanReasonerConfig()
    overlap: int = Field(128, ge=0)


@dataclass
class Parts:
    """The pieces of a reader.

    Attributes:
        config: of the model.
        tokenizer: fast, shared by judge and reasoner.
        reasoner: solves the task on windows.
        judge: a model over windows or a ready judge; None for readers without one.
        device: where the models run; None: the best there is.

    Raises:
        ConfigError: the capacity is beyond the encoder's positions, or no block fits it.
        ModelError: the tokenizer has tokens that the encoder does not know.
    """

    config: ModelConfig
    tokenizer: Any
    reasoner: Reasoner[Any, Any]
    judge: nn.Module | Judge | None = None
    device: torch.device | str | None = None
    form: WindowFormat = field(init=False)
    precision: Precision = field(init=False)

    def __post_init__(self) -> None:
        capacity = self.config.memrecall.capacity
        positions = self.reasoner.encoder.positions
        if positions is not None and capacity > positions:
            raise ConfigError(
                f"memrecall.capacity: expected at most {positions}, the positions of the encoder, got {capacity}"
            )
        if self.config.max_block_tokens + 2 > capacity:
            raise ConfigError(
                f"max_block_tokens: expected at most {capacity - 2}, as memrecall.capacity is {capacity}, "
                f"got {self.config.max_block_tokens}"
            )
        known = self.reasoner.encoder.vocabulary
        if len(self.tokenizer) > known:
            raise ModelError(f"tokenizer: expected at most {known} tokens, as the encoder, got {len(self.tokenizer)}")
        self.form = WindowFormat(self.tokenizer, capacity)
        self.precision = Precision.of(self.config.encoder, self.device)


def new_parts(config: ModelConfig, *, uses_judge: bool, device: torch.device | None = None) -> Parts:
    """The pieces of a new model: pre-trained encoders, fresh heads, and whatever ``init_from`` names."""
    tokenizer = tokenizer_of(config.encoder.name)
    reasoner = make_reasoner(config.reasoner, load_encoder(config.encoder))
    judge: nn.Module | Judge | None = None
    if uses_judge:
        judge = judge_model(config.judge, load_encoder(config.encoder) if config.judge.name == "encoder" else None)
    parts = Parts(config, tokenizer, reasoner, judge, device)
    if config.reasoner.init_from not in (None, "judge"):
        start = model_folder(str(config.reasoner.init_from)) / "reasoner.safetensors"
        load_weights(reasoner, start, except_for=reasoner.auxiliary)
    if uses_judge and config.judge.init_from == "reasoner":
        if not isinstance(judge, EncoderJudge):
            raise ConfigError('judge.init_from: expected judge.name "encoder" beside "reasoner", got another judge')
        judge.encoder.load_state_dict(reasoner.encoder.state_dict())
    elif isinstance(judge, nn.Module) and config.judge.init_from is not None:
        load_weights(judge, model_folder(config.judge.init_from) / "judge.safetensors")
    return parts


def load_config(folder: Path) -> ModelConfig:
    """The configuration of a saved model.

    Raises:
        ModelError: it is missing or not a model's.
    """
    values = read_json(folder / "config.json")
    try:
        return ModelConfig.model_validate(values)
    except ValidationError as errors:
        error = errors.errors()[0]
        got = f"{'.'.join(map(str, error['loc']))}: {error['msg']}".removeprefix(": ")
        raise ModelError(
            f"{folder / 'config.json'}: expected the configuration of a cogltx model, got: {got}"
        ) from errors


def load_parts(folder: Path, config: ModelConfig, device: torch.device | str | None, judge: Judge | None) -> Parts:
    """The pieces of a saved model.

    Args:
        folder: a model folder.
        config: its configuration, or a changed one.
        device: where it runs.
        judge: takes the place of the saved judge.
    """
    read_json(folder / "encoder" / "config.json")

    def encoder() -> Encoder:
        return empty_encoder(folder / "encoder", config.encoder)

    reasoner = make_reasoner(config.reasoner, encoder())
    load_weights(reasoner, folder / "reasoner.safetensors")
    chosen: nn.Module | Judge | None = judge
    if chosen is None and ((folder / "judge.safetensors").exists() or config.reader == "cogltx"):
        chosen = judge_model(config.judge, encoder() if config.judge.name == "encoder" else None)
        if isinstance(chosen, nn.Module):
            load_weights(chosen, folder / "judge.safetensors")
    tokenizer = tokenizer_of(folder / "tokenizer")
    return Parts(config, tokenizer, reasoner, chosen, device)


def load_weights(model: nn.Module, path: Path, *, except_for: tuple[str, ...] = ()) -> None:
    """Loads all weights of a model.

    Args:
        model: takes them up.
        path: a safetensors file.
        except_for: beginnings of names that either side may lack; where the file does, the model keeps its own.

    Raises:
        ModelError: the file is missing, no safetensors, or of another model.
    """
    own, read = model.state_dict(), load_tensors(path)
    found = {name: value for name, value in read.items() if name in own or not name.startswith(except_for)}
    kept = {name: value for name, value in own.items() if name not in found and name.startswith(except_for)}
    try:
        model.load_state_dict(found | kept)
    except RuntimeError as error:
        got = str(error).splitlines()[1].strip()
        raise ModelError(f"{path}: expected the weights of {type(model).__name__}, got: {got[:200]}") from error


def model_folder(name: str | Path) -> Path:
    """The folder of a model: a run's best, a model folder itself, or a download from the hub.

    Raises:
        ModelError: there is no such model.
    """
    try:
        path = Path(name)
        is_run = (path / "run.json").is_file()
    except (TypeError, ValueError, OSError) as error:
        got = getattr(error, "strerror", None) or error
        raise ModelError(
            f"{str(name)[:60]}: expected a model folder, a run or a name on the Hugging Face hub, got: {got}"
        ) from error
    if is_run:
        best = read_object(path / "run.json").get("best")
        if not best:
            raise ModelError(f"{path}: expected a trained run, got one without a finished epoch; go on with --resume")
        return path / str(best)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path}: expected a model folder or a run, found neither config.json nor run.json")
        return path
    if path.is_absolute() or str(name).count("/") != 1 or str(name).startswith("."):
        raise ModelError(f"{name}: expected a model folder, a run or a name on the Hugging Face hub, found none")
    return _download(str(name))


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        got = str(error).splitlines()[0]
        raise ModelError(
            f"{name}: expected a model folder, a run or a model on the Hugging Face hub, got: {got}"
        ) from error
