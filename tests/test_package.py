"""The package as a whole: its public names, what importing it costs, the examples in its docstrings."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

import cogltx

ROOT = Path(__file__).parents[1]

ERRORS = {"CogltxError", "ConfigError", "DataError", "ModelError", "TrainingError"}
PUBLIC = {
    *("CogLTX", "MemRecall", "Judge", "ScoringJudge", "read_document", "split", "compress"),
    *("train", "Trainer", "extend_positions"),
    *("Document", "Segment", "Span", "Query", "Example", "Entity"),
    *("Prediction", "Evidence", "Recall"),
    *("ModelConfig", "MemRecallConfig", "RunConfig", "TrainingConfig"),
    *ERRORS,
}


def module_names() -> list[str]:
    """All modules of the package but `__main__`, without importing them."""
    files = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / "cogltx").rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    return sorted(name for name in names if not name.endswith(".__main__"))


def test_public_names() -> None:
    assert set(cogltx.__all__) == set(dir(cogltx)) == PUBLIC
    assert len(cogltx.__all__) == len(PUBLIC) == 28


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_are_documented(name: str) -> None:
    value = getattr(cogltx, name)
    assert value.__module__.startswith("cogltx."), "a name of another package"
    assert value.__doc__, f"cogltx.{name} has no docstring"


def configurations() -> list[type[BaseModel]]:
    """All configurations that a file or a dictionary may set."""
    classes = (value for name in module_names() for value in vars(importlib.import_module(name)).values())
    found = {one for one in classes if isinstance(one, type) and issubclass(one, BaseModel)}
    return sorted(
        (one for one in found if one.__name__.endswith("Config") and one.__module__.startswith("cogltx")),
        key=lambda one: one.__qualname__,
    )


def test_every_setting_is_documented() -> None:
    """But for those that are a configuration, which documents itself."""
    silent, known = [], configurations()
    for kind in known:
        documented = "\n".join(
            inspect.getdoc(base) or "" for base in kind.__mro__ if base.__module__.startswith("cogltx")
        )
        settings = {name for name, field in kind.model_fields.items() if field.annotation not in known}
        silent += [f"{kind.__name__}.{name}" for name in sorted(settings) if f"    {name}: " not in documented]
    assert silent == []


def test_errors_are_cogltx_errors() -> None:
    assert all(issubclass(getattr(cogltx, name), cogltx.CogltxError) for name in ERRORS)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="cogltx.* Introspector"):
        _ = cogltx.Introspector


def test_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cogltx.__version__ == project["version"]


@pytest.mark.parametrize(
    ("statement", "avoided"),
    [
        ("import cogltx", {"torch", "transformers", "sklearn"}),
        ("from cogltx import Document, Example, Prediction, CogltxError", {"torch", "transformers", "sklearn"}),
        ("import cogltx.bench.cli", {"torch", "transformers", "sklearn"}),
        (
            "import cogltx.cli._predictions, cogltx.cli._yaml_config, cogltx.training.run",
            {"sklearn", "scipy", "matplotlib"},
        ),
    ],
)
def test_what_is_not_imported(statement: str, avoided: set[str]) -> None:
    code = f"{statement}\nimport sys\nprint({avoided} & set(sys.modules) or 'none')"
    warnings = ("-W", "error") if "torch" in avoided else ()
    result = subprocess.run(
        [sys.executable, *warnings, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (result.stdout, result.stderr) == ("none\n", "")


def test_every_package_is_importable_as_one() -> None:
    found = {"cogltx", *(module.name for module in pkgutil.walk_packages(cogltx.__path__, "cogltx."))}
    assert set(module_names()) <= found, "a folder has no __init__.py"


class Finder(doctest.DocTestFinder):
    """Finds the examples of functions that the run-time type checker has wrapped."""

    def _from_module(self, module: object, object: object) -> bool:
        return super()._from_module(module, inspect.unwrap(object))  # type: ignore[misc]


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    tests = Finder().find(module, name)
    for test in tests:
        runner.run(test)
    written = sum(line.lstrip().startswith(">>> ") for line in inspect.getsource(module).splitlines())
    assert sum(len(test.examples) for test in tests) == written, "an example that is not in a docstring"
    assert runner.failures == 0
