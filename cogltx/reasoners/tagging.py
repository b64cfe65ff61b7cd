"""The tagging reasoner: a label for every word of a document (paper figure 2c).

A word (see ``words``) takes the tag that its first token gets; the other tokens of it count for nothing, in the loss as
in the answer. So entities begin and end at words, and gold that does not is rounded to the words that it touches. The
windows of a document give scores of tags, of which those count that were read with the most text on both sides; one
search over the whole document then finds the best sequence of tags that BIO allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cogltx.blocks import Blocks
from cogltx.document import Entity, Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Window
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import FoundEntity
from cogltx.reasoners.base import BaseReasonerConfig, Conclusion, Reasoner
from cogltx.reasoners.crf import (
    FORBIDDEN,
    OUTSIDE,
    begin,
    best_path,
    forbidden,
    inside,
    log_partition,
    path_scores,
    run_probabilities,
    runs,
)


class TaggingConfig(BaseReasonerConfig):
    """How tokens are labelled.

    Attributes:
        name: of the reasoner.
        labels: the types of entities, in the order of the outputs; training fills it in from the data.
        crf: learn how likely tags follow each other, and train on whole sequences; without, each word is trained alone
            and only what BIO forbids is ruled out.
    """

    name: Literal["tagging"]
    labels: tuple[str, ...] = ()
    crf: bool = True


@dataclass(frozen=True)
class TagTarget:
    """The tags of the words that a window is about.

    Attributes:
        places: of their first tokens in the window.
        tags: one a word.
        before: the tag of the word before them in the document; "O" at its start.
    """

    places: Int[np.ndarray, " words"]
    tags: Int[np.ndarray, " words"]
    before: int


@dataclass(frozen=True)
class TagReading:
    """What windows say of a document's words.

    Attributes:
        blocks: the document.
        words: indices of the words that were read.
        scores: of every tag, before any probabilities.
        centrality: tokens of the document between the word and the nearer end of what the window is about.
    """

    blocks: Blocks
    words: Int[np.ndarray, " words"]
    scores: Float[np.ndarray, "words tags"]
    centrality: Int[np.ndarray, " words"]


class TaggingReasoner(Reasoner[TagTarget, TagReading]):
    """A score for every tag on the vectors of an encoder, with or without a chain over the words.

    Args:
        encoder: the pre-trained encoder.
        config: names the types.

    Raises:
        ConfigError: there is no type.
    """

    by_block: ClassVar[bool] = True

    def __init__(self, encoder: Encoder, config: TaggingConfig) -> None:
        super().__init__(encoder)
        if not config.labels:
            raise ConfigError("reasoner.labels: expected at least 1 in the data, got 0")
        self.config = config
        n_tags = 1 + 2 * len(config.labels)
        self.head = nn.Linear(encoder.width, n_tags)
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags)) if config.crf else None
        self._banned = torch.from_numpy(forbidden(len(config.labels)))
        self._index = {label: index for index, label in enumerate(config.labels)}
        self._gold: WeakKeyDictionary[Blocks, tuple[tuple[Entity, ...], Int[np.ndarray, " words"]]]
        self._gold = WeakKeyDictionary()

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens tags"]:
        """A logit for every tag of every token."""
        logits: Tensor = self.head(self.encoder(batch))
        return logits

    def target(self, example: Example, blocks: Blocks, window: Window) -> TagTarget | None:
        """The tags of the words that a window is about; None where it shows no word.

        Raises:
            DataError: an entity has a type that the reasoner does not know, or two overlap.
        """
        if example.entities is None:
            return None
        places, words = shown_words(blocks, window)
        if not len(words):
            return None
        tags = self._tags(example, example.entities, blocks)
        return TagTarget(places, tags[words], int(tags[words[0] - 1]) if words[0] else OUTSIDE)

    def _tags(self, example: Example, entities: tuple[Entity, ...], blocks: Blocks) -> Int[np.ndarray, " words"]:
        known = self._gold.get(blocks)
        if known is None or known[0] is not entities:
            known = self._gold[blocks] = (entities, word_tags(example.id, entities, blocks, self._index))
        return known[1]

    def losses(
        self, outputs: Float[Tensor, "windows tokens tags"], windows: Sequence[Window], targets: Sequence[TagTarget]
    ) -> Float[Tensor, " windows"]:
        """Minus the log-probability of the words' tags, a window, divided by the number of words."""
        device = outputs.device
        own = [outputs[row, torch.from_numpy(target.places).to(device)] for row, target in enumerate(targets)]
        emissions = pad_sequence(own, batch_first=True).float()
        tags = pad_sequence([torch.from_numpy(target.tags) for target in targets], batch_first=True).to(device)
        lengths = torch.tensor([len(target.tags) for target in targets], device=device)
        if self.transitions is None:
            shown = torch.arange(tags.shape[1], device=device) < lengths[:, None]
            chances = emissions.log_softmax(dim=-1).gather(2, tags[..., None]).squeeze(-1)
            return -chances.masked_fill(~shown, 0.0).sum(dim=1) / lengths
        before = torch.tensor([target.before for target in targets], device=device)
        transitions = self._transitions(self.transitions.float())
        whole = log_partition(emissions, lengths, transitions, before)
        return (whole - path_scores(emissions, lengths, transitions, before, tags)) / lengths

    def _transitions(self, learned: Float[Tensor, "tags tags"]) -> Float[Tensor, "tags tags"]:
        return learned.masked_fill(self._banned.to(learned.device), FORBIDDEN)

    def says_nothing(self, target: TagTarget) -> bool:
        """Whether the window is about words outside all entities."""
        return not target.tags.any()

    def silent(self) -> None:
        """There is no such target: the number of words says what it would be."""

    def read(self, outputs: Float[np.ndarray, "tokens tags"], window: Window, blocks: Blocks) -> TagReading:
        """The scores of the words that a window is about."""
        places, words = shown_words(blocks, window)
        ends = window.subject[[0, -1]] if len(words) else np.zeros(2, dtype=np.int64)
        return TagReading(
            blocks, words, outputs[places].astype(np.float64), np.minimum(places - ends[0], ends[1] - places)
        )

    def merged(self, readings: Sequence[TagReading]) -> TagReading:
        """Each word by the window in which it stands most central; of equal ones the first."""
        words, scores, centrality = (
            np.concatenate([getattr(reading, name) for reading in readings])
            for name in ("words", "scores", "centrality")
        )
        order = np.lexsort((-centrality, words))
        chosen = order[np.flatnonzero(np.diff(words[order], prepend=-1))]
        return TagReading(readings[0].blocks, words[chosen], scores[chosen], centrality[chosen])

    def conclude(self, reading: TagReading) -> Conclusion:
        """The entities of the best sequence of tags over the whole document; words that no window showed are "O"."""
        words, blocks = reading.blocks.words, reading.blocks
        if not len(words):
            return Conclusion("", None, None, 1.0)
        emissions = np.full((len(words), 1 + 2 * len(self.config.labels)), FORBIDDEN)
        emissions[:, OUTSIDE] = 0
        emissions[reading.words] = reading.scores
        learned = torch.zeros(self._banned.shape) if self.transitions is None else self.transitions.detach().cpu()
        transitions = self._transitions(learned).double().numpy()
        found = runs(best_path(emissions, transitions, OUTSIDE).tolist())
        chances = run_probabilities(emissions, transitions, OUTSIDE, found)
        entities = []
        for run, chance in zip(found, chances, strict=True):
            start, end = int(words.starts[run.first]), int(words.ends[run.last])
            label = self.config.labels[run.label]
            entities.append(FoundEntity(start, end, blocks.document.text[start:end], label, chance))
        unread = np.ones(len(words), dtype=bool)
        unread[reading.words] = False
        sizes = np.diff(words.first_tokens, append=blocks.n_tokens)
        return Conclusion(
            "", None, None, min(chances, default=1.0), entities=tuple(entities), n_unread=int(sizes[unread].sum())
        )


