"""Small documents, and judges with given scores, for the tests of MemRecall and of what stands around it."""

from collections.abc import Sequence

import numpy as np
import tiny
from fakes import WordOverlap, sentences

from cogltx.blocks import AnyQuery, Blocks, split
from cogltx.config import MemRecallConfig
from cogltx.document import Query
from cogltx.encoding.layout import WindowFormat
from cogltx.judges import Judge, Memory
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.memrecall import MemRecall
from cogltx.recall import Recall

TOKENIZER = tiny.make_tokenizer()
FILLER = (
    *(
        "quick brown.",
        "jumps over.",
        "lazy dog.",
        "people walked.",
        "capital france.",
        "largest city.",
        "question asks.",
    ),
    *("answer piece.", "evidence says.", "film directed.", "john smith.", "released united.", "prices rose."),
)
QUERY = Query("alpha")
HOPS = sentences(*FILLER[:3], "alpha beta.", *FILLER[3:], "beta gamma.", "delta delta.")
FIRST, SECOND = 3, 14


def blocks_of(*texts: str) -> Blocks:
    return split(sentences(*texts), TOKENIZER, max_tokens=16)


def memrecall(
    judge: Judge | None = None, *, capacity: int = 32, form: WindowFormat | None = None, **options: object
) -> MemRecall:
    tokenizer = form.tokenizer if form else TOKENIZER
    config = MemRecallConfig(capacity=capacity, **options)
    return MemRecall(judge or ScoringJudgeAdapter(WordOverlap()), config, tokenizer=tokenizer)


def find(recall: MemRecall, items: Sequence[tuple[AnyQuery, Blocks]]) -> list[Recall]:
    """The key blocks of documents that are split already."""
    return recall([recall.form.layout(query, blocks) for query, blocks in items])


def room_of(recall: Recall, capacity: int) -> int:
    return WindowFormat(TOKENIZER, capacity).layout(recall.query, recall.blocks).room


class Fixed(Judge):
    """Coarse and fine scores by block, for each step those given."""

    def __init__(self, coarse: Sequence[dict[int, float]], fine: Sequence[dict[int, float]]) -> None:
        self.coarse, self.fine = list(coarse), list(fine)

    def retrieve(self, memories: Sequence[Memory]) -> list[np.ndarray]:
        (memory,) = memories
        scores = self.coarse.pop(0)
        return [np.array([np.nan if i in memory.kept else scores.get(i, 0.0) for i in range(len(memory.blocks))])]

    def rehearse(self, memories: Sequence[Memory]) -> list[np.ndarray]:
        (memory,) = memories
        scores = self.fine.pop(0)
        return [np.array([scores.get(i, 0.0) for i in memory.kept])]
