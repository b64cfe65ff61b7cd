"""``cogltx split``: cut a document into blocks."""

import json
from typing import Annotated

import typer

from cogltx.cli.options import DocumentOption, JsonOption
from cogltx.formats import read_document


def split(
    document: DocumentOption,
    max_tokens: Annotated[int, typer.Option(help="Maximum number of tokens per block.")] = 63,
    encoder: Annotated[str, typer.Option(help="The encoder whose tokenizer counts the tokens.")] = "minilm",
    as_json: JsonOption = False,
) -> None:
    """Cut a document into blocks: index, number of tokens and text, one line per block."""
    from cogltx.blocks import split as split_document

    blocks = split_document(read_document(document), encoder, max_tokens=max_tokens)
    for block in blocks:
        text = blocks.text(block.index)
        fields = {
            "index": block.index, "start": block.start, "end": block.end, "n_tokens": block.n_tokens, "text": text,
        }  # fmt: skip
        plain = f"{block.index:5d} {block.n_tokens:5d}  {' '.join(text.split())}"
        print(json.dumps(fields, ensure_ascii=False) if as_json else plain)
