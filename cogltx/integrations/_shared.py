"""Helpers of the components of all frameworks: cached models, rankings, passages, splitting.

A model reads for one thread at a time. A query that leaves no room for a block is cut.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from numbers import Integral
from threading import RLock
from typing import Any

import numpy as np

from cogltx._progress import logger
from cogltx.blocks import BUNDLED, Blocks, encode, has_token, load_tokenizer, split
from cogltx.blocks._tokens import MAX_HEADING_TOKENS
from cogltx.document import Document, Query, Segment
from cogltx.encoding.layout import Layout
from cogltx.errors import ConfigError
from cogltx.judges import Memory, Shortlist
from cogltx.memrecall import fill
from cogltx.pipeline import CogLTX
from cogltx.prediction import Evidence

CHUNK_TOKENS = 256  # of the pieces of a splitter
TOKENIZER = BUNDLED
_CANDIDATES = 2  # the judge scores twice the budget

cached_model = lru_cache(maxsize=4)(CogLTX.from_pretrained)
_cached_tokenizer = lru_cache(maxsize=4)(load_tokenizer)
_alone = RLock()


@contextmanager
def reading(model: str) -> Iterator[CogLTX]:
    """Load a model once, and use it alone: frameworks call components from several threads."""
    with _alone:
        yield cached_model(model)


def fitting(reader: CogLTX, query: str) -> str:
    """Cut the end of a query that leaves no room for a block in a window, with a warning."""
    form, tokenizer = reader.model.form, reader.model.tokenizer
    room = form.capacity - reader.config.max_block_tokens - MAX_HEADING_TOKENS - 2 - form.n_separators
    [(ids, spans)] = encode([query], tokenizer)
    n_tokens, shortened = len(ids), query
    for limit in range(room, 0, -1):
        if len(ids) <= room:
            break
        shortened = query[: spans[limit - 1, 1]]
        [(ids, _)] = encode([shortened], tokenizer)
    if len(shortened) < len(query):
        logger.warning(f"the query has {n_tokens:,} tokens, but {room:,} fit; the rest is not read")
    return shortened


def shorten(reader: CogLTX, document: Document, query: str, budget: int | float) -> str:
    """Shorten a document to its most relevant passages; see ``compress``."""
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
    model: str,
    query: str,
    texts: Sequence[str],
    top: int | None,
    budget: int | float | None,
    bodies: Sequence[str] | None = None,
) -> list[tuple[int, float, str]]:
    """Rank texts; returns index, relevance and text of the ``top`` ones, best first, shortened to ``budget``.

    With ``bodies``, these are returned in place of the texts that are ranked.
    """
    bodies, best = texts if bodies is None else bodies, []
    with reading(model) as reader:
        query = fitting(reader, query)
        scores = reader.relevance(query, texts)
        for index in sorted(range(len(texts)), key=lambda index: -scores[index])[:top]:
            body = bodies[index]
            if budget is not None and has_token(body, reader.model.tokenizer):
                body = shorten(reader, Document(body), query, budget)
            best.append((index, scores[index], body))
    return best


class Corpus:
    """Texts that are searched together, each with a heading that the judge reads before its blocks."""

    def __init__(self, model: str, texts: Sequence[str], headings: Sequence[str] | None = None) -> None:
        self.model, self.texts, self.headings = model, texts, headings or [""] * len(texts)

    @cached_property
    def _joined(self) -> Document | None:
        tokenizer = cached_model(self.model).model.tokenizer
        documents = [
            Document(text, str(number), (Segment(0, len(text), heading),))
            for number, (text, heading) in enumerate(zip(self.texts, self.headings, strict=True))
            if has_token(text, tokenizer)
        ]
        return Document.joined(documents) if documents else None

    def search(self, query: str, top: int | None) -> list[tuple[int, Evidence]]:
        """Find the passages that matter for a query, best first, each with the number of its text."""
        with reading(self.model) as reader:
            if self._joined is None:
                return []
            evidence = reader.recall(self._joined, fitting(reader, query)).evidence[:top]
            found = [block.within(self._joined) for block in evidence]
        return [(int(block.document), block) for block in found]


def pieces(text: str, max_tokens: int, tokenizer: str) -> list[tuple[int, int]]:
    """Split a text at the best places into pieces of at most ``max_tokens`` tokens; returns first and end character."""
    with _alone:
        loaded: Any = _cached_tokenizer(tokenizer)
        blocks = split(text, loaded, max_tokens=max_tokens) if has_token(text, loaded) else ()
    return [blocks.trimmed(index) for index in range(len(blocks))] if isinstance(blocks, Blocks) else []


def room(blocks: Blocks, budget: int | float) -> int:
    """Convert a budget to tokens; raises ConfigError if it is neither a number of tokens nor a share."""
    if isinstance(budget, float) and 0 < budget <= 1:
        return int(budget * blocks.sizes.sum())
    if not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 1:
        raise ConfigError(f"budget is {budget!r}; give a whole number of tokens, or a share up to 1.0")
    return int(budget)


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
