"""How time and memory grow with the text's length, reader by reader (paper figure 6).

Every reader reads every length in a process of its own, until one goes beyond the memory or the time that is allowed.
What was measured stands in a file after each, so that an interrupted call goes on. Knows nothing of models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from cogltx.bench.process import in_new_process
from cogltx.bench.reading import READERS, WHOLE, Spent
from cogltx.cli.plots import draw_curves
from cogltx.errors import ConfigError
from cogltx.files import check_settings, read_json, write_file, write_json

LENGTHS = tuple(512 << doubled for doubled in range(10))  # up to 262,144
_MEGABYTE = 1 << 20
_FITTED_FROM = 4096  # tokens; below, what does not depend on the length weighs too much


@dataclass
class Growth:
    """What readers spent by length.

    Attributes:
        settings: of the measurement.
        spent: of each reader, lengths ascending.
        beyond: the first length at which a reader went beyond the allowed memory or time, and which of them.
    """

    settings: dict[str, Any]
    spent: dict[str, tuple[Spent, ...]] = field(default_factory=dict)
    beyond: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, reader: str, length: int, outcome: Mapping[str, Any]) -> str:
        """Takes up a measurement, as a process prints it; a line that tells it."""
        own = self.spent.setdefault(reader, ())
        if "beyond" in outcome:
            self.beyond[reader] = (length, outcome["beyond"])
            return f"{reader}, {length} tokens: beyond the {outcome['beyond']} allowed"
        one = Spent(**{each.name: outcome[each.name] for each in fields(Spent)})
        self.spent[reader] = tuple(sorted((*own, one), key=lambda spent: spent.length))
        return f"{reader}, {length} tokens: {_seconds(one.seconds)} s, {one.peak_bytes / _MEGABYTE:.0f} MiB"

    def knows(self, reader: str, length: int) -> bool:
        """Whether that was measured, or lies beyond what is allowed."""
        if reader in self.beyond and length >= self.beyond[reader][0]:
            return True
        return any(one.length == length for one in self.spent.get(reader, ()))

    def exponent(self, reader: str) -> float | None:
        """k of seconds ~ length^k, least squares over lengths from 4,096 tokens; None below three of them."""
        points = [(one.document_tokens, one.seconds) for one in self.spent[reader] if one.length >= _FITTED_FROM]
        if len(points) < 3:
            return None
        lengths, seconds = np.log(np.array(points)).T
        return float(np.polyfit(lengths, seconds, 1)[0])

    def crossing(self, reader: str, other: str) -> float | None:
        """The length from which ``reader`` is faster than ``other``, between two measured ones; None: at none."""
        other_seconds = {one.length: one.seconds for one in self.spent[other]}
        gaps = [
            (one.length, float(np.log(one.seconds / other_seconds[one.length])))
            for one in self.spent[reader] if one.length in other_seconds
        ]  # fmt: skip
        for (before, gap), (after, next_gap) in pairwise(gaps):
            if gap > 0 >= next_gap:
                return float(before * (after / before) ** (gap / (gap - next_gap)))
        return float(gaps[0][0]) if gaps and gaps[0][1] <= 0 else None

    def in_order(self) -> list[tuple[str, tuple[Spent, ...]]]:
        """What readers spent, in the order of ``READERS``, whenever they were measured."""
        return [(reader, self.spent[reader]) for reader in READERS if reader in self.spent]

    def to_dict(self) -> dict[str, Any]:
        """The measurement as plain data for JSON."""
        return {
            "settings": self.settings,
            "readers": {
                reader: {
                    "measured": [asdict(one) for one in spent],
                    "beyond": list(self.beyond[reader]) if reader in self.beyond else None,
                    "exponent": self.exponent(reader),
                }
                for reader, spent in self.spent.items()
            },
        }

    def table(self) -> str:
        """Seconds and MiB by length, in Markdown, and what follows from them."""
        measured = {one.length for spent in self.spent.values() for one in spent}
        lengths = sorted(measured | {at for at, _ in self.beyond.values()})
        lines = [f"| reader | {' | '.join(f'{length:,}' for length in lengths)} | exponent |"]
        lines.append("|---" * (2 + len(lengths)) + "|")
        for reader, spent in self.in_order():
            cells = {one.length: f"{_seconds(one.seconds)} s, {one.peak_bytes / _MEGABYTE:.0f} MiB" for one in spent}
            if reader in self.beyond:
                at, what = self.beyond[reader]
                cells[at] = f"beyond the {what} allowed"
            power = self.exponent(reader)
            row = [cells.get(length, "–") for length in lengths]
            lines.append(f"| {READERS[reader]} | {' | '.join(row)} | {'–' if power is None else f'{power:.2f}'} |")
        conclusions = [*self._crossings(), *self._beyond_text()]
        return "\n".join([*lines, *([""] if conclusions else []), *conclusions])

    def _beyond_text(self) -> list[str]:
        """What CogLTX holds beside the document itself, which should not grow with it."""
        own = self.spent.get("cogltx", ())
        peaks = ", ".join(f"{one.length:,}: {one.beyond_bytes / _MEGABYTE:.0f}" for one in own)
        return [f"CogLTX's peak beyond the text and its tokens, MiB by length: {peaks}."] if own else []

    def _crossings(self) -> list[str]:
        lines = []
        for other in WHOLE:
            if other not in self.spent or "cogltx" not in self.spent:
                continue
            at = self.crossing("cogltx", other)
            where = "at no length that both read" if at is None else f"from about {at:,.0f} tokens on"
            if at == self.spent["cogltx"][0].length:
                where = "from the shortest length on"
            lines.append(f"CogLTX is faster than {READERS[other].split(',')[0]} {where}.")
        return lines


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
    """Measures readers; writes ``growth.json``, ``growth.md`` and, with matplotlib, ``time.png`` and ``memory.png``.

    Args:
        readers: of ``READERS``.
        output: a folder, new or of the same measurement, which then goes on.
        lengths: tokens of the documents.
        training: a training step on each document instead of an answer.
        limit: GiB of memory that a reader may hold.
        minutes: that it may take for one document, everything included.
        encoder: as in ``EncoderConfig.name``.
        precision: as in ``EncoderConfig.precision``.
        seed: of documents and weights.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: a reader is unknown, or the folder holds another measurement.
        ModelError: a process failed; its last words.
    """
    for reader in readers:
        if reader not in READERS:
            raise ConfigError(f"--readers: expected some of {', '.join(READERS)}, got {reader!r}")
    settings = {"training": training, "limit": limit, "minutes": minutes, "encoder": encoder, "precision": precision}
    settings |= {"seed": seed}
    path = output / "growth.json"
    found = _before(path, settings)
    wanted = [(reader, length) for reader in readers for length in sorted(set(lengths))]
    for reader, length in tqdm(wanted, desc="readers", unit=" documents", disable=None, leave=False):
        if found.knows(reader, length):
            continue
        options = ["--encoder", encoder, "--precision", precision, "--seed", str(seed), "--limit", str(limit)]
        options += ["--training"] if training else []
        expected = f"{reader} at {length} tokens: expected a measurement"
        arguments = [reader, str(length), *options]
        outcome = in_new_process("cogltx.bench.reading", arguments, expected, timeout=60 * minutes)
        report(found.add(reader, length, outcome or {"beyond": "time"}))
        write_json(path, found.to_dict())
    write_file(output / "growth.md", found.table() + "\n")
    _draw(found, output, report)
    return found


def _before(path: Path, settings: Mapping[str, Any]) -> Growth:
    """What earlier calls measured."""
    found = Growth(dict(settings))
    if not path.exists():
        return found
    held = read_json(path)
    check_settings(path.parent, settings, held.get("settings", {}))
    for reader, own in held["readers"].items():
        for one in own["measured"]:
            found.add(reader, one["length"], one)
        if own["beyond"] is not None:
            at, what = own["beyond"]
            found.add(reader, at, {"beyond": what})
    return found


def _draw(found: Growth, output: Path, report: Callable[[str], None]) -> None:
    """Both halves of the figure."""
    halves: dict[str, tuple[str, Callable[[Spent], float]]] = {
        "time.png": ("seconds", lambda one: one.seconds),
        "memory.png": ("peak memory, MiB", lambda one: one.peak_bytes / _MEGABYTE),
    }
    for name, (up, value) in halves.items():
        points = {READERS[reader]: [(one.document_tokens, value(one)) for one in spent]
                  for reader, spent in found.in_order() if spent}  # fmt: skip
        try:
            draw_curves(output / name, points, across="tokens of the document", up=up, logarithmic=True)
        except ConfigError as error:
            report(str(error))
            return


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
