"""``cogltx average``: one model out of several trainings."""

from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import note


def average(
    runs: Annotated[
        list[str], typer.Argument(help="Runs or model folders that differ in the seed of their training alone.")
    ],
    output: Annotated[Path, typer.Option(help="The folder of the model.")],
) -> None:
    """Average the weights of several runs into one model, which reads as fast as one and makes fewer errors."""
    from cogltx.averaging import average as averaged
    from cogltx.display import model_card
    from cogltx.folders import model_folder

    model = averaged([model_folder(run) for run in runs])
    about = f"The weights are the mean of {len(runs)} trainings (model soup, Wortsman et al. 2022, arXiv:2203.05482)."
    model.save(output, card=model_card(output.name, model.config, about=about))
    note(f"the mean of {len(runs)} models in {output}")
