"""A model: its configuration, tokenizer, reasoner and judge; created, loaded and saved.

Does not decide how documents are read: see ``pipeline`` and ``baselines``.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from cogltx._files import new_folder, read_json
from cogltx._folders import model_folder
from cogltx._progress import logger
from cogltx.blocks import AnyQuery, Blocks, load_tokenizer, save_tokenizer, split
from cogltx.config import ModelConfig, TaskConfig, load_config, save_config
from cogltx.display import model_card
from cogltx.document import Document
from cogltx.encoding._weights import load_tensors, load_weights, split_shared, to_safetensors
from cogltx.encoding.encoder import BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import Layout, Window, WindowFormat, separators_between_texts
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import (
    BlockEncoder,
    BM25Retriever,
    EncoderJudge,
    Judge,
    JudgeConfig,
    ModelJudge,
    Retriever,
    ScoringJudge,
    TrainedRetriever,
    make_judge,
)
from cogltx.linear import LinearModel
from cogltx.memrecall import MemRecall
from cogltx.reading import PairModel
from cogltx.reasoners import REASONERS, Reasoner
from cogltx.reasoners.base import WindowOutputs
from cogltx.reasoners.checkpoints import is_checkpoint, load_checkpoint

_CACHE = Lock()  # of blocks, which threads of a server share
_CACHED_TOKENS = 4_000_000  # of split documents, about 50 MB
_TOKENS_PER_DOCUMENT = 700  # whose memory a document takes besides its tokens
_RETRIEVER_LAYERS = 1  # of the encoder, in a new retriever
_REMOVED_HEADS = ("relevance.",)  # prefixes of weights in models of format 1
_LAYER = re.compile(r"\.(\d+)\.")


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
        config.reasoner.check(config.reader)
        self.reasoner.linear = self.linear if config.reasoner.uses_linear else None
        self.task = config.task
        n_separators = separators_between_texts(self.tokenizer) if config.reasoner.as_in_transformers else 1
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
        linear = LinearModel() if _uses_linear(config, with_judge) else None
        judge: nn.Module | Judge | None = None
        retriever = pairs = None
        if with_judge:
            judge = make_judge(
                config.judge, encoder=lambda: load_encoder(config.encoder, layers=config.judge.layers), linear=linear,
                other_model=lambda name: _judge_of(name, device),
            )  # fmt: skip
            retriever = _new_retriever(config)
            pairs = PairModel() if config.memrecall.pairs else None
        tokenizer = load_tokenizer(config.encoder.name)
        model = cls(config, tokenizer, reasoner, judge, retriever, linear, pairs, device)
        if config.reasoner.init_from not in (None, "judge"):
            _load_reasoner(reasoner, model_folder(str(config.reasoner.init_from)))
        if judge is not None and config.judge.init_from is not None:
            _start_judge(judge, config.judge, reasoner.encoder)
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
        config = config or load_config(folder)
        replaces = judge is not None and judge != config.judge.name
        if judge is not None:
            name = judge if isinstance(judge, str) else f"{type(judge).__module__}:{type(judge).__qualname__}"
            config = config.model_copy(update={"judge": JudgeConfig.named(name)}) if replaces else config
        elif config.judge.is_class and config.judge.name == load_config(folder).judge.name:
            raise ModelError(
                f"{folder}: its judge is the class {config.judge.name}, whose code would run; if you trust it, "
                f"name it: --judge {config.judge.name}, or judge= in Python"
            )
        logger.debug("load %s", folder)
        parts, tokenizer_folder = folder / "encoder", folder / "tokenizer"
        if is_checkpoint(folder):
            _check_checkpoint(config)
            parts = tokenizer_folder = folder
        if replaces and config.judge.name == "encoder":
            raise ConfigError(f"{folder}: the model has no trained encoder as judge; to train one, set init_from to it")
        read_json(parts / "config.json")
        reasoner = REASONERS[config.reasoner.name](load_encoder(config.encoder, parts), config.reasoner)
        _load_reasoner(reasoner, folder)
        with_judge = config.reader == "cogltx"
        linear = LinearModel.load(folder) if _uses_linear(config, with_judge) else None
        made: nn.Module | Judge | None = None
        if with_judge or (folder / "judge.safetensors").exists():
            made = make_judge(
                config.judge if judge is None or isinstance(judge, str) else judge,
                encoder=lambda: load_encoder(config.encoder, parts, config.judge.layers), linear=linear,
                other_model=lambda name: _judge_of(name, device),
            )  # fmt: skip
            if isinstance(made, nn.Module) and not replaces:
                load_weights(made, folder / "judge.safetensors")
        _share_embeddings(config, reasoner, made)  # before the next part takes its memory
        retriever = _saved_retriever(folder, config, parts) if with_judge else None
        _share_embeddings(config, reasoner, retriever)
        pairs = _saved_pairs(folder, config) if with_judge else None
        return cls(config, load_tokenizer(tokenizer_folder), reasoner, made, retriever, linear, pairs, device)

    @property
    def config(self) -> ModelConfig:
        """The configuration, with the labels, thresholds and options of the task that training has set."""
        return self.initial_config.model_copy(update={"reasoner": self.reasoner.config, "task": self.task})

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The parts with weights, by name."""
        parts = {"reasoner": self.reasoner, "judge": self.judge, "retriever": self.retriever}
        return {name: part for name, part in parts.items() if isinstance(part, nn.Module)}

    def make_retriever(self) -> Retriever:
        """Create the retriever: the trained one, or BM25."""
        if self.retriever is None:
            return BM25Retriever()
        return TrainedRetriever(self.retriever, self.runner, self.config.memrecall.capacity)

    def memrecall(self, retriever: Retriever | None = None) -> MemRecall:
        """Create the MemRecall of this model, for a model with a judge."""
        return MemRecall(
            self.judge, self.config.memrecall, tokenizer=self.tokenizer,
            max_block_tokens=self.config.max_block_tokens, runner=self.runner, retriever=retriever,
            pairs=self.pairs, form=self.form, fusion=self.config.judge.fusion,
        )  # fmt: skip

    def split(self, document: Document) -> Blocks:
        """Cut a document into blocks; the blocks of recent documents are cached, in about 50 MB."""
        blocks = self.cached_blocks(document)
        if blocks is None:
            blocks = split(document, self.tokenizer, max_tokens=self.initial_config.max_block_tokens)
            logger.debug("split %s: %d tokens, %d blocks", document.id or "text", blocks.n_tokens, len(blocks))
            blocks = self.cached_blocks(document) or blocks  # another thread may have been faster
        self.keep(blocks)
        return blocks

    def keep(self, blocks: Blocks) -> None:
        """Cache the blocks of a document."""
        with _CACHE:
            before = self._blocks.pop(id(blocks.document), None)
            self._blocks[id(blocks.document)] = blocks  # keeps the document alive, so its id stays unique
            self._n_cached_tokens += _cost(blocks) - (_cost(before) if before is not None else 0)
            while self._n_cached_tokens > _CACHED_TOKENS and len(self._blocks) > 1:
                self._n_cached_tokens -= _cost(self._blocks.popitem(last=False)[1])

    def cached_blocks(self, document: Document) -> Blocks | None:
        """Return the blocks of a document that was split before; None if they are not in the cache."""
        with _CACHE:
            return self._blocks.get(id(document))

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
            save_config(self.config, target)
            card = card or model_card(name or folder.name, self.config)
            (target / "README.md").write_text(card, encoding="utf-8")


