"""``cogltx index``: split a document once, and compute the vectors of its blocks, for many questions."""

from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import DeviceOption, DocumentOption, RunArgument, note, read_document
from cogltx.errors import ConfigError


def index(
    run: RunArgument,
    document: DocumentOption,
    output: Annotated[Path, typer.Option(help="The index, for predict --index.")],
    device: DeviceOption = None,
) -> None:
    """Write the index of a document, from which predict --index answers questions."""
    from cogltx.cli.predictions import Predictor
    from cogltx.pipeline import CogLTX

    text = read_document(document)
    reader = Predictor(run, device=device).reader
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"{run}: the baseline {reader.config.reader} has no shortlist; index needs a CogLTX model")
    opened = reader.open(text)
    opened.save(output)
    blocks = reader.model.split(text)
    note(f"{len(blocks):,} blocks ({blocks.n_tokens:,} tokens) in {output}")
