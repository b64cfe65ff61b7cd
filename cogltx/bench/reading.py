"""Measure seconds, peak memory and throughput of one reader on one document, in this process.

`cost` runs it in a new process per reader and length. Models have random heads on a pretrained encoder.
"""

import json
import statistics
import sys
import time
from typing import Any

import torch

from cogltx.baselines import SlidingWindow, Truncation, WindowReader
from cogltx.bench.process import peak_bytes
from cogltx.bench.quickstart.corpus import generate
from cogltx.blocks import load_tokenizer
from cogltx.config import MemRecallConfig, ModelConfig
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder, Precision, load_encoder
from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import CogltxError
from cogltx.pipeline import CogLTX

_SHORTLIST = {"shortlist": 32, "retriever": "trained"}
_RECALL: dict[str, dict[str, Any]] = {
    "cogltx": {}, "one_stride": {"strides": (8,)}, "shortlist": _SHORTLIST, "further": _SHORTLIST
}  # fmt: skip
_WITH_THROUGHPUT = ("cogltx", "one_stride", "sliding_window")  # all their windows have the encoder's layers and length
_WINDOW = 512  # tokens
_ROOM = 64  # for the question and special tokens
_BATCH_SIZES = (1, 2, 4, 8, 16)
_REPEATS = 3


def read_once(
    reader: str, length: int, *, encoder: str = "minilm", precision: str = "auto", seed: int = 0
) -> dict[str, Any]:
    """Read a short document and then one of `length` tokens.

    `seconds` are from the text to the answer; the reader `further` has answered another question about the document
    before. `ratio` is the throughput in tokens per second relative to that of the encoder on full windows, in batches
    of the best size, None for some readers.

    Raises:
        CogltxError: the encoder cannot be loaded, or cannot read so many tokens.
    """
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(encoder)
    short, long = (_document(n, seed) for n in (min(length, 2 * _WINDOW), length))
    n_tokens = len(tokenizer(long.document.text, add_special_tokens=False, verbose=False)["input_ids"])
    config = _config(reader, n_tokens, EncoderConfig(name=encoder, precision=precision, hidden_dropout=0.0))
    model = _create(config)
    model.predict(short.document, short.query)
    if reader == "further":
        model.predict(long.document, "What happened before?")
    meter = _Meter(model)
    start = time.perf_counter()
    model.predict(long.document, long.query)
    seconds = time.perf_counter() - start
    peak, speed = peak_bytes(meter.precision.device.type), meter.tokens / seconds
    ratio = speed / meter.encoder_speed() if reader in _WITH_THROUGHPUT else None
    return {"length": length, "document_tokens": n_tokens, "seconds": seconds, "peak_bytes": peak, "ratio": ratio}


def _document(n_tokens: int, seed: int) -> Example:
    """Generate a document of about so many tokens, with a question about it."""
    return next(generate(1, seed=seed, split="test", tokens=n_tokens, chains=(1, 1), gap=0))


def _config(reader: str, document_tokens: int, encoder: EncoderConfig) -> ModelConfig:
    """Configure a reader; the window of `full_attention` holds the whole document."""
    if reader != "full_attention":
        kind, recall = "cogltx" if reader in _RECALL else reader, MemRecallConfig(**_RECALL.get(reader, {}))
        return ModelConfig(reader=kind, encoder=encoder, memrecall=recall)
    capacity = max(_WINDOW, document_tokens + _ROOM)
    if capacity > (load_encoder(encoder).positions or capacity):
        encoder = encoder.model_copy(update={"positions": PositionsConfig(length=capacity)})
    return ModelConfig(reader="truncation", encoder=encoder, memrecall=MemRecallConfig(capacity=capacity))


def _create(config: ModelConfig) -> WindowReader:
    readers: dict[str, type[WindowReader]] = {"cogltx": CogLTX, "sliding_window": SlidingWindow}
    return readers.get(config.reader, Truncation).create(config)


class _Meter:
    """Counts the tokens that a reader's encoders read, without padding, and measures the speed of the encoder alone."""

    def __init__(self, model: WindowReader) -> None:
        self.tokens = 0
        self.precision: Precision = model.model.runner.precision
        parts = [part for part in (model.model.reasoner, model.model.judge) if isinstance(part, torch.nn.Module)]
        encoders = [module for part in parts for module in part.modules() if isinstance(module, Encoder)]
        for encoder in encoders:
            encoder.register_forward_pre_hook(self._count)
        self.encoder, ids = encoders[0], torch.randint(encoders[0].vocabulary, (max(_BATCH_SIZES), _WINDOW))
        self.ids = ids.to(self.precision.device)

    def _count(self, module: torch.nn.Module, inputs: tuple[Batch]) -> None:
        self.tokens += int(inputs[0].attention_mask.sum())

    @torch.inference_mode()
    def encoder_speed(self) -> float:
        """Measure the encoder's tokens per second on full windows, in batches of the best size."""
        speeds = []
        for size in _BATCH_SIZES:
            ids = self.ids[:size]
            batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))
            times = []
            for _ in range(_REPEATS + 1):  # the first warms up
                start = time.perf_counter()
                with self.precision.autocast():
                    self.encoder(batch)[0, 0, 0].item()
                times.append(time.perf_counter() - start)
            speeds.append(ids.numel() / statistics.median(times[1:]))
        return max(speeds)


if __name__ == "__main__":
    try:
        print(json.dumps(read_once(**json.loads(sys.argv[1]))))
    except CogltxError as error:
        sys.exit(str(error))
