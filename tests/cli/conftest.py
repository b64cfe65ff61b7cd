"""Runs commands in this process, and trains one small run of each kind."""

from pathlib import Path

import corpus
import fakes
import pytest
import tiny
import yaml
from command_line import COUNT, Files, invoke

from cogltx._files import write_file
from cogltx.tasks.jsonl import write_examples

JUDGE = """
class Overlap:
    def score(self, query, kept, candidates):
        words = set(query.split())
        return [float(len(words & set(text.split()))) for text in candidates]


class Short:
    def score(self, query, kept, candidates):
        return [1.0]


class NotANumber:
    def score(self, query, kept, candidates):
        return [float("nan")] * len(candidates)


class Silent:
    pass
"""


def _train(config: Path, output: Path) -> None:
    assert not invoke("train", config, "--output", output)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A trained run of the tiny encoder, with its configuration and data."""
    folder = tmp_path_factory.mktemp("command line")
    encoder = tiny.make_encoder(folder / "encoder", texts=corpus.TEXTS)
    data = folder / "examples.jsonl.gz"
    write_examples(data, corpus.make(COUNT, unanswered=True))
    values = fakes.config(encoder).model_dump(mode="json", exclude={"task"})
    values["data"] = {"train": str(data), "validation": str(data), "validation_limit": 3}
    values["training"] = {"epochs": 1, "batch_size": 4}
    config = folder / "run.yaml"
    write_file(config, yaml.safe_dump(values, sort_keys=False))
    document = folder / "document.txt"
    write_file(document, corpus.make(1)[0].document.text)
    (folder / "my_judges.py").write_text(JUDGE)
    _train(config, folder / "run")
    return Files(folder, config, data, folder / "run", document)


@pytest.fixture(scope="session")
def classified(files: Files) -> Path:
    """A run of a classifier that found its relevance labels by interventions."""
    folder = files.folder / "labels"
    for number, example in enumerate(corpus.make(6)):
        place = folder / "data" / ("boat" if number % 2 else "cup") / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(example.document.text)
    values = yaml.safe_load(files.config.read_text())
    values |= {"task": {"name": "classification"}, "reasoner": {"name": "classification"}}
    values["data"] = {"train": str(folder / "data"), "held_out": 2}
    values["training"] = {"epochs": 2, "batch_size": 2, "relevance": {"source": "interventions"}}
    write_file(folder / "run.yaml", yaml.safe_dump(values, sort_keys=False))
    _train(folder / "run.yaml", folder / "run")
    return folder


@pytest.fixture(scope="session")
def tagged(files: Files) -> Path:
    """A run of a tagger that reads overlapping windows."""
    folder = files.folder / "tags"
    folder.mkdir()
    sentence = "anna B-PER\nhas O\nthe O\nboat B-THING\n. O\n\n"
    (folder / "data.conll").write_text("".join(f"-DOCSTART- O\n\n{sentence * count}" for count in (3, 4, 16)))
    values = yaml.safe_load(files.config.read_text())
    values |= {"reader": "sliding_window", "task": {"name": "tagging"}, "reasoner": {"name": "tagging"}}
    values["data"] = {"train": str(folder / "data.conll"), "held_out": 1}
    values["training"] = {"epochs": 25, "batch_size": 1, "reasoner": {"learning_rate": 0.003}}
    write_file(folder / "run.yaml", yaml.safe_dump(values, sort_keys=False))
    _train(folder / "run.yaml", folder / "run")
    return folder
