"""Find in a document what a person copied from it or typed: the document's exact slice, whatever printing changed.

Letter by letter first. Otherwise without case, the width and form of characters (NFKC), soft hyphens, hyphens between
letters, white space (but between digits), and the kinds of quotes and dashes. Always whole words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from cogltx.blocks._characters import code_points
from cogltx.blocks._script import expand_to_words, terms
from cogltx.document import Document, Span, page_name
from cogltx.tasks.base import occurrences

_NEAR = 200  # characters on each side of an answer that are compared with the question
_SIGNS = str.maketrans(
    dict.fromkeys("‘’‚‛‹›′ʼ`´", "'") | dict.fromkeys("“”„‟«»″＂", '"') | {"\u2212": "-", "\u2026": "..."}
)
_DROPPED = re.compile(
    r"(?:(?<=[^\W\d_])|(?<=[\u0300-\u036f]))\s*-\s*(?=[^\W\d_])|\s++(?!\d)|(?<![\d\s])\s+|(?<=\d\s)\s+(?=\d)"
)
_ACCENTS = re.compile(r"[\u0300-\u036f]{2,}")
_SIMILAR = 60  # least similarity of a hint, in percent
_HINT = 200  # characters of an answer that are compared


@dataclass(frozen=True)
class _Folded:
    """A text as it is compared, and the place of each of its characters in the text."""

    text: str
    origins: Int[np.ndarray, " characters"]

    def span(self, start: int, end: int) -> Span:
        """Return the span in the original text of a slice."""
        return Span(int(self.origins[start]), int(self.origins[end - 1]) + 1)


def _without_overlap(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Leave out spans, given in order, that overlap an earlier one."""
    chosen: list[Span] = []
    for span in spans:
        if not chosen or span.start >= chosen[-1].end:
            chosen.append(span)
    return tuple(chosen)


class SearchedDocument:
    """A document in which answers are searched."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def find(self, wanted: str) -> tuple[Span, ...]:
        """Find all places of a text, in order."""
        text = self.document.text
        if exact := occurrences(text, wanted, whole_words=True):
            return exact
        needle = _fold(wanted.strip()).text
        if any(map(str.isalnum, needle)):
            folded = self._folded
            matches = re.finditer(rf"(?=({re.escape(needle)})(?![\u0300-\u036f]))", folded.text)  # may overlap
            spans = (folded.span(*match.span(1)) for match in matches)
            whole = (span for span in spans if occurrences(text, text[span.start : span.end], span, whole_words=True))
            if alike := _without_overlap(whole):
                return alike
        return tuple(span for span in occurrences(text, wanted) if _is_number_with_unit(text, span))

    def nearest(self, question: str, spans: Sequence[Span]) -> tuple[tuple[Span, ...], float]:
        """Choose the places whose surroundings share most words with a question, rare words counting more.

        Returns all places that share most, and how much that is.
        """
        words = sorted(set(terms(question)))
        weights = {word: 1 / (1 + np.log(count)) for word in words if (count := self._counts[word])}
        scores = []
        for span in spans:
            before = self.document.text[max(0, span.start - _NEAR) : span.start]
            near = {*terms(before), *terms(self.document.text[span.end : span.end + _NEAR])}
            scores.append(float(sum(weight for word, weight in weights.items() if word in near)))
        best = max(scores, default=0.0)
        return tuple(span for span, score in zip(spans, scores, strict=True) if score == best), best

    def hint(self, wanted: str) -> tuple[float, str]:
        """Find the text that is most similar, with its page: similarity in percent and text; 0 and "" if none is."""
        from rapidfuzz.fuzz import partial_ratio_alignment

        needle, folded = _fold(wanted).text[:_HINT], self._folded
        found = partial_ratio_alignment(needle, folded.text, score_cutoff=_SIMILAR) if needle else None
        if found is None or found.dest_start == found.dest_end:
            return 0.0, ""
        span = folded.span(found.dest_start, found.dest_end)
        start, end = expand_to_words(self.document.text, span.start, span.end)
        nearest, page = " ".join(self.document.text[start:end].split()).strip(" .,;:"), self.document.page(start)
        return found.score, repr(nearest) + (f" ({page_name(page)})" if page else "")

    @cached_property
    def _folded(self) -> _Folded:
        return _fold(self.document.text)

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(terms(self.document.text))


def _is_number_with_unit(text: str, span: Span) -> bool:
    """Check that a span ends inside words only between a digit and a letter, as in 30km."""
    pairs = [text[at - 1 : at + 1] for at in (span.start, span.end) if 0 < at < len(text)]
    inside = [pair for pair in pairs if pair.isalnum()]
    return all(pair[0].isdigit() != pair[1].isdigit() for pair in inside)


def _fold(text: str) -> _Folded:
    forms = {character: _fold_character(character) for character in set(text)}
    lengths = np.ones(max(map(ord, forms), default=0) + 1, dtype=np.int64)
    for character, form in forms.items():
        lengths[ord(character)] = len(form)
    origins = np.repeat(np.arange(len(text)), lengths[code_points(text, 0, len(text))])
    folded = text.translate({ord(character): form for character, form in forms.items() if form != character})
    folded = _ACCENTS.sub(lambda run: "".join(sorted(run[0], key=unicodedata.combining)), folded)
    ends = np.array([match.span() for match in _DROPPED.finditer(folded)], dtype=np.int64).reshape(-1, 2)
    steps = np.bincount(ends[:, 0], minlength=len(folded) + 1) - np.bincount(ends[:, 1], minlength=len(folded) + 1)
    kept = steps.cumsum()[: len(folded)] == 0
    return _Folded(
        code_points(folded, 0, len(folded))[kept].tobytes().decode("utf-32-le", "surrogatepass"), origins[kept]
    )


def _fold_character(character: str) -> str:
    """The form of a character that is compared; empty for soft hyphens, joiners and other invisible ones."""
    if character.isspace():
        return " "
    if unicodedata.category(character) == "Cf":
        return ""
    if unicodedata.category(character) == "Pd":
        return "-"
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character.translate(_SIGNS)).casefold())
