"""MemRecall's encoder throughput in tokens per second, relative to the same encoder on full windows.

Both run in one process and with the same arithmetic. Other processes may slow the machine down at any time, so the
encoder is measured before, after and, with MemRecall's clock paused, every few seconds during MemRecall.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.bench.prose import QUESTION, generated
from cogltx.bench.tables import table
from cogltx.blocks import load_tokenizer, split
from cogltx.document import Query
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import EncoderJudge
from cogltx.memrecall import MemRecall, MemRecallConfig, Recall

BATCH_SIZES = (1, 2, 4, 8, 16)
_PAUSE_EVERY = 2.0  # seconds
_REPEATS = 3
_WARM_UP_TOKENS = 4096


@dataclass(frozen=True)
class Cost:
    """Cost of documents of one length that are read together.

    Attributes:
        documents: number of documents.
        length: requested tokens per document.
        document_tokens: tokens of all documents.
        windows: windows that the encoder read.
        fewest_windows: fewest windows that can hold consecutive blocks next to z.
        window_tokens: tokens of those windows without padding.
        padded_tokens: the same with padding.
        split_seconds: time to tokenize and split the documents; not part of `seconds`.
        seconds: mean time of MemRecall from blocks to key blocks.
        runs: repetitions of MemRecall.
        encoder_tokens_per_second: throughput of the encoder on full windows, with the best batch size.
        encoder_batch: that batch size.
    """

    documents: int
    length: int
    document_tokens: int
    windows: int
    fewest_windows: int
    window_tokens: int
    padded_tokens: int
    split_seconds: float
    seconds: float
    runs: int
    encoder_tokens_per_second: float
    encoder_batch: int

    @property
    def tokens_per_second(self) -> float:
        """MemRecall's throughput, without padding."""
        return self.window_tokens / self.seconds

    @property
    def ratio(self) -> float:
        """MemRecall's throughput relative to the encoder's."""
        return self.tokens_per_second / self.encoder_tokens_per_second

    @property
    def filled(self) -> float:
        """Share of the encoder's input that is not padding."""
        return self.window_tokens / self.padded_tokens

    def to_dict(self) -> dict[str, int | float]:
        """Plain data for JSON."""
        derived = {"tokens_per_second": self.tokens_per_second, "ratio": self.ratio, "filled": self.filled}
        return {**asdict(self), **derived}

    @staticmethod
    def table(costs: Sequence["Cost"]) -> str:
        """Format costs as text."""
        columns = "documents|tokens each|windows (fewest)|filled|split s|recall s|tokens/s|encoder tokens/s|ratio"
        rows = [columns.split("|")]
        for cost in costs:
            rows.append([
                f"{cost.documents:,}", f"{cost.length:,}", f"{cost.windows:,} ({cost.fewest_windows:,})",
                f"{cost.filled:.1%}", f"{cost.split_seconds:.2f}", f"{cost.seconds:.2f}",
                f"{cost.tokens_per_second:,.0f}", f"{cost.encoder_tokens_per_second:,.0f}", f"{cost.ratio:.2f}",
            ])  # fmt: skip
        return table(rows)


def measure(
    encoder: str,
    lengths: Sequence[int],
    documents: Sequence[int],
    *,
    precision: Any = "auto",
    seed: int = 0,
    seconds: float = 10.0,
) -> list[Cost]:
    """Measure MemRecall with the encoder judge and its default strides and capacity on generated documents.

    Each number of documents is read together with each length in tokens, repeatedly for at least `seconds`. The judge's
    head is random, which costs the same.

    Raises:
        ConfigError: the machine has no bfloat16.
        ModelError: the encoder cannot be loaded.
    """
    torch.manual_seed(seed)
    bench = _Bench(EncoderConfig(name=encoder, precision=precision))
    pairs = [(length, count) for length in lengths for count in documents]
    return [
        bench.measure(length, count, seed, seconds)
        for length, count in tqdm(pairs, desc="cost", unit=" rows", disable=None, leave=False)
    ]