def shown_words(blocks: Blocks, window: Window) -> tuple[Int[np.ndarray, " words"], Int[np.ndarray, " words"]]:
    """The words that a window is about: where their first tokens stand in it, and which words they are."""
    places = window.subject
    words = blocks.words.of_token[window.document_token[places]]
    return places[words >= 0], words[words >= 0]


def word_tags(
    id: str, entities: Sequence[Entity], blocks: Blocks, index: dict[str, int]
) -> Int[np.ndarray, " words"]:  # fmt: skip
    """The tag of every word: of the first entity that it touches.

    Args:
        id: the example's, for messages.
        entities: without overlap.
        blocks: the document.
        index: of each type.

    Raises:
        DataError: a type is unknown, or two entities overlap.
    """
    tags = np.full(len(blocks.words), OUTSIDE, dtype=np.int64)
    end = taken = 0
    for entity in sorted(entities):
        if entity.label not in index:
            known = ", ".join(list(index)[:10]) + (", …" if len(index) > 10 else "")
            raise DataError(f"example {id!r}: expected one of the labels {known}, got {entity.label!r}")
        if entity.start < end:
            raise DataError(
                f"example {id!r}: expected entities that do not overlap, got one at {entity.start}:{entity.end} that "
                f"begins before {end}"
            )
        touched = blocks.words.touching(entity.start, entity.end)
        touched = range(max(touched.start, taken), max(touched.stop, taken))
        tags[touched.start : touched.stop] = inside(index[entity.label])
        tags[touched.start : touched.stop][:1] = begin(index[entity.label])
        end, taken = entity.end, touched.stop
    return tags
