"""Search for an answer in a text; does not depend on data sets."""

import re

from cogltx.document import Span


def occurrences(text: str, needle: str, within: Span | None = None, *, whole_words: bool = False) -> tuple[Span, ...]:
    """Spans of ``needle`` in the text, in text order, without overlap; none for a blank needle.

    Args:
        text: the text.
        needle: the exact string; white space around it is ignored.
        within: limits the search.
        whole_words: find it at word boundaries only; otherwise anywhere if it is never at word boundaries.

    >>> occurrences("can a cat concatenate a cat", "cat")
    (Span(start=6, end=9), Span(start=24, end=27))
    >>> occurrences("concatenate", "cat"), occurrences("concatenate", "cat", whole_words=True)
    ((Span(start=3, end=6),), ())
    """
    within, needle = within or Span(0, len(text) or 1), needle.strip()
    matches = re.compile(re.escape(needle)).finditer(text, within.start, within.end) if needle else ()
    spans = tuple(Span(*match.span()) for match in matches)
    at_words = tuple(span for span in spans if _at_word_boundaries(text, span))
    return at_words if at_words or whole_words else spans


def _at_word_boundaries(text: str, span: Span) -> bool:
    """Whether no word continues over either end of the span."""
    before = span.start > 0 and text[span.start - 1].isalnum() and text[span.start].isalnum()
    after = span.end < len(text) and text[span.end].isalnum() and text[span.end - 1].isalnum()
    return not (before or after)
