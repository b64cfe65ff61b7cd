"""A model: its configuration, tokenizer, reasoner and judge; created, loaded and saved.

Does not decide how documents are read: see ``pipeline`` and ``baselines``.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError
from torch import nn

from cogltx.blocks import MIN_BLOCK_TOKENS, AnyQuery, Blocks, load_tokenizer, save_tokenizer, split
from cogltx.display import model_card
from cogltx.document import Document
from cogltx.encoding.encoder import BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import Layout, Window, WindowFormat, separators_between_texts
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.encoding.weights import load_weights, split_shared, to_safetensors
from cogltx.errors import ConfigError, ModelError, describe
from cogltx.files import changed, new_folder, read_json, write_json
from cogltx.folders import DEFAULT_MODEL, hub_name, model_folder
from cogltx.judges import EncoderJudge, Judge, JudgeConfig, ScoringJudge, create_judge, named_judge
from cogltx.linear import LinearModel
from cogltx.memrecall import MemRecall, MemRecallConfig
from cogltx.model_judge import ModelJudge
from cogltx.progress import logger
from cogltx.reasoners import (
    REASONERS,
    AnyReasonerConfig,
    ClassificationConfig,
    ClassificationReasoner,
    Reasoner,
    SpanReasonerConfig,
)
from cogltx.reasoners.base import WindowOutputs
from cogltx.reasoners.checkpoints import is_checkpoint, load_checkpoint
from cogltx.retrieval import BlockEncoder, PairModel

FORMAT = 1
"""The format of model folders that this version writes; it reads all earlier ones."""

_CACHED_TOKENS = 4_000_000  # of split documents, about 50 MB


class TaskConfig(BaseModel):
    """The task that a model was trained for: how its data is read and measured.

    Attributes:
        name: the name of the task, such as ``squad``.
        options: the settings of its class in ``cogltx.tasks``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "jsonl"
    options: dict[str, Any] = Field(default_factory=dict)


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
        overlap: tokens that neighbouring windows of the sliding window share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: str = "cogltx"
    task: TaskConfig = TaskConfig()
    encoder: EncoderConfig = EncoderConfig()
    max_block_tokens: int = Field(63, ge=MIN_BLOCK_TOKENS)
    judge: JudgeConfig = JudgeConfig()
    memrecall: MemRecallConfig = MemRecallConfig()
    reasoner: SerializeAsAny[AnyReasonerConfig] = SpanReasonerConfig()
    overlap: int = Field(128, ge=0)

    @classmethod
    def load(cls, folder: Path, changes: Mapping[str, Any] | None = None) -> Self:
        """Load the configuration of a saved model, with changes by dotted key, such as ``{"memrecall.strides": [8]}``.

        Raises:
            ModelError: it is missing, or is not a model's configuration.
            ConfigError: a change is invalid.
        """
        config = cls._saved(folder)
        if changes and changes.get("task.name", config.task.name) != config.task.name:
            changes = {"task.options": {}, **changes}  # the saved options are those of the other task
        try:
            new = cls.model_validate(changed(config.model_dump(mode="json"), changes)) if changes else config
        except ValidationError as error:
            raise ConfigError(describe(error, cls)) from error
        for setting in ("name", "positions"):
            if getattr(new.encoder, setting) != getattr(config.encoder, setting):
                raise ConfigError(
                    f"encoder.{setting}: a trained model keeps its encoder; set it in a training with init_from"
                )
        return new

    @classmethod
    def _saved(cls, folder: Path) -> Self:
        """The configuration in a folder, or one for a question answering model of ``transformers``."""
        if is_checkpoint(folder):
            return cls(
                encoder=EncoderConfig(name=hub_name(folder) or str(folder)),
                judge=JudgeConfig(name=DEFAULT_MODEL),
                memrecall=MemRecallConfig(passages=3),
                reasoner=SpanReasonerConfig(kinds="first_token"),
            )
        path = folder / "config.json"
        values = read_json(path)
        written = values.pop("format", FORMAT)  # the first folders do not name it
        if not isinstance(written, int) or written > FORMAT:
            raise ModelError(
                f"{path}: a model of format {written!r}; this version reads up to {FORMAT}: upgrade cogltx"
            )
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            reason = describe(error, cls)
            raise ModelError(f"{path}: not the configuration of a cogltx model of this version: {reason}") from error

    def save(self, folder: Path) -> None:
        """Write the configuration of a model to its folder."""
        write_json(folder / "config.json", {"format": FORMAT, **self.model_dump(mode="json")})


