"""Measure seconds and memory by document length, per reader (CogLTX figure 6).

Every reader reads every length in a new process, until one needs more memory or time than allowed. Results are saved
after each process; run the same command to resume.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from cogltx.bench.process import call
from cogltx.bench.tables import table
from cogltx.cli.plots import Picture
from cogltx.errors import ConfigError
from cogltx.files import check_settings, read_json, write_file, write_json

READERS = {
    "cogltx": "CogLTX",
    "one_stride": "CogLTX, one stride",
    "sliding_window": "sliding window",
    "full_attention": "full attention, extended positions",
    "longformer": "Longformer, random weights",
    "modernbert": "ModernBERT, random weights",
}
"""Names of the readers in tables."""

WHOLE = ("full_attention", "longformer", "modernbert")
"""Readers whose window holds the whole document."""

LENGTHS = tuple(512 << doubled for doubled in range(10))  # up to 262,144
_MEBIBYTE = 1 << 20
_FITTED_FROM = 4096  # tokens; for shorter documents, costs that do not depend on the length dominate


@dataclass(frozen=True)
class Spent:
    """Seconds and memory in bytes of a process that read one document.

    Attributes:
        reader: one of `READERS`.
        training: whether it trained one step of each model on the document, or answered a question.
        length: requested tokens.
        document_tokens: tokens of the document.
        text_bytes: memory of the text.
        token_bytes: memory of its tokens: vocabulary index, first and last character of each.
        ready_bytes: peak after loading the model and reading a first short document.
        peak_bytes: peak at the end.
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
        """The peak without the text and its tokens, which should not grow with the length."""
        return self.peak_bytes - self.text_bytes - self.token_bytes


@dataclass
class Growth:
    """Seconds and memory of readers by length.

    Attributes:
        settings: of the measurement.
        spent: per reader, lengths ascending.
        beyond: per reader, the first length that needed more than allowed, and whether it was memory or time.
    """

    settings: dict[str, Any]
    spent: dict[str, tuple[Spent, ...]] = field(default_factory=dict)
    beyond: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, reader: str, length: int, outcome: Mapping[str, Any]) -> str:
        """Add the result of one process, and describe it in a line."""
        before = self.spent.setdefault(reader, ())
        if "beyond" in outcome:
            self.beyond[reader] = (length, outcome["beyond"])
            return f"{reader}, {length:,} tokens: more {outcome['beyond']} than allowed"
        spent = Spent(**{each.name: outcome[each.name] for each in fields(Spent)})
        self.spent[reader] = tuple(sorted((*before, spent), key=lambda one: one.length))
        return f"{reader}, {length:,} tokens: {_cost(spent)}"

    def is_measured(self, reader: str, length: int) -> bool:
        """Return whether that was measured, or needs more than allowed."""
        if reader in self.beyond and length >= self.beyond[reader][0]:
            return True
        return any(one.length == length for one in self.spent.get(reader, ()))

    def exponent(self, reader: str) -> float | None:
        """Fit k in seconds ~ length^k by least squares over lengths from 4,096 tokens; None for fewer than three."""
        points = [(one.document_tokens, one.seconds) for one in self.spent[reader] if one.length >= _FITTED_FROM]
        if len(points) < 3:
            return None
        lengths, seconds = np.log(np.array(points)).T
        return float(np.polyfit(lengths, seconds, 1)[0])

    def crossing(self, reader: str, other: str) -> float | None:
        """Interpolate the length from which `reader` is faster than `other`; None if it never is."""
        other_seconds = {one.length: one.seconds for one in self.spent[other]}
        gaps = [
            (one.length, float(np.log(one.seconds / other_seconds[one.length])))
            for one in self.spent[reader] if one.length in other_seconds
        ]  # fmt: skip
        for (before, gap), (after, next_gap) in pairwise(gaps):
            if gap > 0 >= next_gap:
                return float(before * (after / before) ** (gap / (gap - next_gap)))
        return float(gaps[0][0]) if gaps and gaps[0][1] <= 0 else None

    def to_dict(self) -> dict[str, Any]:
        """The measurement as plain data for JSON."""
        readers = {
            reader: {
                "measured": [asdict(one) for one in spent],
                "beyond": list(self.beyond[reader]) if reader in self.beyond else None,
                "exponent": self.exponent(reader),
            }
            for reader, spent in self.spent.items()
        }
        return {"settings": self.settings, "readers": readers}

    def table(self) -> str:
        """Seconds and MiB by length in Markdown, and conclusions."""
        measured = {one.length for spent in self.spent.values() for one in spent}
        lengths = sorted(measured | {length for length, _ in self.beyond.values()})
        rows = [["reader", *(f"{length:,}" for length in lengths), "exponent"]]
        for reader, spent in self._in_order():
            cells = {one.length: _cost(one) for one in spent}
            if reader in self.beyond:
                length, resource = self.beyond[reader]
                cells[length] = f"more {resource} than allowed"
            exponent = self.exponent(reader)
            power = "–" if exponent is None else f"{exponent:.2f}"
            rows.append([READERS[reader], *(cells.get(length, "–") for length in lengths), power])
        conclusions = list(self._conclusions()) if "cogltx" in self.spent else []
        return "\n".join([table(rows, markdown=True), *([""] if conclusions else []), *conclusions])

    def curves(self, value: Callable[[Spent], float]) -> dict[str, list[tuple[float, float]]]:
        """Points of a plot over the length, per reader."""
        return {
            READERS[reader]: [(one.document_tokens, value(one)) for one in spent]
            for reader, spent in self._in_order() if spent
        }  # fmt: skip

    def _in_order(self) -> Iterable[tuple[str, tuple[Spent, ...]]]:
        return [(reader, self.spent[reader]) for reader in READERS if reader in self.spent]

    def _conclusions(self) -> Iterable[str]:
        for other in WHOLE:
            if other not in self.spent:
                continue
            length = self.crossing("cogltx", other)
            where = "at no length that both read" if length is None else f"from about {length:,.0f} tokens on"
            if length == self.spent["cogltx"][0].length:
                where = "from the shortest length on"
            yield f"CogLTX is faster than {READERS[other].split(',')[0]} {where}."
        peaks = ", ".join(f"{one.length:,}: {one.beyond_bytes / _MEBIBYTE:.0f}" for one in self.spent["cogltx"])
        yield f"CogLTX's peak without the text and its tokens, MiB by length: {peaks}."


