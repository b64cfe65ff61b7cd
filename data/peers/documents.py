"""Rank the paragraphs of whole documents for a question: BM25, sentence vectors, and the judge of a model.

    python data/peers/documents.py $COGLTX_DATA/policyqa/test.json.gz --task squad --options '{"join_paragraphs": true}'
    python data/peers/documents.py $COGLTX_DATA/hotpotqa/dev.json.gz --task hotpotqa

A paragraph has the place of its best block. The judge scores the blocks that the retriever proposes; the others follow
in the retriever's order. Prints for each ranking the MRR of the first right paragraph, the share of questions with one
among the five best, and the share whose answer lies in the best blocks up to a tenth of the text. A document that fits
one window is left out.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cogltx import CogLTX
from cogltx.blocks import Blocks
from cogltx.document import Example
from cogltx.judges.base import Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge
from cogltx.tasks import make_task

_SHARE = 0.1  # of the text


def rankings(model: CogLTX, example: Example) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the score of each block by each ranker."""
    layout = model.model.layout(example.document, example.query)
    memory = Memory(layout)
    yield "BM25", BM25.text_scores(example.query.text, layout.blocks)
    yield "vectors", VECTORS.text_scores(example.query.text, layout.blocks)
    judge = model.memrecall.judge
    [coarse] = judge.retrieve([memory])
    scores = judge.competition_scores(memory, coarse)
    yield "judge", np.where(np.isnan(scores), model.retriever.ranking(memory) - 10.0, scores)


def measured(blocks: Blocks, scores: np.ndarray, right: np.ndarray) -> tuple[float, bool, bool]:
    """Compute the reciprocal rank, whether a right paragraph is among the five best, and whether a tenth holds one."""
    order = np.argsort(-scores, kind="stable")
    paragraphs = list(dict.fromkeys(blocks.paragraphs[order].tolist()))
    rank = 1 + min(paragraphs.index(number) for number in set(blocks.paragraphs[right].tolist()))
    read = order[np.cumsum(blocks.sizes[order]) <= _SHARE * blocks.sizes.sum()]
    return 100 / rank, rank <= 5, bool(right[read].any())


BM25, VECTORS = BM25Judge(), EmbeddingJudge()


def main() -> None:
    """Read the arguments, and print one line per ranker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--model", default="qa-minilm")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--scores", type=Path, help="folder for the reciprocal ranks, for interval.py")
    arguments = parser.parse_args()
    model = CogLTX.from_pretrained(arguments.model)
    examples = [
        one
        for one in make_task(arguments.task, arguments.options).read(arguments.data, split="test")
        if one.has_relevance
    ]
    random.Random(11).shuffle(examples)
    results: dict[str, list[tuple[float, bool, bool]]] = {}
    for example in examples:
        layout = model.model.layout(example.document, example.query)
        if layout.fits:
            continue
        right = layout.blocks.relevance_labels(example)
        if right is None or not right.any():
            continue
        for name, scores in rankings(model, example):
            results.setdefault(name, []).append(measured(layout.blocks, scores, right))
        if len(results["judge"]) == arguments.questions:
            break
    for name, values in results.items():
        mrr, five, tenth = np.array(values, dtype=float).mean(axis=0)
        shares = f"among the five best {100 * five:.1f} %, in a tenth of the text {100 * tenth:.1f} %"
        print(f"{name}: {len(values)} questions, MRR {mrr:.1f}, {shares}")
        if arguments.scores:
            arguments.scores.mkdir(exist_ok=True)
            (arguments.scores / f"{name}.json").write_text(json.dumps([one for one, _, _ in values]))


if __name__ == "__main__":
    main()
