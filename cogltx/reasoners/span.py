"""The span reasoner: an answer anywhere in the key blocks, yes, no, or no answer (paper figure 2a).

What the logits amount to is told in ``answers``. A judge whose fine scores are probabilities has its say: they multiply
the answers of their blocks (ours, not the paper's).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from cogltx.blocks import Blocks, relevance_labels
from cogltx.document import Example
from cogltx.encoding.encoder import Batch, Encoder, relevance_head
from cogltx.encoding.layout import Window
from cogltx.prediction import Answer
from cogltx.reasoners.answers import NO, NO_ANSWER, SPAN, YES, Reading, read
from cogltx.reasoners.base import BaseReasonerConfig, Conclusion, Reasoner, Relevant

_CANDIDATES = 20  # answers of a window that the judge's scores may still reorder


class SpanReasonerConfig(BaseReasonerConfig):
    """How answers are read.

    Attributes:
        name: of the reasoner.
        max_answer_tokens: most tokens of an answer.
        top_k: answers that a prediction carries, the best included.
        evidence_weight: w in p(answer) · relevance^w, where relevance is the judge's fine score of the block that holds
            the answer (of yes and no: the mean of the two best); 0 leaves it out. Judges without scores in [0, 1] are
            left out too.
        relevance_weight: of a second loss in training, which asks of every token of the document whether it is
            relevant; 0 (the paper's) leaves it out. It helps where an answer rests on a chain of facts and
            examples are few.
        no_answer_threshold: no answer is given where log p(none) − log p(best answer) exceeds it; None: always answer.
            Training chooses it on the validation data.
    """

    name: Literal["span"] = "span"
    max_answer_tokens: int = Field(30, ge=1)
    top_k: int = Field(3, ge=1)
    evidence_weight: float = Field(1.0, ge=0)
    relevance_weight: float = Field(0.0, ge=0)
    no_answer_threshold: float | None = None


@dataclass(frozen=True)
class SpanTarget:
    """What the reasoner should say of a window.

    Attributes:
        kind: SPAN, YES, NO or NO_ANSWER.
        spans: every (first, last) token of the window that answers; empty unless kind is SPAN.
        relevant: indices of the document's relevant blocks; None where they are unknown.
    """

    kind: int
    spans: tuple[tuple[int, int], ...] = ()
    relevant: tuple[int, ...] | None = None


class SpanReasoner(Reasoner[SpanTarget, Reading]):
    """Kind of answer, start and end on the vectors of an encoder.

    Args:
        encoder: the pre-trained encoder.
        config: how answers are read.
    """

    auxiliary: ClassVar[tuple[str, ...]] = ("relevance.",)

    def __init__(self, encoder: Encoder, config: SpanReasonerConfig | None = None) -> None:
        super().__init__(encoder)
        self.config = config or SpanReasonerConfig()
        self.place = nn.Linear(encoder.width, 2)
        self.kind = nn.Linear(encoder.width, 4)
        if self.config.relevance_weight:
            self.relevance = relevance_head(encoder.width)

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens outputs"]:
        """Logits of a start and an end at every token; then, the same at every token, of the four kinds.

        Where training asks for it too: the logit of the token's relevance.
        """
        hidden = self.encoder(batch)
        kinds = self.kind(hidden[:, :1]).expand(-1, hidden.shape[1], -1)
        relevance = [] if self.relevance is None else [self.relevance(hidden)]
        return torch.cat([self.place(hidden), kinds, *relevance], dim=-1)

    def target(self, example: Example, blocks: Blocks, window: Window) -> SpanTarget | None:
        """See ``target``."""
        found = target(example, window, answer_tokens(example, blocks))
        labels = relevance_labels(example, blocks) if self.relevance is not None else None
        if found is None or labels is None:
            return found
        return replace(found, relevant=tuple(np.flatnonzero(labels).tolist()))

    def losses(
        self, outputs: Float[Tensor, "windows tokens outputs"], windows: Sequence[Window], targets: Sequence[SpanTarget]
    ) -> Float[Tensor, " windows"]:
        """See ``losses``; in training with ``relevance_weight`` times that of the tokens' relevance."""
        total = losses(outputs[..., :6], windows, targets)
        if self.relevance is not None and self.training:
            total = total + self.config.relevance_weight * relevance_losses(outputs[..., 6], windows, targets)
        return total

    def says_nothing(self, target: SpanTarget) -> bool:
        """Whether the target is no answer."""
        return target.kind == NO_ANSWER

    def silent(self) -> SpanTarget:
        """No answer."""
        return SpanTarget(NO_ANSWER)

    def read(self, outputs: Float[np.ndarray, "tokens outputs"], window: Window, blocks: Blocks) -> Reading:
        """See ``read``."""
        candidates = max(self.config.top_k, _CANDIDATES)
        return read(outputs[:, :6], window, blocks, max_answer_tokens=self.config.max_answer_tokens, top_k=candidates)

    def weighed(self, reading: Reading, relevance: Sequence[Relevant]) -> Reading:
        """Answers in relevant blocks gain on the others: p(answer) · relevance of its block."""
        two = sorted((block.score for block in relevance), reverse=True)[:2]
        closed = sum(two) / len(two) if two else 1.0

        def score(answer: Answer) -> float:
            start, end = answer.start, answer.end
            if start is None or end is None:
                return float(answer.score * closed**self.config.evidence_weight)
            holding = [block.score for block in relevance if block.start < end and start < block.end]
            return float(answer.score * max(holding, default=0.0) ** self.config.evidence_weight)

        answers = [replace(answer, score=score(answer)) for answer in reading.answers]
        ranked = sorted(answers, key=lambda answer: -answer.score)
        return Reading(tuple(ranked[: self.config.top_k]), reading.no_answer)

    def merged(self, readings: Sequence[Reading]) -> Reading:
        """The best answers of all windows; a document has no answer as far as its most promising window has none.

        A window without the answer is trained to say so, which makes the probabilities of windows comparable.
        """
        answers: dict[str, Answer] = {}
        for answer in sorted((a for reading in readings for a in reading.answers), key=lambda answer: -answer.score):
            answers.setdefault(answer.text.lower(), answer)
        return Reading(
            tuple(answers.values())[: self.config.top_k], min(reading.no_answer for reading in readings)
        )  # fmt: skip

    def conclude(self, reading: Reading) -> Conclusion:
        """The best answer, or none where the threshold says so."""
        threshold = self.config.no_answer_threshold
        if not reading.answers or (threshold is not None and reading.margin > threshold):
            others = reading.answers[: self.config.top_k - 1]
            return Conclusion("", None, None, math.exp(reading.no_answer), others)
        best, *rest = reading.answers[: self.config.top_k]
        return Conclusion(best.text, best.start, best.end, best.score, tuple(rest))

    def tunings(self, examples: Sequence[Example], readings: Sequence[Reading]) -> list[SpanReasonerConfig]:
        """Thresholds for no answer, from never to always; none (always answer) where every example has an answer."""
        if all(example.answers != () for example in examples):
            return [self.config.model_copy(update={"no_answer_threshold": None})]
        margins = np.array([reading.margin for reading in readings])
        quantiles = np.quantile(margins[np.isfinite(margins)], np.linspace(0, 1, 51))
        candidates = np.unique([quantiles[0] - 1, *quantiles]).tolist()
        return [self.config.model_copy(update={"no_answer_threshold": threshold}) for threshold in candidates]


def losses(
    outputs: Float[Tensor, "windows tokens 6"], windows: Sequence[Window], targets: Sequence[SpanTarget]
) -> Float[Tensor, " windows"]:
    """Minus the log-probability of the target answer, a window; several right places count together."""
    shown = readable(windows, outputs.shape[1]).to(outputs.device)
    kinds = outputs[:, 0, 2:].float().log_softmax(dim=-1)
    places = outputs[..., :2].float().masked_fill(~shown[..., None], -torch.inf).log_softmax(dim=1)
    losses = []
    for row, target in enumerate(targets):
        loss = -kinds[row, target.kind]
        if target.kind == SPAN:
            first, last = torch.tensor(target.spans, device=outputs.device).T
            loss = loss - torch.logsumexp(places[row, first, 0] + places[row, last, 1], dim=0)
        losses.append(loss)
    return torch.stack(losses)


def relevance_losses(
    logits: Float[Tensor, "windows tokens"], windows: Sequence[Window], targets: Sequence[SpanTarget]
) -> Float[Tensor, " windows"]:
    """Binary cross-entropy of the relevance of a window's tokens, their mean; 0 where it is unknown."""
    wanted = torch.zeros(logits.shape)
    weights = torch.zeros(logits.shape)
    for row, (window, target) in enumerate(zip(windows, targets, strict=True)):
        if target.relevant is not None:
            shown = window.document_token >= 0
            wanted[row, : len(window)] = torch.from_numpy(np.isin(window.block, target.relevant)).float()
            weights[row, : len(window)] = torch.from_numpy(shown / max(1, shown.sum())).float()
    each = nn.functional.binary_cross_entropy_with_logits(
        logits.float(), wanted.to(logits.device), weight=weights.to(logits.device), reduction="none"
    )
    return each.sum(dim=1)


def readable(windows: Sequence[Window], length: int) -> Bool[Tensor, "windows tokens"]:
    """True for tokens of the document, the only ones that a span may hold at its ends."""
    mask = torch.zeros(len(windows), length, dtype=torch.bool)
    for row, window in enumerate(windows):
        mask[row, : len(window)] = torch.from_numpy(window.document_token >= 0)
    return mask


def answer_tokens(example: Example, blocks: Blocks) -> list[tuple[int, int]]:
    """First and last token in the document of every gold span."""
    found = []
    for span in example.answer_spans:
        first = int(np.searchsorted(blocks.token_ends, span.start, side="right"))
        last = int(np.searchsorted(blocks.token_starts, span.end, side="left")) - 1
        if first <= last:
            found.append((first, last))
    return found


def target(example: Example, window: Window, gold: Sequence[tuple[int, int]]) -> SpanTarget | None:
    """What the reasoner should say of a window; None where that is unknown (an answer that has no known place).

    Args:
        example: with its gold answers.
        window: of its document.
        gold: ``answer_tokens`` of the example.
    """
    if example.answers is None:
        return None
    if not gold:
        said = example.answers[0].strip().lower() if example.answers else "none"
        kind = {"yes": YES, "no": NO, "none": NO_ANSWER}.get(said) if example.answers else NO_ANSWER
        return None if kind is None or (kind == NO_ANSWER and example.answers) else SpanTarget(kind)
    position = {int(token): place for place, token in enumerate(window.document_token) if token >= 0}
    spans = [
        (position[first], position[last])
        for first, last in gold
        if all(token in position for token in range(first, last + 1))
    ]  # fmt: skip
    return SpanTarget(SPAN, tuple(dict.fromkeys(spans))) if spans else SpanTarget(NO_ANSWER)
