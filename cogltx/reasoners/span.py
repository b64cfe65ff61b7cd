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
from cogltx.prediction import NO_JUDGE, Answer, Evidence, Prediction
from cogltx.reasoners._confidence import Calibration, Uncalibrated, log_softmax
from cogltx.reasoners.base import IsRight, KeyBlocks, Reasoner, ReasonerConfig, WindowOutputs, whole_document

SPAN, YES, NO, NO_ANSWER = range(4)
"""The kinds of answers."""
_FIRST_KINDS = (3.0, 0.0, 0.0, 0.0)  # logits before training: few examples need not teach that most answers are spans

_KINDS = {"yes": YES, "no": NO}
_IMPOSSIBLE = -1e4  # logit of yes and no, where they are no answers
_LEAST_CLOSED = math.log(0.1)  # of yes and no, beside all spans
_CANDIDATES = 40  # spans per window, of which those with the same text or place are one answer


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
        always_answers: show the best answer even where no answer is more probable.
        calibration: turns the probabilities of reader and judge into the confidence of a prediction. Training fits it
            on the validation examples; None: the reader's probabilities as they are.
    """

    name: Literal["span"] = "span"
    kinds: Literal["learned", "first_token"] = "learned"
    max_answer_tokens: int = Field(30, ge=1)
    top_k: int = Field(3, ge=1)
    evidence_weight: float = Field(1.0, ge=0)
    always_answers: bool = False
    calibration: Calibration | None = None

    @property
    def as_in_transformers(self) -> bool:
        """See ``ReasonerConfig.as_in_transformers``."""
        return self.kinds == "first_token"

    def missing_in_checkpoints(self) -> tuple[str, ...]:
        """See ``ReasonerConfig.missing_in_checkpoints``."""
        return () if self.as_in_transformers else ("head for yes and no",)

    def threshold_candidates(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], is_right: IsRight
    ) -> list[Self]:
        """Return the configuration with the calibration of the examples, which few of them change little."""
        known = [
            (_uncalibrated(prediction), _right(prediction, example.answers, is_right))
            for example, prediction in zip(examples, predictions, strict=True)
            if example.answers is not None and prediction.no_answer_confidence is not None
        ]
        calibration = Calibration.fitted(known, self.calibration)
        return [] if calibration is None else [self.model_copy(update={"calibration": calibration})]

    def without_thresholds(self) -> Self:
        """Keep the probabilities of the reader."""
        return self.model_copy(update={"calibration": None})

    def apply_thresholds(self, prediction: Prediction) -> Prediction:
        """Calibrate the probabilities, and show what is most probable: an answer, or that there is none.

        The confidence of what is shown is at least that of everything else. Without an answer, the best ones are the
        alternatives.
        """
        if prediction.no_answer_confidence is None:
            return prediction
        answers, no_answer = prediction.candidates, prediction.no_answer_confidence
        if self.calibration is not None:
            confidences, no_answer = self.calibration.probabilities(_uncalibrated(prediction))
            answers = tuple(
                replace(one, confidence=confidence) for one, confidence in zip(answers, confidences, strict=True)
            )
        best, others = answers[0], answers[1:]
        if not self.always_answers and no_answer > best.confidence:
            best, others = Answer("", None, None, no_answer), answers
        return replace(
            prediction, answer=best.text, start=best.start, end=best.end, confidence=best.confidence,
            alternatives=others, no_answer_confidence=no_answer,
        )  # fmt: skip


def _uncalibrated(prediction: Prediction) -> Uncalibrated:
    """Collect the probabilities that a calibration takes from a prediction without one."""
    answers = tuple(one.confidence for one in prediction.candidates)
    return Uncalibrated(answers, prediction.no_answer_confidence or 0.0, prediction.relevance)


def _right(prediction: Prediction, gold: Sequence[str], is_right: IsRight) -> int | None:
    """The number of the first right answer of a prediction; −1 if the text has none, None if all are wrong."""
    if not gold:
        return -1
    return next((number for number, one in enumerate(prediction.candidates) if is_right(one.text, gold)), None)


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
        if self.kind is not None:
            self.kind.bias.data.copy_(torch.tensor(_FIRST_KINDS))

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

        A window without the answer is trained to say so, which makes the probabilities of windows comparable: an answer
        is as probable as in its best window. The no-answer score of a document is the minimum over its windows.
        """
        decoded = [self._decode(window, logits, layout.blocks) for window, logits in outputs]
        answers: list[Answer] = []
        for candidates, _ in decoded:
            if evidence is not None:
                candidates = _weighed(candidates, evidence, self.config.evidence_weight)
            answers += _apart(_distinct(candidates), self.config.top_k)
        best, *others = _best_of_windows(answers)[: self.config.top_k]
        prediction = Prediction(
            answer=best.text, start=best.start, end=best.end, confidence=best.confidence, alternatives=tuple(others),
            no_answer_confidence=math.exp(min(no_answer for _, no_answer in decoded)),
            relevance=relevance if evidence else NO_JUDGE, **whole_document(layout),
        )  # fmt: skip
        decided: Prediction = self.config.apply_thresholds(prediction)
        return decided

    def _decode(
        self, window: Window, logits: Float[np.ndarray, "tokens outputs"], blocks: Blocks
    ) -> tuple[list[Answer], float]:
        """The best answers of one window, best first, and log p(none).

        Yes and no are among them if they are together a tenth as probable as all spans: the question may ask for them.
        """
        positions = np.flatnonzero(window.document_token >= 0)
        kinds = logits[0, 2:6].astype(np.float64)
        if self.config.kinds == "first_token" and len(positions):
            kinds[SPAN] += np.logaddexp.reduce(logits[positions, :2].astype(np.float64), axis=0).sum()
        kinds = log_softmax(kinds)
        candidates = list[Answer]()
        if len(positions):
            tokens = window.document_token[positions]
            start, end = (log_softmax(logits[positions, column]) for column in (0, 1))
            scores = _span_scores(start, end, tokens, self.config.max_answer_tokens)
            candidates = _best_spans(scores + kinds[SPAN], tokens, blocks, self.config.top_k)
        if not candidates or np.logaddexp(kinds[YES], kinds[NO]) > kinds[SPAN] + _LEAST_CLOSED:
            candidates += [Answer(text, None, None, float(np.exp(kinds[kind]))) for text, kind in _KINDS.items()]
        return candidates, float(kinds[NO_ANSWER])


