"""The span reasoner: an answer anywhere in the key blocks, yes, no, or no answer (CogLTX figure 2a).

The probability of an answer is p(kind) · p(start) · p(end). The kind (span, yes, no, none) is read from the first
token; start and end range over the tokens of the document in the window. Scores of different documents are comparable.
Question answering models of ``transformers`` have no kinds: where no answer scores best, it is the span of the first
token (Devlin et al. 2019, §4.3).
A judge whose fine scores are probabilities weighs the answers of its blocks (not in the paper).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cogltx.blocks import Blocks
from cogltx.blocks._script import expand_to_words
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Layout, Window
from cogltx.prediction import Answer, Evidence, Prediction
from cogltx.reasoners.base import KeyBlocks, Reasoner, ReasonerConfig, WindowOutputs, whole_document

SPAN, YES, NO, NO_ANSWER = range(4)
"""The kinds of answers."""

_KINDS = {"yes": YES, "no": NO}
_LEAST = math.log(1e-30)  # log-probability in a margin
_IMPOSSIBLE = -1e4  # logit of yes and no, where they are no answers
_CANDIDATES = 20  # answers per window that the judge's scores may reorder


class SpanReasonerConfig(ReasonerConfig):
    """Settings of the span reasoner.

    Attributes:
        name: ``span``.
        kinds: where the kind of an answer comes from: a layer of its own (``learned``), or, as in question answering
            models of ``transformers``, from start and end at the first token: span or none (``first_token``).
        max_answer_tokens: maximum number of tokens per answer.
        top_k: maximum number of answers in a prediction; none shares a character with a better one.
        evidence_weight: w in p(answer) · relevance^w, where relevance is the judge's fine score of the block with the
            answer (for yes and no: the mean of the two best); 0 (the paper's) disables it. Only judges with scores in
            [0, 1] count.
        no_answer_evidence_weight: v in the margin log p(none) − log p(best answer) − v · logit(relevance), where
            relevance is the judge's highest score of a key block, without bonuses. Helps where a question without an
            answer has no relevant block. 0 disables it. Only judges with scores in [0, 1] count.
        no_answer_threshold: no answer is given if this margin exceeds it; None always answers. Training chooses it on
            the validation data.
    """

    name: Literal["span"] = "span"
    kinds: Literal["learned", "first_token"] = "learned"
    max_answer_tokens: int = Field(30, ge=1)
    top_k: int = Field(3, ge=1)
    evidence_weight: float = Field(1.0, ge=0)
    no_answer_evidence_weight: float = Field(0.0, ge=0)
    no_answer_threshold: float | None = None

    @property
    def as_in_transformers(self) -> bool:
        """See ``ReasonerConfig.as_in_transformers``."""
        return self.kinds == "first_token"

    def missing_in_checkpoints(self) -> tuple[str, ...]:
        """See ``ReasonerConfig.missing_in_checkpoints``."""
        return () if self.as_in_transformers else ("head for yes and no",)

    def threshold_candidates(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Self]:
        """Return no-answer thresholds from never to always; none if every example has an answer."""
        if all(example.answers != () for example in examples):
            return []
        margins = np.array([prediction.no_answer_margin for prediction in predictions], dtype=float)
        quantiles = np.quantile(margins, np.linspace(0, 1, 51)).tolist()
        thresholds = dict.fromkeys([quantiles[0] - 1, *quantiles])
        return [self.model_copy(update={"no_answer_threshold": threshold}) for threshold in thresholds]

    def without_thresholds(self) -> Self:
        """Always answer."""
        return self.model_copy(update={"no_answer_threshold": None})

    def apply_thresholds(self, prediction: Prediction) -> Prediction:
        """Replace the answer by no answer if the threshold says so; the answer becomes the first alternative."""
        threshold, margin, score = self.no_answer_threshold, prediction.no_answer_margin, prediction.no_answer_score
        if threshold is None or margin is None or score is None or margin <= threshold:
            return prediction
        best = Answer(prediction.answer, prediction.start, prediction.end, prediction.score)
        alternatives = (best, *prediction.alternatives)[: self.top_k]
        return replace(prediction, answer="", start=None, end=None, score=score, alternatives=alternatives)


@dataclass(frozen=True)
class _Target:
    """The kind of answer of a window, and every (first, last) token that answers."""

    kind: int
    spans: tuple[tuple[int, int], ...] = ()


class SpanReasoner(Reasoner[_Target]):
    """Kind of answer, start and end from the vectors of an encoder."""

    config_class = SpanReasonerConfig

    def __init__(self, encoder: Encoder, config: SpanReasonerConfig | None = None) -> None:
        super().__init__(encoder, config or SpanReasonerConfig())
        self.start_end = nn.Linear(encoder.width, 2)
        self.kind = nn.Linear(encoder.width, 4) if self.config.kinds == "learned" else None

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens outputs"]:
        """Compute per token the logits of start, end and the four kinds (of the window)."""
        hidden = self.encoder(batch)
        places = self.start_end(hidden)
        kinds = self._first_token_kinds(places) if self.kind is None else self.kind(hidden[:, 0])
        return torch.cat([places, kinds[:, None].expand(-1, hidden.shape[1], -1)], dim=-1)

    @staticmethod
    def _first_token_kinds(places: Float[Tensor, "windows tokens 2"]) -> Float[Tensor, "windows 4"]:
        """Logits of the kinds without a layer for them: none is the span of the first token.

        ``losses`` and ``_decode`` add start and end of all spans of the document to the logit of "span".
        """
        kinds = torch.tensor([[0.0, _IMPOSSIBLE, _IMPOSSIBLE, 0.0]], device=places.device).repeat(len(places), 1)
        kinds[:, NO_ANSWER] = places[:, 0].float().sum(dim=-1)
        return kinds

    def target(self, example: Example, blocks: Blocks, window: Window) -> _Target | None:
        """Return the answer's kind and its spans in the window; None if it has no known span, or cannot be given."""
        if example.answers is None:
            return None
        gold = _answer_tokens(example, blocks)
        if not gold and example.answers:
            kind = _KINDS.get(example.answers[0].strip().lower())
            return None if kind is None or self.config.kinds == "first_token" else _Target(kind)
        position = {int(token): place for place, token in enumerate(window.document_token) if token >= 0}
        spans = [
            (position[first], position[last])
            for first, last in gold
            if all(token in position for token in range(first, last + 1))
        ]  # fmt: skip
        return _Target(SPAN, tuple(dict.fromkeys(spans))) if spans else _Target(NO_ANSWER)

    def losses(
        self, outputs: Float[Tensor, "windows tokens outputs"], windows: Sequence[Window], targets: Sequence[_Target]
    ) -> Float[Tensor, " windows"]:
        """Compute minus the log-probability of the target answer; several correct spans are summed."""
        device = outputs.device
        in_document = _document_mask(windows, outputs.shape[1]).to(device)
        kinds = outputs[:, 0, 2:].float()
        places = outputs[..., :2].float().masked_fill(~in_document[..., None], -torch.inf)
        if self.config.kinds == "first_token":
            spans = places.logsumexp(dim=1).sum(-1, keepdim=True)
            kinds = kinds.index_add(1, torch.tensor([SPAN], device=device), spans)
        kinds, places = kinds.log_softmax(dim=-1), places.log_softmax(dim=1)
        losses = -kinds.gather(1, torch.tensor([[target.kind] for target in targets], device=device))[:, 0]
        rows = [row for row, target in enumerate(targets) if target.kind == SPAN]
        if not rows:
            return losses
        window = torch.tensor(rows, device=device)[:, None]
        of_rows = [torch.tensor(targets[row].spans) for row in rows]
        spans = pad_sequence(of_rows, batch_first=True, padding_value=-1).to(device)
        scores = places[window, spans[..., 0], 0] + places[window, spans[..., 1], 1]
        scores = scores.masked_fill(spans[..., 0] < 0, -torch.inf)
        return losses.index_add(0, window[:, 0], -torch.logsumexp(scores, dim=1))

    def is_negative(self, target: _Target) -> bool:
        """Check whether the target is no answer."""
        return target.kind == NO_ANSWER

    def negative_target(self) -> _Target:
        """Return the target "no answer"."""
        return _Target(NO_ANSWER)

    def predict(
        self, layout: Layout, outputs: Iterable[WindowOutputs], evidence: KeyBlocks = None, relevance: float = 1.0
    ) -> Prediction:
        """Find the best answers over all windows.

        A window without the answer is trained to say so, which makes the probabilities of windows comparable. The
        no-answer score of a document is the minimum over its windows.
        """
        decoded = [self._decode(window, logits, layout.blocks) for window, logits in outputs]
        answers = _distinct(answer for window_answers, _ in decoded for answer in window_answers)
        log_no_answer = min(no_answer for _, no_answer in decoded)
        margin = max(log_no_answer, _LEAST) - max(math.log(max(answers[0].score, 1e-300)), _LEAST)
        if evidence is not None:
            margin -= self.config.no_answer_evidence_weight * _logit(relevance if evidence else 0.5)
            answers = _weighed(answers, evidence, self.config.evidence_weight)
        best, *others = _apart(answers, self.config.top_k)
        prediction = Prediction(
            answer=best.text, start=best.start, end=best.end, score=best.score, alternatives=tuple(others),
            no_answer_score=math.exp(log_no_answer), no_answer_margin=margin, **whole_document(layout),
        )  # fmt: skip
        answered: Prediction = self.config.apply_thresholds(prediction)
        return answered

    def _decode(
        self, window: Window, logits: Float[np.ndarray, "tokens outputs"], blocks: Blocks
    ) -> tuple[list[Answer], float]:
        """The best answers of one window, best first, and log p(none)."""
        positions = np.flatnonzero(window.document_token >= 0)
        kinds = logits[0, 2:6].astype(np.float64)
        if self.config.kinds == "first_token" and len(positions):
            kinds[SPAN] += np.logaddexp.reduce(logits[positions, :2].astype(np.float64), axis=0).sum()
        kinds = _log_softmax(kinds)
        candidates = [Answer(text, None, None, float(np.exp(kinds[kind]))) for text, kind in _KINDS.items()]
        if len(positions):
            tokens = window.document_token[positions]
            start, end = (_log_softmax(logits[positions, column]) for column in (0, 1))
            scores = _span_scores(start, end, tokens, self.config.max_answer_tokens)
            candidates += _best_spans(scores + kinds[SPAN], tokens, blocks, self.config.top_k)
        return _distinct(candidates), float(kinds[NO_ANSWER])


def _distinct(answers: Iterable[Answer]) -> list[Answer]:
    """Sort by score and keep the best of answers with the same text."""
    distinct: dict[str, Answer] = {}
    for answer in sorted(answers, key=lambda answer: -answer.score):
        distinct.setdefault(answer.text.lower(), answer)
    return list(distinct.values())


def _apart(answers: Sequence[Answer], count: int) -> list[Answer]:
    """The best answers that share no character with a better one."""
    chosen: list[Answer] = []
    for answer in answers:
        if len(chosen) < count and not any(_overlap(answer, better) for better in chosen):
            chosen.append(answer)
    return chosen


def _overlap(one: Answer, other: Answer) -> bool:
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return False
    return one.start < other.end and other.start < one.end


def _weighed(answers: Sequence[Answer], evidence: Sequence[Evidence], weight: float) -> list[Answer]:
    """Multiply each answer by the relevance of its block."""
    two_best = sorted((block.score for block in evidence), reverse=True)[:2]
    closed = sum(two_best) / len(two_best) if two_best else 1.0

    def relevance(answer: Answer) -> float:
        if answer.start is None or answer.end is None:
            return closed
        overlapping = (block.score for block in evidence if block.start < answer.end and answer.start < block.end)
        return max(overlapping, default=0.0)

    weighed = [replace(answer, score=float(answer.score * relevance(answer) ** weight)) for answer in answers]
    return sorted(weighed, key=lambda answer: -answer.score)


def _logit(probability: float) -> float:
    """Log-odds of a probability, at most 9.2 in size.

    >>> round(_logit(0.9), 2), round(_logit(1), 1)
    (2.2, 9.2)
    """
    clipped = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(clipped / (1 - clipped))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    exact = logits.astype(np.float64)
    return np.asarray(exact - np.logaddexp.reduce(exact))


def _span_scores(start: np.ndarray, end: np.ndarray, tokens: Int[np.ndarray, " tokens"], longest: int) -> np.ndarray:
    """Log-probability of every span, shape [length − 1, first token]; −inf where the tokens are not consecutive.

    A span may cross adjacent blocks of the document, but not a gap between two key blocks.
    """
    scores = np.full((min(longest, len(tokens)), len(tokens)), -np.inf)
    for more in range(len(scores)):
        last = len(tokens) - more
        consecutive = tokens[more:] - tokens[:last] == more
        scores[more, :last] = np.where(consecutive, start[:last] + end[more:], -np.inf)
    return scores


def _best_spans(scores: np.ndarray, tokens: np.ndarray, blocks: Blocks, n_apart: int) -> list[Answer]:
    """The best spans with distinct texts, and the best that share no token with better ones, as whole words."""
    document = blocks.document.text

    def answer(flat: int) -> Answer | None:
        more, first = divmod(flat, scores.shape[1])
        begin, stop = int(blocks.token_starts[tokens[first]]), int(blocks.token_ends[tokens[first + more]])
        if begin < stop:
            begin, stop = expand_to_words(document, begin, stop)
        text = document[begin:stop].strip()
        begin += len(document[begin:stop]) - len(document[begin:stop].lstrip())
        return Answer(text, begin, begin + len(text), float(np.exp(scores[more, first]))) if text else None

    spans: dict[str, Answer] = {}
    n_answers = max(n_apart, _CANDIDATES)
    for flat in np.argsort(-scores, axis=None, kind="stable")[: 20 * n_answers].tolist():
        if len(spans) == n_answers or not np.isfinite(scores.flat[flat]):
            break
        if (found := answer(flat)) is not None:
            spans.setdefault(found.text.lower(), found)
    return [*spans.values(), *filter(None, map(answer, _apart_spans(scores, n_apart)))]


def _apart_spans(scores: np.ndarray, count: int) -> list[int]:
    """Flat indices of the best spans of which none shares a token with a better one."""
    left, chosen = scores.copy(), list[int]()
    lengths, firsts = np.ogrid[: scores.shape[0], : scores.shape[1]]
    while len(chosen) < count and np.isfinite(left.max()):
        chosen.append(int(left.argmax()))
        more, first = divmod(chosen[-1], scores.shape[1])
        left[(firsts <= first + more) & (firsts + lengths >= first)] = -np.inf
    return chosen


def _document_mask(windows: Sequence[Window], length: int) -> Bool[Tensor, "windows tokens"]:
    """True for tokens of the document, where spans may begin and end."""
    mask = torch.zeros(len(windows), length, dtype=torch.bool)
    for row, window in enumerate(windows):
        mask[row, : len(window)] = torch.from_numpy(window.document_token >= 0)
    return mask


def _answer_tokens(example: Example, blocks: Blocks) -> list[tuple[int, int]]:
    """First and last token in the document of every gold span."""
    tokens = []
    for span in example.answer_spans:
        first = int(np.searchsorted(blocks.token_ends, span.start, side="right"))
        last = int(np.searchsorted(blocks.token_starts, span.end, side="left")) - 1
        if first <= last:
            tokens.append((first, last))
    return tokens
