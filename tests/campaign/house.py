"""The tiny encoder, model, texts and configurations that the campaign works on."""

from pathlib import Path

import corpus
import fakes
import tiny
import torch
import yaml

from cogltx.tasks.jsonl import write_examples

QUESTION = "what does anna have?"
WORD = "anna?"  # a question of one word, for commands that are split at spaces


def build(folder: Path) -> None:
    """Write everything that the commands of the campaign read; see the names below."""
    torch.manual_seed(0)
    encoder = tiny.make_encoder(folder / "encoder", texts=corpus.TEXTS)
    examples = corpus.make(8, unanswered=True)
    write_examples(folder / "examples.jsonl", examples)
    write_examples(folder / "many.jsonl", corpus.make(12))
    for number in range(6):
        write_examples(folder / "corpus" / f"{number}.jsonl", corpus.make(3, seed=number))
    (folder / "texts").mkdir()
    for example in examples:
        (folder / "texts" / f"{example.id}.txt").write_text(example.document.text)
    joined = "\n\n".join(example.document.text for example in corpus.make(20))
    (folder / "document.txt").write_text(joined)
    fakes.reader(encoder).save_pretrained(folder / "model")
    _write(folder / "train.yaml", fakes.config(encoder, hidden_dropout=0.2).model_dump(mode="json", exclude={"task"}) | {
        "data": {"train": str(folder / "examples.jsonl"), "validation": str(folder / "examples.jsonl")},
        "training": {"epochs": 3, "batch_size": 2},
    })  # fmt: skip
    for number, example in enumerate(corpus.make(6)):
        place = folder / "labelled" / ("boat" if number % 2 else "cup") / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(example.document.text)
    _write(folder / "interventions.yaml", {
        "encoder": {"name": str(encoder)},
        "task": {"name": "classification"},
        "reasoner": {"name": "classification"},
        "memrecall": {"capacity": 64, "strides": [1, 2]},
        "max_block_tokens": 16,
        "data": {"train": str(folder / "labelled"), "held_out": 2},
        "training": {
            "epochs": 3, "batch_size": 2, "relevance": {"source": "interventions", "raise_threshold": 0.0},
        },
    })  # fmt: skip
    _write(folder / "mlm.yaml", {
        "encoder": {"name": str(encoder), "positions": {"length": 600}},
        "task": {"name": "masked_lm"},
        "data": {"train": str(folder / "texts"), "held_out": 2},
        "length": 64,
        "training": {"steps": 12, "batch_size": 4},
    })  # fmt: skip


def _write(path: Path, values: object) -> None:
    path.write_text(yaml.safe_dump(values, sort_keys=False))
