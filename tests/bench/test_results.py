"""The page of results: what the files give, byte for byte; rows of other versions are marked."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

from cogltx._files import read_json
from cogltx.bench._results import render, save, section
from cogltx.errors import ConfigError

DATA = Path(__file__).parents[2] / "data"


def run(f1: float, seconds: float | None = None) -> dict[str, Any]:
    return {
        "metrics": {"f1": f1, "evidence_precision": 1.0}, "train_seconds": seconds, "train_bytes": None,
        "seconds": None, "peak_bytes": None, "seconds_per_question": None,
    }  # fmt: skip


def row(reader: str, *runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made = {"commit": "abcdef0", "version": "1.0", "machine": "a machine", "date": "2026-12-01"}
    shown = {"reader": reader, "label": reader.upper(), "notes": [], "difference": {}, "runs": list(runs)}
    return {**made, **shown, **changes}


def measured(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = {"title": "A data set", "examples": 1200, "command": "cogltx bench quality", "by_default": ["a", "b", "c"]}
    return {**data, "rows": list(rows), "sha256": {"f": "1"}, "limit": None, "longer_than": None, **changes}


def test_the_page_is_what_the_files_give() -> None:
    assert render(DATA / "results") == (DATA / "results.md").read_text(), "run cogltx bench results"


def test_the_page_is_short_and_its_links_lead_somewhere() -> None:
    assert len((DATA / "results.md").read_text().splitlines()) <= 200
    log = (DATA / "results" / "log.md").read_text()
    anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", log, re.M)}
    for page in (DATA / "results.md", DATA / "results" / "log.md"):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            assert not target or page.parent.joinpath(target).exists(), target
            if target in ("", "results/log.md") and anchor:
                assert anchor in anchors


def test_a_section() -> None:
    difference = {"f1": {"points": -2.04, "low": -3, "high": 0.5}}
    data = measured(row("a", run(51, 1000), run(53, 1010)), row("b", run(50), run(50), difference=difference))
    assert section(data) == [
        "### A data set", "",
        "|  | F1 | F1, difference [95 %] | training, s |\n|---|---:|---:|---:|\n"
        "| A | 52.0 ± 1.0 | – | 1,005 ± 5 |\n| B | 50.0 ± 0.0 | −2.0 [−3.0, +0.5] | – |",
        "", "Not measured: c. 1,200 examples; version 1.0, commit abcdef0, a machine, 2026-12-01:", "",
        "    cogltx bench quality",
    ]  # fmt: skip


def test_rows_of_another_version_are_marked() -> None:
    old = {"commit": "1234567", "date": "2026-11-01"}
    text = "\n".join(
        section(measured(row("a", run(1)), row("b", run(1), notes=["on a GPU"], **old), row("c", run(1), **old)))
    )
    assert "| A | 1.0 |" in text
    assert "| B¹ ² | 1.0 |" in text
    assert "| C² | 1.0 |" in text
    assert "¹ on a GPU  \n² another version: version 1.0, commit 1234567, a machine, 2026-11-01  \n" in text
    assert "1,200 examples; version 1.0, commit abcdef0" in text, "the newest"


def test_new_rows_replace_old_ones_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    save(path, measured(row("a", run(1)), row("b", run(2)), title="Given by hand"))
    save(path, measured(row("c", run(3)), row("a", run(4))))
    saved = read_json(path)
    assert [(one["reader"], one["runs"][0]["metrics"]["f1"]) for one in saved["rows"]] == [("a", 4), ("b", 2), ("c", 3)]
    assert saved["title"] == "Given by hand"
    for change in ({"limit": 3}, {"sha256": {"f": "2"}}):
        with pytest.raises(ConfigError, match="measured on other data or examples; move the file away"):
            save(path, measured(row("a", run(1)), **change))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA / "results", tmp_path / "results")
    options = ["--folder", tmp_path / "results", "--output", tmp_path / "results.md"]
    assert invoke("bench", "results", *options, "--check") == 1
    assert "results.md: not up to date; run cogltx bench results" in capsys.readouterr().err
    assert invoke("bench", "results", *options) == 0
    assert (tmp_path / "results.md").read_text() == (DATA / "results.md").read_text()
    assert invoke("bench", "results", *options, "--check") == 0
    (tmp_path / "results" / "head.md").write_text("Another head")
    assert invoke("bench", "results", *options, "--check") == 1


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no measurement of cogltx bench quality --results"):
        render(tmp_path)
