"""What MemRecall costs: its encoder work in tokens a second, beside the same encoder's own speed on full windows.

Both run in one process and in the same arithmetic. A machine may be busy with other work too, so the encoder's own
speed is measured before, after and, while the clock of MemRecall stands still, every few seconds in between.
Knows nothing of memory or of other readers (see ``growth``), or of quality.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.bench.prose import QUESTION, generated
from cogltx.blocks import load_tokenizer, split
from cogltx.document import Query
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import EncoderJudge
from cogltx.memrecall import MemRecall, MemRecallConfig, Recall

LENGTHS = (2048, 8192, 32768)
BATCH_SIZES = (1, 2, 4, 8, 16)
_SECONDS = 10.0
_PAUSE_EVERY = 2.0
_LOOKS = 3
_WARM_UP_TOKENS = 4096


@dataclass(frozen=True)
class Cost:
    """One row: documents of one length, read at once.

    Attributes:
        documents: how many.
        length: tokens asked for in each.
        document_tokens: tokens in all of them.
        windows: how many windows the encoder read.
        fewest_windows: the least that packing consecutive blocks beside z allows.
        window_tokens: tokens of those windows, padding left out.
        padded_tokens: the same with padding.
        split_seconds: cutting the documents into blocks, tokenising included; not part of ``seconds``.
        seconds: MemRecall from blocks to key blocks, the mean of all runs.
        runs: how often MemRecall ran.
        encoder_tokens_per_second: the encoder alone, on full windows in batches of the best size.
        encoder_batch: that size.
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
        """MemRecall's encoder work: tokens of its windows, padding left out."""
        return self.window_tokens / self.seconds

    @property
    def ratio(self) -> float:
        """MemRecall's speed by the encoder's own."""
        return self.tokens_per_second / self.encoder_tokens_per_second

    @property
    def filled(self) -> float:
        """Share of the encoder's input that is not padding."""
        return self.window_tokens / self.padded_tokens

    def to_dict(self) -> dict[str, int | float]:
        """All of the above, for JSON."""
        return {
            **asdict(self), "tokens_per_second": self.tokens_per_second, "ratio": self.ratio, "filled": self.filled,
        }  # fmt: skip


def table(rows: Sequence[Cost]) -> str:
    """The rows as text."""
    lines = ["documents  tokens each  windows (fewest)  filled  split s  recall s  tokens/s  encoder alone  ratio"]
    for row in rows:
        windows = f"{row.windows} ({row.fewest_windows})"
        work = f"{windows:>16}  {row.filled:>6.1%}  {row.split_seconds:>7.2f}  {row.seconds:>8.2f}"
        speed = f"{row.tokens_per_second:>8.0f}  {row.encoder_tokens_per_second:>13.0f}  {row.ratio:>5.2f}"
        lines.append(f"{row.documents:>9}  {row.length:>11}  {work}  {speed}")
    return "\n".join(lines)


def measure(
    encoder: str,
    lengths: Sequence[int],
    documents: Sequence[int],
    *,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    seed: int = 0,
    seconds: float = _SECONDS,
) -> list[Cost]:
    """Runs MemRecall, with the encoder judge and its default strides and capacity, over generated documents.

    Args:
        encoder: as in ``EncoderConfig.name``; the judge's head on it is random, which costs the same.
        lengths: tokens a document.
        documents: how many documents at once; a row for each of them and each length.
        precision: as in ``EncoderConfig.precision``.
        seed: of documents and head.
        seconds: each row runs again until MemRecall has run for so long.

    Raises:
        ConfigError: the machine has no bfloat16.
        ModelError: the encoder cannot be loaded.
    """
    config = EncoderConfig(name=encoder, precision=precision)
    torch.manual_seed(seed)
    bench = _Bench(config)
    rows = [(length, count) for length in lengths for count in documents]
    return [
        bench.row(length, count, seed, seconds)
        for length, count in tqdm(rows, desc="cost", unit=" rows", disable=None, leave=False)
    ]


