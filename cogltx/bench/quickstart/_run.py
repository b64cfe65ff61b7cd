"""`cogltx quickstart`: generate a corpus, compare readers that are trained on it, and explain one answer.

The readers are trained and evaluated by `bench quality`, in one folder. Run it again to resume it.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import yaml

from cogltx._files import check_settings, read_json, write_file, write_json
from cogltx.bench._process import run_command
from cogltx.bench._quality import Comparison, compare
from cogltx.bench._tables import table
from cogltx.bench.quickstart._corpus import generate
from cogltx.blocks import BUNDLED
from cogltx.cli._predictions import read_predictions
from cogltx.document import Example
from cogltx.errors import ConfigError
from cogltx.prediction import Prediction
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples

_READERS = ("cogltx", "bm25", "sliding_window", "truncation")
_LEGEND = """\
right answers: exactly the expected words; of the questions that the document answers
both facts found: both are in the key blocks, the blocks that MemRecall chooses for the reasoner to read
no answer where none is: of the questions that the document does not answer"""


class _Sizes(NamedTuple):
    """Sizes of the quickstart; training documents have at least two pairs of facts."""

    encoder: str = BUNDLED
    train: int = 3700  # training documents of little more than the facts, in one window: the reasoner sees all decoys
    train_long: int = 300  # training documents with filler between the facts, from which the judge learns to search
    validation: int = 16  # documents that choose the best epoch and the threshold for "no answer"
    test: int = 100  # documents whose question has an answer; names and answers are not in the training set
    test_unanswerable: int = 20  # documents whose question has none
    unanswerable: float = 0.17  # share of the training and validation questions without an answer
    chains: int = 3  # pairs of facts per document, all but one of them decoys
    tokens: int = 1200  # of validation and test documents, whose two facts are more than 512 tokens apart


_SIZES = _Sizes()


def run(output: Path, *, seed: int = 0, sizes: _Sizes = _SIZES, report: Callable[[str], None] = print) -> str:
    """Run the quickstart, or resume it, and return the text of `results.txt`: table, explanation and command.

    Raises:
        ConfigError: the folder holds a finished quickstart, or one with another seed or other sizes.
    """
    noted, finished, settings = output / "quickstart.json", output / "results.txt", {"seed": seed, **sizes._asdict()}
    if finished.exists():
        raise ConfigError(f"{finished}: this quickstart is finished; choose another folder with --output")
    if noted.exists():
        check_settings(output, settings, read_json(noted))
    write_json(noted, settings)
    report(f"1. Corpus in {output}: {sizes.train + sizes.train_long:,} training documents")
    _write_corpus(output, seed, sizes)
    report(f"2. Training, and test on documents of {sizes.tokens:,} tokens with other names and answers")
    start = {"reasoner.init_from": output / "runs" / f"cogltx-{seed}", "data.train": output / "filled.jsonl"}
    changes = tuple(f"sliding_window:{setting}={json.dumps(str(path))}" for setting, path in start.items())
    data = output / "test.jsonl"
    comparison = Comparison(output / "run.yaml", str(data), output, _READERS, (seed,), changes=changes, report=report)
    rows = compare(comparison)[0]["rows"]
    examples = list(make_task("jsonl", {}).read(data, split="test"))
    predicted = [list(read_predictions(comparison.path("predictions", name, seed, ".jsonl"))) for name in _READERS]
    shares = [[row["label"], *_shares(examples, of)] for row, of in zip(rows, predicted, strict=True)]
    chance = [f"guessing one of {sizes.chains} answers", f"{100 / sizes.chains:.1f} %", "–", "–"]
    results = (
        f"{table([['', 'right answers', 'both facts found', 'no answer where none is'], chance, *shares])}\n\n{_LEGEND}"
    )
    explanation = _explain(output, comparison.path("runs", "cogltx", seed), examples, predicted[0])
    text = f"{results}\n\n{explanation}\n"
    report(f"\n{text}\nThis is also in {finished}")
    write_file(finished, text)
    return text


def _write_corpus(output: Path, seed: int, sizes: _Sizes) -> None:
    """Write the configuration and the splits; training and validation share names and answers.

    Half of the training documents' decoys keep only one of their two facts. With complete decoys only, a model stays
    at chance for minutes before it learns to join two facts.
    """
    first, share = 5 * seed, sizes.unanswerable
    easier = partial(generate, split="train", chains=(2, sizes.chains), broken=0.5, unanswerable=share)
    long = partial(generate, tokens=sizes.tokens, chains=(sizes.chains, sizes.chains))
    few = easier(sizes.train, seed=first, tokens=None)
    filled = list(easier(sizes.train_long, seed=first + 1, tokens=450, gap=60))
    answerable = long(sizes.test, seed=first + 3, split="test")
    others = long(sizes.test_unanswerable, seed=first + 4, split="test", unanswerable=1.0)
    corpora = {
        "train": chain(few, filled),
        "filled": filled,  # on which the sliding window is trained further, for one more epoch
        "validation": long(sizes.validation, seed=first + 2, split="train", unanswerable=share),
        "test": chain(answerable, others),
    }
    for name, examples in corpora.items():
        if not (output / f"{name}.jsonl").exists():
            write_examples(output / f"{name}.jsonl", examples)
    rate = {"learning_rate": 1.5e-4}
    config = {
        "task": {"name": "jsonl"}, "encoder": {"name": sizes.encoder, "hidden_dropout": 0.0}, "max_block_tokens": 24,
        "memrecall": {"capacity": 128, "strides": [3, 2]}, "reasoner": {"name": "span", "init_from": "judge"},
        "data": {name: str(output / f"{name}.jsonl") for name in ("train", "validation")},
        "training": {"epochs": 1, "batch_size": 8, "judge": rate, "reasoner": {**rate, "head_rate": 10.0}},
    }  # fmt: skip
    write_file(output / "run.yaml", yaml.safe_dump(config, sort_keys=False))


def _shares(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[str]:
    """Format the shares of right answers, found facts and right silence."""
    scores = [make_task("jsonl", {}).per_example(*pair) for pair in zip(examples, predictions, strict=True)]
    answerable = [score for score in scores if "evidence_complete" in score]
    silent = fmean(score["exact_match"] for score in scores if "evidence_complete" not in score)
    right, found = (fmean(score[metric] for score in answerable) for metric in ("exact_match", "evidence_complete"))
    has_evidence = any(prediction.evidence for prediction in predictions)
    return [f"{100 * right:.1f} %", f"{100 * found:.1f} %" if has_evidence else "–", f"{100 * silent:.1f} %"]


def _explain(output: Path, folder: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> str:
    """Explain one test answer by the steps of MemRecall, with the commands that print it.

    The answer is right, if one is, and in a block that the second step found, if one is.
    """

    def instructive(pair: tuple[Example, Prediction]) -> tuple[bool, bool, float]:
        start = -1 if pair[1].start is None else pair[1].start
        late = any(block.step > 1 and block.start <= start < block.end for block in pair[1].evidence)
        return pair[1].answer in (pair[0].answers or ()), late, pair[1].score

    example, prediction = max(zip(examples, predictions, strict=True), key=instructive)
    document, question = output / "document.txt", example.query.text if example.query else ""
    write_file(document, example.document.text)
    recall = ["recall", str(folder), "--document", str(document), "--question", question]
    ask = ["ask", str(document), question, "--model", str(folder)]
    gold = [example.document.text[span.start : span.end] for span in example.relevant or ()]
    return f"""\
{question} Two facts answer it: {" ".join(gold) or "none"}
In each step, the judge scores all blocks next to the question and the best blocks of the step before:

{run_command(recall)[0].strip()}

The reasoner reads these blocks: {prediction.answer or "(no answer)"} ({prediction.score:.0%}; the right answer: \
{", ".join(example.answers or ("none",))}).
The same by commands; the model knows only this generated world:

  {shlex.join(["cogltx", *recall])}
  {shlex.join(["cogltx", *ask])}"""
