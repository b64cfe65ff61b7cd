"""Measure seconds and memory by document length, per reader (CogLTX figure 6).

Every reader reads every length in a new process, until one needs more memory or time than allowed. Results are saved
after each process; run the same command to resume.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cogltx.bench.process import call
from cogltx.bench.tables import table
from cogltx.cli.plots import Picture
from cogltx.errors import ConfigError
from cogltx.files import check_settings, read_json, write_file, write_json
from cogltx.progress import progress

READERS = {
    "cogltx": "CogLTX",
    "one_stride": "CogLTX, one stride",
    "bm25_shortlist": "CogLTX, shortlist by BM25",
    "shortlist": "CogLTX, shortlist by a trained retriever",
    "further": "CogLTX, shortlist by a trained retriever, further question",
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


def measure(
    readers: Sequence[str],
    output: Path,
    lengths: Sequence[int] = LENGTHS,
    *,
    training: bool = False,
    limit: float = 8.0,
    minutes: float = 10.0,
    shortlist: Sequence[int] = (24, 12),
    encoder: str = "minilm",
    precision: str = "auto",
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> tuple[dict[str, Any], str]:
    """Measure readers; write `growth.json`, `growth.md` and, with matplotlib, `time.png` and `memory.png`.

    Each reader may use `limit` GiB of memory, and `minutes` per document, loading included. With `training`, it trains
    one step on each document instead of answering a question. `shortlist` has the numbers of blocks in the first step's
    shortlist and in later ones. If `output` holds the same measurement, it is resumed.

    Returns:
        The settings and measurements, and their table with conclusions. Per reader: `measured`, lengths ascending (see
        `reading`); `beyond`, the first length that needed more than allowed, and whether memory or time; `exponent`, k
        in seconds ~ length^k by least squares over lengths from 4,096 tokens, None for fewer than three.

    Raises:
        ConfigError: a reader is unknown, `shortlist` has not two numbers, or the folder holds another measurement.
        ModelError: a process failed.
    """
    for reader in readers:
        if reader not in READERS:
            raise ConfigError(f"--readers: {reader!r} is not a reader; choose from {', '.join(READERS)}")
    if len(shortlist) != 2:
        raise ConfigError("--shortlist: two numbers are needed, for the first step and for later ones, such as 24,12")
    options = {
        "training": training,
        "shortlist": list(shortlist),
        "encoder": encoder,
        "precision": precision,
        "seed": seed,
    }
    growth: dict[str, Any] = {"settings": {**options, "limit": limit, "minutes": minutes}, "readers": {}}
    path = output / "growth.json"
    if path.exists():
        saved = read_json(path)
        check_settings(output, growth["settings"], saved.get("settings", {}))
        growth["readers"] = saved["readers"]
    pairs = [(reader, length) for reader in readers for length in sorted(set(lengths))]
    for reader, length in progress(pairs, "readers", unit="documents"):
        results = growth["readers"].get(reader, {"measured": [], "beyond": None, "exponent": None})
        if any(one["length"] == length for one in results["measured"]):
            continue
        if results["beyond"] and length >= results["beyond"][0]:
            continue
        outcome = call(
            "cogltx.bench.reading:_read_once", {"reader": reader, "length": length, **options},
            f"{reader} at {length} tokens", timeout=60 * minutes, limit=int(limit * (1 << 30)),
        ) or {"beyond": "time"}  # fmt: skip
        if "beyond" in outcome:
            results["beyond"] = [length, outcome["beyond"]]
            report(f"{reader}, {length:,} tokens: more {outcome['beyond']} than allowed")
        else:
            results["measured"] = sorted([*results["measured"], outcome], key=lambda one: one["length"])
            results["exponent"] = _exponent(results["measured"])
            report(f"{reader}, {length:,} tokens: {_cost(outcome)}")
        growth["readers"][reader] = results
        write_json(path, growth)
    text = _table(growth["readers"])
    write_file(output / "growth.md", text + "\n")
    measured = {READERS[name]: growth["readers"][name]["measured"] for name in READERS if name in growth["readers"]}
    try:
        for name, key, unit, up in (
            ("time", "seconds", 1, "seconds"),
            ("memory", "peak_bytes", _MEBIBYTE, "peak memory, MiB"),
        ):
            curves = {
                reader: [(one["document_tokens"], one[key] / unit) for one in points]
                for reader, points in measured.items()
                if points
            }
            Picture(output / f"{name}.png").draw_curves(
                curves, across="tokens of the document", up=up, logarithmic=True
            )
    except ConfigError as error:
        report(str(error))
    return growth, text


def _exponent(measured: Sequence[dict[str, Any]]) -> float | None:
    points = [(one["document_tokens"], one["seconds"]) for one in measured if one["length"] >= _FITTED_FROM]
    if len(points) < 3:
        return None
    lengths, seconds = np.log(np.array(points)).T
    return float(np.polyfit(lengths, seconds, 1)[0])


def _crossing(measured: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> float | None:
    """Interpolate the length from which a reader is faster than another; None if it never is."""
    other_seconds = {one["length"]: one["seconds"] for one in other}
    gaps = [
        (one["length"], float(np.log(one["seconds"] / other_seconds[one["length"]])))
        for one in measured if one["length"] in other_seconds
    ]  # fmt: skip
    for (before, gap), (after, next_gap) in pairwise(gaps):
        if gap > 0 >= next_gap:
            return float(before * (after / before) ** (gap / (gap - next_gap)))
    return float(gaps[0][0]) if gaps and gaps[0][1] <= 0 else None


def _table(readers: dict[str, Any]) -> str:
    """Format seconds and MiB by length in Markdown, and conclusions."""
    measured = {one["length"] for results in readers.values() for one in results["measured"]}
    lengths = sorted(measured | {results["beyond"][0] for results in readers.values() if results["beyond"]})
    rows = [["reader", *(f"{length:,}" for length in lengths), "exponent"]]
    for reader in READERS:
        if reader in readers:
            results = readers[reader]
            cells = {one["length"]: _cost(one) for one in results["measured"]}
            if results["beyond"]:
                length, resource = results["beyond"]
                cells[length] = f"more {resource} than allowed"
            exponent = "–" if results["exponent"] is None else f"{results['exponent']:.2f}"
            rows.append([READERS[reader], *(cells.get(length, "–") for length in lengths), exponent])
    lines = [table(rows, markdown=True)]
    if "cogltx" in readers:
        lines += ["", *_conclusions(readers)]
    return "\n".join(lines)


def _conclusions(readers: dict[str, Any]) -> Iterator[str]:
    measured = readers["cogltx"]["measured"]
    for other in WHOLE:
        if other in readers:
            length = _crossing(measured, readers[other]["measured"])
            where = "at no length that both read" if length is None else f"from about {length:,.0f} tokens on"
            if measured and length == measured[0]["length"]:
                where = "from the shortest length on"
            yield f"CogLTX is faster than {READERS[other].split(',')[0]} {where}."
    beyond = {one["length"]: one["peak_bytes"] - one["text_bytes"] - one["token_bytes"] for one in measured}
    peaks = ", ".join(f"{length:,}: {peak / _MEBIBYTE:.0f}" for length, peak in beyond.items())
    yield f"CogLTX's peak without the text and its tokens, MiB by length: {peaks}."


def _cost(one: dict[str, Any]) -> str:
    seconds = f"{one['seconds']:.2f}" if one["seconds"] < 10 else f"{one['seconds']:,.0f}"
    return f"{seconds} s, {one['peak_bytes'] / _MEBIBYTE:,.0f} MiB"
