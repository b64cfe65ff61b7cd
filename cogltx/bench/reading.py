"""Measure seconds and peak memory of one reader on one document, to answer a question or to train one step.

`growth` calls it in a new process per reader and length. Models have random heads on a pretrained encoder.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModel, LongformerConfig, ModernBertConfig, PreTrainedConfig

from cogltx.baselines import SlidingWindow, Truncation, WindowReader
from cogltx.bench.growth import WHOLE
from cogltx.bench.process import peak_bytes
from cogltx.bench.prose import QUESTION, generated
from cogltx.blocks import load_tokenizer, split
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.memrecall import MemRecallConfig
from cogltx.model import ModelConfig
from cogltx.pipeline import CogLTX

_RECALL: dict[str, dict[str, Any]] = {
    "cogltx": {}, "one_stride": {"strides": (8,)}, "bm25_shortlist": {"retriever": "bm25"},
    "shortlist": {"retriever": "trained"}, "further": {"retriever": "trained"},
}  # fmt: skip
_WINDOW = 512  # tokens; also the width of Longformer's local attention
_N_DOCUMENTS = 2  # a short one, and the measured one


def _read_once(
    reader: str,
    length: int,
    *,
    training: bool = False,
    shortlist: Sequence[int] = (24, 12),
    encoder: str = "minilm",
    precision: str = "auto",
    seed: int = 0,
) -> dict[str, Any]:
    """Read a short document and then one of `length` tokens in this process.

    With `training`, train on the document instead of answering a question about it. Encoders with random weights take
    sizes and tokenizer of `encoder`. Memory is in bytes: of the text, of its tokens (vocabulary index, first and last
    character of each), the peak after the short document (`ready_bytes`) and at the end; `seconds` are from the text to
    the answer, or to the end of the step. The reader `further` has answered another question about the document before.

    Raises:
        CogltxError: the encoder cannot be loaded, or cannot read so many tokens.
    """
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(encoder)
    document_tokens = 0  # only needed if the window must hold the whole document
    if reader in WHOLE:
        document_tokens = int(split(generated(length, tokenizer, seed=seed), tokenizer).sizes.sum())
    with tempfile.TemporaryDirectory() as folder:
        model = _new_model(_config(reader, document_tokens, shortlist, encoder, precision, Path(folder)))
        device = model.model.runner.precision.device.type
        read = _training_step(model) if training else lambda document: model.predict(document, QUESTION)
        read(generated(min(length, 2 * _WINDOW), tokenizer, seed=seed + 1))
        ready_bytes = peak_bytes(device)
        document = generated(length, tokenizer, seed=seed)
        if reader == "further":
            model.predict(document, "What happened before?")
        start = time.perf_counter()
        read(document)
        seconds = time.perf_counter() - start
    peak = peak_bytes(device)
    blocks = model.model.split(document)
    return {
        "reader": reader, "training": training, "length": length, "document_tokens": blocks.n_tokens,
        "text_bytes": sys.getsizeof(document.text),
        "token_bytes": blocks.token_ids.nbytes + blocks.token_starts.nbytes + blocks.token_ends.nbytes,
        "ready_bytes": ready_bytes, "peak_bytes": peak, "seconds": seconds,
    }  # fmt: skip


def _config(
    reader: str, document_tokens: int, shortlist: Sequence[int], encoder: str, precision: Any, folder: Path
) -> ModelConfig:
    """Configure a reader; `folder` takes an encoder with random weights."""
    config = EncoderConfig(name=encoder, precision=precision, hidden_dropout=0.0)
    if reader not in WHOLE:
        recall = _RECALL.get(reader, {})
        if "retriever" in recall:
            recall = recall | dict(zip(("shortlist", "later_shortlist"), shortlist, strict=True))
        return ModelConfig(
            reader="cogltx" if reader in _RECALL else reader, encoder=config, memrecall=MemRecallConfig(**recall)
        )
    capacity = max(_WINDOW, document_tokens + len(load_tokenizer(encoder)(QUESTION)["input_ids"]))
    if reader != "full_attention":
        _write_random_encoder(reader, config, capacity, folder)
        config = config.model_copy(update={"name": str(folder)})
    elif capacity > (load_encoder(config).positions or capacity):
        config = config.model_copy(update={"positions": PositionsConfig(length=capacity)})
    return ModelConfig(reader="truncation", encoder=config, memrecall=MemRecallConfig(capacity=capacity))


def _write_random_encoder(kind: str, like: EncoderConfig, positions: int, folder: Path) -> None:
    """Write a long-context encoder with random weights, with the sizes and the tokenizer of another encoder."""
    tokenizer, sizes = load_tokenizer(like.name), load_encoder(like).model.config
    padding = tokenizer.pad_token_id or 0
    shared = {
        "vocab_size": sizes.vocab_size, "hidden_size": sizes.hidden_size, "pad_token_id": padding,
        "num_hidden_layers": sizes.num_hidden_layers, "num_attention_heads": sizes.num_attention_heads,
    }  # fmt: skip
    config: PreTrainedConfig
    if kind == "longformer":
        config = LongformerConfig(
            **shared, intermediate_size=sizes.intermediate_size, attention_window=_WINDOW,
            max_position_embeddings=positions + padding + 1,
        )  # fmt: skip
    else:
        gated = sizes.intermediate_size * 2 // 3  # its layers have three matrices where BERT's have two
        config = ModernBertConfig(
            **shared, intermediate_size=gated, max_position_embeddings=positions,
            cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id,
            bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id,
        )  # fmt: skip
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _new_model(config: ModelConfig) -> WindowReader:
    readers: dict[str, type[WindowReader]] = {"cogltx": CogLTX, "sliding_window": SlidingWindow}
    return readers.get(config.reader, Truncation).create(config)


def _training_step(model: WindowReader) -> Callable[[Document], object]:
    """Return a function that trains one step on a document: retriever, judge, reasoner."""
    from cogltx.training.config import TrainingConfig
    from cogltx.training.optimizer import Optimizer, OptimizerConfig
    from cogltx.training.relevance import RelevanceConfig, RelevanceLabels
    from cogltx.training.steps import JudgeSteps, ReasonerSteps, RetrieverSteps

    examples: list[Example] = []
    parts, relevance = model.model, RelevanceLabels(RelevanceConfig())

    def learner(name: str, trained: nn.Module) -> Optimizer:
        return Optimizer(name, trained, OptimizerConfig(learning_rate=1e-5), _N_DOCUMENTS, parts.runner)

    config = TrainingConfig()
    reasoner = ReasonerSteps(model, learner("reasoner", parts.reasoner), examples, relevance, config, {})
    retriever = judge = None
    if isinstance(model, CogLTX) and parts.retriever is not None:
        optimizer = learner("retriever", parts.retriever)
        retriever = RetrieverSteps(model, optimizer, examples, relevance, config)
    if isinstance(model, CogLTX) and isinstance(parts.judge, nn.Module):
        judge = JudgeSteps(model, learner("judge", parts.judge), examples, relevance, config, {})

    def step(document: Document) -> None:
        start = document.text.index(" ", len(document.text) // 2) + 1  # the answer is a word in the middle
        span = Span(start, document.text.index(" ", start))
        answers = (document.text[span.start : span.end],)
        examples.append(
            Example(id=document.id, document=document, query=Query(QUESTION), answers=answers, answer_spans=(span,))
        )
        index = len(examples) - 1
        if retriever is not None:
            retriever.step([index], np.random.default_rng)
        if judge is not None:
            judge.step([index], np.random.default_rng)
        reasoner.step([index], np.random.default_rng, intervenes=False)

    return step
