"""A small world in which the commands of the pages run as they are written: tiny data sets, encoders and models.

The data sets are in the official formats and under the names that the configurations read. The bundled encoder and the
released model are replaced by tiny ones. Configurations keep everything but their numbers of epochs, steps and examples.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import builders
import pytest
import tiny

from cogltx import _folders as folders
from cogltx.blocks import _tokenizer as tokenizer
from cogltx.config import ModelConfig
from cogltx.document import Example
from cogltx.pipeline import CogLTX

ROOT = Path(__file__).parents[1]
CLAUSES = ("Document Name", "Parties", "Agreement Date", "Governing Law")
FILLER = " ".join(f"In {number} the people walked a piece of the way to the city." for number in range(1900, 1910))
SMALLER = {  # what a configuration says: what it says here
    r"\bepochs: \d+": "epochs: 1", r"\bsteps: \d+": "steps: 1", r"\bbatch_size: \d+": "batch_size: 8", r"\bvalidation_limit: \d+": "validation_limit: 4",
    r"\bheld_out: 820": "held_out: 82", r"\bheld_out: (?!82\b)\d+": "held_out: 4",
    "^encoder: {": "encoder: {precision: float32, ", r"^  train_limit: .*\n": "",
    r"^data:\n(?=  train: \$COGLTX_DATA/(?!texts|cuad/multilabel))": "data:\n  train_limit: 12\n", r"^data:\n(?=  train:\n)": "data:\n  train_limit: 12\n",
    r"^(data: {train: [^,}]*)}": r"\1, train_limit: 6}",
}  # fmt: skip


def build(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Fill a folder, make it the current one, and replace the bundled encoder and the released model."""
    patch.chdir(folder)
    patch.setenv("COGLTX_DATA", str(folder / "sets"))
    patch.syspath_prepend(str(folder))
    _data_sets(folder / "sets")
    shutil.copytree(ROOT / "configs", folder / "configs", ignore=shutil.ignore_patterns("*.ipynb"))
    for path in (folder / "configs").rglob("*.yaml"):
        path.write_text(smaller(path.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copytree(ROOT / "data" / "samples", folder / "data" / "samples")
    for path in (folder / "data" / "samples").glob("*.jsonl"):
        path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:12]), encoding="utf-8")
    _models(folder, patch)


def smaller(configuration: str) -> str:
    """Let a configuration train for seconds."""
    for pattern, replacement in SMALLER.items():
        configuration = re.sub(pattern, replacement, configuration, flags=re.MULTILINE)
    return configuration


def _models(folder: Path, patch: pytest.MonkeyPatch) -> None:
    package = folder / tokenizer._BUNDLED_PACKAGE
    tiny.make_encoder(package / "model")
    (package / "__init__.py").write_text("")
    sys.modules.pop(tokenizer._BUNDLED_PACKAGE, None)
    digest = hashlib.sha256((package / "model" / "model.safetensors").read_bytes()).hexdigest()
    patch.setattr(tokenizer, "_BUNDLED_SHA256", digest)
    patch.setattr(tokenizer, "_BUNDLED_TOKENIZER", package / "model")
    patch.setattr(folders, "RELEASED", folder / "released")
    tokenizer.encoder_path.cache_clear()
    config = ModelConfig.model_validate({
        "memrecall": {"shortlist": 24, "retriever": "trained", "passages": 3, "headings": 0.3},
        "encoder": {"precision": "float32"},
    })  # fmt: skip
    CogLTX.create(config, device="cpu").save_pretrained(folder / "released" / "qa-minilm")
    tiny.make_question_answering(folder / "deepset" / "roberta-base-squad2", "roberta")


def _data_sets(folder: Path) -> None:
    questions = builders.questions(12)
    _write(folder / "hotpotqa" / "train.json.gz", [_hotpot(number, one) for number, one in enumerate(questions)])
    _write(folder / "hotpotqa" / "dev.json.gz", [_hotpot(number, one) for number, one in enumerate(questions[:6])])
    for name in ("train-v1.1", "dev-v1.1", "test-v1.1", "train-v2.0", "dev-v2.0"):
        _write(folder / "squad" / f"{name}.json.gz", _squad(questions, absent=name.endswith("2.0")))
    for name in ("train", "test"):
        _write(folder / "cuad" / f"{name}.json.gz", _contracts(8))
        _write(folder / "cuad" / f"multilabel-{name}.jsonl.gz", [_labelled(number) for number in range(6)], lines=True)
    _write(folder / "newsqa" / "combined-newsqa-data-v1.json.gz", {"version": "1", "data": _stories(9)})
    for name in ("train", "dev", "test"):
        _write(folder / "litbank" / f"{name}.jsonl.gz", [_tagged(number) for number in range(3)], lines=True)
        (folder / "texts" / name).mkdir(parents=True)
        (folder / "texts" / name / "a.txt").write_text("\n".join(tiny.CORPUS * 20))
    (folder / "texts" / "dev").rename(folder / "texts" / "validation")
    (folder / "20news").mkdir()
    with tarfile.open(folder / "20news" / "20news-bydate.tar.gz", "w:gz") as archive:
        for number in range(16):
            group, content = (
                ("sci.space", "The Moon is far away. ") if number % 2 else ("rec.autos", "The car is old. ")
            )
            post = f"From: a@b\nSubject: page {number}\n\n{content}{FILLER}\n".encode()
            member = tarfile.TarInfo(f"20news-bydate-{'train' if number < 12 else 'test'}/{group}/{number}")
            member.size = len(post)
            archive.addfile(member, io.BytesIO(post))


