"""``cogltx relevance``: how the relevance labels of one training example developed over the epochs."""

import json
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from cogltx.cli.options import JsonOption, JudgeOption
from cogltx.errors import ConfigError, DataError

_SHOWN = 60  # characters of a block beside its row in a picture


def relevance(
    run: Annotated[Path, typer.Argument(help="A run that was trained with interventions.")],
    example: Annotated[str, typer.Option(help="The id of a training example.")],
    block: Annotated[int | None, typer.Option(help="For tagging: the block of the text that is the query.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the scores and labels as .png or .svg.")] = None,
    judge: JudgeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the judge's score and the relevance label of each block of a training example, per epoch."""
    history = _history(run, example, block, judge)
    if picture is not None:
        _draw(history, picture)
    print(json.dumps(history, ensure_ascii=False, indent=2) if as_json else _format(history))


def _history(run: Path, example: str, query_block: int | None, judge: str | None) -> dict[str, Any]:
    """Collect scores (None where the judge gave none) and labels of an example's blocks per epoch."""
    from cogltx.baselines import load_reader
    from cogltx.files import fingerprint, read_json
    from cogltx.pipeline import CogLTX
    from cogltx.training.config import RunConfig
    from cogltx.training.data import run_examples
    from cogltx.training.relevance import RelevanceLabels
    from cogltx.training.run import CONFIG_FILE

    folder = run / "relevance"
    if not (run / CONFIG_FILE).is_file() or not folder.is_dir():
        raise ConfigError(
            f"{run}: not a run with interventions, which need data without relevance labels and a judge that learns "
            "(train with --set judge.name=encoder)"
        )
    config = RunConfig.model_validate(read_json(run / CONFIG_FILE))
    examples, validation, _ = run_examples(config)
    if fingerprint([*examples, len(examples), *validation]) != read_json(run / "run.json").get("data"):
        raise DataError(f"{', '.join(config.data.train_files)}: the examples have changed since the run was trained")
    index = next((index for index, one in enumerate(examples) if one.id == example), None)
    if index is None:
        known = ", ".join(repr(one.id) for one in examples[:3]) + ", …" * (len(examples) > 3)
        raise DataError(f"--example: no training example has the id {example!r}; ids are {known}")
    reader = load_reader(run, judge=judge)
    assert isinstance(reader, CogLTX), "only CogLTX has relevance labels"
    blocks = reader.model.split(examples[index].document)
    _check_block(query_block, len(blocks), by_block=reader.model.reasoner.by_block)
    history = RelevanceLabels.load_history(folder, index, query_block)
    if not history:
        raise ConfigError(f"{folder}: no epoch has stored relevance labels yet")
    return {
        "example": example,
        **({} if query_block is None else {"query": query_block}),
        "epochs": list(history),
        "blocks": [
            {
                "index": block,
                "text": blocks.text(block),
                "scores": [None if of is None or isnan(of[block]) else float(of[block]) for _, of in history.values()],
                "labels": [of is not None and bool(of[block]) for of, _ in history.values()],
            }
            for block in range(len(blocks))
        ],
    }


def _check_block(block: int | None, n_blocks: int, *, by_block: bool) -> None:
    if block is not None and not by_block:
        raise ConfigError("--block: only for tagging, where each block of a text is a query; remove it")
    if by_block and (block is None or not 0 <= block < n_blocks):
        raise ConfigError(f"--block: each block of this text is a query; name one from 0 to {n_blocks - 1}")


def _format(history: dict[str, Any]) -> str:
    query = f", block {history['query']} as the query" if "query" in history else ""
    no_scores = any(score is None for block in history["blocks"] for score in block["scores"])
    lines = [
        f"example {history['example']}{query}: the judge's last score by the end of each epoch"
        "; * the block was labelled relevant"
        "; - not scored: in z already, not proposed or not drawn, or the text was read whole" * no_scores,
        "",
        "block  " + "".join(f"{f'epoch {epoch}':>9}" for epoch in history["epochs"]) + "  text",
    ]
    for block in history["blocks"]:
        cells = [
            f"{_cell(score, is_query=block['index'] == history.get('query'))}{'*' if relevant else ' '}"
            for score, relevant in zip(block["scores"], block["labels"], strict=True)
        ]
        text = " ".join(block["text"].split())
        lines.append(f"{block['index']:5d}  " + "".join(f"{cell:>9}" for cell in cells) + f"  {text}")
    return "\n".join(lines)


def _cell(score: float | None, *, is_query: bool) -> str:
    return "query" if is_query else "-" if score is None else f"{score:.2f}"


def _draw(history: dict[str, Any], path: Path) -> None:
    """Draw the judge's score per block and epoch, with a dot where the block is labelled relevant (CogLTX figure 4)."""
    import numpy as np

    from cogltx.cli.plots import Picture

    picture = Picture(path)
    blocks, epochs, axes = history["blocks"], history["epochs"], picture.axes
    axes.imshow(np.array([block["scores"] for block in blocks], float), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    rows, columns = np.nonzero([block["labels"] for block in blocks])
    axes.scatter(columns, rows, color="tab:red", s=18, label="relevant")
    axes.set_xticks(range(len(epochs)), list(map(str, epochs)))
    axes.set_yticks(range(len(blocks)), [" ".join(block["text"].split())[:_SHOWN] for block in blocks], fontsize=7)
    axes.set_xlabel("epoch")
    picture.save(4 + 0.6 * len(epochs), 1 + 0.22 * len(blocks), colors="score of the judge")