def measure(
    readers: Sequence[str],
    output: Path,
    lengths: Sequence[int] = LENGTHS,
    *,
    training: bool = False,
    limit: float = 8.0,
    minutes: float = 10.0,
    encoder: str = "minilm",
    precision: str = "auto",
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> Growth:
    """Measure readers; write `growth.json`, `growth.md` and, with matplotlib, `time.png` and `memory.png`.

    Each reader may use `limit` GiB of memory, and `minutes` per document, loading included. With `training`, it trains
    one step on each document instead of answering a question. If `output` holds the same measurement, it is resumed.

    Raises:
        ConfigError: a reader is unknown, or the folder holds another measurement.
        ModelError: a process failed.
    """
    for reader in readers:
        if reader not in READERS:
            raise ConfigError(f"--readers: {reader!r} is not a reader; choose from {', '.join(READERS)}")
    options = {"training": training, "encoder": encoder, "precision": precision, "seed": seed}
    settings = {**options, "limit": limit, "minutes": minutes}
    path = output / "growth.json"
    growth = _load(path, settings)
    pairs = [(reader, length) for reader in readers for length in sorted(set(lengths))]
    for reader, length in tqdm(pairs, desc="readers", unit=" documents", disable=None, leave=False):
        if growth.is_measured(reader, length):
            continue
        arguments = {"reader": reader, "length": length, **options}
        what = f"{reader} at {length} tokens"
        limits: dict[str, Any] = {"timeout": 60 * minutes, "limit": int(limit * (1 << 30))}
        outcome = call("cogltx.bench.reading:read_once", arguments, what, **limits)
        report(growth.add(reader, length, outcome or {"beyond": "time"}))
        write_json(path, growth.to_dict())
    write_file(output / "growth.md", growth.table() + "\n")
    across = "tokens of the document"
    try:
        seconds, peaks = growth.curves(lambda one: one.seconds), growth.curves(lambda one: one.peak_bytes / _MEBIBYTE)
        Picture(output / "time.png").draw_curves(seconds, across=across, up="seconds", logarithmic=True)
        Picture(output / "memory.png").draw_curves(peaks, across=across, up="peak memory, MiB", logarithmic=True)
    except ConfigError as error:
        report(str(error))
    return growth


def _load(path: Path, settings: Mapping[str, Any]) -> Growth:
    """Load what earlier calls measured."""
    growth = Growth(dict(settings))
    if not path.exists():
        return growth
    saved = read_json(path)
    check_settings(path.parent, settings, saved.get("settings", {}))
    for reader, results in saved["readers"].items():
        for one in results["measured"]:
            growth.add(reader, one["length"], one)
        if results["beyond"] is not None:
            length, resource = results["beyond"]
            growth.add(reader, length, {"beyond": resource})
    return growth


def _cost(spent: Spent) -> str:
    seconds = f"{spent.seconds:.2f}" if spent.seconds < 10 else f"{spent.seconds:,.0f}"
    return f"{seconds} s, {spent.peak_bytes / _MEBIBYTE:,.0f} MiB"