def _cost(blocks: Blocks) -> int:
    """The tokens that take as much memory as the blocks of a document."""
    return blocks.n_tokens + _TOKENS_PER_DOCUMENT


def _uses_linear(config: ModelConfig, with_judge: bool) -> bool:
    """Check whether a model has a linear model of words; raises ConfigError where it cannot have one."""
    judges = with_judge and config.judge.name == "linear"
    if judges and not config.reasoner.labels_texts:
        raise ConfigError("judge.name: a linear model of words needs texts with labels; use encoder or bm25 as judge")
    return judges or config.reasoner.uses_linear


def _share_embeddings(config: ModelConfig, reasoner: Reasoner[Any], part: object) -> None:
    """Let a part with the word embeddings of the reasoner, which nobody trains, hold them together with it."""
    if not config.encoder.freeze_embeddings or not isinstance(part, EncoderJudge | BlockEncoder):
        return
    shared = reasoner.encoder.model.get_input_embeddings().weight
    embeddings = part.encoder.model.get_input_embeddings()
    if embeddings.weight.shape == shared.shape and torch.equal(embeddings.weight, shared):
        embeddings.weight = shared


def _start_judge(judge: nn.Module | Judge, config: JudgeConfig, encoder: Encoder) -> None:
    """Initialize a new judge from another model, or from the reasoner's encoder."""
    if config.init_from == "reasoner":
        if not isinstance(judge, EncoderJudge):
            raise ConfigError(f'judge.init_from is "reasoner", which needs judge.name "encoder", not {config.name!r}')
        weights = encoder.state_dict()
        judge.encoder.load_state_dict({name: weights[name] for name in judge.encoder.state_dict()})
    elif isinstance(judge, nn.Module):
        start = model_folder(str(config.init_from))
        if is_checkpoint(start):
            raise ModelError(
                f"judge.init_from: {config.init_from}: this Hugging Face model has no trained judge; remove the setting"
            )
        load_weights(judge, start / "judge.safetensors")