@dataclass
class Model:
    """The parts of a reader.

    Attributes:
        initial_config: the configuration that the parts were created from.
        tokenizer: fast tokenizer, shared by judge and reasoner.
        reasoner: solves the task on windows.
        judge: a judge model over windows, or a judge without training; None for readers without a judge.
        retriever: the encoder of a trained retriever; None without one.
        linear: the linear model of words that the judge ``linear`` and ``reasoner.linear`` use; None without them.
        pairs: the model of pairs of passages; None without ``memrecall.pairs``.
        task: the task that the model is trained for.
        device: where the models run; None: the best available.

    Raises:
        ConfigError: the capacity exceeds the encoder's positions, or no block fits it.
        ModelError: the tokenizer has tokens that the encoder does not have.
    """

    initial_config: ModelConfig
    tokenizer: Any
    reasoner: Reasoner[Any]
    judge: Any = None
    retriever: BlockEncoder | None = None
    linear: LinearModel | None = None
    pairs: PairModel | None = None
    device: torch.device | str | None = None
    task: TaskConfig = field(init=False)
    form: WindowFormat = field(init=False)
    runner: BatchRunner = field(init=False)
    _blocks: "OrderedDict[int, Blocks]" = field(default_factory=OrderedDict)
    _n_cached_tokens: int = 0

    def __post_init__(self) -> None:
        config, encoder = self.initial_config, self.reasoner.encoder
        capacity = config.memrecall.capacity
        if encoder.positions is not None and capacity > encoder.positions:
            raise ConfigError(
                f"memrecall.capacity is {capacity}, but the encoder has {encoder.positions} positions; "
                "encoder.positions extends them"
            )
        if config.max_block_tokens + 2 > capacity:
            raise ConfigError(
                f"max_block_tokens is {config.max_block_tokens}; memrecall.capacity {capacity} allows {capacity - 2}"
            )
        if len(self.tokenizer) > encoder.vocabulary:
            raise ModelError(f"the tokenizer has {len(self.tokenizer)} tokens, the encoder only {encoder.vocabulary}")
        if isinstance(self.reasoner, ClassificationReasoner) and self.reasoner.config.linear:
            self.reasoner.linear = self.linear
        self.task = config.task
        as_in_transformers = isinstance(config.reasoner, SpanReasonerConfig) and config.reasoner.kinds == "first_token"
        n_separators = separators_between_texts(self.tokenizer) if as_in_transformers else 1
        self.form = WindowFormat(self.tokenizer, capacity, n_separators)
        precision = Precision.of(config.encoder, self.device)
        self.runner = BatchRunner(precision, config.encoder.batch_tokens, self.form.padding_id)
        for module in self.modules.values():
            module.to(precision.device).eval()

    @classmethod
    def create(cls, config: ModelConfig, *, with_judge: bool, device: torch.device | str | None = None) -> Self:
        """Create a model: pretrained encoders, new heads, and the weights that ``init_from`` names.

        Raises:
            ConfigError: the configuration is inconsistent.
            ModelError: an encoder, a judge or a model to start from cannot be loaded.
        """
        reasoner = REASONERS[config.reasoner.name](load_encoder(config.encoder), config.reasoner)
        judge: nn.Module | Judge | None = None
        linear = LinearModel() if _uses_linear(config, with_judge) else None
        if with_judge:
            encoder = load_encoder(config.encoder) if config.judge.name == "encoder" else None
            judge = _create_judge(config.judge, encoder, linear, device)
        retriever = _retriever(config) if with_judge else None
        pairs = PairModel() if with_judge and config.memrecall.pairs else None
        model = cls(config, load_tokenizer(config.encoder.name), reasoner, judge, retriever, linear, pairs, device)
        if config.reasoner.init_from not in (None, "judge"):
            _load_reasoner(reasoner, model_folder(str(config.reasoner.init_from)), optional=reasoner.auxiliary)
        if with_judge and config.judge.init_from == "reasoner":
            if not isinstance(judge, EncoderJudge):
                raise ConfigError(
                    f'judge.init_from is "reasoner", which needs judge.name "encoder", not {config.judge.name!r}'
                )
            judge.encoder.load_state_dict(reasoner.encoder.state_dict())
        elif isinstance(judge, nn.Module) and config.judge.init_from is not None:
            start = model_folder(config.judge.init_from)
            if is_checkpoint(start):
                raise ModelError(f"judge.init_from: {config.judge.init_from}: a model of transformers has no judge")
            load_weights(judge, start / "judge.safetensors")
        if retriever is not None:
            initial = (config.judge.init_from, config.reasoner.init_from)
            first = next((name for name in initial if name not in (None, "judge", "reasoner")), None)
            if first is not None and (weights := model_folder(first) / "retriever.safetensors").exists():
                load_weights(retriever, weights)
        return model

    @classmethod
    def load(
        cls,
        folder: Path,
        config: ModelConfig | None = None,
        *,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | str | None = None,
    ) -> Self:
        """Load a saved model.

        Args:
            folder: a model folder.
            config: a changed configuration; the saved one by default.
            device: the best available by default.
            judge: replaces the saved judge. A saved judge of a user's own class is only loaded if it is named here.

        Raises:
            ModelError: the folder is incomplete, or is not a model; its judge is a class that is not named here.
        """
        config, other_judge = _replaced_judge(folder, config or ModelConfig.load(folder), judge, device)
        logger.debug("load %s", folder)
        encoder_folder, tokenizer_folder = folder / "encoder", folder / "tokenizer"
        if is_checkpoint(folder):
            _check_checkpoint(config)
            encoder_folder = tokenizer_folder = folder
        read_json(encoder_folder / "config.json")
        reasoner = REASONERS[config.reasoner.name](load_encoder(config.encoder, encoder_folder), config.reasoner)
        _load_reasoner(reasoner, folder)
        uses_linear = _uses_linear(config, config.reader == "cogltx" and other_judge is None)
        linear = LinearModel.load(folder) if uses_linear else None
        model_judge: Any = other_judge
        if other_judge is None and ((folder / "judge.safetensors").exists() or config.reader == "cogltx"):
            model_judge = _saved_judge(folder, encoder_folder, config, linear, device)
        retriever = _retriever(config, folder / "encoder") if config.reader == "cogltx" else None
        if retriever is not None:
            load_weights(retriever, folder / "retriever.safetensors")
        pairs = _saved_pairs(folder, config)
        return cls(config, load_tokenizer(tokenizer_folder), reasoner, model_judge, retriever, linear, pairs, device)

    @property
    def config(self) -> ModelConfig:
        """The configuration, with the labels, thresholds and options of the task that training has set."""
        return self.initial_config.model_copy(update={"reasoner": self.reasoner.config, "task": self.task})

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The parts with weights, by name."""
        parts = {"reasoner": self.reasoner, "judge": self.judge, "retriever": self.retriever}
        return {name: part for name, part in parts.items() if isinstance(part, nn.Module)}

    def memrecall(self) -> MemRecall:
        """Create the MemRecall of this model, for a model with a judge."""
        return MemRecall(
            self.judge, self.config.memrecall, tokenizer=self.tokenizer,
            max_block_tokens=self.config.max_block_tokens, runner=self.runner, retriever=self.retriever,
            pairs=self.pairs, form=self.form,
        )  # fmt: skip

    def split(self, document: Document) -> Blocks:
        """Cut a document into blocks; the blocks of recent documents are cached, up to four million tokens."""
        blocks = self._blocks.pop(id(document), None)
        if blocks is None:
            blocks = split(document, self.tokenizer, max_tokens=self.initial_config.max_block_tokens)
            logger.debug("split %s: %d tokens, %d blocks", document.id or "text", blocks.n_tokens, len(blocks))
        else:
            self._n_cached_tokens -= blocks.n_tokens
        self.keep(blocks)
        return blocks

    def keep(self, blocks: Blocks) -> None:
        """Cache the blocks of a document."""
        self._blocks[id(blocks.document)] = blocks  # keeps the document alive, so its id stays unique
        self._n_cached_tokens += blocks.n_tokens
        while self._n_cached_tokens > _CACHED_TOKENS and len(self._blocks) > 1:
            self._n_cached_tokens -= self._blocks.popitem(last=False)[1].n_tokens

    def layout(self, document: Document, query: AnyQuery) -> Layout:
        """Lay out a query and a document."""
        return self.form.layout(query, self.split(document))

    def reason(self, windows: Iterable[Window]) -> Iterator[WindowOutputs]:
        """Run windows through the reasoner; yields each window with its outputs.

        Raises:
            ModelError: an output is NaN.
        """
        self.reasoner.eval()
        for window, outputs in self.runner.run(windows, self.reasoner, title="reasoner"):
            if np.isnan(outputs).any():
                raise ModelError("reasoner: an output is NaN")
            yield window, outputs

    def save(self, folder: Path, *, int8: bool = False, name: str | None = None, card: str | None = None) -> None:
        """Write configuration, safetensors, tokenizer and model card to a folder; the write is atomic.

        Args:
            folder: replaces an earlier model there.
            int8: store large matrices as 8-bit integers, and once what the parts of the model share. The model computes
                in float32 as before.
            name: the name of the model in its card; by default that of the folder.
            card: the text of the model card; by default one from the configuration.

        Raises:
            TrainingError: the folder cannot be written; its previous content is kept.
        """
        with new_folder(folder) as target:
            save_tokenizer(self.tokenizer, target / "tokenizer")
            self.reasoner.encoder.model.config.save_pretrained(target / "encoder")
            states: dict[str, Any] = {part: module.state_dict() for part, module in self.modules.items()}
            for part, state in (split_shared(states) if int8 else states).items():
                (target / f"{part}.safetensors").write_bytes(to_safetensors(state, int8=int8))
            if self.linear is not None:
                self.linear.save(target)
            if self.pairs is not None:
                self.pairs.save(target)
            self.config.save(target)
            card = card or model_card(name or folder.name, self.config)
            (target / "README.md").write_text(card, encoding="utf-8")


def _uses_linear(config: ModelConfig, with_judge: bool) -> bool:
    """Whether a model has a linear model of words; raises ConfigError where it cannot have one."""
    reasoner = config.reasoner if isinstance(config.reasoner, ClassificationConfig) else None
    judges = with_judge and config.judge.name == "linear"
    joins = reasoner is not None and reasoner.linear
    if judges and reasoner is None:
        raise ConfigError("judge.name: a linear model of words needs texts with labels; use encoder or bm25 as judge")
    return judges or joins


def _retriever(config: ModelConfig, folder: Path | None = None) -> BlockEncoder | None:
    """Create the encoder of a trained retriever, if the configuration asks for one."""
    memrecall = config.memrecall
    if not memrecall.trains_retriever:
        return None
    return BlockEncoder(load_encoder(config.encoder, folder, layers=memrecall.retriever_layers))


def _saved_pairs(folder: Path, config: ModelConfig) -> PairModel | None:
    """Load the model of pairs of passages, if the configuration asks for one."""
    if config.reader != "cogltx" or not config.memrecall.pairs:
        return None
    if not ModelConfig.load(folder).memrecall.pairs:
        raise ConfigError(f"{folder}: memrecall.pairs needs a model that was trained with it; set it to false")
    return PairModel.load(folder)


def _check_checkpoint(config: ModelConfig) -> None:
    """Raise ConfigError for what a model of ``transformers`` does not have until it is trained further."""
    reasoner = config.reasoner
    lacks = {
        "reasoner.kinds": isinstance(reasoner, SpanReasonerConfig) and reasoner.kinds == "learned",
        "reasoner.relevance_weight": isinstance(reasoner, SpanReasonerConfig) and reasoner.relevance_weight > 0,
        "judge.name": config.judge.name in ("encoder", "linear"),
        "memrecall.retriever": config.memrecall.trains_retriever,
        "memrecall.pairs": config.memrecall.pairs,
    }
    for setting in (name for name, is_lacking in lacks.items() if is_lacking):
        raise ConfigError(
            f"{setting}: a model of transformers has no such part; name the model in init_from to train it"
        )


def _load_reasoner(reasoner: Reasoner[Any], folder: Path, optional: tuple[str, ...] = ()) -> None:
    """Fill a reasoner with the weights of a model folder, or of a model of ``transformers``."""
    if is_checkpoint(folder):
        load_checkpoint(reasoner, folder)
    else:
        load_weights(reasoner, folder / "reasoner.safetensors", optional=optional)


def _replaced_judge(
    folder: Path, config: ModelConfig, judge: Judge | ScoringJudge | str | None, device: torch.device | str | None
) -> tuple[ModelConfig, Judge | ScoringJudge | str | None]:
    """Name the given judge in the configuration; also returns it, None if it is the saved one.

    Raises:
        ModelError: the saved judge is a class of a user's own that is not named, or the given judge cannot be loaded.
    """
    if isinstance(judge, str) and judge == config.judge.name:
        return config, None
    if judge is None:
        if config.judge.is_class and config.judge.name == ModelConfig.load(folder).judge.name:
            raise ModelError(
                f"{folder}: its judge is the class {config.judge.name}, whose code would run; if you trust it, "
                f"name it: --judge {config.judge.name}, or judge= in Python"
            )
        return config, None
    name = judge if isinstance(judge, str) else f"{type(judge).__module__}:{type(judge).__qualname__}"
    config = config.model_copy(update={"judge": named_judge(name)})
    return config, _judge_of(name, device) if config.judge.is_model else judge


def _saved_judge(
    folder: Path,
    encoder_folder: Path,
    config: ModelConfig,
    linear: LinearModel | None,
    device: torch.device | str | None,
) -> nn.Module | Judge:
    """Create the judge of a saved model, with its weights if it has any."""
    encoder = load_encoder(config.encoder, encoder_folder) if config.judge.name == "encoder" else None
    judge = _create_judge(config.judge, encoder, linear, device)
    if isinstance(judge, nn.Module):
        load_weights(judge, folder / "judge.safetensors")
    return judge


def _create_judge(
    config: JudgeConfig, encoder: Encoder | None, linear: LinearModel | None, device: torch.device | str | None
) -> nn.Module | Judge:
    """Create the judge that a configuration names, or load that of another model."""
    return _judge_of(config.name, device) if config.is_model else create_judge(config, encoder, linear)


def _judge_of(name: str, device: torch.device | str | None) -> ModelJudge:
    """Load the judge of another model.

    Raises:
        ModelError: there is no such model, or it has no judge of its own.
    """
    try:
        folder = model_folder(name)
        config = ModelConfig.load(folder)
    except ModelError as error:
        raise ModelError(f"judge {name}: {str(error).removeprefix(f'{name}: ')}") from error
    if config.reader != "cogltx" or config.judge.is_model or config.judge.is_class:
        raise ModelError(f"judge {name}: the model has no judge of its own")
    return ModelJudge(Model.load(folder, config, device=device).memrecall())
