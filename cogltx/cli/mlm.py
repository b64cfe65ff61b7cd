"""``cogltx mlm``: continue the pretraining of an encoder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import JsonOption, ResumeOption, SetOption, note


def mlm(
    config: Annotated[Path, typer.Argument(help="The YAML file of the masked-LM run.")],
    output: Annotated[Path, typer.Option(help="The folder of the run; the encoder is saved in its folder encoder.")],
    changes: SetOption = None,
    resume: ResumeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Continue to pretrain an encoder as a masked language model on your texts, optionally with more positions."""
    from cogltx import processes
    from cogltx.cli.yaml_config import load_yaml
    from cogltx.training.masked_lm import MaskedConfig
    from cogltx.training.masked_lm import mlm as train_encoder

    with processes.joined():
        figures = train_encoder(load_yaml(MaskedConfig, config, changes or ()), output, resume=resume, report=note)
        prints = processes.is_first()
    if not prints:
        return
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    print("  step    loss  masked accuracy")
    for one in figures["history"]:
        print(f"{one['step']:>6}  {one['loss']:>6.3f}  {one['accuracy']:>14.2f}%")
