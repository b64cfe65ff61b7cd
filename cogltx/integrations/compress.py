"""Compress a text to the passages that matter for a question, for the prompt of any language model."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cogltx.blocks import Blocks
from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.folders import DEFAULT_MODEL
from cogltx.judges import Memory
from cogltx.memrecall import fill
from cogltx.pipeline import CogLTX

_CANDIDATES = 2  # times the budget that the judge scores

cached_model = lru_cache(maxsize=4)(CogLTX.from_pretrained)
"""Load a model once, however many components use it."""


@dataclass(frozen=True)
class Passage:
    """Consecutive blocks of a text, ``text[start:end]``, and their heading, which may be empty."""

    start: int
    end: int
    heading: str


def compress(text: Document | str, query: str, budget: int | float, *, model: CogLTX | str = DEFAULT_MODEL) -> str:
    """Shorten a text to its passages that are most relevant to a question, in their order.

    The key blocks of MemRecall come first; room that is left goes to the blocks that the judge scores next.

    Args:
        text: a text or a document of any length; of a document, each kept passage has its heading above it.
        query: the question.
        budget: number of tokens to keep, by the model's tokenizer; or the share of the text to keep, up to 1.0. The
            most relevant block is always kept.
        model: a model, or its name.

    Raises:
        ConfigError: the budget is not positive.
        DataError: the text or the question is empty.
    """
    reader = cached_model(model) if isinstance(model, str) else model
    document = Document(text) if isinstance(text, str) else text
    parts, heading = [], ""
    for passage in passages(reader, document, query, budget):
        new_heading = passage.heading and passage.heading != heading
        heading = passage.heading
        parts.append(f"{heading}\n" * bool(new_heading) + document.text[passage.start : passage.end])
    return "\n\n".join(parts)


def ranked(
    model: str, query: str, texts: Sequence[str], top: int | None, budget: int | float | None
) -> Iterator[tuple[int, float, str]]:
    """Rank texts by their relevance to a question; yields index, relevance and text of each, the best first.

    Args:
        model: a name, a run or a model folder.
        query: the question.
        texts: texts of any length; one that is empty has no relevance.
        top: maximum number of texts; None ranks all.
        budget: see ``compress``; None keeps texts whole.
    """
    reader = cached_model(model)
    scores = reader.relevance(query, texts)
    for index in sorted(range(len(texts)), key=lambda index: -scores[index])[:top]:
        text = texts[index]
        if budget is not None and text.strip():
            text = compress(text, query, budget, model=reader)
        yield index, scores[index], text


def passages(reader: CogLTX, document: Document, query: str, budget: int | float) -> list[Passage]:
    """Select the passages of a document for ``compress``; arguments and errors are the same."""
    layout = reader.model.layout(document, Query(query))
    return _join(layout.blocks, select(reader, layout, room(layout.blocks, budget)))


def room(blocks: Blocks, budget: int | float) -> int:
    """Convert a budget to tokens; raises ConfigError if it is not positive."""
    if not 0 < budget < math.inf:
        raise ConfigError(f"budget is {budget}; it must be a positive number")
    return int(budget * blocks.sizes.sum()) if isinstance(budget, float) and budget <= 1 else int(budget)


def select(reader: CogLTX, layout: Layout, n_tokens: int) -> list[int]:
    """Select the most relevant blocks that fit a number of tokens, at least one, in document order."""
    blocks = layout.blocks
    if n_tokens >= blocks.sizes.sum():
        return list(range(len(blocks)))
    [recall] = reader.memrecall([layout])
    fine = dict(zip(recall.key_blocks, recall.scores, strict=True))
    ranking = sorted(fine, key=lambda block: (block not in recall.kept, -fine[block]))
    if n_tokens > blocks.total_size(ranking):
        memrecall, memory = reader.memrecall, Memory(layout)
        if memrecall.config.shortlist is not None:
            count = max(memrecall.config.shortlist, int(_CANDIDATES * n_tokens / blocks.sizes.mean()))
            memory = Memory(layout, shortlist=memrecall.retriever.shortlist(memory, count))
        [coarse] = memrecall.judge.retrieve([memory])
        order = np.argsort(-np.nan_to_num(coarse, nan=-np.inf), kind="stable")
        ranking += [block for block in order.tolist() if block not in fine and not np.isnan(coarse[block])]
    scores = np.full(len(blocks), np.nan)
    scores[ranking] = -np.arange(len(ranking), dtype=float)
    return sorted(fill(scores, blocks, max(n_tokens, int(blocks.sizes[ranking[0]]))))


def _join(blocks: Blocks, chosen: Iterable[int]) -> list[Passage]:
    """Join blocks that follow each other under one heading."""
    joined: list[Passage] = []
    last = None
    for block in chosen:
        start, end = blocks.trimmed(block)
        heading = blocks[block].heading
        if joined and last == block - 1 and joined[-1].heading == heading:
            joined[-1] = Passage(joined[-1].start, end, heading)
        else:
            joined.append(Passage(start, end, heading))
        last = block
    return joined
