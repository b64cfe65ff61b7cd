"""``cogltx index``: split documents once, and compute the vectors of their blocks, for many questions."""

from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.documents import read_documents
from cogltx.cli.options import DeviceOption, JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError


def index(
    run: RunArgument,
    documents: Annotated[
        list[str],
        typer.Option("--document", help="A file or folder, as for predict; several are searched together. Repeatable."),
    ],
    output: Annotated[Path, typer.Option(help="The index, for predict --index.")],
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
) -> None:
    """Write the index of one or several documents, from which predict --index answers questions."""
    from cogltx.cli.predictions import Predictor
    from cogltx.pipeline import CogLTX

    texts = list(read_documents(documents))
    reader = Predictor(run, changes or (), judge, device).reader
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"{run}: the baseline {reader.config.reader} has no shortlist; index needs a CogLTX model")
    opened = reader.open(texts if len(texts) > 1 else texts[0])
    opened.save(output)
    blocks = reader.model.split(opened.document)
    note(f"{len(blocks):,} blocks ({blocks.n_tokens:,} tokens) in {output}")
