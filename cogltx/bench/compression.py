"""Shares of answers and of relevant blocks that stay in a compressed text, by the share of the text that is kept.

An answer is kept if one of its spans is, whole; questions whose answer is no span are not counted.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cogltx.bench.tables import table
from cogltx.document import Example
from cogltx.encoding.layout import Layout
from cogltx.errors import DataError
from cogltx.integrations.compress import room, select
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.embedding import EmbeddingJudge
from cogltx.memrecall import fill
from cogltx.pipeline import CogLTX
from cogltx.progress import progress
from cogltx.training.data import read_examples

Selection = Callable[[Layout, int], Sequence[int]]


def measure(
    model: str, data: str, budgets: Sequence[float], *, limit: int, changes: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Compress the documents of some questions in several ways; return rows as plain data, and their table.

    Args:
        model: a model that answers questions.
        data: a data file of the task that the model, or ``changes``, names.
        budgets: shares of the text to keep, below 1.
        limit: number of questions.
        changes: settings to replace, by dotted key.

    Raises:
        DataError: no question has an answer in its text.
    """
    reader = CogLTX.from_pretrained(model, changes=changes)
    examples, _ = read_examples(reader.config, data, "test", limit=limit, tokenizer=reader.model.tokenizer)
    examples = [example for example in examples if example.answer_spans and example.query is not None]
    if not examples:
        raise DataError(f"{data}: no question with an answer in its text")
    bm25, embedding = BM25Judge(), EmbeddingJudge()
    systems: dict[str, Selection] = {
        "CogLTX": lambda layout, n_tokens: select(reader, layout, n_tokens),
        "BM25": lambda layout, n_tokens: fill(bm25.text_scores(_text(layout), layout.blocks), layout.blocks, n_tokens),
        "sentence vectors": lambda layout, n_tokens: fill(
            embedding.text_scores(_text(layout), layout.blocks), layout.blocks, n_tokens
        ),
        "truncation": lambda layout, n_tokens: fill(
            -np.arange(len(layout.blocks), dtype=float), layout.blocks, n_tokens
        ),
    }
    figures: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for example in progress(examples, "compress", unit="questions"):
        layout = reader.model.layout(example.document, example.query)
        for system, selection in systems.items():
            for budget in budgets:
                chosen = selection(layout, room(layout.blocks, budget))
                figures.setdefault((system, budget), []).append(_kept(example, layout, chosen))
    rows = [
        {"system": system, "budget": budget, "answers": 100 * answers, "relevant_blocks": 100 * blocks}
        for (system, budget), pairs in figures.items()
        for answers, blocks in [np.mean(pairs, axis=0).tolist()]
    ]
    heading = ["answers kept / relevant blocks kept, %", *(f"{100 * budget:g} % of the text" for budget in budgets)]
    lines = [
        [system, *(f"{row['answers']:.1f} / {row['relevant_blocks']:.1f}" for row in rows if row["system"] == system)]
        for system in systems
    ]
    return rows, f"{table([heading, *lines])}\n{len(examples):,} question{'s' * (len(examples) != 1)}"


def _text(layout: Layout) -> str:
    assert layout.query is not None, "examples without a question are left out"
    return layout.query.text


def _kept(example: Example, layout: Layout, chosen: Sequence[int]) -> tuple[float, float]:
    """Whether an answer is in the chosen blocks, and the share of the relevant blocks among them."""
    blocks, kept = layout.blocks, set(chosen)
    answers = [set(blocks.overlapping(span.start, span.end)) <= kept for span in example.answer_spans]
    labels = blocks.relevance_labels(example)
    relevant = set() if labels is None else set(np.flatnonzero(labels).tolist())
    return float(any(answers)), len(relevant & kept) / max(1, len(relevant))
