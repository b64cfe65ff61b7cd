"""Run configurations from YAML, and trained readers with changes from the command line."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cogltx.baselines import load_reader as load_reader_of
from cogltx.baselines import reader_class
from cogltx.cli.settings import changed, from_yaml, place_of, validated
from cogltx.errors import ConfigError
from cogltx.judges import Judge, ScoringJudge
from cogltx.model import ModelConfig, load_config, model_folder
from cogltx.pipeline import Reader
from cogltx.tasks import TASKS, make_task
from cogltx.training.config import RunConfig
from cogltx.training.masked_lm import MaskedConfig


def load_run(path: Path, changes: Sequence[str] = ()) -> RunConfig:
    """Reads a run from YAML.

    Args:
        path: the file.
        changes: ``KEY=VALUE`` with a dotted key and a YAML value, each in place of the file's.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is wrong; names file, line and key.
    """
    run, places = from_yaml(RunConfig, path, changes)
    _check_names(run, places)
    return run


def load_mlm(path: Path, changes: Sequence[str] = ()) -> MaskedConfig:
    """Reads a run of masked-LM training from YAML; see ``load_run``."""
    return from_yaml(MaskedConfig, path, changes)[0]


def _check_names(run: RunConfig, places: Mapping[tuple[str, ...], str]) -> None:
    """Reader, task and judge are known by these names."""
    checks: dict[tuple[str, ...], Callable[[], object]] = {
        ("reader",): lambda: reader_class(run.reader),
        ("task", "options" if run.task.name in TASKS else "name"): lambda: make_task(run.task.name, run.task.options),
    }
    for key, check in checks.items():
        try:
            check()
        except ConfigError as error:
            raise ConfigError(f"{place_of(key, places) or key[0]}: {error}") from error


def load_reader(
    name: str | Path,
    *,
    changes: Sequence[str] = (),
    device: str | None = None,
    judge: Judge | ScoringJudge | None = None,
) -> Reader:
    """A trained reader of any kind: CogLTX or a baseline.

    Args:
        name: a run, a model folder, or a name on the Hugging Face hub.
        changes: ``KEY=VALUE`` in place of the model's own configuration, such as ``memrecall.strides=[8]``.
        device: where it runs.
        judge: takes the place of the model's own judge.

    Raises:
        ModelError: the folder is missing, half-written or holds something else.
        ConfigError: a change is wrong.
    """
    folder = model_folder(name)
    config = load_config(folder)
    if changes:
        config = validated(ModelConfig, changed(config.model_dump(mode="json"), changes), "--set", {})
    return load_reader_of(name, config=config, device=device, judge=judge)
