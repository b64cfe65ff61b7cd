"""Prints what the Python interface says to values of other types, a line each; run without the tests' type checks."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import BertConfig, BertModel

from cogltx import CogLTX, Document, Entity, Example, Query, Span, extend_positions
from cogltx.errors import CogltxError

saved = Path(sys.argv[1])
document: Any = Document("The cat sat.")
words: Any = "words"
nothing: Any = None
bert = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=16))
calls: list[Callable[[], object]] = [
    lambda: Document(nothing, "x"),
    lambda: Document(saved, "x"),  # type: ignore[arg-type]
    lambda: Document("text", "x", ((0, 3),)),  # type: ignore[arg-type]
    lambda: Query(nothing),
    lambda: Entity(0, 1, nothing),
    lambda: Span(words, 1),
    lambda: Span(0.5, 1),  # type: ignore[arg-type]
    lambda: Example(id="1", document=words),
    lambda: Example(id="1", document=document, query=words),
    lambda: Example(id="1", document=document, relevant=((0, 1),)),  # type: ignore[arg-type]
    lambda: extend_positions(bert, words),
    lambda: extend_positions(bert, 0),
    lambda: extend_positions(bert, nothing),
    lambda: extend_positions(bert, 32, form=words),
    lambda: extend_positions(bert, 32, method=words),
    lambda: extend_positions(nothing, 32),
    lambda: CogLTX.from_pretrained(nothing),
    lambda: CogLTX.from_pretrained("x" * 5000),
    lambda: CogLTX.from_pretrained(saved, device="nowhere"),
    lambda: CogLTX.from_pretrained(saved, device="cuda:99"),
]
for call in calls:
    try:
        print("no error:", call())
    except CogltxError as error:
        print(f"{type(error).__name__}: {error}")