class _Bench:
    """MemRecall on an encoder, and the encoder alone."""

    def __init__(self, config: EncoderConfig) -> None:
        recall, precision = MemRecallConfig(), Precision.of(config)
        encoder = load_encoder(config).to(precision.device).eval()
        self.tokenizer = load_tokenizer(config.name)
        self.form = WindowFormat(self.tokenizer, recall.capacity)
        self.alone = _Alone(encoder, recall.capacity, precision)
        self.meter = _Meter(EncoderJudge(encoder).to(precision.device), self.alone)
        runner = BatchRunner(precision, config.batch_tokens, self.form.padding_id)
        self.memrecall = MemRecall(self.meter, recall, tokenizer=self.tokenizer, runner=runner)
        self.memrecall.recall(generated(_WARM_UP_TOKENS, self.tokenizer, seed=0), QUESTION)

    def row(self, length: int, count: int, seed: int, seconds: float) -> Cost:
        """Measures documents of one length."""
        documents = [generated(length, self.tokenizer, seed=seed + number) for number in range(count)]
        start = time.perf_counter()
        items = [self.form.layout(Query(QUESTION), split(document, self.tokenizer)) for document in documents]
        split_seconds = time.perf_counter() - start
        self.alone.start()
        self.meter.start()
        spent, runs = 0.0, 0
        while not runs or spent < seconds:
            start, paused = time.perf_counter(), self.meter.paused
            recalls = self.memrecall(items)
            spent += time.perf_counter() - start - (self.meter.paused - paused)
            runs += 1
        self.alone.look(_LOOKS)
        fewest = sum(map(fewest_windows, recalls))
        return Cost(
            documents=count, length=length, document_tokens=sum(layout.blocks.n_tokens for layout in items),
            windows=self.meter.windows // runs, fewest_windows=fewest, window_tokens=self.meter.tokens // runs,
            padded_tokens=self.meter.padded_tokens // runs, split_seconds=split_seconds,
            seconds=spent / runs, runs=runs,
            encoder_tokens_per_second=self.alone.tokens_per_second, encoder_batch=self.alone.size,
        )  # fmt: skip


class _Alone:
    """The encoder alone on full windows, in batches of the size that it likes best."""

    def __init__(self, encoder: Encoder, length: int, precision: Precision) -> None:
        self.encoder = encoder
        self.precision = precision
        self.vocabulary = int(encoder.model.config.vocab_size)
        self.length = length
        self.size = 1
        self.batch = self._full(1)
        self.tokens, self.seconds = 0, 0.0
        self._choose()

    @property
    def tokens_per_second(self) -> float:
        """Since ``start``."""
        return self.tokens / self.seconds

    def start(self) -> None:
        """Forgets what was measured, and looks anew."""
        self.tokens, self.seconds = 0, 0.0
        self.look(_LOOKS)

    def look(self, times: int = 1) -> None:
        """Runs full batches."""
        for _ in range(times):
            self.seconds += self._time(self.batch)
            self.tokens += self.size * self.length

    def _choose(self) -> None:
        """Takes the fastest batch size: the best median of a few rounds through all sizes."""
        batches = {size: self._full(size) for size in BATCH_SIZES}
        for batch in batches.values():
            self._time(batch)
        rounds = [{size: self._time(batch) / size for size, batch in batches.items()} for _ in range(_LOOKS)]
        self.size = min(BATCH_SIZES, key=lambda size: statistics.median(times[size] for times in rounds))
        self.batch = batches[self.size]

    def _full(self, size: int) -> Batch:
        ids = torch.randint(self.vocabulary, (size, self.length), device=self.precision.device)
        return Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))

    @torch.inference_mode()
    def _time(self, batch: Batch) -> float:
        start = time.perf_counter()
        with self.precision.autocast():
            self.encoder(batch)[0, 0, 0].item()
        return time.perf_counter() - start


class _Meter(nn.Module):
    """A judge model that counts what it reads, and now and then lets the encoder run alone.

    Args:
        model: the judge.
        alone: the encoder.
    """

    def __init__(self, model: nn.Module, alone: _Alone) -> None:
        super().__init__()
        self.model = model
        self.alone = alone
        self.start()

    def start(self) -> None:
        """Sets all counts to zero."""
        self.windows = self.tokens = self.padded_tokens = 0
        self.paused, self._resumed = 0.0, time.perf_counter()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """The judge's logits."""
        start = time.perf_counter()
        if start - self._resumed > _PAUSE_EVERY:
            self.alone.look()
            self._resumed = time.perf_counter()
            self.paused += self._resumed - start
        self.windows += len(input_ids)
        self.tokens += int(attention_mask.sum())
        self.padded_tokens += input_ids.numel()
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return logits


def fewest_windows(recall: Recall) -> int:
    """The least number of windows for what MemRecall did, by its trace.

    Each step needs one window for rehearsal and, for retrieval, the fewest runs of consecutive blocks outside z that
    fit beside z; all ways to cut are tried, so this shares nothing with how MemRecall packs.
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
    """The fewest runs of consecutive items with sums of at most ``room``, by dynamic programming."""
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
