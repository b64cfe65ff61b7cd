"""Measure seconds, peak memory and throughput of one reader on one document, in this process.

`cost` runs it in a new process per reader and length. Models have random heads on a pretrained encoder.
"""

import json
import random
import statistics
import sys
import time
from typing import Any

import torch

from cogltx.baselines import reader_class
from cogltx.blocks import load_tokenizer
from cogltx.config import MemRecallConfig, ModelConfig
from cogltx.document import Document
from cogltx.encoding.encoder import Batch, Encoder, Precision, load_encoder
from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import CogltxError
from cogltx.formats._limits import high_water_mark

_SHORTLIST = {"shortlist": 32, "retriever": "trained"}
_RECALL: dict[str, dict[str, Any]] = {
    "cogltx": {}, "one_stride": {"strides": (8,)}, "shortlist": _SHORTLIST, "further": _SHORTLIST
}  # fmt: skip
_WITH_THROUGHPUT = ("cogltx", "one_stride", "sliding_window")  # all their windows have the encoder's layers and length
_WINDOW = 512  # tokens
_ROOM = 64  # for the question and special tokens
_BATCH_SIZES = (1, 2, 4, 8, 16)
_REPEATS = 3
_QUESTION = "Who built the old bridge over the river?"
WORDS = (
    "the a an of in on by with from to and but or was is had has been were who which that his her their old new long "
    "small great first last bridge river house street city garden winter summer year day family letter paper water "
    "stone wood road train music school friend mother captain engineer built came went found made sold wrote saw left"
).split()
"""English words for documents and questions without meaning."""


def read_once(reader: str, length: int, *, encoder: str = "minilm", seed: int = 0) -> dict[str, Any]:
    """Read a short document and then one of `length` tokens.

    `seconds` are from the text to the answer; the reader `further` has answered another question about the document
    before. `ratio` is the throughput in tokens per second relative to that of the encoder on full windows, in batches
    of the best size, None for some readers.

    Raises:
        CogltxError: the encoder cannot be loaded, or cannot read so many tokens.
    """
    torch.manual_seed(seed)
    short, long = (Document(_text(n_tokens, seed)) for n_tokens in (min(length, 2 * _WINDOW), length))
    ids = load_tokenizer(encoder)(long.text, add_special_tokens=False, verbose=False)["input_ids"]
    config = _config(reader, len(ids), EncoderConfig(name=encoder))
    model = reader_class(config.reader).create(config)
    model.predict(short, _QUESTION)
    if reader == "further":
        model.predict(long, "What happened before?")
    parts = [part for part in (model.model.reasoner, model.model.judge) if isinstance(part, torch.nn.Module)]
    encoders = [module for part in parts for module in part.modules() if isinstance(module, Encoder)]
    n_read = list[int]()
    for one in encoders:
        one.register_forward_pre_hook(lambda module, inputs: n_read.append(int(inputs[0].attention_mask.sum())))
    start = time.perf_counter()
    model.predict(long, _QUESTION)
    seconds = time.perf_counter() - start
    precision, speed = model.model.runner.precision, sum(n_read) / seconds
    peak = torch.cuda.max_memory_reserved() if precision.device.type == "cuda" else high_water_mark()
    ratio = speed / _encoder_speed(encoders[0], precision) if reader in _WITH_THROUGHPUT else None
    return {"length": length, "document_tokens": len(ids), "seconds": seconds, "peak_bytes": peak, "ratio": ratio}


def _text(n_tokens: int, seed: int) -> str:
    """Generate sentences of random words; a word is about one token."""
    rng, sentences, size = random.Random(seed), list[str](), 0
    while size < n_tokens:
        words = rng.choices(WORDS, k=rng.randint(6, 24))
        sentences.append(" ".join(words).capitalize() + ".")
        size += len(words) + 1
    return " ".join(sentences)


def _config(reader: str, document_tokens: int, encoder: EncoderConfig) -> ModelConfig:
    """Configure a reader; the window of `full_attention` holds the whole document."""
    if reader != "full_attention":
        kind, recall = "cogltx" if reader in _RECALL else reader, MemRecallConfig(**_RECALL.get(reader, {}))
        return ModelConfig(reader=kind, encoder=encoder, memrecall=recall)
    capacity = max(_WINDOW, document_tokens + _ROOM)
    if capacity > (load_encoder(encoder).positions or capacity):
        encoder = encoder.model_copy(update={"positions": PositionsConfig(length=capacity)})
    return ModelConfig(reader="truncation", encoder=encoder, memrecall=MemRecallConfig(capacity=capacity))


@torch.inference_mode()
def _encoder_speed(encoder: Encoder, precision: Precision) -> float:
    """Measure the encoder's tokens per second on full windows, in batches of the best size."""
    speeds = []
    for size in _BATCH_SIZES:
        ids = torch.randint(encoder.vocabulary, (size, _WINDOW), device=precision.device)
        batch, times = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids)), []
        for _ in range(_REPEATS + 1):  # the first warms up
            start = time.perf_counter()
            with precision.autocast():
                encoder(batch)[0, 0, 0].item()
            times.append(time.perf_counter() - start)
        speeds.append(ids.numel() / statistics.median(times[1:]))
    return max(speeds)


if __name__ == "__main__":
    try:
        print(json.dumps(read_once(**json.loads(sys.argv[1]))))
    except CogltxError as error:
        sys.exit(str(error))
