"""`cogltx bench results`: render a page of results from the JSON files of measurements.

A file `NAME.json` is one data set, written by `bench quality --results`, and `cost.json` is written by `bench cost
--results`; `head.md` opens the page. The same files give the same page.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cogltx._files import read_json, read_text, write_json
from cogltx.bench._cost import cost_table
from cogltx.bench._origin import described
from cogltx.bench._tables import Notes, spread, table
from cogltx.errors import ConfigError

_METRICS = {
    "joint_f1": "joint F1", "answer_f1": "answer F1", "sup_f1": "facts F1", "f1": "F1", "exact_match": "exact match",
    "has_answer_f1": "F1 with an answer", "answerable_f1": "F1 with an answer", "accuracy": "accuracy",
    "micro_f1": "micro F1", "macro_f1": "macro F1", "entity_f1": "entity F1", "evidence_recall": "gold in key blocks",
}  # fmt: skip
_COST = "cost.json"
_COST_TEXT = """\
Seconds from the text of one document to the answer, and peak memory in MiB (CogLTX figure 6): `cogltx bench cost`. Each
reader and length runs in a new process, until a reader needs more time or memory than the command allows (`--minutes`,
`--limit`). The exponent is that of seconds by length.

![seconds by length](figures/time.png) ![peak memory by length](figures/memory.png)"""
Data = Mapping[str, Any]


def render(folder: Path) -> str:
    """Render the page of a folder of measurements.

    Raises:
        ConfigError: the folder has no measurement.
    """
    paths = sorted(path for path in folder.glob("*.json") if path.name != _COST)
    if not paths:
        raise ConfigError(f"{folder}: no measurement of cogltx bench quality --results")
    lines = [read_text(folder / "head.md").strip(), "", "## Quality"]
    for path in paths:
        lines += ["", *section(read_json(path))]
    if (folder / _COST).exists():
        lines += ["", "## Cost", "", _COST_TEXT, "", cost_table(read_json(folder / _COST)["readers"])]
    return "\n".join([*lines, ""])


def section(data: Data) -> list[str]:
    """Format one data set: heading, table, footnotes, and how it was measured."""
    rows: Sequence[Data] = data["rows"]
    metrics = [name for name in _METRICS if any(name in one["metrics"] for row in rows for one in row["runs"])]
    compared = [name for name in metrics if any(name in (row["difference"] or {}) for row in rows)]
    newest, notes = max(rows, key=lambda row: row["date"] or ""), Notes()
    cells = [[
        "", *(_METRICS[name] for name in metrics), *(f"{_METRICS[name]}, difference [95 %]" for name in compared),
        "training, s", "reading, s", "first question, s", "further, s", "MiB",
    ]]  # fmt: skip
    for row in rows:
        runs, peaks = row["runs"], [one["peak_bytes"] for one in row["runs"] if one["peak_bytes"]]
        timed = [one["seconds_per_question"] or {} for one in runs]
        cells.append([
            row["label"] + _marks(row, newest, notes),
            *(spread([one["metrics"].get(name) for one in runs]) for name in metrics),
            *(_difference((row["difference"] or {}).get(name)) for name in compared),
            *(spread([one[key] for one in runs], digits=0) for key in ("train_seconds", "seconds")),
            *(spread([one.get(kind) for one in timed], digits=2) for kind in ("first", "further")),
            f"{max(peaks) / 2**20:,.0f}" if peaks else "–",
        ])  # fmt: skip
    used = [column for column in range(len(cells[0])) if any(line[column] != "–" for line in cells[1:])]
    shown = table([[line[column] for column in used] for line in cells])
    missing = [name for name in data["by_default"] if name not in [row["reader"] for row in rows]]
    lines = [f"### {data['title']}", "", shown, "", *(f"{line}  " for line in notes.lines)]
    omitted = f"Not measured: {', '.join(missing)}. " if missing else ""
    return [*lines, f"{omitted}{data['examples']:,} examples; {described(newest)}:", "", f"    {data['command']}"]


def _marks(row: Data, newest: Data, notes: Notes) -> str:
    """Return the marks of what sets a row apart: its notes, and its origin if that is another version or commit."""
    same = (row["version"], row["commit"]) == (newest["version"], newest["commit"])
    return " ".join(map(notes.mark, [*row["notes"], *([] if same else [f"another version: {described(row)}"])]))


def _difference(of: Data | None) -> str:
    return "–" if of is None else f"{of['points']:+.1f} [{of['low']:+.1f}, {of['high']:+.1f}]".replace("-", "−")


def save(path: Path, measured: dict[str, Any]) -> None:
    """Write a measurement; rows of other readers that the file has stay, with their own origin.

    Raises:
        ConfigError: the file has rows that were measured on other data.
    """
    if path.exists():
        before = read_json(path)
        if before["sha256"] and any(before[key] != measured[key] for key in ("sha256", "limit", "longer_than")):
            raise ConfigError(f"{path}: measured on other data or examples; move the file away, or choose --results")
        rows = {row["reader"]: row for row in [*before["rows"], *measured["rows"]]}
        measured = {**measured, "title": before["title"], "rows": list(rows.values())}
    write_json(path, measured)
