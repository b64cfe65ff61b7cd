"""MemRecall's encoder throughput in tokens per second, relative to the same encoder on full windows.

Both run in one process and with the same arithmetic. Other processes may slow the machine down at any time, so the
encoder is measured before, after and, with MemRecall's clock paused, every few seconds during MemRecall.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cogltx.bench.prose import QUESTION, generated
from cogltx.bench.tables import table
from cogltx.blocks import load_tokenizer, split
from cogltx.document import Query
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import EncoderJudge
from cogltx.memrecall import MemRecall, MemRecallConfig
from cogltx.progress import progress

BATCH_SIZES = (1, 2, 4, 8, 16)
_PAUSE_EVERY = 2.0  # seconds
_REPEATS = 3
_WARM_UP_TOKENS = 4096


def measure(
    encoder: str,
    lengths: Sequence[int],
    documents: Sequence[int],
    *,
    precision: Any = "auto",
    seed: int = 0,
    seconds: float = 10.0,
) -> tuple[list[dict[str, Any]], str]:
    """Measure MemRecall with the encoder judge and its default strides and capacity on generated documents.

    Each number of documents is read together with each length in tokens, repeatedly for at least `seconds`. The judge's
    head is random, which costs the same.

    Returns:
        Measurements and their table. `windows`, `window_tokens` (without padding) and `padded_tokens` are those of the
        encoder. `seconds` is MemRecall's mean over `runs`, without `split_seconds` to tokenize and split.
        `encoder_batch` is the encoder's fastest batch size, `ratio` MemRecall's throughput relative to the encoder's
        with it, `filled` the share of its input that is not padding.

    Raises:
        ConfigError: the machine has no bfloat16.
        ModelError: the encoder cannot be loaded.
    """
    torch.manual_seed(seed)
    config, recall = EncoderConfig(name=encoder, precision=precision), MemRecallConfig()
    tokenizer, arithmetic = load_tokenizer(encoder), Precision.of(config)
    form = WindowFormat(tokenizer, recall.capacity)
    meter = _Meter(load_encoder(config).to(arithmetic.device).eval(), recall.capacity, arithmetic)
    runner = BatchRunner(arithmetic, config.batch_tokens, form.padding_id)
    memrecall = MemRecall(meter, recall, tokenizer=tokenizer, runner=runner)
    memrecall.recall(generated(_WARM_UP_TOKENS, tokenizer, seed=0), QUESTION)
    costs = []
    pairs = [(length, count) for length in lengths for count in documents]
    for length, count in progress(pairs, "cost", unit="rows"):
        texts = [generated(length, tokenizer, seed=seed + number) for number in range(count)]
        start = time.perf_counter()
        layouts = [form.layout(Query(QUESTION), split(document, tokenizer)) for document in texts]
        split_seconds = time.perf_counter() - start
        meter.restart()
        spent, runs = 0.0, 0
        while not runs or spent < seconds:
            start, paused = time.perf_counter(), meter.paused
            memrecall(layouts)
            spent += time.perf_counter() - start - (meter.paused - paused)
            runs += 1
        meter.run_encoder(_REPEATS)
        speed, encoder_speed = meter.tokens / spent, meter.encoder_tokens / meter.encoder_seconds
        costs.append({
            "documents": count, "length": length, "document_tokens": sum(one.blocks.n_tokens for one in layouts),
            "windows": meter.windows // runs, "window_tokens": meter.tokens // runs,
            "padded_tokens": meter.padded_tokens // runs,
            "split_seconds": split_seconds, "seconds": spent / runs, "runs": runs,
            "encoder_tokens_per_second": encoder_speed, "encoder_batch": len(meter.full.input_ids),
            "tokens_per_second": speed, "ratio": speed / encoder_speed, "filled": meter.tokens / meter.padded_tokens,
        })  # fmt: skip
    return costs, _table(costs)


def _table(costs: Sequence[dict[str, Any]]) -> str:
    columns = "documents|tokens each|windows|filled|split s|recall s|tokens/s|encoder tokens/s|ratio"
    row = (
        "{documents:,}|{length:,}|{windows:,}|{filled:.1%}|{split_seconds:.2f}|{seconds:.2f}|"
        "{tokens_per_second:,.0f}|{encoder_tokens_per_second:,.0f}|{ratio:.2f}"
    )
    return table([line.split("|") for line in (columns, *(row.format(**cost) for cost in costs))])


class _Meter(nn.Module):
    """A judge model that counts its windows, and runs the encoder on full windows every few seconds.

    The full windows are in batches of the fastest size.
    """

    def __init__(self, encoder: Encoder, capacity: int, precision: Precision) -> None:
        super().__init__()
        self.encoder, self.precision = encoder, precision
        vocabulary = int(encoder.model.config.vocab_size)
        ids = [torch.randint(vocabulary, (size, capacity), device=precision.device) for size in BATCH_SIZES]
        batches = [Batch(each, torch.ones_like(each, dtype=torch.bool), torch.zeros_like(each)) for each in ids]
        for batch in batches:  # warm up
            self._time(batch)
        rounds = [[self._time(batch) / len(batch.input_ids) for batch in batches] for _ in range(_REPEATS)]
        medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
        self.full = batches[medians.index(min(medians))]
        self.model = EncoderJudge(encoder).to(precision.device)
        self.restart()

    def restart(self) -> None:
        """Discard what was measured, and measure the encoder anew."""
        self.windows = self.tokens = self.padded_tokens = self.encoder_tokens = 0
        self.encoder_seconds = self.paused = 0.0
        self.run_encoder(_REPEATS)
        self._resumed = time.perf_counter()

    def run_encoder(self, times: int = 1) -> None:
        """Run full batches."""
        for _ in range(times):
            self.encoder_seconds += self._time(self.full)
            self.encoder_tokens += self.full.input_ids.numel()

    @torch.inference_mode()
    def _time(self, batch: Batch) -> float:
        start = time.perf_counter()
        with self.precision.autocast():
            self.encoder(batch)[0, 0, 0].item()
        return time.perf_counter() - start

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return the judge's logits."""
        start = time.perf_counter()
        if start - self._resumed > _PAUSE_EVERY:
            self.run_encoder()
            self._resumed = time.perf_counter()
            self.paused += self._resumed - start
        self.windows += len(input_ids)
        self.tokens += int(attention_mask.sum())
        self.padded_tokens += input_ids.numel()
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return logits
