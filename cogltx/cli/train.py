"""``cogltx train``: train a run."""

from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import ResumeOption, SetOption, note


def train(
    config: Annotated[Path, typer.Argument(help="The YAML file of the run.")],
    output: Annotated[Path, typer.Option(help="The folder of the run.")],
    changes: SetOption = None,
    resume: ResumeOption = False,
) -> None:
    """Train a judge and a reasoner jointly."""
    from cogltx.cli.yaml_config import load_yaml
    from cogltx.training.config import RunConfig
    from cogltx.training.run import train_run

    train_run(load_yaml(RunConfig, config, changes or ()), output, resume=resume, report=note)
