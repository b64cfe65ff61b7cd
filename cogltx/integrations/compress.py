"""Compress a text to the passages that matter for a question, for the prompt of any language model."""

from cogltx._folders import DEFAULT_MODEL
from cogltx.document import Document
from cogltx.integrations._shared import cached_model, shorten
from cogltx.pipeline import CogLTX


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
    return shorten(reader, Document(text) if isinstance(text, str) else text, query, budget)
