"""A look inside a trained run: how the relevance of one example's blocks came about, and which labels are confused.

Knows nothing about the command line.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cogltx.cli.config import load_reader
from cogltx.cli.plots import draw_confusion, draw_relevance
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.files import read_json
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.tasks.classification import gold_and_predicted
from cogltx.tasks.metrics import label_counts
from cogltx.tasks.tagging import entity_results
from cogltx.training.config import data_digest
from cogltx.training.data import run_examples
from cogltx.training.relevance import load_history
from cogltx.training.run import CONFIG_FILE, load_run_config


@dataclass(frozen=True)
class BlockHistory:
    """One block of a training example.

    Attributes:
        index: of the block.
        text: its exact slice of the document.
        scores: the judge's coarse score at the end of each epoch; None where it gave none.
        labels: whether the block was labelled relevant then.
    """

    index: int
    text: str
    scores: tuple[float | None, ...]
    labels: tuple[bool, ...]


@dataclass(frozen=True)
class RelevanceHistory:
    """How the relevance of an example's blocks came about.

    Attributes:
        example: its id.
        epochs: their numbers, from 1.
        blocks: in document order.
    """

    example: str
    epochs: tuple[int, ...]
    blocks: tuple[BlockHistory, ...]

    def to_dict(self) -> dict[str, object]:
        """The history as plain data for JSON."""
        return asdict(self)

    def table(self) -> str:
        """The history as text: a row a block, a column an epoch, * where the block was labelled relevant."""
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
        """The history as a picture.

        Raises:
            ConfigError: matplotlib is not installed, or knows no such format.
        """
        scores = np.array([[np.nan if score is None else score for score in block.scores] for block in self.blocks])
        labels = np.array([block.labels for block in self.blocks], dtype=float)
        draw_relevance(path, [block.text for block in self.blocks], self.epochs, scores, labels)


def relevance_history(run: Path, example: str) -> RelevanceHistory:
    """How the relevance of a training example's blocks came about.

    Args:
        run: a run's folder, trained with interventions.
        example: the id of a training example.

    Raises:
        ConfigError: the run knows no relevance by interventions.
        DataError: there is no such training example, or the data is not what it was.
        ModelError: the run is damaged.
    """
    stored = run / CONFIG_FILE
    folder = run / "relevance"
    if not stored.is_file() or not folder.is_dir():
        raise ConfigError(f"{run}: expected a run with training.relevance.source: interventions, found no labels")
    trained = load_run_config(run)
    examples, validation, _ = run_examples(trained)
    if data_digest(examples, validation) != read_json(run / "run.json").get("data"):
        raise DataError(f"{trained.data.train}: expected the examples that the run was trained on, got others")
    index = next((place for place, own in enumerate(examples) if own.id == example), None)
    if index is None:
        known = ", ".join(repr(own.id) for own in examples[:3])
        raise DataError(f"--example: expected the id of a training example, such as {known}, got {example!r}")
    reader = load_reader(run)
    assert isinstance(reader, CogLTX), "only CogLTX keeps labels"
    blocks = reader.model.split(examples[index].document)
    history = load_history(folder, index)
    if not history:
        raise ConfigError(f"{folder}: expected the relevance labels of an epoch, found none")
    nothing = np.full(len(blocks), np.nan)
    unmarked = np.zeros(len(blocks), dtype=bool)
    scores = [own if own is not None else nothing for _, own in history.values()]
    labels = [own if own is not None else unmarked for own, _ in history.values()]
    return RelevanceHistory(
        example,
        tuple(history),
        tuple(
            BlockHistory(
                block,
                blocks.text(block),
                tuple(None if np.isnan(own[block]) else float(own[block]) for own in scores),
                tuple(bool(own[block]) for own in labels),
            )
            for block in range(len(blocks))
        ),
    )


def label_results(pairs: Sequence[tuple[Example, Prediction]]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of every label, in percent, and how many texts have it."""
    results = {}
    for label, (hits, said, true) in label_counts(*gold_and_predicted(pairs)).items():
        precision, recall = (100 * hits / whole if whole else 0.0 for whole in (said, true))
        results[label] = {"precision": precision, "recall": recall, "f1": 200 * hits / (said + true), "texts": true}
    return results


def type_results(pairs: Sequence[tuple[Example, Prediction]]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of every type of entity, in percent, and how many there are."""
    found = entity_results(pairs)
    return {
        label: {
            "precision": 100 * score.precision,
            "recall": 100 * score.recall,
            "f1": 100 * score.f1,
            "entities": found.gold.get(label, 0),
        }
        for label, score in found.types.items()
    }


def draw_confusions(pairs: Sequence[tuple[Example, Prediction]], path: Path) -> None:
    """A picture of which labels are given in place of which; for texts with one label each.

    Raises:
        DataError: a text has another number of labels.
        ConfigError: matplotlib is not installed, or knows no such format.
    """
    gold, said = gold_and_predicted(pairs)
    if not gold or any(len(own) != 1 for own in (*gold, *said)):
        raise DataError("--confusion: expected texts with one label each, got another number")
    names = sorted({label for own in (*gold, *said) for label in own})
    counts = np.zeros((len(names), len(names)), dtype=int)
    for own, found in zip(gold, said, strict=True):
        counts[names.index(own[0]), names.index(found[0])] += 1
    draw_confusion(path, names, counts)
