"""Choose a released model by the language of texts and questions."""

import re
from collections.abc import Sequence

from cogltx._folders import DEFAULT_MODEL, MULTILINGUAL_MODEL
from cogltx.document import Document

_ENGLISH = frozenset({
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "with", "on", "by", "as", "it", "was", "be", "or", "are",
    "from", "this", "not", "at",
})  # fmt: skip
_ASKING = frozenset({
    "the", "of", "and", "to", "is", "that", "for", "with", "by", "from", "this", "are", "were", "does", "did", "do",
    "has", "have", "can", "could", "should", "would", "what", "who", "whom", "whose", "which", "when", "where", "why",
    "how", "many", "much", "if", "there", "any",
})  # fmt: skip
_FEWEST_WORDS, _ENGLISH_SHARE = 30, 0.1  # of English prose, a third are such words; of other languages hardly any
_FEWEST_ASKED = 3
_WORD = re.compile(r"[^\W\d_]+")


def model_for(documents: Sequence[Document], questions: Sequence[str] = ()) -> str:
    """Name the released model that knows the language of documents and of questions about them."""
    is_english = all(_looks_english(document.text) for document in documents) and all(map(_asks_in_english, questions))
    return DEFAULT_MODEL if is_english else MULTILINGUAL_MODEL


def _asks_in_english(question: str) -> bool:
    """Check whether a question has a word of English questions, or too few words to say but ASCII letters.

    >>> [_asks_in_english(one) for one in ("Who built it?", "Wer hat es gebaut?", "Anna Müller", "bridge width")]
    [True, False, False, True]
    """
    words = _WORD.findall(question.lower())
    return not _ASKING.isdisjoint(words) or (len(words) < _FEWEST_ASKED and all(word.isascii() for word in words))


def _looks_english(text: str) -> bool:
    """Check whether a text looks English: it has frequent English words, or too few words to say but ASCII letters."""
    words = _WORD.findall(text[:50_000].lower())
    if len(words) < _FEWEST_WORDS:
        return all(word.isascii() for word in words)
    return sum(word in _ENGLISH for word in words) >= _ENGLISH_SHARE * len(words)
