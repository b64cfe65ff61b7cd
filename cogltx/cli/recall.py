"""``cogltx recall``: find the key blocks of a document."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx.cli.options import DeviceOption, DocumentOption, JsonOption, JudgeOption, SetOption
from cogltx.errors import ConfigError
from cogltx.formats import read_document

if TYPE_CHECKING:
    from cogltx.recall import Recall


def recall(
    document: DocumentOption,
    run: Annotated[
        str | None, typer.Argument(help="A run or model whose judge scores the blocks; optional with --judge.")
    ] = None,
    judge: JudgeOption = None,
    question: Annotated[str | None, typer.Option(help="The question.")] = None,
    changes: SetOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the key blocks of a document, without reasoning over them."""
    from cogltx.blocks import load_tokenizer
    from cogltx.cli.predictions import Predictor
    from cogltx.cli.yaml_config import parse_changes, validated
    from cogltx.config import ModelConfig
    from cogltx.document import Query
    from cogltx.encoding.encoder import BatchRunner, Precision
    from cogltx.files import changed
    from cogltx.judges import named_judge
    from cogltx.memrecall import MemRecall
    from cogltx.pipeline import CogLTX

    if run is None and judge is not None and named_judge(judge).is_model:
        run, judge = judge, None
    text, query = read_document(document), None if question is None else Query(question)
    if run is not None:
        reader = Predictor(run, changes or (), judge, device).reader
        if not isinstance(reader, CogLTX):
            raise ConfigError(f"{run}: the baseline {reader.config.reader} has no judge; recall needs a CogLTX model")
        recalled = reader.recall(text, query)
    elif judge is not None:
        config = validated(ModelConfig, changed(ModelConfig().model_dump(mode="json"), parse_changes(changes or ())))
        encoder, tokenizer = config.encoder, load_tokenizer(config.encoder.name)
        runner = BatchRunner(Precision.of(encoder, device), encoder.batch_tokens, tokenizer.pad_token_id or 0)
        recall_blocks = MemRecall(
            judge, config.memrecall, tokenizer=tokenizer, max_block_tokens=config.max_block_tokens, runner=runner
        )
        recalled = recall_blocks.recall(text, query)
    else:
        raise ConfigError("recall needs a run or --judge NAME, such as --judge bm25")
    result = _to_dict(recalled)
    print(json.dumps(result, ensure_ascii=False, indent=2) if as_json else _format(result))


def _to_dict(recalled: "Recall") -> dict[str, Any]:
    blocks = recalled.blocks
    return {
        "query": recalled.query.text if recalled.query else None,
        "n_tokens": blocks.n_tokens,
        "n_blocks": len(blocks),
        "key_blocks": [
            {
                "index": block.index,
                "start": block.start,
                "end": block.end,
                "n_tokens": block.n_tokens,
                "text": blocks.text(block.index),
                "score": score,
                "step": step,
                "kept": block.index in recalled.kept,
            }
            for block, score, step in zip(
                (blocks[index] for index in recalled.key_blocks), recalled.scores, recalled.steps, strict=True
            )
        ],
        "steps": [
            {"retrieved": step.retrieved, "fine": step.fine, "kept": step.kept, "decayed": step.decayed}
            for step in recalled.trace
        ],
    }


def _format(result: dict[str, Any]) -> str:
    lines = [
        f"{len(result['key_blocks']):,} key blocks of {result['n_blocks']:,} ({result['n_tokens']:,} tokens); "
        "* survived the last decay",
        "",
        " block    score  step    text",
    ]
    lines += [
        f"{block['index']:6,}  {block['score']:7.3f}  {block['step']:4}  {'*' if block['kept'] else ' '} "
        + " ".join(block["text"].split())
        for block in result["key_blocks"]
    ]
    return "\n".join(lines)
