"""Finding and trimming places in a text. Knows nothing about data sets."""

from collections.abc import Collection

from cogltx.document import Span


def occurrences(text: str, needle: str, within: Span | None = None) -> tuple[Span, ...]:
    """Where ``needle`` stands in the text: at word boundaries if it does so at all, else anywhere.

    Args:
        text: what is searched.
        needle: the exact string; white space around it is left out.
        within: search only here.

    Returns:
        Spans without overlap, in text order; none for a blank needle.

    >>> occurrences("can a cat concatenate a cat", "cat")
    (Span(start=6, end=9), Span(start=24, end=27))
    >>> occurrences("concatenate", "cat")
    (Span(start=3, end=6),)
    """
    found = _find_all(text, needle.strip(), within or Span(0, len(text) or 1))
    return tuple(span for span in found if _at_word_boundaries(text, span)) or tuple(found)


def words(text: str, needle: str) -> tuple[Span, ...]:
    """Where ``needle`` stands in the text at word boundaries.

    >>> words("concatenate a cat", "cat")
    (Span(start=14, end=17),)
    """
    found = _find_all(text, needle.strip(), Span(0, len(text) or 1))
    return tuple(span for span in found if _at_word_boundaries(text, span))


def trim(text: str, start: int, end: int, trailing: Collection[str] = ()) -> Span | None:
    """The slice without white space around it and ``trailing`` characters at its end; None if empty.

    >>> trim("in 1999. Then", 2, 9, trailing=".")
    Span(start=3, end=7)
    """
    while start < end and text[start].isspace():
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in trailing):
        end -= 1
    return Span(start, end) if start < end else None


def _find_all(text: str, needle: str, within: Span) -> list[Span]:
    found: list[Span] = []
    at = text.find(needle, within.start, within.end) if needle else -1
    while at >= 0:
        found.append(Span(at, at + len(needle)))
        at = text.find(needle, at + len(needle), within.end)
    return found


def _at_word_boundaries(text: str, span: Span) -> bool:
    """Whether no word goes on over either end of the span."""
    before = span.start > 0 and text[span.start - 1].isalnum() and text[span.start].isalnum()
    after = span.end < len(text) and text[span.end].isalnum() and text[span.end - 1].isalnum()
    return not (before or after)
