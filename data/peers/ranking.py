"""Rank the paragraphs of a document for a question (the second table of peers.md).

    python data/peers/ranking.py bm25s $COGLTX_DATA/policyqa/test.json.gz
    python data/peers/ranking.py vectors $COGLTX_DATA/policyqa/test.json.gz --model FOLDER
    python data/peers/ranking.py cogltx $COGLTX_DATA/policyqa/test.json.gz --model qa-minilm
    python data/peers/ranking.py train-cross-encoder $COGLTX_DATA/squad/train-v1.1.json.gz --model FOLDER --output ce
    python data/peers/ranking.py cross-encoder $COGLTX_DATA/policyqa/test.json.gz --model ce

The data is in SQuAD's format. Prints MRR, the share of questions with a right paragraph among the five best, and
paragraphs per CPU second.
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

Ranker = Callable[[str, tuple[str, ...]], list[float]]


class Ranking(NamedTuple):
    """A question with the paragraphs of its document, and which of them are right."""

    question: str
    paragraphs: tuple[str, ...]
    right: frozenset[int]


def bm25s(model: str | None) -> Ranker:
    """Return scores by bm25s, its defaults and English stop words; a document is indexed once."""
    import bm25s as library

    @cache
    def index(paragraphs: tuple[str, ...]) -> library.BM25:
        made = library.BM25()
        made.index(library.tokenize(paragraphs, stopwords="en", show_progress=False), show_progress=False)
        return made

    def score(question: str, paragraphs: tuple[str, ...]) -> list[float]:
        words = library.tokenize(question, stopwords="en", show_progress=False, return_ids=False)[0]
        return index(paragraphs).get_scores(words).tolist()

    return score


def vectors(model: str | None) -> Ranker:
    """Return cosines of vectors by sentence-transformers; a document is encoded once."""
    from sentence_transformers import SentenceTransformer, util

    encoder = SentenceTransformer(model, device="cpu")
    encode = cache(lambda paragraphs: encoder.encode(list(paragraphs)))
    return lambda question, paragraphs: util.cos_sim(encoder.encode(question), encode(paragraphs))[0].tolist()


def cross_encoder(model: str | None) -> Ranker:
    """Return scores by a cross-encoder of sentence-transformers."""
    from sentence_transformers import CrossEncoder

    encoder = CrossEncoder(model, device="cpu")
    return lambda question, paragraphs: encoder.predict([(question, text) for text in paragraphs]).tolist()


def cogltx(model: str | None) -> Ranker:
    """Return relevance by a model of cogltx."""
    from cogltx import CogLTX

    loaded = CogLTX.from_pretrained(model)
    return lambda question, paragraphs: list(loaded.relevance(question, list(paragraphs)))


RANKERS: dict[str, Callable[[str | None], Ranker]] = {
    "bm25s": bm25s, "vectors": vectors, "cross-encoder": cross_encoder, "cogltx": cogltx
}  # fmt: skip


def rankings(path: str) -> Iterator[Ranking]:
    """Read the questions about documents of more than five paragraphs."""
    with gzip.open(path) as file:
        documents = json.load(file)["data"]
    for document in documents:
        paragraphs = tuple(paragraph["context"] for paragraph in document["paragraphs"])
        right: dict[str, set[int]] = {}
        for number, paragraph in enumerate(document["paragraphs"]):
            for asked in paragraph["qas"]:
                right.setdefault(asked["question"], set()).add(number)
        if len(paragraphs) > 5:
            yield from (Ranking(question, paragraphs, frozenset(found)) for question, found in right.items())


def train_cross_encoder(model: str, path: str, output: Path, questions: int) -> None:
    """Train a cross-encoder on right paragraphs and four others each, in batches of 16 with a rate of 2e-4."""
    from datasets import Dataset
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    rng = random.Random(0)
    pairs = []
    for ranking in rng.sample(list(rankings(path)), questions):
        others = sorted(set(range(len(ranking.paragraphs))) - ranking.right)
        chosen = [(min(ranking.right), 1.0), *((other, 0.0) for other in rng.sample(others, 4))]
        pairs += [(ranking.question, ranking.paragraphs[number], label) for number, label in chosen]
    columns = dict(zip(("query", "passage", "label"), map(list, zip(*pairs, strict=True)), strict=True))
    encoder = CrossEncoder(model, num_labels=1, device="cpu")
    arguments = CrossEncoderTrainingArguments(
        str(output / "log"), num_train_epochs=1, per_device_train_batch_size=16, learning_rate=2e-4, warmup_ratio=0.1,
        use_cpu=True, save_strategy="no", report_to=[], seed=0,
    )  # fmt: skip
    loss = BinaryCrossEntropyLoss(encoder)
    CrossEncoderTrainer(model=encoder, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss).train()
    encoder.save_pretrained(str(output))


def main() -> None:
    """Read the arguments; train, or print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranker", choices=[*RANKERS, "train-cross-encoder"])
    parser.add_argument("data")
    parser.add_argument("--model")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--output", type=Path, help="folder of the trained cross-encoder")
    parser.add_argument("--scores", type=Path, help="file for the reciprocal rank of each question, for interval.py")
    arguments = parser.parse_args()
    if arguments.ranker == "train-cross-encoder":
        train_cross_encoder(arguments.model, arguments.data, arguments.output, arguments.questions)
        return
    score = RANKERS[arguments.ranker](arguments.model)
    drawn = list(rankings(arguments.data))
    random.Random(11).shuffle(drawn)
    drawn = drawn[: arguments.questions]
    ranks, started = [], time.process_time()
    for ranking in drawn:
        scores = score(ranking.question, ranking.paragraphs)
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        ranks.append(1 + min(order.index(number) for number in ranking.right))
    speed = sum(len(ranking.paragraphs) for ranking in drawn) / (time.process_time() - started)
    reciprocal = [100 / rank for rank in ranks]
    if arguments.scores:
        arguments.scores.write_text(json.dumps(reciprocal))
    mrr, five = sum(reciprocal) / len(ranks), 100 * sum(rank <= 5 for rank in ranks) / len(ranks)
    print(f"MRR {mrr:.1f}, among the five best {five:.0f} %, {speed:.0f} paragraphs per second")


if __name__ == "__main__":
    main()
