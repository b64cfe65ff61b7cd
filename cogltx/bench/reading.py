"""What one reader needs, in time and memory, for one document of a given length: to answer a question, or to train.

``python -m cogltx.bench.reading READER TOKENS`` is a process that measures this of itself, with new models (random
heads on a pre-trained encoder), and prints a line of JSON. Knows nothing of other readers and lengths (see ``growth``),
of the encoder's own speed (see ``cost``) or of batches (see ``training_memory``).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cogltx.bench.process import end_beyond, peak_bytes
from cogltx.errors import CogltxError

if TYPE_CHECKING:
    from cogltx.baselines import WindowReader
    from cogltx.document import Document
    from cogltx.model import ModelConfig

READERS = {
    "cogltx": "CogLTX",
    "one_stride": "CogLTX, one stride",
    "sliding_window": "sliding window",
    "full_attention": "full attention, extended positions",
    "longformer": "Longformer, random weights",
    "modernbert": "ModernBERT, random weights",
}
"""What is compared, and how tables name it."""

WHOLE = ("full_attention", "longformer", "modernbert")
"""Those whose window holds the whole document."""

_STRIDES = {"cogltx": (3, 5), "one_stride": (8,)}
_WINDOW = 512
_DOCUMENTS = 2  # a short one, and the one that is measured
_GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Spent:
    """What a process spent that read one document; memory in bytes.

    Attributes:
        reader: one of ``READERS``.
        training: whether it trained on the document, one step of each of its models, or answered.
        length: tokens asked for.
        document_tokens: tokens of the document.
        text_bytes: the text.
        token_bytes: its tokens: the vocabulary index, first and last character of each.
        ready_bytes: the peak before the document is there: libraries, models, and a first short document read. A reader
            of whole documents has cut it once before, to know its size.
        peak_bytes: the peak afterwards.
        seconds: from the text to the answer, or to the end of the step.
    """

    reader: str
    training: bool
    length: int
    document_tokens: int
    text_bytes: int
    token_bytes: int
    ready_bytes: int
    peak_bytes: int
    seconds: float

    @property
    def beyond_bytes(self) -> int:
        """The peak without the text and its tokens: what should not grow with the length."""
        return self.peak_bytes - self.text_bytes - self.token_bytes


def read_once(
    reader: str,
    length: int,
    *,
    training: bool = False,
    encoder: str = "minilm",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    seed: int = 0,
) -> Spent:
    """Reads a short document and then one of the given length, in this process.

    Args:
        reader: one of ``READERS``.
        length: tokens of the document.
        training: train on it, instead of answering a question about it.
        encoder: as in ``EncoderConfig.name``; those with random weights take its sizes and its tokenizer.
        precision: as in ``EncoderConfig.precision``.
        seed: of documents, heads and random weights.

    Raises:
        CogltxError: the encoder cannot be loaded or read so many tokens.
    """
    import torch

    from cogltx.bench.prose import generated
    from cogltx.blocks import load_tokenizer, split

    torch.manual_seed(seed)
    tokenizer = load_tokenizer(encoder)
    whole = reader in WHOLE  # its window holds the document, whose size must be known first
    takes = int(split(generated(length, tokenizer, seed=seed), tokenizer).sizes.sum()) if whole else 0
    with tempfile.TemporaryDirectory() as folder:
        model = _new(_config(reader, takes, encoder, precision, Path(folder)))
        read = _trains(model) if training else _answers(model)
        read(generated(min(length, 2 * _WINDOW), tokenizer, seed=seed + 1))
        ready = _peak(model)
        document = generated(length, tokenizer, seed=seed)
        start = time.perf_counter()
        read(document)
        seconds = time.perf_counter() - start
    peak = _peak(model)
    blocks = model.model.split(document)
    return Spent(
        reader=reader, training=training, length=length, document_tokens=blocks.n_tokens,
        text_bytes=sys.getsizeof(document.text),
        token_bytes=blocks.token_ids.nbytes + blocks.token_starts.nbytes + blocks.token_ends.nbytes,
        ready_bytes=ready, peak_bytes=peak, seconds=seconds,
    )  # fmt: skip


def _config(reader: str, takes: int, encoder: str, precision: Any, folder: Path) -> "ModelConfig":
    """The configuration of a reader.

    Args:
        reader: its name.
        takes: tokens of the document's blocks in a window, for readers of whole documents.
        encoder: its name.
        precision: of the arithmetic.
        folder: where an encoder with random weights may be written.
    """
    from cogltx.bench.prose import QUESTION
    from cogltx.bench.random_encoder import KINDS, write_random
    from cogltx.blocks import load_tokenizer
    from cogltx.encoding.encoder import load_encoder
    from cogltx.encoding.positions import PositionsConfig
    from cogltx.encoding.pretrained import EncoderConfig
    from cogltx.memrecall import MemRecallConfig
    from cogltx.model import ModelConfig

    own = EncoderConfig(name=encoder, precision=precision, hidden_dropout=0.0)
    if reader in _STRIDES or reader == "sliding_window":
        recall = MemRecallConfig(capacity=_WINDOW, strides=_STRIDES.get(reader, (3, 5)))
        return ModelConfig(reader="cogltx" if reader in _STRIDES else reader, encoder=own, memrecall=recall)
    whole = max(_WINDOW, takes + len(load_tokenizer(encoder)(QUESTION)["input_ids"]))
    if reader in KINDS:
        write_random(reader, encoder, whole, folder)
        own = own.model_copy(update={"name": str(folder)})
    elif whole > (load_encoder(own).positions or whole):
        own = own.model_copy(update={"positions": PositionsConfig(length=whole)})
    return ModelConfig(reader="truncation", encoder=own, memrecall=MemRecallConfig(capacity=whole))


def _new(config: "ModelConfig") -> "WindowReader":
    from cogltx.baselines import SlidingWindow, Truncation
    from cogltx.pipeline import CogLTX

    kinds: dict[str, type[WindowReader]] = {
        "cogltx": CogLTX, "sliding_window": SlidingWindow, "truncation": Truncation,
    }  # fmt: skip
    return kinds[config.reader].create(config)


def _answers(model: "WindowReader") -> Callable[["Document"], object]:
    """Answers a question about a document."""
    from cogltx.bench.prose import QUESTION

    return lambda document: model.predict(document, QUESTION)


def _trains(model: "WindowReader") -> Callable[["Document"], object]:
    """Takes a training step on a document, whose answer stands in the middle: judge, retrieval, reasoner."""
    import numpy as np
    from accelerate import Accelerator
    from torch import nn

    from cogltx.bench.prose import QUESTION
    from cogltx.document import Example, Query, Span
    from cogltx.training.optimizer import Learner, LearnerConfig
    from cogltx.training.relevance import RelevanceConfig, RelevanceLabels
    from cogltx.training.steps import JudgeSteps, ReasonerSteps

    def example(document: "Document") -> Example:
        start = document.text.index(" ", len(document.text) // 2) + 1
        end = document.text.index(" ", start)
        answers = (document.text[start:end],)
        return Example(
            id=document.id, document=document, query=Query(QUESTION), answers=answers, answer_spans=(Span(start, end),)
        )

    examples: list[Example] = []
    parts, relevance = model.model, RelevanceLabels(RelevanceConfig())
    accelerator = Accelerator(cpu=parts.runner.precision.device.type == "cpu", mixed_precision="no")

    def learner(name: str, trained: nn.Module) -> Learner:
        return Learner(
            name, trained, LearnerConfig(learning_rate=1e-5), _DOCUMENTS, accelerator, parts.runner.precision,
            model.config.encoder.batch_tokens, parts.form.padding_id,
        )  # fmt: skip

    reasoner = ReasonerSteps(
        model, learner("reasoner", parts.reasoner), examples, relevance, {}, by_judge=True, keeps_scores=False
    )
    judge = None
    if isinstance(parts.judge, nn.Module):
        judge = JudgeSteps(model, learner("judge", parts.judge), examples, relevance, {})

    def step(document: "Document") -> None:
        examples.append(example(document))
        index = len(examples) - 1
        if judge is not None:
            judge.step([index], np.random.default_rng)
        reasoner.step([index], np.random.default_rng, intervenes=False)

    return step


def _peak(model: "WindowReader") -> int:
    """The device's own count on a GPU, the resident set elsewhere."""
    import torch

    on_gpu = model.model.runner.precision.device.type == "cuda"
    return int(torch.cuda.max_memory_reserved()) if on_gpu else peak_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures this process; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cogltx.bench.reading", description=__doc__)
    parser.add_argument("reader", choices=list(READERS), metavar="READER")
    parser.add_argument("length", type=int, metavar="TOKENS")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--limit", type=float, help="GiB of memory beyond which the process ends.")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    import torch

    if options.limit is not None:
        end_beyond(int(options.limit * _GIGABYTE))
    try:
        spent = read_once(
            options.reader, options.length, training=options.training, encoder=options.encoder,
            precision=options.precision, seed=options.seed,
        )  # fmt: skip
    except CogltxError as error:
        print(error, file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        named = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not named and "can't allocate memory" not in str(error):
            raise
        print(json.dumps({"beyond": "memory"}))
        return 0
    print(json.dumps(asdict(spent)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
