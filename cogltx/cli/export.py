"""``cogltx export``: the model of a run as a folder to share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cogltx.cli._options import JudgeOption, RunArgument, SetOption, load_model, note
from cogltx.errors import ConfigError


def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option(help="The folder of the model.")],
    int8: Annotated[bool, typer.Option("--int8", help="Store weights as 8-bit integers: a fifth of the size.")] = False,
    judge: JudgeOption = None,
    about: Annotated[Path | None, typer.Option(help="A Markdown file to add to the model card.")] = None,
    changes: SetOption = None,
) -> None:
    """Write the model of a run to a folder, with a model card: settings, data and validation metrics."""
    from cogltx._files import read_text
    from cogltx._folders import is_released
    from cogltx.baselines import WindowReader
    from cogltx.display import model_card

    reader = load_model(run, changes, judge, None)
    if not isinstance(reader, WindowReader):
        raise ConfigError(f"{run}: the baseline {reader.config.reader} has no weights to export; copy its folder")
    config = reader.config
    trained = _trained(Path(run), None if changes else judge or config.judge.name)
    card = model_card(output.name, config, **trained, about=read_text(about) if about else "")
    reader.model.save(output, int8=int8, card=card)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    note(f"{size / 1e6:.1f} MB in {output}")
    if config.judge.is_model and not is_released(config.judge.name):
        note(f"its judge is that of {config.judge.name}, which is not part of the folder")


def _trained(run: Path, judge: str | None) -> dict[str, Any]:
    """Return a run's data and settings for the model card; metrics only if it was validated with this judge."""
    from cogltx._files import read_json
    from cogltx.cli._yaml_config import validated
    from cogltx.training._run_folder import CONFIG_FILE
    from cogltx.training.config import RunConfig

    if not (run / CONFIG_FILE).is_file():
        return {}
    config, summary = validated(RunConfig, read_json(run / CONFIG_FILE)), read_json(run / "run.json")
    training = config.training.model_dump(mode="json", include={"epochs", "batch_size", "seed"})
    metrics = summary.get("metrics", {}) if judge == config.judge.name else {}
    return {"data": config.data.train_files, "training": training, "metrics": metrics}
