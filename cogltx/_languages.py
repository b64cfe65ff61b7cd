"""Choose a released model by the language of texts."""

import re
from collections.abc import Sequence

from cogltx._folders import DEFAULT_MODEL, MULTILINGUAL_MODEL
from cogltx.document import Document

_ENGLISH = frozenset({
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "with", "on", "by", "as", "it", "was", "be", "or", "are",
    "from", "this", "not", "at",
})  # fmt: skip
_FEWEST_WORDS, _ENGLISH_SHARE = 30, 0.1  # of English prose, a third are such words; of other languages hardly any


def model_for(documents: Sequence[Document]) -> str:
    """Name the released model that knows the language of documents."""
    return DEFAULT_MODEL if all(_looks_english(document.text) for document in documents) else MULTILINGUAL_MODEL


def _looks_english(text: str) -> bool:
    """Check whether a text looks English: it has frequent English words, or too few words to say but ASCII letters."""
    words = re.findall(r"[^\W\d_]+", text[:50_000].lower())
    if len(words) < _FEWEST_WORDS:
        return all(word.isascii() for word in words)
    return sum(word in _ENGLISH for word in words) >= _ENGLISH_SHARE * len(words)