class _Bench:
    """MemRecall on an encoder, next to the encoder on full windows."""

    def __init__(self, config: EncoderConfig) -> None:
        recall, precision = MemRecallConfig(), Precision.of(config)
        encoder = load_encoder(config).to(precision.device).eval()
        self.tokenizer = load_tokenizer(config.name)
        self.form = WindowFormat(self.tokenizer, recall.capacity)
        self.baseline = _FullWindows(encoder, recall.capacity, precision)
        self.meter = _Meter(EncoderJudge(encoder).to(precision.device), self.baseline)
        runner = BatchRunner(precision, config.batch_tokens, self.form.padding_id)
        self.memrecall = MemRecall(self.meter, recall, tokenizer=self.tokenizer, runner=runner)
        self.memrecall.recall(generated(_WARM_UP_TOKENS, self.tokenizer, seed=0), QUESTION)

    def measure(self, length: int, count: int, seed: int, seconds: float) -> Cost:
        documents = [generated(length, self.tokenizer, seed=seed + number) for number in range(count)]
        start = time.perf_counter()
        layouts = [self.form.layout(Query(QUESTION), split(document, self.tokenizer)) for document in documents]
        split_seconds = time.perf_counter() - start
        self.baseline.restart()
        self.meter.restart()
        spent, runs = 0.0, 0
        while not runs or spent < seconds:
            start, paused = time.perf_counter(), self.meter.paused
            recalls = self.memrecall(layouts)
            spent += time.perf_counter() - start - (self.meter.paused - paused)
            runs += 1
        self.baseline.run(_REPEATS)
        return Cost(
            documents=count, length=length, document_tokens=sum(layout.blocks.n_tokens for layout in layouts),
            windows=self.meter.windows // runs, fewest_windows=sum(map(_fewest_windows, recalls)),
            window_tokens=self.meter.tokens // runs, padded_tokens=self.meter.padded_tokens // runs,
            split_seconds=split_seconds, seconds=spent / runs, runs=runs,
            encoder_tokens_per_second=self.baseline.tokens / self.baseline.seconds,
            encoder_batch=len(self.baseline.batch.input_ids),
        )  # fmt: skip


class _FullWindows:
    """The encoder on full windows, in batches of the fastest size."""

    def __init__(self, encoder: Encoder, capacity: int, precision: Precision) -> None:
        self.encoder, self.precision = encoder, precision
        self.tokens, self.seconds = 0, 0.0
        batches = [self._batch(size, capacity) for size in BATCH_SIZES]
        for batch in batches:  # warm up
            self._time(batch)
        rounds = [[self._time(batch) / len(batch.input_ids) for batch in batches] for _ in range(_REPEATS)]
        medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
        self.batch = batches[medians.index(min(medians))]

    def restart(self) -> None:
        """Discard what was measured, and measure anew."""
        self.tokens, self.seconds = 0, 0.0
        self.run(_REPEATS)

    def run(self, times: int = 1) -> None:
        """Run full batches."""
        for _ in range(times):
            self.seconds += self._time(self.batch)
            self.tokens += self.batch.input_ids.numel()

    def _batch(self, size: int, capacity: int) -> Batch:
        vocabulary = int(self.encoder.model.config.vocab_size)
        ids = torch.randint(vocabulary, (size, capacity), device=self.precision.device)
        return Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))

    @torch.inference_mode()
    def _time(self, batch: Batch) -> float:
        start = time.perf_counter()
        with self.precision.autocast():
            self.encoder(batch)[0, 0, 0].item()
        return time.perf_counter() - start


class _Meter(nn.Module):
    """A judge model that counts its windows, and runs the encoder on full windows every few seconds."""

    def __init__(self, model: nn.Module, baseline: _FullWindows) -> None:
        super().__init__()
        self.model, self.baseline = model, baseline
        self.restart()

    def restart(self) -> None:
        """Set all counts to zero."""
        self.windows = self.tokens = self.padded_tokens = 0
        self.paused, self._resumed = 0.0, time.perf_counter()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return the judge's logits."""
        start = time.perf_counter()
        if start - self._resumed > _PAUSE_EVERY:
            self.baseline.run()
            self._resumed = time.perf_counter()
            self.paused += self._resumed - start
        self.windows += len(input_ids)
        self.tokens += int(attention_mask.sum())
        self.padded_tokens += input_ids.numel()
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return logits


def _fewest_windows(recall: Recall) -> int:
    """Count the fewest windows for the steps of a recall, independently of how MemRecall packs blocks.

    Each step needs one window for rehearsal and, for retrieval, the fewest runs of consecutive blocks outside z that
    fit next to z.
    """
    if not recall.trace:
        return 1
    sizes, room = recall.blocks.sizes, recall.layout.room
    windows = 0
    kept: list[int] = []
    for step in recall.trace:
        windows += 1 + _fewest_runs(np.delete(sizes, kept).tolist(), room - int(sizes[kept].sum()))
        kept = list(step.kept)
    return windows


def _fewest_runs(sizes: Sequence[int], room: int) -> int:
    """Count the fewest runs of consecutive items with sums of at most `room`, by dynamic programming."""
    fewest = [0]
    for end in range(1, len(sizes) + 1):
        first, used = end, 0
        best = end
        while first > 0 and used + sizes[first - 1] <= room:
            first -= 1
            used += sizes[first]
            best = min(best, fewest[first] + 1)
        fewest.append(best)
    return fewest[-1]
