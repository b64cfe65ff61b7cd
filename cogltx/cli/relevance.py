"""``cogltx relevance``: show how interventions changed the relevance of an example's blocks, by epoch."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.options import JsonOption
from cogltx.errors import ConfigError, DataError


def relevance(
    run: Annotated[Path, typer.Argument(help="A run that was trained with interventions.")],
    example: Annotated[str, typer.Option(help="The id of a training example.")],
    picture: Annotated[Path | None, typer.Option(help="Draw it too, as .png or .svg.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the judge's score and the relevance label of each block of a training example, by epoch."""
    history = relevance_history(run, example)
    if picture is not None:
        history.draw(picture)
    print(json.dumps(asdict(history), ensure_ascii=False, indent=2) if as_json else history.table())


@dataclass(frozen=True)
class BlockHistory:
    """One block of a training example.

    Attributes:
        index: index of the block.
        text: its exact slice of the document.
        scores: the judge's coarse score per epoch; None if it gave none.
        labels: whether the block was labelled relevant, per epoch.
    """

    index: int
    text: str
    scores: tuple[float | None, ...]
    labels: tuple[bool, ...]


@dataclass(frozen=True)
class RelevanceHistory:
    """The relevance of an example's blocks by epoch.

    Attributes:
        example: id of the example.
        epochs: numbers of the epochs, from 1.
        blocks: in document order.
    """

    example: str
    epochs: tuple[int, ...]
    blocks: tuple[BlockHistory, ...]

    def table(self) -> str:
        """Format as text: one row per block, one column per epoch, * for blocks labelled relevant."""
        lines = [f"example {self.example}: score of the judge by epoch, * labelled relevant"]
        lines.append("block  " + "".join(f"{f'epoch {epoch}':>9}" for epoch in self.epochs))
        for block in self.blocks:
            cells = [
                f"{'-' if score is None else f'{score:.2f}'}{'*' if relevant else ' '}"
                for score, relevant in zip(block.scores, block.labels, strict=True)
            ]
            text = " ".join(block.text.split())
            lines.append(f"{block.index:5d}  " + "".join(f"{cell:>9}" for cell in cells) + f"  {text}")
        return "\n".join(lines)

    def draw(self, path: Path) -> None:
        """Draw as a picture (as CogLTX figure 4).

        Raises:
            ConfigError: matplotlib is not installed, or does not know the format.
        """
        import numpy as np

        from cogltx.cli.plots import draw_relevance

        scores = np.array([[np.nan if score is None else score for score in block.scores] for block in self.blocks])
        labels = np.array([block.labels for block in self.blocks], dtype=float)
        draw_relevance(path, [block.text for block in self.blocks], self.epochs, scores, labels)


def relevance_history(run: Path, example: str) -> RelevanceHistory:
    """Load the relevance of a training example's blocks by epoch.

    Args:
        run: the folder of a run that was trained with interventions.
        example: id of a training example.

    Raises:
        ConfigError: the run has no labels from interventions.
        DataError: there is no such training example, or the data has changed.
        ModelError: the run is damaged.
    """
    import numpy as np

    from cogltx.files import read_json
    from cogltx.pipeline import CogLTX
    from cogltx.training.config import RunConfig, data_digest
    from cogltx.training.data import run_examples
    from cogltx.training.relevance import load_history
    from cogltx.training.run import CONFIG_FILE

    folder = run / "relevance"
    if not (run / CONFIG_FILE).is_file() or not folder.is_dir():
        raise ConfigError(f"{run}: not a run with training.relevance.source: interventions; it has no relevance labels")
    config = RunConfig.model_validate(read_json(run / CONFIG_FILE))
    examples, validation, _ = run_examples(config)
    if data_digest(examples, validation) != read_json(run / "run.json").get("data"):
        raise DataError(f"{config.data.train}: the data has changed since the run was trained on it")
    index = next((index for index, other in enumerate(examples) if other.id == example), None)
    if index is None:
        known = ", ".join(repr(other.id) for other in examples[:3])
        raise DataError(f"--example: no training example has the id {example!r}; the first are {known}")
    blocks = CogLTX.from_pretrained(run).model.split(examples[index].document)
    history = load_history(folder, index)
    if not history:
        raise ConfigError(f"{folder}: the run has no finished epoch with relevance labels")
    no_scores, no_labels = np.full(len(blocks), np.nan), np.zeros(len(blocks), dtype=bool)
    scores = [no_scores if epoch_scores is None else epoch_scores for _, epoch_scores in history.values()]
    labels = [no_labels if epoch_labels is None else epoch_labels for epoch_labels, _ in history.values()]
    return RelevanceHistory(
        example,
        tuple(history),
        tuple(
            BlockHistory(
                block,
                blocks.text(block),
                tuple(None if np.isnan(values[block]) else float(values[block]) for values in scores),
                tuple(bool(values[block]) for values in labels),
            )
            for block in range(len(blocks))
        ),
    )