def _new_retriever(config: ModelConfig) -> BlockEncoder | None:
    """Create the encoder of a trained retriever, or that of the model that judge or reasoner starts from."""
    if not config.memrecall.trains_retriever:
        return None
    names = (config.judge.init_from, config.reasoner.init_from)
    start = next((name for name in names if name not in (None, "judge", "reasoner")), None)
    weights = None if start is None else model_folder(start) / "retriever.safetensors"
    if weights is None or not weights.exists():
        return BlockEncoder(load_encoder(config.encoder, layers=_RETRIEVER_LAYERS))
    retriever = BlockEncoder(load_encoder(config.encoder, layers=_n_layers(weights)))
    load_weights(retriever, weights)
    return retriever


def _saved_retriever(folder: Path, config: ModelConfig, encoder_folder: Path) -> BlockEncoder | None:
    """Load the encoder of a trained retriever, if the configuration asks for one."""
    if not config.memrecall.trains_retriever:
        return None
    weights = folder / "retriever.safetensors"
    retriever = BlockEncoder(load_encoder(config.encoder, encoder_folder, layers=_n_layers(weights)))
    load_weights(retriever, weights)
    return retriever


def _n_layers(weights: Path) -> int:
    """Count the layers of an encoder by the names of its weights."""
    return 1 + max(int(number[1]) for name in load_tensors(weights) if (number := _LAYER.search(name)))


def _saved_pairs(folder: Path, config: ModelConfig) -> PairModel | None:
    """Load the model of pairs of passages, if the configuration asks for one."""
    if not config.memrecall.pairs:
        return None
    if not load_config(folder).memrecall.pairs:
        raise ConfigError(f"{folder}: memrecall.pairs needs a model that was trained with it; set it to false")
    return PairModel.load(folder)


def _check_checkpoint(config: ModelConfig) -> None:
    """Raise ConfigError for what a model of ``transformers`` does not have until it is trained further."""
    lacking = {
        "judge": config.judge.name in ("encoder", "linear"),
        "retriever": config.memrecall.trains_retriever,
        "model of pairs": config.memrecall.pairs,
        **dict.fromkeys(config.reasoner.missing_in_checkpoints(), True),
    }
    for part in (part for part, is_lacking in lacking.items() if is_lacking):
        raise ConfigError(f"this Hugging Face model has no trained {part}. To train one, set init_from to the model")


def _load_reasoner(reasoner: Reasoner[Any], folder: Path) -> None:
    """Fill a reasoner with the weights of a model folder, or of a model of ``transformers``."""
    if is_checkpoint(folder):
        load_checkpoint(reasoner, folder)
    else:
        load_weights(reasoner, folder / "reasoner.safetensors", optional=_REMOVED_HEADS)


def _judge_of(name: str, device: torch.device | str | None) -> ModelJudge:
    """Load the judge of another model, with its shortlist.

    Raises:
        ModelError: there is no such model, or it has no judge of its own.
    """
    try:
        folder = model_folder(name)
        config = load_config(folder)
    except ModelError as error:
        raise ModelError(f"judge {name}: {str(error).removeprefix(f'{name}: ')}") from error
    if config.reader != "cogltx" or config.judge.is_model or config.judge.is_class:
        raise ModelError(f"judge {name}: the model has no judge of its own")
    model = Model.load(folder, config, device=device)
    return ModelJudge(model.memrecall(model.make_retriever()).judge, model.form, config.max_block_tokens)
