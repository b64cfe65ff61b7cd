"""``cogltx recall``: find the key blocks of a document."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx.cli.options import DeviceOption, DocumentOption, JsonOption, JudgeOption, numbers, read_document
from cogltx.errors import ConfigError

if TYPE_CHECKING:
    from cogltx.document import Document, Query
    from cogltx.memrecall import Recall


def recall(
    document: DocumentOption,
    run: Annotated[
        str | None, typer.Argument(help="A run or model whose judge scores the blocks; optional with --judge.")
    ] = None,
    judge: JudgeOption = None,
    question: Annotated[str | None, typer.Option(help="The question.")] = None,
    query: Annotated[str | None, typer.Option("--query", hidden=True)] = None,
    capacity: Annotated[int | None, typer.Option(help="Number of tokens per window.")] = None,
    strides: Annotated[
        str | None, typer.Option(help="Number of new blocks that each step of MemRecall keeps, such as 3,5.")
    ] = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the key blocks of a document, without reasoning over them."""
    from cogltx.document import Query

    text = read_document(document)
    asked = question if question is not None else query
    settings: dict[str, Any] = {"capacity": capacity, "strides": numbers("strides", strides)}
    settings = {key: list(value) if key == "strides" else value for key, value in settings.items() if value is not None}
    if run is not None:
        recalled = _recall_by_model(text, Query(asked) if asked is not None else None, run, judge, device, settings)
    elif judge is not None:
        recalled = _recall_by_judge(text, Query(asked) if asked is not None else None, judge, device, settings)
    else:
        raise ConfigError("recall needs a run or --judge NAME, such as --judge bm25")
    print(json.dumps(_to_dict(recalled), ensure_ascii=False, indent=2) if as_json else _format(recalled))


def _recall_by_model(
    document: "Document", query: "Query | None", run: str, judge: str | None, device: str | None,
    settings: dict[str, Any],
) -> "Recall":  # fmt: skip
    from cogltx.cli.predictions import load_model
    from cogltx.pipeline import CogLTX

    reader = load_model(run, [f"memrecall.{key}={value}" for key, value in settings.items()], judge, device)
    if not isinstance(reader, CogLTX):
        raise ConfigError(f"{run}: the baseline {reader.config.reader} has no judge; recall needs a CogLTX model")
    return reader.recall(document, query)


def _recall_by_judge(
    document: "Document", query: "Query | None", judge: str, device: str | None, settings: dict[str, Any]
) -> "Recall":
    from cogltx.blocks import BUNDLED, load_tokenizer
    from cogltx.cli.yaml_config import validated
    from cogltx.encoding.encoder import BatchRunner, Precision
    from cogltx.encoding.pretrained import EncoderConfig
    from cogltx.memrecall import MemRecall, MemRecallConfig

    config = validated(MemRecallConfig, settings)
    encoder, tokenizer = EncoderConfig(), load_tokenizer(BUNDLED)
    runner = BatchRunner(Precision.of(encoder, device), encoder.batch_tokens, tokenizer.pad_token_id)
    return MemRecall(judge, config, tokenizer=tokenizer, runner=runner).recall(document, query)


def _to_dict(recalled: "Recall") -> dict[str, Any]:
    blocks = recalled.blocks
    return {
        "query": recalled.query.text if recalled.query else None,
        "n_tokens": blocks.n_tokens,
        "n_blocks": len(blocks),
        "key_blocks": [
            {
                "index": index,
                "start": blocks[index].start,
                "end": blocks[index].end,
                "n_tokens": blocks[index].n_tokens,
                "text": blocks.text(index),
                "score": score,
                "step": step,
                "kept": index in recalled.kept,
            }
            for index, score, step in zip(recalled.key_blocks, recalled.scores, recalled.steps, strict=True)
        ],
        "steps": [
            {"retrieved": step.retrieved, "fine": step.fine, "kept": step.kept, "decayed": step.decayed}
            for step in recalled.trace
        ],
    }


def _format(recalled: "Recall") -> str:
    blocks = recalled.blocks
    lines = [
        f"{len(recalled.key_blocks):,} key blocks of {len(blocks):,} ({blocks.n_tokens:,} tokens); "
        "* survived the last decay",
        "",
        " block    score  step    text",
    ]
    for index, score, step in zip(recalled.key_blocks, recalled.scores, recalled.steps, strict=True):
        text = " ".join(blocks.text(index).split())
        lines.append(f"{index:6,}  {score:7.3f}  {step:4}  {'*' if index in recalled.kept else ' '} {text}")
    return "\n".join(lines)
