"""``cogltx recall``: find the key blocks of a document."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cogltx.cli._options import DeviceOption, JsonOption, JudgeOption, SetOption, load_model
from cogltx.errors import ConfigError
from cogltx.formats import read_document

if TYPE_CHECKING:
    from cogltx.document import Document
    from cogltx.recall import Recall

_PASSAGE = 600  # characters


def recall(
    document: Annotated[str, typer.Option(help="A file, as for ask; - reads the standard input.")],
    run: Annotated[str | None, typer.Argument(help="A run or model with a judge; optional with --judge.")] = None,
    judge: JudgeOption = None,
    question: Annotated[str | None, typer.Option(help="The question.")] = None,
    changes: SetOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the key blocks of a document, without reasoning over them."""
    from cogltx.judges import JudgeConfig
    from cogltx.pipeline import CogLTX

    if run is None and judge is not None and JudgeConfig.named(judge).is_model:
        run, judge = judge, None
    text = read_document(document)
    if run is not None:
        reader = load_model(run, changes, judge, device)
        if not isinstance(reader, CogLTX):
            raise ConfigError(f"{run}: the baseline {reader.config.reader} has no judge; recall needs a CogLTX model")
        recalled = reader.recall(text, question)
    elif judge is not None:
        recalled = _recall_by_judge(text, question, judge, changes or [], device)
    else:
        raise ConfigError("recall needs a run or --judge NAME, such as --judge bm25")
    print(json.dumps(_to_dict(recalled), ensure_ascii=False, indent=2) if as_json else _format(recalled))


def _recall_by_judge(
    document: "Document", question: str | None, judge: str, changes: list[str], device: str | None
) -> "Recall":
    """Find the key blocks by a judge without a model."""
    from cogltx._files import changed
    from cogltx.blocks import load_tokenizer
    from cogltx.cli._yaml_config import parse_changes, validated
    from cogltx.config import ModelConfig
    from cogltx.encoding.encoder import BatchRunner, Precision
    from cogltx.memrecall import MemRecall

    config = validated(ModelConfig, changed(ModelConfig().model_dump(mode="json"), parse_changes(changes)))
    encoder, tokenizer = config.encoder, load_tokenizer(config.encoder.name)
    runner = BatchRunner(Precision.of(encoder, device), encoder.batch_tokens, tokenizer.pad_token_id or 0)
    memrecall = MemRecall(
        judge, config.memrecall, tokenizer=tokenizer, max_block_tokens=config.max_block_tokens, runner=runner
    )
    return memrecall.recall(document, question)


def _to_dict(recalled: "Recall") -> dict[str, Any]:
    blocks = recalled.blocks
    ranked = zip(map(blocks.__getitem__, recalled.key_blocks), recalled.scores, recalled.steps, strict=True)
    key_blocks = [
        {name: getattr(block, name) for name in ("index", "start", "end", "n_tokens")}
        | {"text": blocks.text(block.index), "score": score, "step": step, "kept": block.index in recalled.kept}
        for block, score, step in ranked
    ]
    names = ("retrieved", "fine", "kept", "decayed")
    return {
        "query": recalled.query.text if recalled.query else None, "n_tokens": blocks.n_tokens, "n_blocks": len(blocks),
        "key_blocks": key_blocks, "steps": [{name: getattr(step, name) for name in names} for step in recalled.trace],
    }  # fmt: skip


def _format(recalled: "Recall") -> str:
    from cogltx.display import passages_text

    return passages_text(list(map(asdict, recalled.evidence)), [recalled.blocks.document], size=_PASSAGE)
