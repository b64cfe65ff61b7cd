"""Answers from long texts: Haystack's extractive reader and cogltx with the same weights (the first table of peers.md).

    python data/peers/answers.py save-reader reader
    python data/peers/answers.py haystack $COGLTX_DATA/squad/test-v1.1.json.gz reader
    python data/peers/answers.py cogltx $COGLTX_DATA/squad/test-v1.1.json.gz reader
    python data/peers/answers.py cogltx $COGLTX_DATA/squad/test-v1.1.json.gz qa-minilm

The last three print F1 of the best answer, F1 with the decision for "no answer", and CPU seconds per question.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from statistics import mean

from cogltx import CogLTX
from cogltx.document import Example
from cogltx.tasks import make_task
from cogltx.tasks.metrics import answer_score

Answers = tuple[str, str]  # the best one, and that with the decision: empty if there is none


def save_reader(folder: str) -> None:
    """Write the reasoner of qa-minilm as a question answering model of transformers."""
    from transformers import BertForQuestionAnswering

    model = CogLTX.from_pretrained("qa-minilm").model
    reader = BertForQuestionAnswering(model.reasoner.encoder.model.config)
    reader.bert.load_state_dict(model.reasoner.encoder.model.state_dict(), strict=False)  # it has no pooler
    reader.qa_outputs.load_state_dict(model.reasoner.start_end.state_dict())
    reader.float().save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)


def haystack(name: str) -> Callable[[str, str], Answers]:
    """Return a function of text and question, with Haystack's defaults; a text is indexed once."""
    from haystack import Document
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.components.readers import ExtractiveReader
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    reader, splitter = ExtractiveReader(model=name), DocumentSplitter(split_by="word")
    reader.warm_up()
    splitter.warm_up()
    retrievers: dict[str, InMemoryBM25Retriever] = {}

    def ask(text: str, question: str) -> Answers:
        if text not in retrievers:
            store = InMemoryDocumentStore()
            store.write_documents(splitter.run([Document(content=text)])["documents"])
            retrievers[text] = InMemoryBM25Retriever(store)
        answers = reader.run(query=question, documents=retrievers[text].run(query=question)["documents"])["answers"]
        found = [answer.data or "" for answer in answers] or [""]
        return next(filter(None, found), ""), found[0]

    return ask


def cogltx(name: str) -> Callable[[str, str], Answers]:
    """Return a function of text and question, with the defaults of cogltx; a text stays open for the next question."""
    model = CogLTX.from_pretrained(name)
    opened = lru_cache(maxsize=1)(model.open)

    def ask(text: str, question: str) -> Answers:
        prediction = opened(text).ask(question)
        return prediction.candidates[0].text if prediction.candidates else "", prediction.answer or ""

    return ask


def questions(path: str, count: int) -> list[Example]:
    """Return random questions about whole texts of a file of SQuAD's format."""
    task = make_task("squad", {"join_paragraphs": True})
    examples = list(task.read(Path(path), split="test"))
    random.Random(11).shuffle(examples)
    return examples[:count]


def main() -> None:
    """Read the arguments and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("save-reader").add_argument("folder")
    for name in ("haystack", "cogltx"):
        command = commands.add_parser(name)
        command.add_argument("data")
        command.add_argument("model")
        command.add_argument("--questions", type=int, default=100)
        command.add_argument("--scores", type=Path, help="file for the F1 of each best answer, for interval.py")
    arguments = parser.parse_args()
    if arguments.command == "save-reader":
        save_reader(arguments.folder)
        return
    ask = {"haystack": haystack, "cogltx": cogltx}[arguments.command](arguments.model)
    examples = questions(arguments.data, arguments.questions)
    best, decided, started = list[float](), list[float](), time.process_time()
    for example in examples:
        answers = ask(example.document.text, example.query.text)
        scores = [100 * answer_score(answer, example.answers).f1 for answer in answers]
        best.append(scores[0])
        decided.append(scores[1])
    seconds = (time.process_time() - started) / len(examples)
    if arguments.scores:
        arguments.scores.write_text(json.dumps(best))
    print(f"F1 {mean(best):.1f}, with the decision {mean(decided):.1f}, {seconds:.2f} s")


if __name__ == "__main__":
    main()
