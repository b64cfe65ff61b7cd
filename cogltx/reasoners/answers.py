"""From a window's logits to its best answers, exact slices of the document.

The probability of an answer is p(kind) · p(start) · p(end), where kind is one of span, yes, no and none, read off the
first token, and start and end range over the tokens of the document that the window shows; query, separators and
headings are never part of a span. It is a probability, so scores compare between documents.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from cogltx.blocks import Blocks
from cogltx.encoding.layout import Window
from cogltx.prediction import Answer

SPAN, YES, NO, NO_ANSWER = range(4)
"""The kinds of answers."""

_SAID = {YES: "yes", NO: "no"}


@dataclass(frozen=True)
class Reading:
    """What the reasoner made of one window.

    Attributes:
        answers: best first, without duplicates; never empty where the window shows a token of the document.
        no_answer: log p(none).
    """

    answers: tuple[Answer, ...]
    no_answer: float

    @property
    def margin(self) -> float:
        """log p(none) − log p(best answer): above the threshold means no answer."""
        return self.no_answer - math.log(max(self.answers[0].score, 1e-30)) if self.answers else math.inf


def read(
    outputs: Float[np.ndarray, "tokens 6"], window: Window, blocks: Blocks, *, max_answer_tokens: int, top_k: int
) -> Reading:
    """Decodes a window: the best answers with their places in the document.

    A span may run through adjacent blocks of the document, never through a gap between two key blocks.
    """
    kinds = _log_softmax(outputs[0, 2:])
    places = np.flatnonzero(window.document_token >= 0)
    candidates = [Answer(said, None, None, float(np.exp(kinds[kind]))) for kind, said in _SAID.items()]
    if len(places):
        tokens = window.document_token[places]
        start, end = (_log_softmax(outputs[places, column]) for column in (0, 1))
        scores = _span_scores(start, end, tokens, max_answer_tokens)
        candidates += _best_spans(scores + kinds[SPAN], tokens, blocks, top_k)
    distinct: dict[str, Answer] = {}
    for answer in sorted(candidates, key=lambda answer: -answer.score):
        distinct.setdefault(answer.text.lower(), answer)
    return Reading(tuple(distinct.values())[:top_k], float(kinds[NO_ANSWER]))


def _log_softmax(values: np.ndarray) -> np.ndarray:
    shifted = values.astype(np.float64) - values.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _span_scores(start: np.ndarray, end: np.ndarray, tokens: Int[np.ndarray, " shown"], longest: int) -> np.ndarray:
    """Log-probability of every span, shape [length − 1, first token]; −inf where the tokens are not consecutive."""
    scores = np.full((min(longest, len(tokens)), len(tokens)), -np.inf)
    for more in range(len(scores)):
        last = len(tokens) - more
        whole = tokens[more:] - tokens[:last] == more
        scores[more, :last] = np.where(whole, start[:last] + end[more:], -np.inf)
    return scores


def _best_spans(scores: np.ndarray, tokens: np.ndarray, blocks: Blocks, top_k: int) -> list[Answer]:
    """The best spans with different texts."""
    found: dict[str, Answer] = {}
    order = np.argsort(-scores, axis=None, kind="stable")[: 20 * top_k]
    for flat in order:
        more, first = np.unravel_index(flat, scores.shape)
        if not np.isfinite(scores[more, first]) or len(found) == top_k:
            break
        begin, stop = int(blocks.token_starts[tokens[first]]), int(blocks.token_ends[tokens[first + more]])
        text = blocks.document.text[begin:stop]
        begin, text = begin + len(text) - len(text.lstrip()), text.strip()
        stop = begin + len(text)
        if text:
            found.setdefault(text.lower(), Answer(text, begin, stop, float(np.exp(scores[more, first]))))
    return list(found.values())