def _distinct(answers: Iterable[Answer]) -> list[Answer]:
    """Add up the probabilities of answers with the same text, at the most probable of its places; best first."""
    distinct: dict[str, Answer] = {}
    for answer in sorted(answers, key=lambda answer: -answer.confidence):
        key = answer.text.lower()
        distinct[key] = _with(distinct[key], answer) if key in distinct else answer
    return sorted(distinct.values(), key=lambda answer: -answer.confidence)


def _apart(answers: Iterable[Answer], count: int) -> list[Answer]:
    """The best answers that share no character with a better one, with the probabilities of those that do."""
    chosen: list[Answer] = []
    for answer in answers:
        number = next((number for number, better in enumerate(chosen) if _overlap(answer, better)), None)
        if number is not None:
            chosen[number] = _with(chosen[number], answer)
        elif len(chosen) < count:
            chosen.append(answer)
    return sorted(chosen, key=lambda answer: -answer.confidence)


def _best_of_windows(answers: Iterable[Answer]) -> list[Answer]:
    """The best answers of all windows; none has the text of a better one, or shares a character with it."""
    best: list[Answer] = []
    for answer in sorted(answers, key=lambda answer: -answer.confidence):
        if not any(_overlap(answer, better) or answer.text.lower() == better.text.lower() for better in best):
            best.append(answer)
    return best


def _with(answer: Answer, other: Answer) -> Answer:
    """An answer that is as probable as it or another form of it."""
    return replace(answer, confidence=min(1.0, answer.confidence + other.confidence))


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

    return [replace(answer, confidence=float(answer.confidence * relevance(answer) ** weight)) for answer in answers]


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
    """The best spans with distinct places, and the best that share no token with better ones, as whole words."""
    document = blocks.document.text

    def answer(flat: int) -> Answer | None:
        more, first = divmod(flat, scores.shape[1])
        begin, stop = int(blocks.token_starts[tokens[first]]), int(blocks.token_ends[tokens[first + more]])
        if begin < stop:
            begin, stop = expand_to_words(document, begin, stop)
        text = document[begin:stop].strip()
        begin += len(document[begin:stop]) - len(document[begin:stop].lstrip())
        return Answer(text, begin, begin + len(text), float(np.exp(scores[more, first]))) if text else None

    spans: dict[tuple[int | None, int | None], Answer] = {}
    n_answers = max(n_apart, _CANDIDATES)
    best = np.argsort(-scores, axis=None, kind="stable")[:n_answers].tolist()
    for flat in [*best, *_apart_spans(scores, n_apart)]:
        found = answer(flat) if np.isfinite(scores.flat[flat]) else None
        if found is not None:
            spans.setdefault((found.start, found.end), found)
    return list(spans.values())


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
