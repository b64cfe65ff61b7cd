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

import cogltx

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "blocks": {"Block", "Blocks", "split"},
    "document": {"Document", "Entity", "Example", "Query", "Segment", "Span"},
    "encoding.positions": {"PositionsConfig", "extend_positions"},
    "encoding.pretrained": {"EncoderConfig"},
    "errors": {"CogltxError", "ConfigError", "DataError", "ModelError", "TrainingError"},
    "formats": {"read_document"},
    "integrations.compress": {"compress"},
    "judges": {"Judge", "JudgeConfig", "ScoringJudge"},
    "memrecall": {"MemRecall", "MemRecallConfig", "Recall"},
    "model": {"ModelConfig", "TaskConfig"},
    "pipeline": {"CogLTX"},
    "prediction": {"Answer", "Evidence", "Label", "PredictedEntity", "Prediction"},
    "reasoners": {"ClassificationConfig", "SpanReasonerConfig", "TaggingConfig"},
    "training": {"DataConfig", "RunConfig", "Trainer", "TrainingConfig", "train"},
}


def module_names() -> list[str]:
    """All modules of the package but `__main__`, without importing them."""
    files = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / "cogltx").rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    return sorted(name for name in names if not name.endswith(".__main__"))


def test_public_names() -> None:
    expected = {name for names in PUBLIC.values() for name in names}
    assert set(cogltx.__all__) == expected
    assert len(cogltx.__all__) == len(expected)
    assert set(dir(cogltx)) == expected


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_public_names_come_from_their_modules(module: str, names: set[str]) -> None:
    home = importlib.import_module(f"cogltx.{module}")
    for name in names:
        assert getattr(cogltx, name) is getattr(home, name)
        assert getattr(cogltx, name).__doc__, f"cogltx.{name} has no docstring"


@pytest.mark.parametrize("name", sorted(name for names in PUBLIC.values() for name in names if name.endswith("Config")))
def test_every_setting_is_documented(name: str) -> None:
    kind = getattr(cogltx, name)
    documented = "\n".join(inspect.getdoc(base) or "" for base in kind.__mro__ if base.__module__.startswith("cogltx"))
    assert [setting for setting in kind.model_fields if f"    {setting}: " not in documented] == []


def test_errors_are_cogltx_errors() -> None:
    assert all(issubclass(getattr(cogltx, name), cogltx.CogltxError) for name in PUBLIC["errors"])


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
            "import cogltx.cli.predictions, cogltx.cli.yaml_config, cogltx.training.run",
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
