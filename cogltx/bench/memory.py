"""What answering a question about a long document needs in memory, in a process of its own for each length.

``python -m cogltx.bench.memory TOKENS`` is that process: it answers one question with new models (random heads on a
pre-trained encoder), and prints a line of JSON. Knows nothing of speed (see ``cost``)
or of training (see ``training_memory``).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from cogltx.errors import CogltxError, ModelError

_MEGABYTE = 1 << 20
_STATUS = Path("/proc/self/status")
_FORGET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Peak:
    """The memory of a process that answered one question about one document; in bytes.

    Attributes:
        length: tokens asked for.
        document_tokens: tokens of the document.
        text_bytes: the text.
        token_bytes: its tokens: the vocabulary index, first and last character of each.
        ready_bytes: the peak before the document is there: libraries, models, and a first short question answered.
        peak_bytes: the peak after the answer.
        seconds: from the text to the answer.
    """

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

    def to_dict(self) -> dict[str, int | float]:
        """All of the above, for JSON."""
        return {**asdict(self), "beyond_bytes": self.beyond_bytes}


def table(peaks: Sequence[Peak]) -> str:
    """The figures as text, in MiB."""
    lines = ["   tokens  text + tokens  ready   peak  peak beyond text and tokens  seconds"]
    for peak in peaks:
        held, ready, most, beyond = (
            value / _MEGABYTE
            for value in (peak.text_bytes + peak.token_bytes, peak.ready_bytes, peak.peak_bytes, peak.beyond_bytes)
        )
        sizes = f"{held:>13.1f}  {ready:>5.0f}  {most:>5.0f}  {beyond:>27.0f}"
        lines.append(f"{peak.document_tokens:>9}  {sizes}  {peak.seconds:>7.0f}")
    return "\n".join(lines)


def measure(
    encoder: str,
    lengths: Sequence[int],
    *,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    seed: int = 0,
) -> list[Peak]:
    """Answers one question about a generated document of each length, each in a new process.

    Args:
        encoder: as in ``EncoderConfig.name``.
        lengths: tokens a document.
        precision: as in ``EncoderConfig.precision``.
        seed: of documents and heads.

    Raises:
        ModelError: a process failed; its last words.
    """
    peaks = []
    for length in tqdm(lengths, desc="memory", unit=" documents", disable=None, leave=False):
        options = ["--encoder", encoder, "--precision", precision, "--seed", str(seed)]
        found = in_new_process(__name__, [str(length), *options], f"memory at {length} tokens: expected an answer")
        peaks.append(Peak(**found))
    return peaks


def in_new_process(module: str, arguments: Sequence[str], expected: str) -> dict[str, Any]:
    """What a module that runs in a process of its own prints as its last line, of JSON.

    Args:
        module: its name.
        arguments: of its command line.
        expected: opens the message of an error.

    Raises:
        ModelError: the process failed; its last words.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["nothing on standard error"]
        raise ModelError(f"{expected}, got exit code {done.returncode}: {words[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def answer(length: int, *, encoder: str, precision: Literal["auto", "float32", "bfloat16"], seed: int) -> Peak:
    """Answers one question about a document of a given length, in this process."""
    import torch

    from cogltx.bench.prose import QUESTION, generated
    from cogltx.encoder import EncoderConfig
    from cogltx.parts import ModelConfig, new_parts
    from cogltx.pipeline import CogLTX

    torch.manual_seed(seed)
    config = ModelConfig(encoder=EncoderConfig(name=encoder, precision=precision))
    reader = CogLTX(new_parts(config, uses_judge=True))
    reader.predict(generated(2 * config.memrecall.capacity, reader.parts.tokenizer, seed=seed + 1), QUESTION)
    ready = peak_bytes()
    document = generated(length, reader.parts.tokenizer, seed=seed)
    start = time.perf_counter()
    prediction = reader.predict(document, QUESTION)
    seconds = time.perf_counter() - start
    peak = peak_bytes()
    blocks = reader.split(document)
    return Peak(
        length=length, document_tokens=prediction.n_tokens, text_bytes=sys.getsizeof(document.text),
        token_bytes=blocks.token_ids.nbytes + blocks.token_starts.nbytes + blocks.token_ends.nbytes,
        ready_bytes=ready, peak_bytes=peak, seconds=seconds,
    )  # fmt: skip


def peak_bytes() -> int:
    """The most memory that this process has held (resident set).

    Linux counts the process that started this one into ``getrusage``, but not into ``/proc``.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Lets ``peak_bytes`` count from what this process holds now, where the system can (Linux)."""
    with suppress(OSError):
        _FORGET.write_text("5")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures this process; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cogltx.bench.memory", description=__doc__)
    parser.add_argument("length", type=int, metavar="TOKENS")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        peak = answer(options.length, encoder=options.encoder, precision=options.precision, seed=options.seed)
    except CogltxError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(asdict(peak)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
