"""``cogltx export``: the model of a run as a folder to share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cogltx.cli.options import JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError


def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option(help="The folder of the model.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Store weights as 8-bit integers: about a fifth of the size.")
    ] = False,
    judge: JudgeOption = None,
    about: Annotated[Path | None, typer.Option(help="A Markdown file to add to the model card.")] = None,
    changes: SetOption = None,
) -> None:
    """Write the model of a run to a folder, with a model card that says what the run knows."""
    from cogltx.baselines import WindowReader, load_reader
    from cogltx.cli.yaml_config import parse_changes
    from cogltx.display import model_card
    from cogltx.files import read_json, read_text
    from cogltx.folders import is_released, model_folder
    from cogltx.training.config import RunConfig
    from cogltx.training.run import CONFIG_FILE

    folder = model_folder(run)
    reader = load_reader(folder, changes=parse_changes(changes or ()), judge=judge)
    if not isinstance(reader, WindowReader):
        raise ConfigError(f"{run}: the baseline {reader.config.reader} has no weights to export; copy its folder")
    known: dict[str, Any] = {}
    if (Path(run) / CONFIG_FILE).is_file():
        trained, summary = (
            RunConfig.model_validate(read_json(Path(run) / CONFIG_FILE)),
            read_json(Path(run) / "run.json"),
        )
        known = {
            "data": trained.data.train_files,
            "training": trained.training.model_dump(mode="json", include={"epochs", "batch_size", "seed"}),
        }
        if not changes and judge in (None, load_config(folder).judge.name):  # otherwise another was validated
            known["metrics"] = summary["history"][int(summary["best"].rpartition("-")[2]) - 1]
    config = reader.config
    card = model_card(output.name, config, **known, about=read_text(about) if about else "")
    reader.model.save(output, int8=int8, card=card)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    note(f"{size / 1e6:.1f} MB in {output}")
    if config.judge.is_model and not is_released(config.judge.name):
        note(f"its judge is that of {config.judge.name}, which is not part of the folder")
