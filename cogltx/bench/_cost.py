"""`cogltx bench cost`: seconds, peak memory and throughput of readers by document length (CogLTX figure 6).

Every reader reads every length in a new process, until one needs more memory or time than allowed. Results are saved
after each process; run the same command to resume.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cogltx._files import check_settings, read_json, write_json
from cogltx._progress import progress
from cogltx.bench._origin import described, origin
from cogltx.bench._process import call
from cogltx.bench._tables import Notes, table
from cogltx.cli._plots import Picture
from cogltx.errors import ConfigError

READERS = {
    "cogltx": "CogLTX",
    "one_stride": "CogLTX, one step",
    "shortlist": "CogLTX, shortlist by a trained retriever",
    "further": "the same, a further question",
    "sliding_window": "sliding window",
    "full_attention": "full attention, extended positions",
}
"""Names of the readers in tables."""

LENGTHS = tuple(512 << doubled for doubled in range(10))  # up to 262,144
_MEBIBYTE = 1 << 20
_FITTED_FROM = 4096  # tokens; for shorter documents, costs that do not depend on the length dominate


def measure(
    readers: Sequence[str], output: Path, lengths: Sequence[int] = LENGTHS, *, limit: float = 8.0,
    minutes: float = 10.0, encoder: str = "minilm", seed: int = 0, results: Path | None = None,
    report: Callable[[str], None] = print,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Measure readers, or resume that; write `cost.json` and, with matplotlib, `time.png` and `memory.png`.

    Each reader may use `limit` GiB of memory, and `minutes` per document, loading included. `results` is a folder whose
    `cost.json` is updated, too.

    Returns:
        The settings and measurements, and their table. Per reader: `measured`, lengths ascending (see `reading`);
        `beyond`, the first length that needed more than allowed, and whether memory or time; `exponent`, k in seconds ~
        length^k by least squares over lengths from 4,096 tokens, None for fewer than three; its origin.

    Raises:
        ConfigError: a reader is unknown, or the folder holds another measurement.
        ModelError: a process failed.
    """
    for reader in readers:
        if reader not in READERS:
            raise ConfigError(f"--readers: {reader!r} is not a reader; choose from {', '.join(READERS)}")
    options = {"encoder": encoder, "seed": seed}
    cost: dict[str, Any] = {"settings": {**options, "limit": limit, "minutes": minutes}, "readers": {}}
    path = output / "cost.json"
    if path.exists():
        saved = read_json(path)
        check_settings(output, cost["settings"], saved.get("settings", {}))
        cost["readers"] = saved["readers"]
    pairs = [(reader, length) for reader in readers for length in sorted(set(lengths))]
    for reader, length in progress(pairs, "readers", unit="documents"):
        row = cost["readers"].get(reader, {"measured": [], "beyond": None, "exponent": None})
        if any(one["length"] == length for one in row["measured"]) or (row["beyond"] and length >= row["beyond"][0]):
            continue
        outcome = call(
            "cogltx.bench._reading", {"reader": reader, "length": length, **options}, f"{reader} at {length} tokens",
            seconds=60 * minutes, limit=limit * (1 << 30),
        )  # fmt: skip
        cost["readers"][reader] = _with(row, length, outcome)
        text = f"more {outcome['beyond']} than allowed" if "beyond" in outcome else f"{_cell(outcome)} (s, MiB)"
        report(f"{reader}, {length:,} tokens: {text}")
        write_json(path, cost)
    if results is not None:
        kept = results / "cost.json"
        before = read_json(kept)["readers"] if kept.exists() else {}
        write_json(kept, {"readers": {**before, **cost["readers"]}})
    try:
        draw(cost["readers"], output)
    except ConfigError as error:  # no matplotlib
        report(str(error))
    return cost, cost_table(cost["readers"])


def _with(row: Mapping[str, Any], length: int, outcome: dict[str, Any]) -> dict[str, Any]:
    """Add the outcome of a length to the measurements of a reader."""
    if "beyond" in outcome:
        return {**row, "beyond": [length, outcome["beyond"]], **origin()}
    measured = sorted([*row["measured"], outcome], key=lambda one: one["length"])
    points = [(one["document_tokens"], one["seconds"]) for one in measured if one["length"] >= _FITTED_FROM]
    lengths, seconds = np.log(np.array(points)).T if len(points) >= 3 else ([], [])
    exponent = float(np.polyfit(lengths, seconds, 1)[0]) if len(points) >= 3 else None
    return {**row, "measured": measured, "exponent": exponent, **origin()}


def draw(readers: Mapping[str, Any], folder: Path) -> None:
    """Draw seconds and memory by length; raises ConfigError without matplotlib."""
    pictures = {"time": ("seconds", 1, "seconds"), "memory": ("peak_bytes", _MEBIBYTE, "peak memory, MiB")}
    for name, (key, unit, up) in pictures.items():
        curves = {
            label: [(one["length"], one[key] / unit) for one in readers[reader]["measured"]]
            for reader, label in READERS.items() if readers.get(reader, {}).get("measured")
        }  # fmt: skip
        picture = Picture(folder / f"{name}.png")
        picture.draw_curves(curves, across="tokens of the document", up=up, logarithmic=True)


def cost_table(readers: Mapping[str, Any]) -> str:
    """Format seconds and MiB by length in Markdown, with the origin of each reader's measurement below."""
    notes, measured = Notes(), {one["length"] for row in readers.values() for one in row["measured"]}
    lengths = sorted(measured | {row["beyond"][0] for row in readers.values() if row["beyond"]})
    lines = [["s, MiB by tokens", *(f"{length:,}" for length in lengths), "exponent", "throughput / encoder's"]]
    for reader, label in READERS.items():
        if reader in readers:
            row = readers[reader]
            cells = {one["length"]: _cell(one) for one in row["measured"]}
            if row["beyond"]:
                cells[row["beyond"][0]] = row["beyond"][1]
            exponent = "–" if row["exponent"] is None else f"{row['exponent']:.2f}"
            ratios = [f"{one['ratio']:.2f}" for one in row["measured"] if one["ratio"]][-1:] or ["–"]
            marks = " ".join(map(notes.mark, [*row.get("notes", []), described(row)]))
            lines.append([label + marks, *(cells.get(length, "–") for length in lengths), exponent, *ratios])
    return "\n".join([table(lines), "", *(f"{line}  " for line in notes.lines)])


def _cell(one: Mapping[str, Any]) -> str:
    seconds = f"{one['seconds']:.2f}" if one["seconds"] < 10 else f"{one['seconds']:,.0f}"
    return f"{seconds}, {one['peak_bytes'] / _MEBIBYTE:,.0f}"
