"""Compress a text to the passages that matter for a question, for the prompt of any language model."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from cogltx._folders import DEFAULT_MODEL
from cogltx.blocks import Blocks, has_token
from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.judges import Memory, Shortlist
from cogltx.memrecall import fill
from cogltx.pipeline import CogLTX

_CANDIDATES = 2  # the judge scores twice the budget

cached_model = lru_cache(maxsize=4)(CogLTX.from_pretrained)


def compress(text: Document | str, query: str, budget: int | float, *, model: CogLTX | str = DEFAULT_MODEL) -> str:
    """Shorten a text to its passages that are most relevant to a question, in their order, under their headings.

    The key blocks of MemRecall come first, then the blocks with the best scores of the judge. At least one is kept.

    Args:
        text: a text or a document of any length.
        query: the question.
        budget: number of tokens to keep; or the share of the text to keep, up to 1.0.
        model: a model, or its name.
    """
    reader = cached_model(model) if isinstance(model, str) else model
    document = Document(text) if isinstance(text, str) else text
    layout = reader.model.layout(document, Query(query))
    blocks = layout.blocks
    parts, heading, last, end = list[str](), "", -2, 0
    for index in select(reader, layout, room(blocks, budget)):
        block, (start, new_end) = blocks[index], blocks.trimmed(index)
        if last == index - 1 and block.heading == heading:
            parts[-1] += document.text[end:new_end]
        else:
            is_new = block.heading and block.heading != heading
            parts.append((f"{block.heading}\n" if is_new else "") + document.text[start:new_end])
        heading, last, end = block.heading, index, new_end
    return "\n\n".join(parts)


def ranked(
    model: str, query: str, texts: Sequence[str], top: int | None, budget: int | float | None
) -> Iterator[tuple[int, float, str]]:
    """Yield index, relevance and text of the ``top`` texts, best first, compressed to ``budget`` (None: whole)."""
    reader = cached_model(model)
    scores = reader.relevance(query, texts)
    for index in sorted(range(len(texts)), key=lambda index: -scores[index])[:top]:
        text = texts[index]
        if budget is not None and has_token(text, reader.model.tokenizer):
            text = compress(text, query, budget, model=reader)
        yield index, scores[index], text


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
        judge, shortlist = reader.memrecall.judge, reader.config.memrecall.shortlist
        if shortlist is not None:
            count = max(shortlist, int(_CANDIDATES * n_tokens / blocks.sizes.mean()))
            judge = Shortlist(reader.memrecall.plain_judge, reader.retriever, count)
        [coarse] = judge.retrieve([Memory(layout)])
        competing = reader.memrecall.judge.competition_scores(Memory(layout), coarse)
        order = np.argsort(-np.nan_to_num(competing, nan=-np.inf), kind="stable")
        ranking += [block for block in order.tolist() if block not in fine and not np.isnan(coarse[block])]
    scores = np.full(len(blocks), np.nan)
    scores[ranking] = -np.arange(len(ranking), dtype=float)
    return sorted(fill(scores, blocks, max(n_tokens, int(blocks.sizes[ranking[0]]))))