def _write(path: Path, content: Any, *, lines: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one) + "\n" for one in content) if lines else json.dumps(content)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def _hotpot(number: int, example: Example) -> dict[str, Any]:
    document = example.document
    passages = [(one.heading, document.text[one.start : one.end]) for one in document.segments]
    needed = [
        one.heading
        for one in document.segments
        if any(span.start < one.end and one.start < span.end for span in example.relevant or ())
    ]
    return {
        "_id": f"q{number}", "question": example.query.text if example.query else "", "type": "bridge", "level": "easy",
        "answer": (example.answers or ("",))[0], "supporting_facts": [[title, 0] for title in needed],
        "context": [[title, [text, FILLER]] for title, text in passages],
    }  # fmt: skip


def _squad(questions: Sequence[Example], *, absent: bool) -> dict[str, Any]:
    articles = []
    for number, example in enumerate(questions[:4]):
        text, answer = f"{example.document.text}\n{FILLER}", (example.answers or ("",))[0]
        asked: dict[str, Any] = {
            "id": f"s{number}", "question": example.query.text if example.query else "",
            "answers": [{"text": answer, "answer_start": example.answer_spans[0].start}],
        }  # fmt: skip
        if absent:
            asked["is_impossible"] = bool(number % 2)
            asked["answers"] = [] if number % 2 else asked["answers"]
        more = {"context": f"Anna came back to the town. {FILLER}", "qas": []}
        articles.append({"title": f"Town_{number}", "paragraphs": [{"context": text, "qas": [asked]}, more]})
    return {"version": "v2.0" if absent else "1.1", "data": articles}


def _contracts(count: int) -> dict[str, Any]:
    articles = []
    for number in range(count):
        clause = f"This agreement number {number} is governed by the laws of Sweden."
        text = f"{FILLER} {FILLER} {clause} {FILLER} {FILLER}"
        asked = [
            {
                "id": f"c{number}__{name}",
                "question": f'Highlight the parts (if any) of this contract related to "{name}".',
                "answers": [{"text": clause, "answer_start": text.index(clause)}] if name == "Governing Law" else [],
                "is_impossible": name != "Governing Law",
            }
            for name in CLAUSES
        ]
        articles.append({"title": f"Contract {number}", "paragraphs": [{"context": text, "qas": asked}]})
    return {"version": "aok_v1.0", "data": articles}


def _labelled(number: int) -> dict[str, Any]:
    law = "This agreement is governed by the laws of Sweden. " * (number % 3 > 0)
    text = f"Page {number}. {FILLER} {FILLER} {law}{FILLER} {FILLER}"
    labels = (["Parties"], ["Governing Law"], ["Governing Law", "Parties"])
    return {"id": f"m{number}", "text": text, "labels": labels[number % 3]}


def _stories(count: int) -> list[dict[str, Any]]:
    kinds = ("train", "dev", "test")
    stories = []
    for number in range(count):
        fact = f"Anna Karlsson is {19 + number} today."
        text, end = f"{FILLER} {fact} {FILLER} {FILLER} {FILLER}", len(FILLER) + 1 + len(fact)
        question = {
            "q": "How old?",
            "answers": [],
            "isAnswerAbsent": 0.0,
            "consensus": {"s": len(FILLER) + 1, "e": end},
        }
        none = {"q": "Who won?", "answers": [], "isAnswerAbsent": 1.0, "consensus": {"noAnswer": True}}
        story = {"storyId": f"./cnn/stories/{number}.story", "text": text, "type": kinds[number % 3]}
        stories.append({**story, "questions": [question, none]})
    return stories


def _tagged(number: int) -> dict[str, Any]:
    sentence = ["Anna", "Karlsson", "wrote", "the", "long", "report", "in", "Stockholm", "."]
    tags = ["B-PER", "I-PER", "O", "O", "O", "O", "O", "B-LOC", "O"]
    return {"id": f"l{number}", "sentences": [sentence] * 30, "tags": [[tags] * 30]}


def leave() -> None:
    """Forget the tiny encoder that was found in the place of the bundled one."""
    tokenizer.encoder_path.cache_clear()
    sys.modules.pop(tokenizer._BUNDLED_PACKAGE, None)
