"""The pages in ``configs``: short, and what is generated from the code is what the code says."""

import ast
import inspect
import json
import re
from pathlib import Path

import pages
import pytest
from pydantic import BaseModel

import cogltx

ROOT = Path(__file__).parents[1]
WRITTEN = {
    "README.md": 130, "cogltx/README.md": 110, "configs/README.md": 60, "configs/questions.md": 120,
    "configs/labels.md": 120, "configs/training.md": 120, "configs/serving.md": 120,
    "configs/reading.md": 120,
}  # fmt: skip


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_generated_page_is_what_the_code_says(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == pages.PAGES[page](), f"{page}: write it again with python tests/pages.py --write"


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_is_short(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= WRITTEN[page]


def test_configurations_are_few_and_short() -> None:
    paths = sorted((ROOT / "configs").rglob("*.yaml"))
    assert 0 < len(paths) <= 18
    index = (ROOT / "configs/README.md").read_text(encoding="utf-8")
    for path in paths:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 30, path
        assert f"({path.relative_to(ROOT / 'configs')})" in index, path


def test_every_public_name_and_setting_is_in_the_reference() -> None:
    reference, settings = pages.api_page(), pages.settings_page()
    for name in cogltx.__all__:
        assert f"| `{name}`" in reference or f"| `{name}(" in reference
    for kind in (getattr(cogltx, name) for name in cogltx.__all__):
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            for setting, field in kind.model_fields.items():
                nested = any(inspect.isclass(part) and issubclass(part, BaseModel) for part in pages.parts_of(field))
                if not nested and setting != "name":
                    assert f"{setting}`" in settings, f"{kind.__name__}.{setting}"


def test_meanings_come_from_the_docstring() -> None:
    class Setting(BaseModel):
        """A thing.

        Attributes:
            size: its size: many lines
                long.
            name: ``a`` or ``b``.

        More text.
        """

    Setting.__module__ = "cogltx.test"
    assert pages.documented(Setting) == {"size": "its size: many lines long.", "name": "``a`` or ``b``."}


def test_the_notebook_uses_public_names() -> None:
    notebook = json.loads((ROOT / "configs/notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell.get("outputs") for cell in notebook["cells"] if cell["cell_type"] == "code"), "not executed"
    tree = ast.parse("\n".join(cells))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "cogltx"]
    names = {alias.name for node in imported for alias in node.names}
    assert names
    assert names <= set(cogltx.__all__)
    modules = {getattr(node, "module", None) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules == {"cogltx", "IPython.display"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [name for name in attributes if name.startswith("_")]


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    _, _, table = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- results:begin -->")
    figures = re.findall(r"\d+\.\d(?: ± \d+\.\d)?", table.partition("<!-- results:end -->")[0])
    results = (ROOT / "data/results.md").read_text(encoding="utf-8")
    assert len(figures) > 5
    assert [figure for figure in figures if figure not in results] == []
